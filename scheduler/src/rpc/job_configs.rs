//! Manages definitions.

use std::{collections::HashMap, sync::Arc};

use baton::v1::{
    AfterJob, AppliedJobConfig, ApplyChange, ApplyRequest, ApplyResponse, DeleteRequest, DeleteResponse, Difference,
    DisableRequest, DisableResponse, EnableRequest, EnableResponse, GetRequest, GetResponse, ListRequest, ListResponse,
    ListVersionsRequest, ListVersionsResponse, ListedJobConfig, ListedVersion, RestoreRequest, RestoreResponse,
    StoredJobConfig, StoredSchedule, apply_request, job_config_service_server::JobConfigService,
};
use tonic::{Request, Response, Status, async_trait};
use uuid::Uuid;

use super::{
    api::{Api, Fields},
    caller::caller,
    convert,
    page::{self, Listing},
    schedules::{language, specs, stored as stored_schedule},
    status::{Error, Kind, Violation},
    uses::{self, Given},
};
use crate::{
    domain::{
        definition::{self, Document, JobConfig, Problem},
        schedule::Language,
    },
    flow::request::{self, Applied, Apply, Change, Position, Switch},
    store::{
        self,
        read::{Config, ConfigKey, Definition, ListedConfig},
    },
};

/// The longest reason for switching schedules off, in characters.
const SWITCH_REASON_MAX: usize = 1_000;

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct JobConfigs(pub(super) Api);

