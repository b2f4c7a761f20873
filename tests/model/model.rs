//! The Redlock algorithm as a model, every run of it: three servers, two clients, a clock that goes in steps.
//!
//! The rules are those of the quorum and of the lease. Each of them left out is found to be unsafe, so the model
//! sees what it is made for.

#![cfg_attr(not(test), allow(unused))]

use stateright::{Checker, HasDiscoveries, Model, Property};

const SERVERS: usize = 3;
const CLIENTS: usize = 2;
const MAJORITY: usize = SERVERS / 2 + 1;
/// In steps of the clock.
const TTL: u8 = 2;
/// As much earlier than it should a server may think that a lease has ended.
const DRIFT: u8 = 1;
const END_OF_TIME: u8 = 4;

#[derive(Clone, Copy)]
struct Rules {
    /// The holder stops before its lease ends, by as much as clocks may differ.
    margin: bool,
    /// The lease is counted from before the request, not from its answer.
    counted_from_sending: bool,
    /// A server that lost its data stays away until every lease that it forgot has ended.
    restarts_late: bool,
    /// Nothing runs on behind its lease.
    guarded: bool,
}

const OURS: Rules = Rules { margin: true, counted_from_sending: true, restarts_late: true, guarded: true };

/// What became of a request to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Asked {
    #[default]
    Nothing,
    Sent,
    /// Granted, and the answer is under way.
    Granted,
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Server {
    /// Who holds the lock there, and when that ends.
    holder: Option<(usize, u8)>,
    away_until: u8,
    asked: [Asked; CLIENTS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Client {
    /// When the request was sent that is under way.
    sent: Option<u8>,
    /// Until when the job runs.
    until: Option<u8>,
    is_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    /// Sorted: which is which does not matter.
    servers: [Server; SERVERS],
    clients: [Client; CLIENTS],
    has_restarted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Tick,
    /// To take the lock, or to renew it.
    Ask(usize),
    Serve(usize, usize),
    Hear(usize, usize),
    Expire(usize),
    Restart(usize),
}

impl Model for Rules {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let (servers, clients) = Default::default();
        vec![World { now: 0, servers, clients, has_restarted: false }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.now < END_OF_TIME {
            actions.push(Action::Tick);
        }
        for (client, state) in world.clients.iter().enumerate() {
            if !state.is_over && state.sent.is_none() {
                actions.push(Action::Ask(client));
            }
        }
        for (place, server) in world.servers.iter().enumerate() {
            for (client, asked) in server.asked.iter().enumerate() {
                match asked {
                    Asked::Sent if server.away_until <= world.now => {
                        actions.push(Action::Serve(client, place))
                    }
                    Asked::Granted => actions.push(Action::Hear(client, place)),
                    _ => {}
                }
            }
            if server.holder.is_some_and(|(_, end)| world.now + DRIFT >= end) {
                actions.push(Action::Expire(place));
            }
            if !world.has_restarted {
                actions.push(Action::Restart(place));
            }
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Tick => {
                world.now += 1;
                let overrun = if self.guarded { 0 } else { 1 };
                for client in 0..CLIENTS {
                    if world.clients[client].until.is_some_and(|until| world.now >= until + overrun) {
                        world.end(client);
                    }
                }
            }
            Action::Ask(client) => {
                world.clients[client].sent = Some(world.now);
                world.servers.iter_mut().for_each(|server| server.asked[client] = Asked::Sent);
            }
            Action::Serve(client, place) => {
                let server = &mut world.servers[place];
                let is_free = server.holder.is_none_or(|(holder, _)| holder == client);
                if is_free {
                    server.holder = Some((client, world.now + TTL));
                }
                server.asked[client] = if is_free { Asked::Granted } else { Asked::No };
            }
            Action::Hear(client, place) => {
                world.servers[place].asked[client] = Asked::Yes;
                world.count(client, self);
            }
            Action::Expire(place) => world.servers[place].holder = None,
            Action::Restart(place) => {
                let away = if self.restarts_late { TTL + DRIFT } else { 0 };
                world.servers[place].holder = None;
                world.servers[place].away_until = world.now + away;
                world.has_restarted = true;
            }
        }
        world.servers.sort_unstable();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one job at a time", |_, world: &World| {
                world.clients.iter().filter(|client| client.until.is_some()).count() <= 1
            }),
            Property::sometimes("one after the other", |_, world: &World| {
                world.clients.iter().all(|client| client.is_over || client.until.is_some())
            }),
        ]
    }
}

impl World {
    /// Whether a majority has granted the lock by now.
    fn count(&mut self, client: usize, rules: &Rules) {
        let granted = self.servers.iter().filter(|server| server.asked[client] == Asked::Yes).count();
        let Some(sent) = self.clients[client].sent.filter(|_| granted >= MAJORITY) else { return };
        let counted_from = if rules.counted_from_sending { sent } else { self.now };
        let until = counted_from + TTL - if rules.margin { DRIFT } else { 0 };
        self.forget_request(client);
        if until > self.now {
            self.clients[client].until = self.clients[client].until.max(Some(until));
        } else if self.clients[client].until.is_none() {
            self.end(client);
        }
    }

    fn end(&mut self, client: usize) {
        self.forget_request(client);
        self.clients[client] = Client { is_over: true, ..Client::default() };
    }

    /// What a server may still carry out of it only keeps others out.
    fn forget_request(&mut self, client: usize) {
        self.clients[client].sent = None;
        self.servers.iter_mut().for_each(|server| server.asked[client] = Asked::Nothing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The way to two jobs at a time, when there is one.
    fn overlap(rules: Rules) -> Option<Vec<Action>> {
        let checker = rules.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let overlap = checker.discovery("one job at a time").map(|path| path.into_actions());
        println!("{} states; {overlap:?}", checker.unique_state_count());
        if overlap.is_none() {
            // The model is not safe for the reason that nothing happens in it.
            checker.assert_any_discovery("one after the other");
        }
        overlap
    }

    #[test]
    fn our_rules_are_safe() {
        assert_eq!(overlap(OURS), None);
    }

    #[test]
    fn without_a_margin_they_are_not() {
        assert!(overlap(Rules { margin: false, ..OURS }).is_some());
    }

    #[test]
    fn a_lease_counted_from_the_answer_is_not_safe() {
        assert!(overlap(Rules { counted_from_sending: false, ..OURS }).is_some());
    }

    #[test]
    fn a_server_that_restarts_empty_at_once_is_not_safe() {
        assert!(overlap(Rules { restarts_late: false, ..OURS }).is_some());
    }

    #[test]
    fn a_job_that_outlives_its_lease_is_not_safe() {
        assert!(overlap(Rules { guarded: false, ..OURS }).is_some());
    }
}
