//! What a definition names of others, when it is stored and when what it names is deleted.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    order::Order,
    request::{Apply, Delete, Error},
};
use crate::{
    domain::{
        definition::JobConfig,
        uses::{self, Kind, Use},
    },
    store::{self, Tx},
};

/// How many users of a job config are named to who wants to delete it.
const USERS_SHOWN_MAX: usize = 10;

/// Whether an order needs what is named to stay as it is until it is carried out.
pub(super) fn concerned(order: &Order) -> bool {
    match order {
        Order::Apply(order) => order.configs.iter().any(|(config, _)| !uses::of(config).is_empty()),
        Order::Delete(_) => true,
        _ => false,
    }
}

/// Tells what is wrong with what definitions name: the field and what to do about it.
pub(super) async fn check(tx: &Tx, order: &Apply) -> Result<Vec<(String, String)>, store::Error> {
    let mut wrong = Vec::new();
    let mut namespaces: BTreeMap<&str, Vec<&JobConfig>> = BTreeMap::new();
    for (config, _) in &order.configs {
        namespaces.entry(&config.namespace).or_default().push(config);
    }
    for (namespace, configs) in namespaces {
        if configs.iter().all(|config| uses::of(config).is_empty()) {
            continue;
        }
        let known = store::uses::known(tx, namespace).await?;
        wrong.extend(uses::check(&configs, &known).into_iter().map(|(_, problem)| {
            let hint = problem.suggestion.map(|hint| format!(" ({hint})")).unwrap_or_default();
            (problem.path.to_string(), format!("{}{hint}", problem.message))
        }));
    }
    Ok(wrong)
}

/// Writes what the newest version of a config names.
pub(super) async fn write(tx: &Tx, config: Uuid, definition: &JobConfig) -> Result<(), store::Error> {
    let uses: Vec<Use> = uses::of(definition).into_iter().map(|(one, _)| one).collect();
    store::uses::put(tx, config, &definition.namespace, &uses).await
}

/// Why a job config cannot be deleted: others name it.
pub(super) async fn in_the_way(tx: &Tx, order: &Delete) -> Result<Option<Error>, store::Error> {
    if order.force {
        return Ok(None);
    }
    let known = store::uses::known(tx, &order.namespace).await?;
    let mut users: Vec<String> = known
        .uses
        .iter()
        .filter(|one| one.name == order.name && one.user != order.name)
        .map(|one| match one.kind {
            Kind::Task => format!("{} (a `job` task)", one.user),
            Kind::After => format!("{} (after_jobs)", one.user),
            Kind::Callback => format!("{} (a callback)", one.user),
        })
        .collect();
    if users.is_empty() {
        return Ok(None);
    }
    users.sort_unstable();
    let more = users.len().saturating_sub(USERS_SHOWN_MAX);
    users.truncate(USERS_SHOWN_MAX);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Ok(Some(Error::Conflict {
        reason: "JOB_CONFIG_USED",
        message: format!(
            "job config {:?} is named by {}{and_more}: take the name out there first, or delete with force",
            order.name,
            users.join(", ")
        ),
    }))
}
