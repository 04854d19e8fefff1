//! What becomes of a fire while a job before it lives.

use std::time::Duration;

use super::{at, schedule};
use crate::domain::schedule::{
    Spec,
    overlap::{Live, Overlap, Reason, Verdict},
};

const LIVE: Live = Live { active: 1, unproven: 0, waiting: 0 };

#[test]
fn nothing_live_lets_every_policy_start() {
    let queue = Overlap::Queue { limit: 1, start_deadline: None };
    for policy in [Overlap::Allow, Overlap::Skip, queue, Overlap::Replace] {
        assert_eq!(policy.decide(Live::default(), false), Verdict::Start);
    }
}

#[test]
fn skip_sees_a_live_job_and_one_not_proven_gone() {
    assert_eq!(Overlap::Skip.decide(LIVE, false), Verdict::Skip(Reason::Live));
    let unproven = Live { active: 0, unproven: 1, waiting: 0 };
    assert_eq!(Overlap::Skip.decide(unproven, false), Verdict::Skip(Reason::Unproven));
}

#[test]
fn a_queue_is_bounded() {
    let queue = Overlap::Queue { limit: 2, start_deadline: None };
    assert_eq!(queue.decide(LIVE, false), Verdict::Wait);
    assert_eq!(queue.decide(Live { waiting: 1, ..LIVE }, false), Verdict::Wait);
    assert_eq!(queue.decide(Live { waiting: 2, ..LIVE }, false), Verdict::Skip(Reason::QueueFull));
    // Nobody overtakes those that wait, even when the one before them has just ended.
    assert_eq!(queue.decide(Live { active: 0, unproven: 0, waiting: 1 }, false), Verdict::Wait);
}

#[test]
fn allow_does_not_look_at_ten_thousand_live_jobs() {
    assert_eq!(Overlap::Allow.decide(Live { active: 10_000, ..LIVE }, false), Verdict::Start);
}

#[test]
fn replace_takes_the_place_of_the_live_one() {
    assert_eq!(Overlap::Replace.decide(Live { waiting: 1, ..LIVE }, false), Verdict::Replace);
}

#[test]
fn a_fire_made_up_for_takes_its_turn_later_instead_of_being_skipped() {
    for policy in [Overlap::Skip, Overlap::Queue { limit: 1, start_deadline: None }, Overlap::Replace] {
        assert_eq!(policy.decide(LIVE, true), Verdict::Later);
    }
    assert_eq!(Overlap::Allow.decide(LIVE, true), Verdict::Start);
}

#[test]
fn a_waiting_fire_is_dropped_once_its_deadline_or_its_window_has_passed() {
    let mut spec = Spec::cron("0-59/5 0-10 * * *", "");
    spec.end_time = Some("2025-01-02T00:00:00Z".parse().unwrap());
    let schedule = schedule(&spec);
    let fire = at("2025-01-01T10:55:00Z");
    let queue = Overlap::Queue { limit: 1, start_deadline: Some(Duration::from_mins(5)) };
    assert_eq!(queue.may_still_start(&schedule, fire, at("2025-01-01T11:00:00Z")), Ok(()));
    assert_eq!(queue.may_still_start(&schedule, fire, at("2025-01-01T11:23:00Z")), Err(Reason::DeadlineOver));
    let patient = Overlap::Queue { limit: 1, start_deadline: None };
    assert_eq!(patient.may_still_start(&schedule, fire, at("2025-01-01T11:23:00Z")), Ok(()));
    assert_eq!(patient.may_still_start(&schedule, fire, at("2025-01-02T00:00:00Z")), Err(Reason::WindowOver));
}
