//! The store: what each call of the contract is in ZooKeeper.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::calls::{Node, ZooKeeperCalls};
use super::client::SessionClient;
use super::contender::{Contender, id};
use super::error::ZooKeeperResult;
use super::grant::Taken;
use super::layout::ZooKeeperAddress;
use super::owner::{Owner, State, keep};
use super::session::Session;
use super::waiter::ZooKeeperWaiter;
use crate::clock::BootTime;
use crate::lock::{
    AcquireOutcome, Capabilities, FencingToken, Key, OnRenewal, OwnerToken, ReleaseOutcome, Renewal,
    RenewalRequest, Request, Store, StoreError, Timeout,
};
use crate::store::attempts::one_after_the_other;
use crate::store::call_error::CallError;
use crate::store::queue::{NOT_COUNTED, Stage};

/// The capabilities of ZooKeeper. A lease outlives its process: a session goes on until its timeout, and who has the
/// owner token can continue it.
pub const CAPABILITIES: Capabilities = Capabilities {
    counted_permits: Err(NOT_COUNTED),
    priorities: Err("ZooKeeper serves waiters in the order of their arrival"),
    one_of: Err("ZooKeeper has a queue for each lock, and a request can wait in only one; leave out --wait"),
    ttl_can_change: false,
    // A server grants a session two ticks at least, four seconds by default: that is how long a lock may
    // stay when its holder died. The job is stopped within the TTL that was asked for, so a shorter one is safe.
    shortest_ttl: Duration::from_secs(1),
    replicas: Err("ZooKeeper has no replicas to wait for; a majority of its servers has every lock"),
    history: Err(
        "ZooKeeper keeps no history: its nodes are in the memory of all servers, and do not expire; --log-file and --metrics-file tell of the runs of a host",
    ),
    ..Capabilities::ALL
};

/// The time for what may as well be done later.
const IDLE_TIMEOUT: Duration = Duration::from_millis(100);
/// The TTL of the visitor's session, which holds nothing. A server may grant more.
const VISITOR_TTL: Duration = Duration::from_secs(2);

/// The store at one address. It connects with the first call.
pub struct ZooKeeper {
    address: ZooKeeperAddress,
    /// Its name in messages.
    pub(super) name: String,
    pub(super) calls: ZooKeeperCalls,
    /// One for each owner token that was used.
    pub(super) owners: Vec<Owner>,
    place: Option<ZooKeeperWaiter>,
    /// For looks at what others have.
    visitor: SessionClient,
}

impl ZooKeeper {
    pub fn new(address: ZooKeeperAddress) -> ZooKeeper {
        ZooKeeper {
            name: address.to_string(),
            calls: ZooKeeperCalls::new(&address),
            visitor: SessionClient::new(&address, VISITOR_TTL),
            address,
            owners: Vec::new(),
            place: None,
        }
    }

    /// Does something in a session of a moment.
    pub(super) fn visit<T>(
        &mut self,
        work: impl Fn(&ZooKeeperCalls, &mut SessionClient) -> ZooKeeperResult<T>,
    ) -> Result<T, StoreError> {
        let done = work(&self.calls, &mut self.visitor);
        self.visitor.dismiss();
        done.map_err(|error| error.of(&self.name))
    }

    /// Looks at something in a session of a moment. On a machine that is too busy the session may end before that. It held
    /// nothing, so we look again in another one.
    pub(super) fn look<T>(
        &mut self,
        work: impl Fn(&ZooKeeperCalls, &mut SessionClient) -> ZooKeeperResult<T>,
    ) -> Result<T, StoreError> {
        self.visit(|calls, client| match work(calls, client) {
            Err(CallError::Expired) => work(calls, client),
            seen => seen,
        })
    }

    /// The owner with the token of this request, from now on.
    fn owner(&mut self, request: &Request) -> usize {
        let known = self.owners.iter().position(|owner| owner.token == request.token);
        known.unwrap_or_else(|| {
            self.owners.push(Owner::new(request.token.clone(), &self.address, request.ttl.duration()));
            self.owners.len() - 1
        })
    }

