//! Everything that a job config comes after has finished: its job is born.
//!
//! Which jobs finished was written down by the turns that ended them. Here, under the lock of the config, these rows
//! become a job and are taken away in one transaction, so that they make one job with any number of schedulers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tracing::{info, warn};
use uuid::Uuid;

use super::{alone, make_room};
use crate::{
    domain::{
        origin,
        schedule::overlap::{Live, Overlap, Verdict},
    },
    flow::{
        birth::{self, Cause, Kin},
        ending::cut,
        plan::{Plan, Plans, readable},
        work::Work,
    },
    store::{
        self, Tx,
        after_jobs::Source,
        schedule::{Config, MissedRow},
    },
};

/// How many configs one turn makes a job of.
const CONFIGS_MAX: u32 = 100;

/// What fires that made no job are listed under. No schedule has this name: it is none.
const KEY: &str = "after jobs";

/// A config of which all that it comes after have finished.
#[derive(Debug)]
pub(super) struct Round {
    config: Config,
    plan: Result<Arc<Plan>, String>,
}

impl Round {
    /// The config, if its job takes the place of those that live.
    pub(super) fn replacing(&self) -> Option<Uuid> {
        let replaces = self.plan.as_ref().is_ok_and(|plan| matches!(plan.config.overlap(), Overlap::Replace));
        replaces.then_some(self.config.id)
    }

    /// The config.
    pub(super) fn config(&self) -> Uuid {
        self.config.id
    }
}

/// Claims configs whose turn it is, but for those that this turn stores or deletes.
pub(super) async fn claim(tx: &Tx, plans: &mut Plans, except: &BTreeSet<Uuid>) -> Result<Vec<Round>, store::Error> {
    let mut ready = Vec::new();
    for config in store::after_jobs::claim_ready(tx, CONFIGS_MAX).await? {
        if except.contains(&config.id) {
            continue;
        }
        let plan = readable(plans.get(tx, config.id, config.version).await)?;
        ready.push(Round { config, plan });
    }
    Ok(ready)
}

/// Makes the jobs of configs that were claimed, or writes down why there is none. Either way the next round begins.
pub(super) async fn pass(
    tx: &Tx,
    work: &mut Work,
    ready: Vec<Round>,
    live: &mut BTreeMap<Uuid, Live>,
    missed: &mut Vec<MissedRow>,
) -> Result<(), store::Error> {
    let configs: Vec<Uuid> = ready.iter().map(Round::config).collect();
    store::after_jobs::forget_counted(tx, &configs).await?;
    let mut sources = store::after_jobs::sources(tx, &configs).await?;
    let mut over = Vec::with_capacity(ready.len());
    for Round { config, plan } in ready {
        let sources = sources.remove(&config.id).unwrap_or_default();
        // Read anew under the lock: another scheduler may have been first.
        let complete = |plan: &Arc<Plan>| {
            let names = &plan.config.after_jobs;
            !names.is_empty() && names.iter().all(|name| sources.iter().any(|source| source.name == *name))
        };
        if plan.as_ref().is_ok_and(|plan| !complete(plan)) {
            continue;
        }
        let live = live.entry(config.id).or_default();
        let made = match plan {
            Ok(plan) => make(tx, work, &config, plan, &sources, live).await?,
            Err(reason) => Err(reason),
        };
        match made {
            Ok(job) => {
                info!(job.id = %job, job.name = %config.name, "the jobs it comes after have finished");
                work.made_after(job, config.id, sources);
            }
            Err(reason) => {
                warn!(job.name = %config.name, reason, "the jobs it comes after have finished, and no job was made");
                let fires = alone(work.now);
                missed.push(MissedRow {
                    job_config_id: config.id,
                    key: KEY.to_owned(),
                    before: None,
                    first: fires.first,
                    last: fires.last,
                    count: 1,
                    reason: cut(&reason),
                });
            }
        }
        over.push(config.id);
    }
    store::after_jobs::clear(tx, &over).await
}

/// Makes the job of a config, if overlap lets it; `Err` is why there is none.
async fn make(
    tx: &Tx,
    work: &mut Work,
    config: &Config,
    plan: Arc<Plan>,
    sources: &[Source],
    live: &mut Live,
) -> Result<Result<Uuid, String>, store::Error> {
    let depth = sources.iter().map(|source| source.depth).max().unwrap_or_default();
    let depth = match origin::deeper(depth) {
        Ok(depth) => depth,
        Err(reason) => return Ok(Err(reason)),
    };
    let verdict = plan.config.overlap().decide(*live, false);
    if let Verdict::Skip(reason) = verdict {
        return Ok(Err(reason.as_str().to_owned()));
    }
    let waiting = verdict != Verdict::Start;
    let replaced = work.live_of(config.id);
    let job = match birth::bear(work, Kin::of(config, plan), &BTreeMap::new(), Cause::AfterJobs { depth, waiting }) {
        Ok(job) => job,
        Err(wrong) => return Ok(Err(format!("missed: {}", birth::in_words("params", wrong)))),
    };
    if verdict == Verdict::Replace {
        make_room(tx, work, &replaced, live).await?;
    }
    *(if waiting { &mut live.waiting } else { &mut live.active }) += 1;
    Ok(Ok(job))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::trigger::Claims;

    #[test]
    fn the_config_of_a_round_is_among_those_that_the_turn_has_locked() {
        let config = Config { id: Uuid::now_v7(), version: 1, namespace: "default".into(), name: "report".into() };
        let round = Round { config: config.clone(), plan: Err("it does not matter".to_owned()) };
        let claims = Claims { rounds: vec![round], ..Claims::default() };
        assert_eq!(claims.configs().collect::<Vec<_>>(), [config.id]);
    }
}