impl JobConfigs {
    async fn put(&self, mut request: ApplyRequest) -> Result<ApplyResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let namespace = Api::namespace(request.namespace);
        let language = language(request.language)?;
        let given = definitions(request.definition, &namespace)?;
        uses::check(&self.0, &given).await?;
        let configs: Vec<_> = given.into_iter().map(|given| (given.config, given.source)).collect();
        if request.dry_run {
            let mut job_configs = Vec::with_capacity(configs.len());
            for (config, source) in configs {
                job_configs.push(self.would_apply(config, source, language).await?);
            }
            return Ok(ApplyResponse { job_configs });
        }
        let names: Vec<_> = configs.iter().map(|(config, _)| (config.namespace.clone(), config.name.clone())).collect();
        let applied = self.0.engine.apply(Apply { caller, configs }).await?;
        let mut job_configs = Vec::with_capacity(applied.len());
        for ((namespace, name), applied) in names.into_iter().zip(applied) {
            job_configs.push(self.applied(&namespace, &name, &applied, language).await?);
        }
        Ok(ApplyResponse { job_configs })
    }

    /// What an apply would do to one job config.
    async fn would_apply(
        &self,
        config: JobConfig,
        source: String,
        language: Language,
    ) -> Result<AppliedJobConfig, Error> {
        let before = self.0.store.config(&config.namespace, &config.name, None).await?;
        let mut differences = Vec::new();
        let change = match &before {
            None => Change::Created,
            Some(before) => {
                differences = differences_between(&before.definition.config, &config);
                if differences.is_empty() { Change::Unchanged } else { Change::Updated }
            }
        };
        let schedules = self.0.would_be(&config, language).await?;
        let mut shown = StoredJobConfig {
            version: 1,
            latest_version: 1,
            task_count: u32::try_from(config.tasks.len()).unwrap_or(u32::MAX),
            config: Some(convert::definitions::job_config(&config)),
            source,
            ..StoredJobConfig::default()
        };
        let mut jobs_on_earlier_versions = 0;
        if let Some(before) = before {
            let version = before.latest_version + u32::from(change == Change::Updated);
            shown.id = before.id.to_string();
            (shown.version, shown.latest_version) = (version, version);
            jobs_on_earlier_versions = self.0.store.live_jobs_before(before.id, version).await?;
        }
        let change = shown_change(change).into();
        Ok(AppliedJobConfig { job_config: Some(shown), change, jobs_on_earlier_versions, differences, schedules })
    }

    /// The version before; none if this version of Baton cannot read it.
    async fn before(&self, applied: &Applied) -> Result<Option<Arc<Definition>>, Error> {
        match self.0.store.definition(applied.id, applied.version - 1).await {
            Err(store::Error::Unreadable { .. }) => Ok(None),
            other => Ok(other?),
        }
    }

    /// What an apply did to one job config.
    async fn applied(
        &self,
        namespace: &str,
        name: &str,
        applied: &Applied,
        language: Language,
    ) -> Result<AppliedJobConfig, Error> {
        let now = self.config(namespace, name, Some(applied.version)).await?;
        let mut differences = Vec::new();
        if applied.change == Change::Updated
            && let Some(before) = self.before(applied).await?
        {
            differences = differences_between(&before.config, &now.definition.config);
        }
        Ok(AppliedJobConfig {
            job_config: Some(stored(now)),
            change: shown_change(applied.change).into(),
            jobs_on_earlier_versions: applied.jobs_on_earlier_versions,
            differences,
            schedules: self.0.outlook(namespace, name, language).await?,
        })
    }

    async fn config(&self, namespace: &str, name: &str, version: Option<u32>) -> Result<Config, Error> {
        if let Some(config) = self.0.store.config(namespace, name, version).await? {
            return Ok(config);
        }
        match version {
            Some(version) if self.0.store.config(namespace, name, None).await?.is_some() => {
                Err(Error::not_found(Kind::Version, format!("{version} of {name}")))
            }
            _ => Err(self.0.unknown_config(namespace, name).await),
        }
    }

    async fn read(&self, request: GetRequest) -> Result<GetResponse, Error> {
        let version = Some(request.version).filter(|version| *version > 0);
        let config = self.config(&Api::namespace(request.namespace), &request.name, version).await?;
        let round = if config.version == config.latest_version { self.round(&config).await? } else { Vec::new() };
        Ok(GetResponse { job_config: Some(stored(config)), round })
    }

    /// How far the round is that makes the next job of a config which comes after others.
    async fn round(&self, config: &Config) -> Result<Vec<AfterJob>, Error> {
        let names = &config.definition.config.after_jobs;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let finished = self.0.store.round(config.id).await?;
        let after = |name: &String| AfterJob {
            name: name.clone(),
            job_id: finished.get(name).map(Uuid::to_string).unwrap_or_default(),
        };
        Ok(names.iter().map(after).collect())
    }

    async fn page(&self, request: ListRequest) -> Result<ListResponse, Error> {
        let size = page::size(request.page_size)?;
        let namespace = Some(request.namespace).filter(|namespace| !namespace.is_empty());
        let labels = convert::sorted(request.labels);
        let listing = Listing::new("List", &(&namespace, &labels));
        let after: Option<ConfigKey> = listing.key(&request.page_token)?;
        let page = self.0.store.configs(namespace.as_deref(), &labels, after.as_ref(), size).await?;
        let last = page
            .rows
            .last()
            .map(|config| listing.token(&ConfigKey { namespace: config.namespace.clone(), name: config.name.clone() }));
        let names: Vec<(String, String)> =
            page.rows.iter().map(|config| (config.namespace.clone(), config.name.clone())).collect();
        let mut schedules: HashMap<(String, String), Vec<StoredSchedule>> = HashMap::new();
        let rows = self.0.store.schedules_of(&names).await?;
        let (calendars, now) = (self.0.calendars_of(specs(&rows)).await?, self.0.store.now().await?);
        for schedule in rows {
            let name = (schedule.namespace.clone(), schedule.config.clone());
            let shown = stored_schedule(schedule, &calendars, Language::English, now);
            schedules.entry(name).or_default().push(shown);
        }
        let mut schedules = |config: &ListedConfig| {
            schedules.remove(&(config.namespace.clone(), config.name.clone())).unwrap_or_default()
        };
        let listed = page.rows.into_iter().map(|config| ListedJobConfig {
            schedules: schedules(&config),
            namespace: config.namespace,
            name: config.name,
            version: config.version,
            task_count: config.task_count,
            labels: config.labels.into_iter().collect(),
            update_time: Some(convert::timestamp(config.updated_at)),
        });
        Ok(ListResponse {
            job_configs: listed.collect(),
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
        })
    }

    async fn versions(&self, request: ListVersionsRequest) -> Result<ListVersionsResponse, Error> {
        let size = page::size(request.page_size)?;
        let (namespace, name) = (Api::namespace(request.namespace), request.name);
        let listing = Listing::new("ListVersions", &(&namespace, &name));
        let below = listing.key(&request.page_token)?;
        let Some(page) = self.0.store.config_versions(&namespace, &name, below, size).await? else {
            return Err(self.0.unknown_config(&namespace, &name).await);
        };
        let last = page.rows.last().map(|version| listing.token(&version.version));
        let listed = page.rows.into_iter().map(|version| ListedVersion {
            version: version.version,
            create_time: Some(convert::timestamp(version.created_at)),
            task_count: version.task_count,
            job_count: version.job_count,
        });
        Ok(ListVersionsResponse {
            versions: listed.collect(),
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
        })
    }

    async fn bring_back(&self, mut request: RestoreRequest) -> Result<RestoreResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        if request.version == 0 {
            return Err(Error::invalid("version", "says which version to bring back; ListVersions lists them"));
        }
        let (namespace, name) = (Api::namespace(request.namespace), request.name);
        let earlier = self.config(&namespace, &name, Some(request.version)).await?;
        let configs = vec![(earlier.definition.config.clone(), earlier.source)];
        let applied = self.0.engine.apply(Apply { caller, configs }).await?;
        let mut restored = None;
        if let Some(applied) = applied.first() {
            restored = Some(self.applied(&namespace, &name, applied, Language::English).await?);
        }
        Ok(RestoreResponse { job_config: restored })
    }

    async fn switch_off(&self, mut request: DisableRequest) -> Result<DisableResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let mut fields = Fields::default();
        let until = fields.take(convert::read_timestamp("until", request.until));
        if request.reason.chars().count() > SWITCH_REASON_MAX {
            fields.refuse("reason", format!("has at most {SWITCH_REASON_MAX} characters"));
        }
        fields.check()?;
        let (namespace, name) = (Api::namespace(request.namespace), request.name);
        let schedule = Some(request.schedule).filter(|key| !key.is_empty());
        let to = Position::Off { until, reason: request.reason };
        let (changed, schedules) = self.switch(Switch { caller, namespace, name, schedule, to }).await?;
        Ok(DisableResponse { schedules, changed })
    }

    async fn switch_on(&self, mut request: EnableRequest) -> Result<EnableResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let (namespace, name) = (Api::namespace(request.namespace), request.name);
        let schedule = Some(request.schedule).filter(|key| !key.is_empty());
        let (changed, schedules) = self.switch(Switch { caller, namespace, name, schedule, to: Position::On }).await?;
        Ok(EnableResponse { schedules, changed })
    }

    async fn switch(&self, switch: Switch) -> Result<(u32, Vec<StoredSchedule>), Error> {
        let (namespace, name) = (switch.namespace.clone(), switch.name.clone());
        match self.0.engine.switch(switch).await {
            Ok(changed) => Ok((changed, self.0.outlook(&namespace, &name, Language::English).await?)),
            Err(refusal) => Err(self.0.with_suggestion(refusal, &namespace).await),
        }
    }

    async fn remove(&self, mut request: DeleteRequest) -> Result<DeleteResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let namespace = Api::namespace(request.namespace);
        let (name, force) = (request.name, request.force);
        let delete = request::Delete { caller, namespace: namespace.clone(), name, force };
        match self.0.engine.delete(delete).await {
            Ok(live_jobs) => Ok(DeleteResponse { live_jobs }),
            Err(refusal) => Err(self.0.with_suggestion(refusal, &namespace).await),
        }
    }
}

