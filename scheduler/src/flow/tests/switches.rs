//! Calendars of exclusion, and schedules that are switched off and on.

use std::time::Duration;

use super::{
    Scene,
    schedules::{config, engine_on, until},
};
use crate::{
    domain::{
        definition::{self, JobConfig, Overlap},
        schedule::{After, RuleSpec, Spec},
        time::{Timestamp, micros},
    },
    flow::request::{Caller, Change, DeleteCalendar, Error, Position, PutCalendars, Switch},
};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn allowing(spec: Spec) -> JobConfig {
    JobConfig { overlap: Some(Overlap::Allow), ..config("job", spec) }
}

/// At noon of every day, but not on holidays.
fn noons() -> Spec {
    Spec { calendars: vec!["holidays".into()], ..Spec::cron("0 12 * * *", "") }
}

/// A date so many days from now.
fn date(now: Timestamp, days: i64) -> String {
    let now = chrono::DateTime::from_timestamp_micros(now.0).unwrap();
    (now.date_naive() + chrono::TimeDelta::days(days)).to_string()
}

impl Scene {
    async fn holidays(&self, dates: &[String]) -> Change {
        let (calendar, wrong) = definition::calendar("default".into(), "holidays".into(), String::new(), dates);
        assert!(wrong.is_empty(), "{wrong:?}");
        let order = PutCalendars { caller: Caller::default(), calendars: vec![calendar] };
        self.engine.put_calendars(order).await.unwrap().remove(0).change
    }

    async fn switch(&self, schedule: Option<&str>, to: Position) -> Result<u32, Error> {
        let order = Switch {
            caller: Caller::default(),
            namespace: "default".into(),
            name: "job".into(),
            schedule: schedule.map(str::to_owned),
            to,
        };
        self.engine.switch(order).await
    }

    async fn off(&self, until: Option<Timestamp>) {
        self.switch(None, Position::Off { until, reason: "holiday".into() }).await.unwrap();
    }

    async fn noon(&self, days: i64) -> Timestamp {
        let noon = format!("{}T12:00:00Z", date(self.virtual_now().await, days));
        Timestamp(chrono::DateTime::parse_from_rfc3339(&noon).unwrap().timestamp_micros())
    }

    /// Brings the clock to the morning of the next day, so that noon lies ahead.
    async fn morning(&self) {
        let noon = self.noon(1).await;
        self.set_clock(noon.0 - micros(HOUR * 4) - self.virtual_now().await.0).await;
    }

    async fn next_fire(&self) -> Option<Timestamp> {
        self.row().await.next_fire_at
    }

