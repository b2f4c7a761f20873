//! The decisions about one key, on leases that no file has.

use std::num::NonZeroU32;

use super::holders::{HolderRow, LockRow};
use super::host::Moment;
use super::leases::{Continuation, Leases, Return};
use super::liveness::Processes;
use super::owner_hash::OwnerHash;
use crate::clock::BootTime;
use crate::lock::{BreakScope, Breaker, Broken, FencingToken, Metadata, Mode, OwnerToken, Permits, Renewal};

const BOOT: &str = "this boot";

fn at(seconds: u64) -> BootTime {
    BootTime::from_nanos(seconds * 1_000_000_000)
}

/// The time `seconds` in this boot.
fn moment(seconds: u64) -> Moment<'static> {
    Moment { now: at(seconds), boot: BOOT }
}

fn token(text: &str) -> OwnerToken {
    text.parse().expect("a token")
}

/// A lease of `owner` from 10 until this time.
fn lease(owner: &str, fence: u64, until: u64) -> HolderRow {
    HolderRow {
        fence,
        owner: Some(OwnerHash::of(&token(owner))),
        since: 0,
        renewed: at(10),
        until: at(until),
        boot: BOOT.to_owned(),
        hold_until: at(0),
        broken: None,
        processes: Processes::default(),
        metadata: Metadata::default(),
    }
}

fn leases(mode: Mode, fence: u64, running: Vec<HolderRow>, over: Vec<HolderRow>) -> Leases {
    Leases { last: Some(LockRow { mode, fence }), running, over }
}

fn permits(number: u32) -> Mode {
    Mode::Semaphore(NonZeroU32::new(number).expect("permits"))
}

fn breaker() -> Breaker {
    Breaker::new("anna", "web3", None)
}

#[test]
fn a_lock_admits_what_goes_with_its_holders() {
    let (exclusive, shared) = (Mode::Exclusive, Mode::Shared);
    for (mode, holders, wanted, is_admitted) in [
        (exclusive, 0, exclusive, true),
        (exclusive, 1, exclusive, false),
        (exclusive, 1, shared, false),
        (shared, 0, exclusive, true),
        (shared, 2, shared, true),
        (shared, 1, exclusive, false),
        (permits(2), 1, permits(2), true),
        (permits(2), 2, permits(2), false),
        (permits(2), 1, permits(3), false),
        (permits(2), 0, permits(3), true),
    ] {
        let running = (0..holders).map(|number| lease("a", number, 20)).collect();
        let admits = leases(mode, 9, running, Vec::new()).admits(wanted, 1);
        assert_eq!(admits, is_admitted, "{wanted} beside {holders} of {mode}");
    }
    assert!(Leases { last: None, running: Vec::new(), over: Vec::new() }.admits(exclusive, 1));
}

#[test]
fn the_last_reader_and_the_first_permit_decide() {
    for (mode, decides) in [(Mode::Shared, 30), (permits(3), 20)] {
        let running = vec![lease("a", 1, 25), lease("b", 2, 30), lease("c", 3, 20)];
        let leases = leases(mode, 3, running, Vec::new());
        assert_eq!(leases.deciding().map(|lease| lease.until), Some(at(decides)), "{mode}");
    }
}

/// The answer to `a`, whose grant had the fencing token 7, at 21.
fn answer(leases: &Leases, forgotten: u64) -> &'static str {
    match leases.continuation(&token("a"), Some(FencingToken(7)), forgotten, &moment(21)) {
        Continuation::Extended(_) => "extended",
        Continuation::Healed(_) => "healed",
        Continuation::Ended(Renewal::Released) => "released",
        Continuation::Ended(Renewal::Lost(Some(_))) => "lost to a holder",
        Continuation::Ended(_) => "lost",
    }
}

#[test]
fn a_lease_is_extended_healed_or_lost() {
    let exclusive = |fence, running, over| leases(Mode::Exclusive, fence, running, over);
    let (own, over) = (lease("a", 7, 30), lease("a", 7, 20));
    let broken = |lease: &HolderRow| HolderRow { broken: Some(breaker()), ..lease.clone() };
    let kept = HolderRow { owner: None, ..own.clone() };
    let other_boot = HolderRow { boot: "another".to_owned(), ..over.clone() };
    for (leases, expected) in [
        (exclusive(7, vec![own.clone()], vec![]), "extended"),
        // Its processes seem to be dead, but it asks.
        (exclusive(7, vec![], vec![own.clone()]), "extended"),
        (exclusive(7, vec![broken(&own)], vec![]), "lost to a holder"),
        (exclusive(7, vec![], vec![over.clone()]), "healed"),
        (exclusive(7, vec![], vec![broken(&over)]), "lost"),
        (exclusive(7, vec![], vec![other_boot]), "lost"),
        (exclusive(8, vec![lease("b", 8, 30)], vec![]), "lost to a holder"),
        (exclusive(8, vec![], vec![]), "lost"),
        (exclusive(7, vec![kept.clone()], vec![]), "released"),
        (exclusive(7, vec![broken(&kept)], vec![]), "lost to a holder"),
        (exclusive(7, vec![], vec![]), "released"),
        // An older copy of the file.
        (exclusive(6, vec![], vec![lease("b", 6, 20)]), "healed"),
        (exclusive(6, vec![lease("b", 6, 30)], vec![]), "lost to a holder"),
        (leases(Mode::Shared, 7, vec![], vec![over]), "lost"),
    ] {
        assert_eq!(answer(&leases, 0), expected, "{:?} {:?}", leases.running, leases.over);
    }
    let new_file = Leases { last: None, running: Vec::new(), over: Vec::new() };
    assert_eq!([answer(&new_file, 6), answer(&new_file, 7)], ["healed", "lost"]);
    let without_fence = new_file.continuation(&token("a"), None, 0, &moment(21));
    assert!(matches!(without_fence, Continuation::Ended(Renewal::Lost(None))));
}