/// The valid definitions of a request, each with its text, or everything that is wrong with any of them.
fn definitions(given: Option<apply_request::Definition>, namespace: &str) -> Result<Vec<Given>, Error> {
    match given {
        None => Err(Error::invalid("source", "one of source, config must be set")),
        Some(apply_request::Definition::Source(source)) => {
            let documents = definition::read(&source, namespace).map_err(|problems| {
                Error::Invalid(problems.iter().map(|problem| violation("source", problem)).collect())
            })?;
            let given = documents.into_iter().map(|document| {
                let Document { config, source, uses } = document;
                Given { config, source, places: uses }
            });
            Ok(given.collect())
        }
        Some(apply_request::Definition::Config(config)) => {
            let mut config = convert::definitions::read_job_config("config", config).map_err(Error::Invalid)?;
            if config.namespace.is_empty() {
                namespace.clone_into(&mut config.namespace);
            }
            let problems = definition::validate(&config);
            if !problems.is_empty() {
                let violations = problems.iter().map(|problem| violation("config", problem));
                return Err(Error::Invalid(violations.collect()));
            }
            Ok(vec![Given { config, source: String::new(), places: Vec::new() }])
        }
    }
}

/// A problem of a definition as a violation of the field that holds the definition.
pub(super) fn violation(within: &str, problem: &Problem) -> Violation {
    let path = problem.path.to_string();
    let field = match (within, path.is_empty()) {
        // A text has lines and columns; its fields are those of the definition.
        ("source", false) => path,
        (within, true) => within.to_owned(),
        (within, false) => format!("{within}.{path}"),
    };
    let mut description = problem.message.clone();
    if let Some(span) = problem.span {
        description = format!("line {}, column {}: {description}", span.line, span.column);
    }
    if let Some(suggestion) = &problem.suggestion {
        description = format!("{description} ({suggestion})");
    }
    Violation::new(field, description)
}

