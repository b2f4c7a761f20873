//! Which server is in charge, where it is not always the same one.

use super::retry::part_of;
use super::{NodeId, Target, Topology};
use crate::clock::BootTime;
use crate::lock::{StoreError, Timeout};
use crate::store::redis::net::connection::LONGEST_LIST;
use crate::store::redis::net::endpoint::Endpoint;
use crate::store::redis::net::failure::RequestError;
use crate::store::redis::net::wait::go_on;
use crate::store::redis::topology::cluster::{Cluster, Slots};
use crate::store::redis::topology::sentinel::Sentinels;

/// Who knows which server is in charge.
pub enum Discovery {
    /// There is one only.
    None,
    Sentinels(Box<Sentinels>),
    Cluster(Cluster),
}

impl Topology {
    /// All servers that are in charge of something.
    pub fn masters(&mut self, patience: &Timeout) -> Result<Vec<NodeId>, StoreError> {
        self.persist(patience, |route| match &route.guide {
            Discovery::None => Ok(Some(vec![0])),
            Discovery::Sentinels(_) => route.ask_sentinels(patience).map(|node| Some(vec![node])),
            Discovery::Cluster(_) => {
                route.draw_map(&part_of(patience))?;
                let Discovery::Cluster(cluster) = &route.guide else { return Ok(None) };
                Ok(Some(cluster.masters()))
            }
        })
    }

    /// Whether the server that answered last has the say: one that hung was perhaps replaced, and does not
    /// know it yet.
    pub fn is_in_charge(&mut self, place: Target, patience: &Timeout) -> Result<bool, StoreError> {
        let node = self.answered;
        let known = self.known(place);
        match &mut self.guide {
            Discovery::None => return Ok(true),
            Discovery::Sentinels(sentinels) if sentinels.is_fresh() => {}
            // Without Sentinels that answer nobody is put in its place.
            Discovery::Sentinels(sentinels) => {
                if let Some(other) = sentinels.dissent(&self.nodes[node].endpoint, patience)? {
                    let other = self.node(other)?;
                    if let Discovery::Sentinels(sentinels) = &mut self.guide {
                        sentinels.named(other);
                    }
                }
            }
            Discovery::Cluster(_) if self.answered_aside || known.is_some() => return Ok(true),
            Discovery::Cluster(_) => self.draw_map(&part_of(patience))?,
        }
        Ok(self.known(place).is_none_or(|known| known == node))
    }

    /// Where there is no guide, or this server is in charge for one of the keys.
    pub fn has_the_say<'a>(&self, node: NodeId, mut places: impl Iterator<Item = Target<'a>>) -> bool {
        !self.is_guided() || places.any(|place| self.known(place).is_none_or(|known| known == node))
    }

    /// The server in charge, as far as is known; asks who it is where that is not known.
    pub fn find(&mut self, place: Target, patience: &Timeout) -> Result<NodeId, StoreError> {
        if let Some(node) = self.known(place) {
            return Ok(node);
        }
        match &self.guide {
            Discovery::None => {}
            Discovery::Sentinels(_) => {
                self.ask_sentinels(patience)?;
            }
            Discovery::Cluster(_) => self.draw_map(patience)?,
        }
        self.known(place).ok_or_else(|| StoreError::Unreachable {
            store: self.name.clone(),
            why: "none of its servers has the slot of the key".to_owned(),
            transient: true,
        })
    }

    /// The server in charge as far as is known, without asking anybody.
    pub fn known(&self, place: Target) -> Option<NodeId> {
        match (place, &self.guide) {
            (Target::Node(node), _) => Some(node),
            (_, Discovery::None) => Some(0),
            (_, Discovery::Sentinels(sentinels)) => sentinels.master(),
            (Target::Key(key), Discovery::Cluster(cluster)) => cluster.node_of(key),
        }
    }

    fn ask_sentinels(&mut self, patience: &Timeout) -> Result<NodeId, StoreError> {
        let Discovery::Sentinels(sentinels) = &mut self.guide else { return Ok(0) };
        let endpoint = sentinels.ask(patience)?;
        let node = self.node(endpoint)?;
        if let Discovery::Sentinels(sentinels) = &mut self.guide {
            sentinels.named(node);
        }
        Ok(node)
    }

    /// Asks the servers of the cluster who has which slots; one that does not answer is asked last.
    fn draw_map(&mut self, patience: &Timeout) -> Result<(), StoreError> {
        let Discovery::Cluster(cluster) = &self.guide else { return Ok(()) };
        let mut order: Vec<NodeId> = (0..self.nodes.len()).collect();
        fastrand::shuffle(&mut order);
        let doubted = cluster.doubted();
        order.sort_by_key(|node| Some(*node) == doubted);
        let mut failed = None;
        for (asked, &node) in order.iter().enumerate() {
            match go_on(patience) {
                Err(RequestError::TimedOut) if asked > 0 => break,
                Err(RequestError::Interrupted) => return Err(StoreError::Interrupted),
                _ => {}
            }
            let others = (order.len() - asked).min(4) as u32;
            let share = Timeout {
                until: patience.until.min(BootTime::after(patience.until.left() / others)),
                ..*patience
            };
            match self.ask_for_map(node, &share) {
                Ok(map) => {
                    let known = |(slots, endpoint)| Ok((slots, self.node(endpoint)?));
                    let map = map.into_iter().map(known).collect::<Result<_, StoreError>>()?;
                    if let Discovery::Cluster(cluster) = &mut self.guide {
                        cluster.drawn(map);
                    }
                    return Ok(());
                }
                Err(StoreError::Unreachable { why, .. }) => {
                    failed = Some(why);
                }
                Err(other) => return Err(other),
            }
        }
        Err(StoreError::Unreachable {
            store: self.name.clone(),
            why: format!("none of its servers answers ({})", failed.unwrap_or_default()),
            transient: false,
        })
    }

    fn ask_for_map(
        &mut self,
        node: NodeId,
        patience: &Timeout,
    ) -> Result<Vec<(Slots, Endpoint)>, StoreError> {
        let name = self.node_name(node);
        let mut connection = match self.nodes[node].connection.take() {
            Some(connection) => connection,
            None => self.access.connect(&self.nodes[node].endpoint, &name, patience)?,
        };
        connection.longest = LONGEST_LIST;
        let reply = connection
            .query(redis::cmd("CLUSTER").arg("SLOTS"), patience)
            .map_err(|failure| failure.of(&name))?;
        let node = &mut self.nodes[node];
        node.connection = Some(connection);
        Cluster::read(reply, &node.endpoint, &name)
    }

    /// Something is wrong with a server: before the next request it is asked who is in charge.
    pub fn suspect(&mut self, node: NodeId) {
        match &mut self.guide {
            Discovery::None => {}
            Discovery::Sentinels(sentinels) => sentinels.forget(),
            Discovery::Cluster(cluster) => cluster.doubt(node),
        }
    }

    /// This server does not do it; soon there may be another.
    pub fn failed(&mut self, node: NodeId, why: StoreError) -> StoreError {
        self.suspect(node);
        passing(why)
    }
}

/// Asking again within seconds makes sense.
pub fn passing(why: StoreError) -> StoreError {
    match why {
        StoreError::Unreachable { store, why, .. } => StoreError::Unreachable { store, why, transient: true },
        other => other,
    }
}