    /// The one who holds this lock: of an earlier call, or another process that was granted it. `None` when the token holds
    /// nothing.
    pub(super) fn holder(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Option<usize>, StoreError> {
        let known = |owner: &Owner| owner.token == *token;
        if let Some(known) = self.owners.iter().position(|owner| known(owner) && owner.has(key)) {
            return Ok(Some(known));
        }
        let Found { contender, node, .. } = match self.find(key, token, timeout)? {
            Some(found) if found.stage == Stage::Holding => found,
            _ => return Ok(None),
        };
        let value = node.value.unwrap_or_default();
        let Some(session) = value.session.as_deref().and_then(|text| Session::unmask(text, token)) else {
            return Ok(None);
        };
        // The locks of one token are in one session.
        let index = self.owners.iter().position(known).unwrap_or_else(|| {
            self.owners.push(Owner::adopt(token.clone(), &self.address, session));
            self.owners.len() - 1
        });
        self.owners[index].hold(key.clone(), contender, value.left_to_hold());
        Ok(Some(index))
    }

    /// The contender of this token in a lock.
    fn find(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Option<Found>, StoreError> {
        let id = id(token);
        self.look(|calls, client| {
            let queue = calls.queue(key, true, client, timeout)?;
            let Some(contender) = queue.into_iter().find(|contender| contender.id == Some(id)) else {
                return Ok(None);
            };
            let node = calls.node(key, &contender, client, timeout)?;
            Ok(node.map(|node| {
                let stage = node.value.as_ref().map_or(Stage::Waiting, |value| value.stage());
                Found { contender, node, stage }
            }))
        })
    }

    fn error(&self, error: CallError) -> StoreError {
        error.of(&self.name)
    }
}

/// The contender of a token in a lock.
struct Found {
    contender: Contender,
    node: Node,
    stage: Stage,
}

impl Store for ZooKeeper {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn acquire(&mut self, requests: &[Request], timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        let Some(first) = requests.first() else { return Ok(AcquireOutcome::granted(Vec::new())) };
        let index = self.owner(first);
        let ZooKeeper { owners, calls, address, .. } = self;
        let taken = one_after_the_other(address.cluster.servers.len(), timeout, |timeout| {
            owners[index].take(requests, calls, address, timeout)
        });
        let refused = match taken.map_err(|error| self.error(error))? {
            Taken::All(fences) => return Ok(AcquireOutcome::granted(fences)),
            Taken::Busy(busy) => Ok(AcquireOutcome::Busy(busy)),
            Taken::Refused(key, conflict) => Err(conflict.of(&self.name, key)),
        };
        if self.owners[index].dismiss_if_idle() {
            self.owners.swap_remove(index);
        }
        refused
    }

    fn enqueue(&mut self, request: &Request, timeout: &Timeout) -> Result<AcquireOutcome, StoreError> {
        let index = self.owner(request);
        let ZooKeeper { owners, calls, address, place, .. } = self;
        let place = place.get_or_insert_with(|| ZooKeeperWaiter::new(request.clone(), address));
        // The place gives no sign of life while this goes on. A server that hangs has half of the time.
        let timeout = &place.lifetime().map_or(*timeout, |lifetime| timeout.at_most(lifetime));
        let asked = one_after_the_other(address.cluster.servers.len(), timeout, |timeout| {
            place.ask(&mut owners[index], calls, address, timeout)
        });
        match asked {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(conflict)) => Err(conflict.of(&self.name, request.key.clone())),
            Err(error) => Err(error.of(&self.name)),
        }
    }

    fn wait(&mut self, timeout: &Timeout) -> Result<bool, StoreError> {
        match &mut self.place {
            Some(place) => place.wait(timeout).map_err(|_| StoreError::Interrupted),
            None => Ok(true),
        }
    }

    fn settle(&mut self) {
        if let Some(mut place) = self.place.take_if(|place| place.is_granted()) {
            place.dismiss();
        }
    }

    fn prepare(&mut self) {
        if let Some(place) = self.place.as_ref().filter(|place| place.is_next()) {
            let token = place.token();
            let owner = self.owners.iter_mut().find(|owner| owner.token == *token);
            owner.into_iter().for_each(|owner| owner.prepare(&Timeout::of(IDLE_TIMEOUT)));
        }
    }

    fn renew(
        &mut self,
        request: &Request,
        _fence: Option<FencingToken>,
        timeout: &Timeout,
    ) -> Result<Renewal, StoreError> {
        let renewed = self.renew_together(&[request], timeout)?.pop();
        renewed.unwrap_or(Ok(Renewal::Lost(None)))
    }

    fn renew_all(&mut self, leases: &[RenewalRequest], interrupt: Option<BorrowedFd>, on_renewal: OnRenewal) {
        let mut left: Vec<usize> = (0..leases.len()).collect();
        let mut share = 1;
        while let Some(lease) = left.first().map(|&first| &leases[first]) {
            let is_of_owner = |index: &mut usize| leases[*index].request.token == lease.request.token;
            let together: Vec<usize> = left.extract_if(.., is_of_owner).collect();
            let requests: Vec<&Request> = together.iter().map(|&index| &leases[index].request).collect();
            let sent = BootTime::now();
            match self.renew_together(&requests, &lease.timeout(share, interrupt)) {
                Ok(renewals) => {
                    together.into_iter().zip(renewals).for_each(|(index, one)| on_renewal(index, sent, one));
                }
                Err(StoreError::Interrupted) => {
                    return on_renewal(together[0], sent, Err(StoreError::Interrupted));
                }
                Err(error) => {
                    share = leases.len() as u32;
                    together.into_iter().for_each(|index| on_renewal(index, sent, Err(error.clone())));
                }
            }
        }
    }

    fn release(
        &mut self,
        keys: &[Key],
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Vec<ReleaseOutcome>, StoreError> {
        let known = self.owners.iter().position(|owner| owner.token == *token);
        if let Some(index) = known.filter(|index| keys.iter().all(|key| self.owners[*index].has(key))) {
            let ZooKeeper { owners, calls, address, .. } = self;
            let released = owners[index].release(keys, calls, address, timeout);
            let outcomes = released.map(|all| all.into_iter().map(ReleaseOutcome::from).collect());
            return outcomes.map_err(|error| self.error(error));
        }
        timeout
            .share_among(keys, |key, share| self.release_found(key, token, share).map(ReleaseOutcome::from))
    }

    fn cancel(&mut self, requests: &[Request], timeout: &Timeout) -> Result<(), StoreError> {
        let place = self.place.take().map(|mut place| place.leave_queue(timeout));
        let token = requests.first().map(|request| &request.token);
        let known = self.owners.iter().position(|owner| Some(&owner.token) == token);
        let ended = known.map(|index| self.owners.swap_remove(index).close(timeout));
        place.unwrap_or(Ok(())).and(ended.clone().unwrap_or(Ok(()))).map_err(|error| self.error(error))?;
        // The caller cancels for another process.
        if ended.is_none() {
            for request in requests {
                let Some(Found { contender, .. }) = self.find(&request.key, &request.token, timeout)? else {
                    continue;
                };
                self.visit(|calls, client| calls.delete(&request.key, &contender, client, timeout))?;
            }
        }
        Ok(())
    }

    fn check(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<Option<Duration>, StoreError> {
        let Some(index) = self.holder(key, token, timeout)? else { return Ok(None) };
        let (owner, calls) = (&mut self.owners[index], &self.calls);
        let states = owner.renew(&[key], calls, timeout).map_err(|error| error.of(&self.name))?;
        let left = owner.session().map(|session| session.timeout);
        Ok(left.filter(|_| states == [State::Held]))
    }
}

impl ZooKeeper {
    /// Releases a lock that another process was granted. `false` when this token did not hold it.
    fn release_found(
        &mut self,
        key: &Key,
        token: &OwnerToken,
        timeout: &Timeout,
    ) -> Result<bool, StoreError> {
        let Some(found) = self.find(key, token, timeout)? else { return Ok(false) };
        let Found { contender, node, stage } = found;
        if stage != Stage::Holding {
            return Ok(false);
        }
        let left = node.value.map_or(Duration::ZERO, |value| value.left_to_hold());
        if left.is_zero() {
            return self.visit(|calls, client| calls.delete(key, &contender, client, timeout));
        }
        let kept = keep(key, &contender, left, &self.calls, &self.address, timeout);
        kept.map_err(|error| self.error(error))
    }
}
