//! Pairs queued tasks with idle slots.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    class::{Class, Traits},
    limit::Holders,
    rank::rank,
    routing::{Draw, Routing, Seat},
    usage::Usage,
};
use crate::domain::time::Timestamp;

/// A runner with idle slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What it has.
    pub traits: Arc<Traits>,
    /// How many slots it has.
    pub slots: usize,
    /// How many of them are idle.
    pub idle: usize,
}

/// A queued task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidate {
    /// What a runner must have: an index into the classes.
    pub class: usize,
    /// Higher goes first.
    pub priority: i32,
    /// Longer waiting goes first among equals, and makes up for priority in time.
    pub queued_at: Timestamp,
    /// What it is routed by, if its class is routed by a key.
    pub key: String,
    /// Any number, each as likely as any other.
    pub chance: u64,
}

/// Pairs candidates with offers, by [`rank`]: each goes to the suitable runner with an idle slot that the strategy of its
/// class chooses, as long as those who hold its key admit it. Where a key is full for one task, no other overtakes it: it
/// would never become empty enough for one that asked to be alone. Returns pairs of indices in that order, a candidate at
/// most once and an offer at most as often as it has idle slots. `usage` gets to know of them.
pub fn assign(
    classes: &[Class],
    candidates: &[Candidate],
    offers: &[Offer],
    holders: &mut BTreeMap<String, Holders>,
    usage: &mut Usage,
    now: Timestamp,
) -> Vec<(usize, usize)> {
    let suitable: Vec<Vec<usize>> = classes
        .iter()
        .map(|class| (0..offers.len()).filter(|&offer| class.suits(&offers[offer].traits)).collect())
        .collect();
    let names: Vec<String> = classes
        .iter()
        .map(|class| if class.routing == Routing::RoundRobin { class.to_string() } else { String::new() })
        .collect();
    let mut idle: Vec<usize> = offers.iter().map(|offer| offer.idle).collect();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&at| (rank(candidates[at].priority, candidates[at].queued_at), at));
    let mut full: BTreeSet<&str> = BTreeSet::new();
    let mut pairs = Vec::new();
    for at in order {
        let candidate = &candidates[at];
        let class = &classes[candidate.class];
        let looks_back = matches!(class.routing, Routing::LeastRecentlyUsed | Routing::LeastFrequentlyUsed);
        let seats = suitable[candidate.class].iter().filter(|&&offer| idle[offer] > 0).map(|&offer| {
            let Offer { traits, slots, .. } = &offers[offer];
            let used = if looks_back { usage.of(&traits.id, now) } else { super::Used::default() };
            (offer, Seat { runner: &traits.id, slots: *slots, idle: idle[offer], used })
        });
        let name = &names[candidate.class];
        let draw = Draw { previous: usage.previous(name), key: &candidate.key, chance: candidate.chance };
        let Some(offer) = class.routing.choose(seats, &draw) else { continue };
        if let Some(limit) = &class.limit {
            let held = holders.entry(limit.key.clone()).or_default();
            if full.contains(limit.key.as_str()) || !held.admits(limit.at_once) {
                full.insert(&limit.key);
                continue;
            }
            held.take(limit.at_once);
        }
        idle[offer] -= 1;
        let runner = &offers[offer].traits.id;
        usage.record(runner, now);
        if class.routing == Routing::RoundRobin {
            usage.went(name, runner);
        }
        pairs.push((at, offer));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::limit::Limit, *};
    use crate::domain::selector::Selector;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn class(pin: Option<&str>, pairs: &[(&str, &str)]) -> Class {
        Class { pin: pin.map(Into::into), selector: Selector::new(labels(pairs)), ..Class::of("command") }
    }

    fn limited(key: &str, at_once: u32) -> Class {
        Class { limit: Some(Limit { key: key.into(), at_once }), ..Class::of("command") }
    }

    fn offer(runner: &str, pairs: &[(&str, &str)], idle: usize) -> Offer {
        let capabilities = vec!["command".into()];
        let traits = Traits { id: runner.into(), labels: labels(pairs), capabilities, version: "0.1.0".into() };
        Offer { traits: Arc::new(traits), slots: idle + 1, idle }
    }

    fn candidate(class: usize, priority: i32, queued_at: i64) -> Candidate {
        Candidate { class, priority, queued_at: Timestamp(queued_at), ..Candidate::default() }
    }

    fn pairs_of(classes: &[Class], candidates: &[Candidate], offers: &[Offer]) -> Vec<(usize, usize)> {
        assign(classes, candidates, offers, &mut BTreeMap::new(), &mut Usage::default(), Timestamp(0))
    }

    #[test]
    fn the_more_urgent_goes_first_then_the_longer_waiting() {
        let candidates = [candidate(0, 0, 5), candidate(0, 9, 9), candidate(0, 0, 1)];
        assert_eq!(pairs_of(&[class(None, &[])], &candidates, &[offer("a", &[], 2)]), [(1, 0), (2, 0)]);
    }

    #[test]
    fn nothing_waits_for_ever_behind_what_is_more_urgent_and_keeps_coming() {
        // One slot, and at each second a new task of the highest priority is there.
        let classes = [class(None, &[])];
        let mut waiting = vec![candidate(0, 90, 0)];
        let served = (0..i64::MAX).find(|second| {
            waiting.push(candidate(0, 100, second * 1_000_000));
            let (first, _) = pairs_of(&classes, &waiting, &[offer("a", &[], 1)])[0];
            waiting.remove(first);
            first == 0 && *second > 0 && waiting.iter().all(|task| task.priority == 100)
        });
        assert_eq!(served, Some(600), "ten points of priority are ten minutes");
    }

    #[test]
    fn a_label_is_met_exactly_or_not_at_all() {
        let classes = [class(None, &[("pool", "etl")])];
        let offers = [offer("a", &[("pool", "etl2")], 1), offer("b", &[("pool", "etl"), ("zone", "x")], 1)];
        assert_eq!(pairs_of(&classes, &[candidate(0, 0, 0)], &offers), [(0, 1)]);
    }

    #[test]
    fn work_spreads_over_the_idle() {
        let offers = [offer("a", &[], 1), offer("b", &[], 3)];
        let candidates = [0, 1, 2, 3].map(|at| candidate(0, 0, at));
        let pairs = pairs_of(&[class(None, &[])], &candidates, &offers);
        assert_eq!(pairs.iter().filter(|(_, offer)| *offer == 1).count(), 3);
        assert_eq!(pairs.len(), 4);
    }

    #[test]
    fn a_key_is_held_by_so_many_and_others_go_on() {
        let classes = [limited("db", 2), class(None, &[])];
        let candidates = [candidate(0, 0, 0), candidate(0, 0, 1), candidate(0, 0, 2), candidate(1, 0, 3)];
        assert_eq!(pairs_of(&classes, &candidates, &[offer("a", &[], 9)]), [(0, 0), (1, 0), (3, 0)]);
        let mut held = BTreeMap::from([("db".to_owned(), Holders { count: 1, lowest: Some(2) })]);
        let mut usage = Usage::default();
        let pairs = assign(&classes, &candidates, &[offer("a", &[], 9)], &mut held, &mut usage, Timestamp(0));
        assert_eq!(pairs, [(0, 0), (3, 0)]);
    }

    #[test]
    fn who_asked_to_be_alone_is_not_overtaken_by_who_did_not() {
        let classes = [limited("db", 1), limited("db", 5)];
        let candidates = [candidate(0, 0, 0), candidate(1, 0, 1)];
        let mut held = BTreeMap::from([("db".to_owned(), Holders { count: 1, lowest: Some(5) })]);
        let offers = [offer("a", &[], 9)];
        let mut usage = Usage::default();
        let pairs = assign(&classes, &candidates, &offers, &mut held, &mut usage, Timestamp(0));
        assert_eq!(pairs, [], "the key empties for the first");
        assert_eq!(pairs_of(&classes, &candidates, &offers), [(0, 0)], "and then is its own");
    }

    #[test]
    fn nobody_waits_behind_a_task_that_no_runner_here_may_take() {
        let elsewhere = Class { selector: Selector::new(labels(&[("zone", "b")])), ..limited("db", 1) };
        let classes = [elsewhere, limited("db", 1)];
        let candidates = [candidate(0, 0, 0), candidate(1, 0, 1)];
        assert_eq!(pairs_of(&classes, &candidates, &[offer("a", &[], 9)]), [(1, 0)]);
    }

    #[test]
    fn strategies_look_at_what_this_very_pick_gave_out() {
        let going_round = Class { routing: Routing::RoundRobin, ..class(None, &[]) };
        let offers = [offer("b", &[], 3), offer("a", &[], 3), offer("c", &[], 3)];
        let candidates = [0, 1, 2, 3].map(|at| candidate(0, 0, at));
        let chosen: Vec<usize> =
            pairs_of(&[going_round], &candidates, &offers).into_iter().map(|(_, offer)| offer).collect();
        assert_eq!(chosen, [1, 0, 2, 1]);
        let least = Class { routing: Routing::LeastRecentlyUsed, ..class(None, &[]) };
        let chosen: Vec<usize> = pairs_of(&[least], &candidates, &offers).into_iter().map(|(_, offer)| offer).collect();
        assert_eq!(chosen, [1, 0, 2, 1]);
    }

    proptest! {
        #[test]
        fn no_slot_is_given_twice_and_no_runner_gets_what_it_may_not_take(
            wants in proptest::collection::vec((0..6_usize, -2..3_i32, 0..9_i64, any::<u64>()), 0..40),
            has in proptest::collection::vec((0..3_usize, 0..4_usize), 0..8),
            strategy in 0..9_usize,
        ) {
            let routing = Routing::ALL[strategy];
            let classes = [class(None, &[]), class(None, &[("k", "0")]), class(None, &[("k", "1")]), class(Some("r1"), &[]),
                limited("db", 2), limited("db", 3)].map(|class| Class { routing, ..class });
            let values = ["0", "1", "2"];
            let offers: Vec<Offer> = has.iter().enumerate()
                .map(|(at, (label, idle))| offer(&format!("r{at}"), &[("k", values[*label])], *idle)).collect();
            let candidates: Vec<Candidate> = wants.iter()
                .map(|(class, priority, at, chance)| Candidate { chance: *chance, ..candidate(*class, *priority, *at) })
                .collect();
            let pairs = pairs_of(&classes, &candidates, &offers);
            for (index, Offer { traits, idle, .. }) in offers.iter().enumerate() {
                let given: Vec<_> = pairs.iter().filter(|(_, offer)| *offer == index).collect();
                prop_assert!(given.len() <= *idle);
                for (at, _) in given {
                    prop_assert!(classes[candidates[*at].class].suits(traits));
                }
            }
            let holding: Vec<u32> = pairs.iter()
                .filter_map(|(at, _)| classes[candidates[*at].class].limit.as_ref()).map(|limit| limit.at_once).collect();
            prop_assert!(holding.iter().all(|limit| holding.len() <= *limit as usize));
            let mut seen = BTreeSet::new();
            prop_assert!(pairs.iter().all(|(at, _)| seen.insert(*at)));
        }
    }
}
