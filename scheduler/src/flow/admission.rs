//! Jobs that wait for one of the places of their config begin.
//!
//! A job of a config with `max_active_jobs` is born without a place, whoever lets it be born, and gets one here alone, under
//! the lock of its config: in the turn of its birth if one is free and nobody waits before it, else when another ends.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::work::Work;
use crate::{
    domain::job::JobState,
    store::{self, Tx},
};

/// How many configs one turn looks into for jobs that wait.
const CONFIGS_MAX: u32 = 100;
/// How many jobs of one config begin in one turn.
const JOBS_MAX: u32 = 200;

/// What a turn has claimed: configs with free places, and the jobs that may get them.
#[derive(Debug, Default)]
pub(super) struct Claims {
    configs: BTreeMap<Uuid, Vec<Uuid>>,
}

impl Claims {
    /// The configs that are locked by them.
    pub(super) fn configs(&self) -> impl Iterator<Item = Uuid> {
        self.configs.keys().copied()
    }

    /// The jobs that this turn must lock.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Uuid> {
        self.configs.values().flatten().copied()
    }
}

/// Claims configs that have a place for a job which waits for one.
pub(super) async fn claim(tx: &Tx) -> Result<Claims, store::Error> {
    let claimed = store::place::claim(tx, CONFIGS_MAX).await?;
    let mut claims = Claims::default();
    for (config, places) in store::place::of_configs(tx, &claimed).await? {
        let jobs = store::place::held(tx, config, places.free().min(JOBS_MAX)).await?;
        claims.configs.insert(config, jobs);
    }
    Ok(claims)
}

/// Gives places to jobs of the configs that this turn has `locked`, the oldest first.
pub(super) async fn pass(
    tx: &Tx,
    work: &mut Work,
    claims: &Claims,
    locked: &BTreeSet<Uuid>,
) -> Result<(), store::Error> {
    let waiting = |work: &Work, config: Uuid, is_new: bool| -> Vec<Uuid> {
        let held = work.held_jobs(is_new).filter(|job| job.job_config_id == config && job.state == JobState::Created);
        held.map(|job| job.id).collect()
    };
    let configs: BTreeSet<Uuid> =
        work.held_jobs(true).chain(work.held_jobs(false)).map(|job| job.job_config_id).collect();
    let configs: Vec<Uuid> =
        configs.into_iter().filter(|config| locked.contains(config) || claims.configs.contains_key(config)).collect();
    for (config, places) in store::place::of_configs(tx, &configs).await? {
        let mut queue = waiting(work, config, false);
        // Whoever is older than the newborn has to be in hand for these to have their turn.
        if places.held as usize <= queue.len() {
            queue.extend(waiting(work, config, true));
        }
        for id in queue.into_iter().take(places.free() as usize) {
            let row = work.job_mut(id).expect("the job is in hand");
            (row.held, row.waiting) = (false, false);
            row.reason.clear();
        }
        if let Some(max) = places.max {
            for id in waiting(work, config, true) {
                let row = work.job_mut(id).expect("the job is in hand");
                row.reason = format!("waits for a place: max_active_jobs is {max}");
            }
        }
    }
    Ok(())
}
