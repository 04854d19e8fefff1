//! Which of the runners that may take a task and have an idle slot gets it.

use serde::{Deserialize, Serialize};

use super::usage::Used;

/// How a runner is chosen. Each strategy is defined over the runners that may take the task and have an idle slot at the
/// scheduler that picks; what it cannot decide, the lowest id does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Routing {
    #[default]
    Any,
    First,
    Last,
    RoundRobin,
    Random,
    ConsistentHash,
    LeastRecentlyUsed,
    LeastFrequentlyUsed,
    LeastLoaded,
}

/// A runner that could be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seat<'a> {
    /// Its id.
    pub runner: &'a str,
    /// How many slots it has.
    pub slots: usize,
    /// How many of them are idle; at least one.
    pub idle: usize,
    /// How much it was given.
    pub used: Used,
}

/// What a strategy may go by beside the runners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Draw<'a> {
    /// Whom the last task of the same class went to.
    pub previous: Option<&'a str>,
    /// The task's routing key.
    pub key: &'a str,
    /// Any number, each as likely as any other.
    pub chance: u64,
}

impl Routing {
    /// Every strategy, in the order of the protocol.
    pub const ALL: [Self; 9] = [
        Self::Any,
        Self::First,
        Self::Last,
        Self::RoundRobin,
        Self::Random,
        Self::ConsistentHash,
        Self::LeastRecentlyUsed,
        Self::LeastFrequentlyUsed,
        Self::LeastLoaded,
    ];

    /// The strategy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// Its name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::First => "first",
            Self::Last => "last",
            Self::RoundRobin => "round_robin",
            Self::Random => "random",
            Self::ConsistentHash => "consistent_hash",
            Self::LeastRecentlyUsed => "least_recently_used",
            Self::LeastFrequentlyUsed => "least_frequently_used",
            Self::LeastLoaded => "least_loaded",
        }
    }

    /// Whom it chooses, in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Any => "the one with the most idle slots, so that work spreads; among equals they take turns",
            Self::First => "the one with the lowest id",
            Self::Last => "the one with the highest id",
            Self::RoundRobin => "the next id after the one that got the last task of the same demand, then the lowest",
            Self::Random => "each as likely as any other",
            Self::ConsistentHash => "the same one for the same `routing_key`, the next of that key while it is busy",
            Self::LeastRecentlyUsed => "the one whose last task was given to it the longest ago",
            Self::LeastFrequentlyUsed => {
                "the one that was given the fewest tasks, each counting half every ten minutes"
            }
            Self::LeastLoaded => "the one with the smallest share of busy slots, then the one with the most idle slots",
        }
    }

    /// Chooses one of the seats, each with whatever tells it from the others; `None` when there are none.
    pub fn choose<'a, T>(self, seats: impl Iterator<Item = (T, Seat<'a>)> + Clone, draw: &Draw<'_>) -> Option<T> {
        let chosen = match self {
            // Of several that have the most idle slots the first: their order is that of whose turn it is to be offered.
            Self::Any => seats.reduce(|best, next| if next.1.idle > best.1.idle { next } else { best }),
            Self::First => seats.min_by(|(_, a), (_, b)| a.runner.cmp(b.runner)),
            Self::Last => seats.max_by(|(_, a), (_, b)| a.runner.cmp(b.runner)),
            Self::RoundRobin => {
                let goes_before = |seat: &Seat<'_>| draw.previous.is_some_and(|previous| seat.runner <= previous);
                seats.min_by_key(|(_, seat)| (goes_before(seat), seat.runner))
            }
            Self::Random => {
                // The lowest of numbers that are drawn for each from its id, so that the order of the seats is no matter.
                let key = draw.chance.to_le_bytes();
                seats.min_by_key(|(_, seat)| (weight(&key, seat.runner), seat.runner))
            }
            Self::ConsistentHash => {
                seats.min_by_key(|(_, seat)| (weight(draw.key.as_bytes(), seat.runner), seat.runner))
            }
            Self::LeastRecentlyUsed => seats.min_by_key(|(_, seat)| (seat.used.last, seat.runner)),
            Self::LeastFrequentlyUsed => seats
                .min_by(|(_, a), (_, b)| a.used.often.total_cmp(&b.used.often).then_with(|| a.runner.cmp(b.runner))),
            Self::LeastLoaded => seats.min_by(|(_, a), (_, b)| {
                let busy = |seat: &Seat<'_>| seat.slots.saturating_sub(seat.idle);
                // Shares are compared without dividing.
                let shares = (busy(a) * b.slots.max(1)).cmp(&(busy(b) * a.slots.max(1)));
                shares.then_with(|| b.idle.cmp(&a.idle)).then_with(|| a.runner.cmp(b.runner))
            }),
        };
        chosen.map(|(place, _)| place)
    }
}