#[test]
fn a_release_leaves_the_lock_to_its_min_hold() {
    let own = HolderRow { hold_until: at(25), ..lease("a", 7, 30) };
    let broken = HolderRow { broken: Some(breaker()), ..own.clone() };
    let give_back = |own: &HolderRow, cancel, seconds| {
        let leases = leases(Mode::Exclusive, 7, vec![own.clone()], Vec::new());
        leases.give_back(&token("a"), cancel, &moment(seconds))
    };
    let kept = give_back(&own, false, 20);
    assert!(matches!(&kept, Return::Kept(kept) if kept.until == at(25) && kept.owner.is_none()), "{kept:?}");
    for (own, cancel, seconds, was_held) in [
        (&own, false, 25, true),
        (&own, true, 20, true),
        (&broken, false, 20, true),
        (&own, false, 30, false),
    ] {
        let freed = give_back(own, cancel, seconds);
        assert!(matches!(&freed, Return::Freed { was_held: was, .. } if *was == was_held), "{freed:?}");
    }
    let others = leases(Mode::Exclusive, 7, vec![lease("b", 7, 30)], Vec::new());
    assert!(matches!(others.give_back(&token("a"), false, &moment(20)), Return::NotHeld));
}

#[test]
fn a_holder_is_told_once_and_then_removed() {
    let (fresh, told) = (lease("a", 1, 30), HolderRow { broken: Some(breaker()), ..lease("b", 2, 30) });
    let both = leases(Mode::Shared, 2, vec![fresh, told], Vec::new());
    let outcome = |scope: BreakScope| {
        let (outcome, changed) = both.broken_by(&scope, &breaker());
        let removed: Vec<_> = changed.iter().map(|(lease, is_removed)| (lease.fence, *is_removed)).collect();
        (outcome, removed)
    };
    let owner = |name| BreakScope::Owner(token(name));
    let grant = |fence| BreakScope::Grant(FencingToken(fence));
    let all = outcome(BreakScope::All);
    assert!(matches!(all, (Broken::Told(_), changed) if changed == [(1, false), (2, true)]));
    assert!(matches!(outcome(owner("a")), (Broken::Told(_), changed) if changed == [(1, false)]));
    assert!(matches!(outcome(owner("b")), (Broken::Freed(_), changed) if changed == [(2, true)]));
    assert!(matches!(outcome(owner("c")), (Broken::Other(_), changed) if changed.is_empty()));
    assert!(matches!(outcome(grant(1)), (Broken::Told(_), changed) if changed == [(1, false)]));
    for stays in [2, 3] {
        assert!(matches!(outcome(grant(stays)), (Broken::Other(_), changed) if changed.is_empty()));
    }
}

#[test]
fn a_lease_runs_in_its_boot_until_its_end() {
    let own = lease("a", 7, 20);
    let hidden = Moment { boot: "", ..moment(15) };
    let another = Moment { boot: "another", ..moment(15) };
    for (at, runs) in
        [(moment(15), true), (moment(20), false), (moment(9), false), (hidden, true), (another, false)]
    {
        assert_eq!(own.runs(&at), runs, "{:?} in {:?}", at.now, at.boot);
    }
}

#[test]
fn the_lowest_free_permit_is_given() {
    let with = |numbers: &[u32]| {
        let held = numbers.iter().zip(1..).map(|(number, fence)| {
            let metadata = Metadata { permits: Permits::new(vec![*number]), ..Metadata::default() };
            HolderRow { metadata, ..lease("a", fence, 40) }
        });
        leases(permits(3), 9, held.collect(), vec![lease("b", 8, 11)]).free_permits(permits(3), 2).to_string()
    };
    assert_eq!([with(&[]), with(&[0]), with(&[2, 0]), with(&[1, 2])], ["0,1", "1,2", "1,3", "0,3"]);
    assert!(leases(Mode::Shared, 9, Vec::new(), Vec::new()).free_permits(Mode::Shared, 1).is_empty());
}
