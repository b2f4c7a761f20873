//! Which server is in charge, where it is not always the same one.

use super::persist::part_of;
use super::{NodeId, Place, Route};
use crate::clock::BootTime;
use crate::lock::{Patience, StoreError};
use crate::store::redis::cluster::{Cluster, Slots};
use crate::store::redis::connection::LONGEST_LIST;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::failure::Failure;
use crate::store::redis::idle::go_on;
use crate::store::redis::sentinel::Sentinels;

/// Who knows which server is in charge.
pub enum Guide {
    /// There is one only.
    None,
    Sentinels(Box<Sentinels>),
    Cluster(Cluster),
}

impl Route {
    /// All servers that are in charge of something.
    pub fn masters(&mut self, patience: &Patience) -> Result<Vec<NodeId>, StoreError> {
        self.persist(patience, |route| match &route.guide {
            Guide::None => Ok(Some(vec![0])),
            Guide::Sentinels(_) => route.ask_sentinels(patience).map(|node| Some(vec![node])),
            Guide::Cluster(_) => {
                route.draw_map(&part_of(patience))?;
                let Guide::Cluster(cluster) = &route.guide else { return Ok(None) };
                Ok(Some(cluster.masters()))
            }
        })
    }

    /// Whether the server that answered last has the say: one that hung was perhaps replaced, and does not
    /// know it yet.
    pub fn is_in_charge(&mut self, place: Place, patience: &Patience) -> Result<bool, StoreError> {
        let node = self.answered;
        let known = self.known(place);
        match &mut self.guide {
            Guide::None => return Ok(true),
            Guide::Sentinels(sentinels) if sentinels.is_fresh() => {}
            // Without Sentinels that answer nobody is put in its place.
            Guide::Sentinels(sentinels) => {
                if let Some(other) = sentinels.dissent(&self.nodes[node].endpoint, patience)? {
                    let other = self.node(other)?;
                    if let Guide::Sentinels(sentinels) = &mut self.guide {
                        sentinels.named(other);
                    }
                }
            }
            Guide::Cluster(_) if self.answered_aside || known.is_some() => return Ok(true),
            Guide::Cluster(_) => self.draw_map(&part_of(patience))?,
        }
        Ok(self.known(place).is_none_or(|known| known == node))
    }

    /// Where there is no guide, or this server is in charge for one of the keys.
    pub fn has_the_say<'a>(&self, node: NodeId, mut places: impl Iterator<Item = Place<'a>>) -> bool {
        !self.is_guided() || places.any(|place| self.known(place).is_none_or(|known| known == node))
    }

    /// The server in charge, as far as is known; asks who it is where that is not known.
    pub fn find(&mut self, place: Place, patience: &Patience) -> Result<NodeId, StoreError> {
        if let Some(node) = self.known(place) {
            return Ok(node);
        }
        match &self.guide {
            Guide::None => {}
            Guide::Sentinels(_) => {
                self.ask_sentinels(patience)?;
            }
            Guide::Cluster(_) => self.draw_map(patience)?,
        }
        self.known(place).ok_or_else(|| StoreError::Unreachable {
            store: self.name.clone(),
            why: "none of its servers has the slot of the key".to_owned(),
            transient: true,
        })
    }

    /// The server in charge as far as is known, without asking anybody.
    pub fn known(&self, place: Place) -> Option<NodeId> {
        match (place, &self.guide) {
            (Place::Node(node), _) => Some(node),
            (_, Guide::None) => Some(0),
            (_, Guide::Sentinels(sentinels)) => sentinels.master(),
            (Place::Key(key), Guide::Cluster(cluster)) => cluster.node_of(key),
        }
    }

    fn ask_sentinels(&mut self, patience: &Patience) -> Result<NodeId, StoreError> {
        let Guide::Sentinels(sentinels) = &mut self.guide else { return Ok(0) };
        let endpoint = sentinels.ask(patience)?;
        let node = self.node(endpoint)?;
        if let Guide::Sentinels(sentinels) = &mut self.guide {
            sentinels.named(node);
        }
        Ok(node)
    }

    /// Asks the servers of the cluster who has which slots; one that does not answer is asked last.
    fn draw_map(&mut self, patience: &Patience) -> Result<(), StoreError> {
        let Guide::Cluster(cluster) = &self.guide else { return Ok(()) };
        let mut order: Vec<NodeId> = (0..self.nodes.len()).collect();
        fastrand::shuffle(&mut order);
        let doubted = cluster.doubted();
        order.sort_by_key(|node| Some(*node) == doubted);
        let mut failed = None;
        for (asked, &node) in order.iter().enumerate() {
            match go_on(patience) {
                Err(Failure::TimedOut) if asked > 0 => break,
                Err(Failure::Interrupted) => return Err(StoreError::Interrupted),
                _ => {}
            }
            let others = (order.len() - asked).min(4) as u32;
            let share = Patience {
                until: patience.until.min(BootTime::after(patience.until.left() / others)),
                ..*patience
            };
            match self.ask_for_map(node, &share) {
                Ok(map) => {
                    let known = |(slots, endpoint)| Ok((slots, self.node(endpoint)?));
                    let map = map.into_iter().map(known).collect::<Result<_, StoreError>>()?;
                    if let Guide::Cluster(cluster) = &mut self.guide {
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
        patience: &Patience,
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
            Guide::None => {}
            Guide::Sentinels(sentinels) => sentinels.forget(),
            Guide::Cluster(cluster) => cluster.doubt(node),
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