    async fn until_next(&self, what: &str, wanted: Option<Timestamp>) {
        until(what, async || self.next_fire().await == wanted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_calendar_that_changes_moves_its_schedules_and_fires_nothing_early_or_twice() {
    for scene in Scene::on_each_database().await {
        scene.morning().await;
        let today = scene.virtual_now().await;
        assert_eq!(scene.holidays(&[date(today, 1)]).await, Change::Created);
        scene.store(vec![allowing(noons())]).await.unwrap();
        assert_eq!(scene.next_fire().await, Some(scene.noon(0).await));
        scene.fire().await;
        // Tomorrow is a holiday; the day after becomes one too.
        assert_eq!(scene.next_fire().await, Some(scene.noon(2).await));
        assert_eq!(scene.holidays(&[format!("{}..{}", date(today, 1), date(today, 2))]).await, Change::Updated);
        scene.until_next("it waits for the third day", Some(scene.noon(3).await)).await;
        // No holiday at all any more: tomorrow, but not today again.
        assert_eq!(scene.holidays(&[]).await, Change::Updated);
        scene.until_next("it waits for tomorrow", Some(scene.noon(1).await)).await;
        assert_eq!(scene.holidays(&[]).await, Change::Unchanged);
        scene.fire().await;
        let fires = scene.fire_times().await;
        assert_eq!((fires.len(), scene.missed().await), (2, vec![]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_calendar_just_before_a_fire_does_not_lose_it() {
    for mut scene in Scene::on_each_database().await {
        scene.morning().await;
        scene.holidays(&[]).await;
        scene.store(vec![allowing(noons())]).await.unwrap();
        let (noon, today) = (scene.noon(0).await, scene.virtual_now().await);
        scene.holidays(&[date(today, 3)]).await;
        scene.engine.stop().await;
        // As if no scheduler had come to plan it anew before it was due.
        scene.sql("UPDATE calendar_use SET revision = 0").await;
        scene.sql("UPDATE calendar SET pending = (1 = 1)").await;
        scene.set_clock(noon.0 + 1_000_000 - scene.virtual_now().await.0).await;
        scene.engine = engine_on(scene.world.store.clone());
        until("noon has fired", async || scene.fire_times().await == [noon]).await;
        scene.until_next("it waits for tomorrow", Some(scene.noon(1).await)).await;
        assert_eq!(scene.missed().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_calendar_must_be_there_and_goes_only_when_nothing_names_it() {
    for scene in Scene::on_each_database().await {
        let refused = scene.store(vec![allowing(noons())]).await.unwrap_err();
        let Error::Invalid(fields) = &refused else { panic!("{refused:?}") };
        assert!(fields[0].0 == "schedules[0].calendars" && fields[0].1.contains("does not exist"), "{fields:?}");
        scene.holidays(&[]).await;
        scene.store(vec![allowing(noons())]).await.unwrap();
        let delete =
            || DeleteCalendar { caller: Caller::default(), namespace: "default".into(), name: "holidays".into() };
        let refused = scene.engine.delete_calendar(delete()).await.unwrap_err();
        let Error::Conflict { reason, message } = &refused else { panic!("{refused:?}") };
        assert!(*reason == "CALENDAR_IN_USE" && message.contains("job/hourly"), "{message}");
        scene.store(vec![allowing(Spec::cron("0 12 * * *", ""))]).await.unwrap();
        scene.engine.delete_calendar(delete()).await.unwrap();
        assert!(matches!(scene.engine.delete_calendar(delete()).await, Err(Error::NotFound { .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_calendar_that_leaves_no_fire_says_so_and_one_that_gives_them_back_goes_on() {
    for scene in Scene::on_each_database().await {
        scene.holidays(&[]).await;
        scene.store(vec![allowing(noons())]).await.unwrap();
        scene.holidays(&["1970-01-01..2101-01-01".to_owned()]).await;
        until("it is over", async || scene.schedules().await[0].1 == "OVER").await;
        assert!(scene.schedules().await[0].2.contains("calendars"), "{:?}", scene.schedules().await);
        scene.holidays(&[]).await;
        until("it waits again", async || scene.schedules().await[0].1 == "DUE").await;
        assert_eq!(scene.fire_times().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn time_spent_switched_off_is_told_and_not_made_up_for() {
    for scene in Scene::on_each_database().await {
        let hourly = Spec::cron("0 * * * *", "");
        scene.store(vec![allowing(hourly)]).await.unwrap();
        scene.fire().await;
        scene.off(None).await;
        assert_eq!(scene.schedules().await, [("job".into(), "PAUSED".into(), "holiday".into())]);
        scene.set_clock(micros(HOUR * 3)).await;
        scene.engine.wake().await;
        assert_eq!(scene.fire_times().await.len(), 1);
        assert_eq!(scene.switch(None, Position::On).await.unwrap(), 1);
        let row = scene.row().await;
        assert!(row.next_fire_at.unwrap() > scene.virtual_now().await);
        assert_eq!(scene.missed().await, [("job".to_owned(), 3, "not run: the schedule was switched off".to_owned())]);
        // Once more changes nothing.
        assert_eq!(scene.switch(None, Position::On).await.unwrap(), 0);
        scene.fire().await;
        assert_eq!(scene.fire_times().await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_off_until_some_time_goes_on_by_itself() {
    for scene in Scene::on_each_database().await {
        scene.store(vec![allowing(Spec::cron("30 * * * *", ""))]).await.unwrap();
        let until_then = scene.virtual_now().await + DAY;
        scene.off(Some(until_then)).await;
        scene.set_clock(micros(HOUR * 23)).await;
        scene.engine.wake().await;
        assert_eq!(scene.schedules().await[0].1, "PAUSED");
        scene.set_clock(micros(HOUR)).await;
        until("it goes on", async || scene.schedules().await[0].1 == "DUE").await;
        assert_eq!(scene.fire_times().await, []);
        scene.fire().await;
        assert!(scene.fire_times().await[0] > until_then);
        let past = Position::Off { until: Some(until_then), reason: String::new() };
        assert!(matches!(scene.switch(None, past).await, Err(Error::Invalid(fields)) if fields[0].0 == "until"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_off_stays_off_through_an_edit_and_a_restart_and_so_does_a_new_schedule_of_it() {
    for mut scene in Scene::on_each_database().await {
        let mut job = allowing(Spec::cron("0 * * * *", ""));
        scene.store(vec![job.clone()]).await.unwrap();
        scene.off(None).await;
        job.schedules[0].spec = Spec::cron("30 * * * *", "");
        job.schedules.push(definition::Schedule { name: "second".into(), spec: Spec::every(HOUR) });
        scene.store(vec![job]).await.unwrap();
        scene.engine.stop().await;
        scene.engine = engine_on(scene.world.store.clone());
        scene.set_clock(micros(HOUR * 5)).await;
        let states: Vec<String> = scene.schedules().await.into_iter().map(|one| one.1).collect();
        assert_eq!((states, scene.fire_times().await.len()), (vec!["PAUSED".to_owned(); 2], 0));
        // One of them goes on, the other stays off.
        assert_eq!(scene.switch(Some("second"), Position::On).await.unwrap(), 1);
        let states: Vec<String> = scene.schedules().await.into_iter().map(|one| one.1).collect();
        assert_eq!(states, ["PAUSED", "DUE"]);
        let unknown = scene.switch(Some("third"), Position::On).await.unwrap_err();
        assert!(matches!(&unknown, Error::Invalid(fields) if fields[0].1.contains("hourly, second")), "{unknown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_delay_that_is_switched_on_again_waits_its_whole_delay() {
    for scene in Scene::on_each_database().await {
        let spec: Spec = RuleSpec::Every { period: HOUR, after: After::Completion }.into();
        scene.store(vec![allowing(spec)]).await.unwrap();
        let first = scene.row().await.due_at.unwrap();
        scene.set_clock(first.0 - scene.virtual_now().await.0).await;
        until("it waits for its job", async || scene.schedules().await[0].1 == "END").await;
        scene.off(None).await;
        let ended = format!("UPDATE job SET state = 'FINISHED', ended_at = {}", first.0);
        scene.sql(&ended).await;
        scene.set_clock(micros(DAY)).await;
        scene.switch(None, Position::On).await.unwrap();
        until("it waits again", async || {
            scene.engine.wake().await;
            scene.schedules().await[0].1 == "DUE"
        })
        .await;
        let row = scene.row().await;
        assert!(row.next_fire_at.unwrap() > scene.virtual_now().await, "{row:?}");
        assert_eq!(scene.fire_times().await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_fires_without_end_is_parked_and_the_others_go_on() {
    for scene in Scene::on_each_database().await {
        scene.store(vec![allowing(Spec::every(HOUR))]).await.unwrap();
        let now = scene.virtual_now().await.0;
        // As a fault of ours would leave it.
        scene.sql(&format!("UPDATE schedule SET burst_at = {now}, burst = 120")).await;
        scene.set_clock(micros(HOUR) - 2_000_000).await;
        scene.sql(&format!("UPDATE schedule SET burst_at = {}", now + micros(HOUR) - 3_000_000)).await;
        scene.set_clock(3_000_000).await;
        until("it is parked", async || scene.schedules().await[0].1 == "PARKED").await;
        assert!(scene.schedules().await[0].2.contains("120 jobs within a minute"));
        assert_eq!(scene.fire_times().await, []);
        scene.store(vec![allowing(Spec::every(HOUR))]).await.unwrap();
        assert_eq!(scene.schedules().await[0].1, "DUE");
    }
}
