//! Which queued task goes to which idle slot. Pure: candidates and offers in, pairs out.

use std::{collections::BTreeMap, fmt};

use super::{selector::Selector, time::Timestamp, turns::Turns};

/// What a runner must have to take a task. Tasks that ask for the same are one class in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Class {
    /// What it must be able to run.
    pub capability: String,
    /// The one runner that may take it, if there is only one.
    pub pin: Option<String>,
    /// What earlier attempts of the task say of runners.
    pub turns: Turns,
    /// The labels it must have.
    pub selector: Selector,
}

impl Class {
    /// Reads the canonical text back; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ';');
        let (capability, pin, selector) = (parts.next()?, parts.next()?, parts.next()?);
        let (pin, turns) = pin.split_at(pin.find(['~', '!']).unwrap_or(pin.len()));
        Some(Self {
            capability: capability.to_owned(),
            pin: (!pin.is_empty()).then(|| pin.to_owned()),
            turns: Turns::parse(turns),
            selector: Selector::parse(selector)?,
        })
    }

    /// Whether this runner may take tasks of the class.
    pub fn suits(&self, runner: &str, labels: &BTreeMap<String, String>, capabilities: &[String]) -> bool {
        self.mismatch(runner, labels, capabilities).is_none()
    }

    /// What keeps this runner from taking tasks of the class, in words; `None` when nothing does.
    pub fn mismatch(&self, runner: &str, labels: &BTreeMap<String, String>, capabilities: &[String]) -> Option<String> {
        if self.pin.as_deref().is_some_and(|pin| pin != runner) {
            return self.pin.as_ref().map(|pin| format!("only runner {pin} may take it"));
        }
        if let Some(why) = self.turns.mismatch(runner) {
            return Some(why);
        }
        if !capabilities.contains(&self.capability) {
            return Some(format!("it cannot run {:?} targets", self.capability));
        }
        let missing: Vec<String> = self
            .selector
            .labels()
            .iter()
            .filter(|(key, value)| labels.get(*key) != Some(value))
            .map(|(key, value)| match labels.get(key) {
                Some(other) => format!("{key}={value} (it has {key}={other})"),
                None => format!("{key}={value}"),
            })
            .collect();
        (!missing.is_empty()).then(|| format!("it lacks {}", missing.join(", ")))
    }
}

/// The canonical text `capability;pin;labels`, with what is said of other runners right after the pin: neither a
/// capability nor a runner's id holds a `;`.
impl fmt::Display for Class {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{};{}{};{}", self.capability, self.pin.as_deref().unwrap_or_default(), self.turns, self.selector)
    }
}

/// A runner with idle slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its id.
    pub runner: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it can run.
    pub capabilities: Vec<String>,
    /// How many of its slots are idle.
    pub idle: usize,
}

/// A queued task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What a runner must have: an index into the classes.
    pub class: usize,
    /// Higher goes first.
    pub priority: i32,
    /// Longer waiting goes first among equals.
    pub queued_at: Timestamp,
}