/// A number for a key and a runner, the same on every scheduler and in every version: the runner with the lowest one is
/// the key's. A runner that comes or goes moves only its own keys (rendezvous hashing).
fn weight(key: &[u8], runner: &str) -> u64 {
    // FNV-1a, then the finish of SplitMix64, which makes the high bits depend on all others.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in key.iter().chain(&[0]).chain(runner.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn seat(runner: &str, slots: usize, idle: usize) -> Seat<'_> {
        Seat { runner, slots, idle, used: Used::default() }
    }

    fn choose<'a>(strategy: Routing, seats: &[Seat<'a>], draw: &Draw<'_>) -> Option<&'a str> {
        strategy.choose(seats.iter().map(|seat| (seat.runner, *seat)), draw)
    }

    #[test]
    fn a_round_visits_everybody_in_the_order_of_ids() {
        let seats = [seat("c", 1, 1), seat("a", 1, 1), seat("b", 1, 1)];
        let mut previous = None;
        let mut round = Vec::new();
        for _ in 0..5 {
            previous = choose(Routing::RoundRobin, &seats, &Draw { previous, ..Draw::default() });
            round.extend(previous);
        }
        assert_eq!(round, ["a", "b", "c", "a", "b"]);
        // Whom it stood at may be gone.
        assert_eq!(choose(Routing::RoundRobin, &seats, &Draw { previous: Some("bb"), ..Draw::default() }), Some("c"));
    }

    #[test]
    fn chance_gives_each_its_share() {
        let seats = ["a", "b", "c", "d"].map(|runner| seat(runner, 1, 1));
        let mut shares: BTreeMap<&str, u32> = BTreeMap::new();
        for chance in 0..4_000 {
            let draw = Draw { chance, ..Draw::default() };
            *shares.entry(choose(Routing::Random, &seats, &draw).unwrap()).or_default() += 1;
        }
        assert!(shares.len() == 4 && shares.values().all(|share| (850..1_150).contains(share)), "{shares:?}");
    }

    #[test]
    fn a_key_moves_only_when_its_runner_does() {
        let keys: Vec<String> = (0..1_000).map(|number| format!("customer-{number}")).collect();
        let five = ["a", "b", "c", "d", "e"].map(|runner| seat(runner, 2, 1));
        let place = |seats: &[Seat<'static>], key: &str| {
            choose(Routing::ConsistentHash, seats, &Draw { key, ..Draw::default() }).unwrap()
        };
        let moved = |key: &&String| place(&five, key) != place(&five[..4], key);
        let of_e = keys.iter().filter(|key| place(&five, key) == "e").count();
        assert_eq!(keys.iter().filter(moved).count(), of_e, "only those of the one that left");
        assert!((150..250).contains(&of_e), "{of_e}");
    }

    #[test]
    fn a_key_has_the_same_runner_in_every_version() {
        let weights: Vec<u64> = ["a", "b"].iter().map(|runner| weight(b"customer-1", runner)).collect();
        assert_eq!(weights, [8_588_230_355_891_900_977, 12_171_602_049_142_067_362]);
    }

    proptest! {
        #[test]
        fn the_order_of_the_seats_is_no_matter(
            has in proptest::collection::btree_map("[a-d]{1,2}", (1..4_usize, 0..3_usize, 0..3_u64, 0..3_u32), 1..6),
            previous in proptest::option::of("[a-d]{1,2}"), key in "[a-z]{0,4}", chance: u64,
        ) {
            let seats: Vec<Seat<'_>> = has.iter().map(|(runner, (idle, busy, last, often))| Seat {
                runner, slots: idle + busy, idle: *idle, used: Used { last: *last, often: f64::from(*often) },
            }).collect();
            let mut other = seats.clone();
            other.reverse();
            let draw = Draw { previous: previous.as_deref(), key: &key, chance };
            for strategy in Routing::ALL {
                let chosen = choose(strategy, &seats, &draw);
                prop_assert!(chosen.is_some());
                if strategy != Routing::Any {
                    prop_assert_eq!(chosen, choose(strategy, &other, &draw), "{}", strategy.name());
                }
            }
        }
    }
}
