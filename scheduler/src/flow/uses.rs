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
    store::{self, Tx, uses::Users},
};

/// How many users of a job config are named to who wants to delete it.
const USERS_SHOWN_MAX: u32 = 10;

/// Whether an order needs what is named to stay as it is until it is carried out.
pub(super) fn concerned(order: &Order) -> bool {
    match order {
        Order::Apply(order) => order.configs.iter().any(|(config, _)| !uses::of(config).is_empty()),
        Order::Delete(_) => true,
        _ => false,
    }
}

/// Tells what is wrong with what definitions name: the field and what to do about it. Nobody but who applied at the same
/// moment hears of it here.
pub(super) async fn check(tx: &Tx, order: &Apply) -> Result<Vec<(String, String)>, store::Error> {
    let configs: Vec<&JobConfig> = order.configs.iter().map(|(config, _)| config).collect();
    let mut known = BTreeMap::new();
    for (namespace, named) in uses::named(&configs) {
        let found = store::uses::known(tx, &namespace, &named).await?;
        known.insert(namespace, found);
    }
    let problems = uses::problems(&configs, &known).into_iter();
    let told = problems.map(|(_, problem)| {
        let hint = problem.suggestion.map(|hint| format!(" ({hint})")).unwrap_or_default();
        (problem.path.to_string(), format!("{}{hint}", problem.message))
    });
    Ok(told.collect())
}

/// Writes what the newest version of a config names, if that is not what the one `before` named. Of a version that cannot
/// be read nobody knows what it named.
pub(super) async fn write(
    tx: &Tx,
    config: Uuid,
    before: Option<&JobConfig>,
    definition: &JobConfig,
) -> Result<(), store::Error> {
    let names = |definition| -> Vec<Use> { uses::of(definition).into_iter().map(|(one, _)| one).collect() };
    let uses = names(definition);
    if before.is_some_and(|before| names(before) == uses) {
        return Ok(());
    }
    store::uses::put(tx, config, &definition.namespace, &uses).await
}

/// Why a job config cannot be deleted: others name it.
pub(super) async fn in_the_way(tx: &Tx, order: &Delete) -> Result<Option<Error>, store::Error> {
    if order.force {
        return Ok(None);
    }
    let Users { first, total } = store::uses::users_of(tx, &order.namespace, &order.name, USERS_SHOWN_MAX).await?;
    if first.is_empty() {
        return Ok(None);
    }
    let users: Vec<String> = first
        .iter()
        .map(|one| match one.kind {
            Kind::Task => format!("{} (a `job` task)", one.user),
            Kind::After => format!("{} (after_jobs)", one.user),
            Kind::Callback => format!("{} (a callback)", one.user),
        })
        .collect();
    let more = total.saturating_sub(USERS_SHOWN_MAX);
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
