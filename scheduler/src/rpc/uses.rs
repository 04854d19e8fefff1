//! What definitions of a request name of others, checked before the engine checks it again under a lock: here what is
//! wrong can be told with its line.

use std::collections::BTreeSet;

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
    let mut violations = Vec::new();
    let namespaces: BTreeSet<&str> = given.iter().map(|given| given.config.namespace.as_str()).collect();
    for namespace in namespaces {
        let of: Vec<&Given> = given.iter().filter(|given| given.config.namespace == namespace).collect();
        let configs: Vec<&JobConfig> = of.iter().map(|given| &given.config).collect();
        if configs.iter().all(|config| uses::of(config).is_empty()) {
            continue;
        }
        let known = api.store.uses(namespace).await?;
        violations.extend(uses::check(&configs, &known).into_iter().map(|(position, mut problem)| {
            let place = of[position].places.iter().find(|(path, _)| *path == problem.path);
            problem.span = place.map(|(_, span)| *span);
            violation(if place.is_some() { "source" } else { "config" }, &problem)
        }));
    }
    if violations.is_empty() { Ok(()) } else { Err(Error::Invalid(violations)) }
}
