//! What definitions of a request name of others, checked before the engine checks it again under a lock: here what is
//! wrong can be told with its line.

use std::collections::BTreeMap;

use super::{api::Api, job_configs::violation, status::Error};
use crate::domain::{
    definition::{JobConfig, Path, Span},
    uses,
};

/// A valid definition of a request.
pub(super) struct Given {
    pub(super) config: JobConfig,
    /// Its text; empty when it came as a message.
    pub(super) source: String,
    /// Where the text names other job configs.
    pub(super) places: Vec<(Path, Span)>,
}

/// Tells every name that means nothing, and rings.
pub(super) async fn check(api: &Api, given: &[Given]) -> Result<(), Error> {
    let configs: Vec<&JobConfig> = given.iter().map(|given| &given.config).collect();
    let mut known = BTreeMap::new();
    for namespace in uses::named(&configs).into_keys() {
        let found = api.store.uses(&namespace).await?;
        known.insert(namespace, found);
    }
    let problems = uses::problems(&configs, &known).into_iter();
    let violations: Vec<_> = problems
        .map(|(position, mut problem)| {
            let place = given[position].places.iter().find(|(path, _)| *path == problem.path);
            problem.span = place.map(|(_, span)| *span);
            violation(if place.is_some() { "source" } else { "config" }, &problem)
        })
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(Error::Invalid(violations)) }
}
