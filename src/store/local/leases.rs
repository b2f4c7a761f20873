//! The decisions about one key: who holds it, who may get it, and what becomes of a lease.
//!
//! The leases and the time are handed in, so all of it is true without a file.

use std::collections::HashSet;

use super::holders::{HolderRow, LockRow};
use super::host::Moment;
use super::liveness::Processes;
use crate::lock::{BreakScope, Breaker, Broken, FencingToken, Holder, Mode, OwnerToken, Permits, Renewal};

/// The leases of one key.
pub struct Leases {
    /// `None` for a key that was never granted, or is forgotten.
    pub last: Option<LockRow>,
    pub running: Vec<HolderRow>,
    /// The leases that are over. Their owners can heal them until the next grant.
    pub over: Vec<HolderRow>,
}

/// The answer to a renewal, and the lease to write for it.
#[derive(Debug)]
pub enum Continuation {
    Extended(Box<HolderRow>),
    /// The same processes keep the lease alive, not always those that ask.
    Healed(Processes),
    Ended(Renewal),
}

/// The result of giving a lock back.
#[derive(Debug)]
pub enum Return {
    NotHeld,
    /// It stays until the end of its min-hold.
    Kept(HolderRow),
    Freed {
        lease: HolderRow,
        was_held: bool,
    },
}

impl Leases {
    /// The mode in which the lock is held; `None` for a free lock.
    pub fn held(&self) -> Option<Mode> {
        self.last.as_ref().filter(|_| !self.running.is_empty()).map(|last| last.mode)
    }

    fn all(&self) -> impl Iterator<Item = &HolderRow> {
        self.running.iter().chain(&self.over)
    }

    /// The running lease of this token, whose owner is asking and so alive.
    pub fn lease_of(&self, token: &OwnerToken, at: &Moment) -> Option<&HolderRow> {
        self.all().find(|lease| lease.is_of(token) && lease.runs(at))
    }

    /// One more holder in this mode is allowed, which takes so many permits.
    pub fn admits(&self, mode: Mode, take: u32) -> bool {
        match self.held() {
            None => mode.permits().is_none_or(|permits| take <= permits),
            Some(Mode::Exclusive) => false,
            Some(held) if held != mode => false,
            Some(Mode::Shared) => true,
            Some(Mode::Semaphore(permits)) => {
                let used =
                    self.running.iter().map(|lease| lease.metadata.weight()).fold(take, u32::saturating_add);
                used <= permits.get()
            }
        }
    }

    /// The lowest numbers of `take` permits that no running lease has; none for another mode.
    pub fn free_permits(&self, mode: Mode, take: u32) -> Permits {
        let Mode::Semaphore(_) = mode else { return Permits::default() };
        let taken: HashSet<u32> =
            self.running.iter().flat_map(|lease| lease.metadata.permits.numbers()).copied().collect();
        Permits::new((0..).filter(|number| !taken.contains(number)).take(take as usize).collect())
    }

    /// The lease that decides how long the lock is held: of readers the last to end, of permits the first.
    pub fn deciding(&self) -> Option<&HolderRow> {
        match self.held() {
            Some(Mode::Shared) => self.running.iter().max_by_key(|lease| lease.until),
            _ => self.running.iter().min_by_key(|lease| lease.until),
        }
    }

    pub fn holder(&self) -> Option<Holder> {
        self.deciding().map(HolderRow::holder)
    }

    /// The processes with whose death there may be room: those of the holder, of all readers together, of each permit.
    pub fn processes(&self) -> Vec<Processes> {
        let each = self.running.iter().map(|lease| &lease.processes);
        match self.held() {
            Some(Mode::Shared) => vec![Processes::together(each)],
            _ => each.cloned().collect(),
        }
    }

    /// Extends a lease, or heals it with the fencing token of its grant. `forgotten` is the highest fencing token of the
    /// keys that are forgotten.
    pub fn continuation(
        &self,
        token: &OwnerToken,
        fence: Option<FencingToken>,
        forgotten: u64,
        at: &Moment,
    ) -> Continuation {
        match self.lease_of(token, at) {
            Some(mine) if mine.broken.is_some() => {
                return Continuation::Ended(Renewal::Lost(Some(mine.holder().into())));
            }
            Some(mine) => return Continuation::Extended(mine.clone().into()),
            None => {}
        }
        let lost = || Continuation::Ended(Renewal::Lost(self.holder().map(Box::new)));
        let Some(FencingToken(fence)) = fence else { return lost() };
        let granted = self.over.iter().chain(&self.running).find(|lease| lease.fence == fence);
        let is_healed = match &self.last {
            // The file is a new one, unless the key was forgotten.
            None => forgotten < fence,
            Some(last) if last.mode == Mode::Exclusive && last.fence == fence => match granted {
                // Expired, and nobody else was granted it since.
                Some(granted) if granted.owner.is_some() => {
                    granted.is_of(token) && at.is_in_boot(&granted.boot) && granted.broken.is_none()
                }
                Some(granted) if granted.broken.is_some() => false,
                _ => return Continuation::Ended(Renewal::Released),
            },
            // An older copy replaced the file. Every later grant has a higher fencing token.
            Some(last) => self.running.is_empty() && last.fence < fence,
        };
        let processes = || granted.map(|granted| granted.processes.clone()).unwrap_or_default();
        if is_healed { Continuation::Healed(processes()) } else { lost() }
    }

    /// Gives a lock back. A cancelled lock is not kept until the end of its min-hold.
    pub fn give_back(&self, token: &OwnerToken, cancel: bool, at: &Moment) -> Return {
        // Whoever asks is alive, so the processes do not matter.
        let is_mine = |lease: &&HolderRow| lease.is_of(token) && at.is_in_boot(&lease.boot);
        let Some(lease) = self.all().find(is_mine).cloned() else { return Return::NotHeld };
        let was_held = at.now < lease.until;
        if was_held && lease.broken.is_none() && !cancel && at.now < lease.hold_until {
            // Only the time holds it from here on.
            let (until, owner, processes) = (lease.hold_until, None, Processes::default());
            return Return::Kept(HolderRow { until, owner, processes, ..lease });
        }
        Return::Freed { lease, was_held }
    }

    /// Breaks these leases: those that change, and whether each is removed.
    pub fn broken_by(&self, scope: &BreakScope, by: &Breaker) -> (Broken, Vec<(HolderRow, bool)>) {
        let can_be_told = |lease: &HolderRow| lease.broken.is_none() && lease.owner.is_some();
        let is_meant = |lease: &&HolderRow| match scope {
            BreakScope::All => true,
            BreakScope::Owner(token) => lease.is_of(token),
            BreakScope::Grant(fence) => lease.fence == fence.0 && can_be_told(lease),
        };
        let mut outcome = self.holder().map_or(Broken::Free, Broken::Other);
        let mut changed = Vec::new();
        for lease in self.running.iter().filter(is_meant) {
            let is_removed = !can_be_told(lease);
            if !is_removed {
                outcome = Broken::Told(lease.holder());
            } else if !matches!(outcome, Broken::Told(_)) {
                outcome = Broken::Freed(lease.holder());
            }
            changed.push((HolderRow { broken: Some(by.clone()), ..lease.clone() }, is_removed));
        }
        (outcome, changed)
    }

    /// Replaces the lease with the same fencing token.
    pub fn put(&mut self, lease: HolderRow) {
        self.remove(lease.fence);
        self.running.push(lease);
    }

    pub fn remove(&mut self, fence: u64) {
        self.over.retain(|other| other.fence != fence);
        self.running.retain(|other| other.fence != fence);
    }
}