/// Pairs candidates with offers: the most urgent first, each to the suitable runner with the most idle slots, so that
/// work spreads. Returns pairs of indices, a candidate at most once and an offer at most as often as it has idle slots.
pub fn assign(classes: &[Class], candidates: &[Candidate], offers: &[Offer]) -> Vec<(usize, usize)> {
    let suitable: Vec<Vec<usize>> = classes
        .iter()
        .map(|class| {
            (0..offers.len())
                .filter(|&offer| {
                    let Offer { runner, labels, capabilities, .. } = &offers[offer];
                    class.suits(runner, labels, capabilities)
                })
                .collect()
        })
        .collect();
    let mut idle: Vec<usize> = offers.iter().map(|offer| offer.idle).collect();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&at| (-i64::from(candidates[at].priority), candidates[at].queued_at, at));
    let mut pairs = Vec::new();
    for at in order {
        let best =
            suitable[candidates[at].class].iter().copied().max_by_key(|&offer| (idle[offer], usize::MAX - offer));
        if let Some(offer) = best.filter(|&offer| idle[offer] > 0) {
            idle[offer] -= 1;
            pairs.push((at, offer));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn class(pin: Option<&str>, pairs: &[(&str, &str)]) -> Class {
        Class {
            capability: "command".into(),
            pin: pin.map(Into::into),
            turns: Turns::default(),
            selector: Selector::new(labels(pairs)),
        }
    }

    fn offer(runner: &str, pairs: &[(&str, &str)], idle: usize) -> Offer {
        Offer { runner: runner.into(), labels: labels(pairs), capabilities: vec!["command".into()], idle }
    }

    fn candidate(class: usize, priority: i32, queued_at: i64) -> Candidate {
        Candidate { class, priority, queued_at: Timestamp(queued_at) }
    }

    #[test]
    fn the_more_urgent_goes_first_then_the_longer_waiting() {
        let candidates = [candidate(0, 0, 5), candidate(0, 9, 9), candidate(0, 0, 1)];
        let pairs = assign(&[class(None, &[])], &candidates, &[offer("a", &[], 2)]);
        assert_eq!(pairs, [(1, 0), (2, 0)]);
    }

    #[test]
    fn a_label_is_met_exactly_or_not_at_all() {
        let classes = [class(None, &[("pool", "etl")])];
        let offers = [offer("a", &[("pool", "etl2")], 1), offer("b", &[("pool", "etl"), ("zone", "x")], 1)];
        assert_eq!(assign(&classes, &[candidate(0, 0, 0)], &offers), [(0, 1)]);
        assert_eq!(
            classes[0].mismatch("a", &offers[0].labels, &offers[0].capabilities).unwrap(),
            "it lacks pool=etl (it has pool=etl2)"
        );
    }

    #[test]
    fn work_spreads_over_the_idle() {
        let offers = [offer("a", &[], 1), offer("b", &[], 3)];
        let candidates = [candidate(0, 0, 0), candidate(0, 0, 1), candidate(0, 0, 2), candidate(0, 0, 3)];
        let pairs = assign(&[class(None, &[])], &candidates, &offers);
        assert_eq!(pairs.iter().filter(|(_, offer)| *offer == 1).count(), 3);
        assert_eq!(pairs.len(), 4);
    }

    proptest! {
        #[test]
        fn no_slot_is_given_twice_and_no_runner_gets_what_it_may_not_take(
            wants in proptest::collection::vec((0..4_usize, -2..3_i32, 0..9_i64), 0..40),
            has in proptest::collection::vec((0..3_usize, 0..4_usize), 0..8),
        ) {
            let classes = [class(None, &[]), class(None, &[("k", "0")]), class(None, &[("k", "1")]), class(Some("r1"), &[])];
            let values = ["0", "1", "2"];
            let offers: Vec<Offer> = has.iter().enumerate()
                .map(|(at, (label, idle))| offer(&format!("r{at}"), &[("k", values[*label])], *idle)).collect();
            let candidates: Vec<Candidate> = wants.iter().map(|(class, priority, at)| candidate(*class, *priority, *at)).collect();
            let pairs = assign(&classes, &candidates, &offers);
            for (index, Offer { runner, labels, capabilities, idle }) in offers.iter().enumerate() {
                let given: Vec<_> = pairs.iter().filter(|(_, offer)| *offer == index).collect();
                prop_assert!(given.len() <= *idle);
                for (at, _) in given {
                    prop_assert!(classes[candidates[*at].class].suits(runner, labels, capabilities));
                }
            }
            let mut seen = std::collections::BTreeSet::new();
            prop_assert!(pairs.iter().all(|(at, _)| seen.insert(*at)));
        }

        #[test]
        fn a_class_reads_back_as_it_was_written(capability in "[a-z]{1,8}", pin in proptest::option::of("[a-z0-9.-]{1,8}"),
            given_up in proptest::option::of("[a-z0-9.-]{1,8}"),
            pairs in proptest::collection::btree_map(".{0,6}", ".{0,6}", 0..3)) {
            let given_up = [given_up].into_iter().flatten().collect();
            let turns = Turns { stay: pin.clone().filter(|_| pairs.is_empty()), given_up };
            let class = Class { capability, pin, turns, selector: Selector::new(pairs) };
            prop_assert_eq!(Class::parse(&class.to_string()), Some(class));
        }
    }
}