fn differences_between(before: &JobConfig, after: &JobConfig) -> Vec<Difference> {
    let differences = definition::diff(before, after).into_iter();
    differences
        .map(|difference| Difference { path: difference.path, before: difference.before, after: difference.after })
        .collect()
}

fn shown_change(change: Change) -> ApplyChange {
    match change {
        Change::Created => ApplyChange::Created,
        Change::Updated => ApplyChange::Updated,
        Change::Unchanged => ApplyChange::Unchanged,
    }
}

fn stored(config: Config) -> StoredJobConfig {
    StoredJobConfig {
        id: config.id.to_string(),
        version: config.version,
        latest_version: config.latest_version,
        task_count: u32::try_from(config.definition.tasks.len()).unwrap_or(u32::MAX),
        config: Some(convert::definitions::job_config(&config.definition.config)),
        source: config.source,
        create_time: Some(convert::timestamp(config.created_at)),
    }
}

#[async_trait]
impl JobConfigService for JobConfigs {
    async fn apply(&self, request: Request<ApplyRequest>) -> Result<Response<ApplyResponse>, Status> {
        Ok(Response::new(self.put(request.into_inner()).await?))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        Ok(Response::new(self.read(request.into_inner()).await?))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        Ok(Response::new(self.page(request.into_inner()).await?))
    }

    async fn list_versions(
        &self,
        request: Request<ListVersionsRequest>,
    ) -> Result<Response<ListVersionsResponse>, Status> {
        Ok(Response::new(self.versions(request.into_inner()).await?))
    }

    async fn restore(&self, request: Request<RestoreRequest>) -> Result<Response<RestoreResponse>, Status> {
        Ok(Response::new(self.bring_back(request.into_inner()).await?))
    }

    async fn disable(&self, request: Request<DisableRequest>) -> Result<Response<DisableResponse>, Status> {
        Ok(Response::new(self.switch_off(request.into_inner()).await?))
    }

    async fn enable(&self, request: Request<EnableRequest>) -> Result<Response<EnableResponse>, Status> {
        Ok(Response::new(self.switch_on(request.into_inner()).await?))
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<DeleteResponse>, Status> {
        Ok(Response::new(self.remove(request.into_inner()).await?))
    }
}
