//! Questions about job configs.

use std::{collections::BTreeMap, sync::Arc};

use sea_orm::{
    ColumnTrait as _, Condition, EntityTrait as _, JoinType, QueryFilter as _, QueryOrder as _, QuerySelect as _,
    sea_query::{Expr, ExprTrait as _},
};
use uuid::Uuid;

use super::{Definition, NAMES_MAX, Page, has_labels, map};
use crate::{
    domain::time::Timestamp,
    store::{
        Error, Store,
        entity::{job, job_config, job_config_version},
    },
};

/// One version of a job config.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The id, the same for all versions.
    pub id: Uuid,
    /// Which version this is.
    pub version: u32,
    /// The newest version.
    pub latest_version: u32,
    /// The definition.
    pub definition: Arc<Definition>,
    /// The text it was applied from, if it was a text.
    pub source: String,
    /// When this version was applied.
    pub created_at: Timestamp,
}

/// One line of a listing of job configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedConfig {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The newest version.
    pub version: u32,
    /// How many tasks that has.
    pub task_count: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was applied.
    pub updated_at: Timestamp,
}

/// Where a listing of job configs goes on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ConfigKey {
    /// The namespace of the last one seen.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// One line of a listing of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigVersion {
    /// Which one.
    pub version: u32,
    /// When it was applied.
    pub created_at: Timestamp,
    /// How many tasks it has.
    pub task_count: u32,
    /// How many jobs were made from it.
    pub job_count: u32,
}

impl Store {
    /// A job config by name, in its newest version or in the one asked for.
    pub async fn config(&self, namespace: &str, name: &str, version: Option<u32>) -> Result<Option<Config>, Error> {
        let Some(config) = self.live_config(namespace, name).await? else { return Ok(None) };
        let latest_version = config.version.cast_unsigned();
        let version = version.unwrap_or(latest_version);
        let key = (config.id, version.cast_signed());
        let Some(row) = job_config_version::Entity::find_by_id(key).one(self.reader()).await? else { return Ok(None) };
        let Some(definition) = self.definition(config.id, version).await? else { return Ok(None) };
        Ok(Some(Config {
            id: config.id,
            version,
            latest_version,
            definition,
            source: row.source,
            created_at: Timestamp(row.created_at),
        }))
    }

    /// Job configs by namespace and name.
    pub async fn configs(
        &self,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
        after: Option<&ConfigKey>,
        limit: u64,
    ) -> Result<Page<ListedConfig>, Error> {
        use job_config::Column as C;
        let mut question = job_config::Entity::find()
            .join(
                JoinType::InnerJoin,
                job_config::Entity::belongs_to(job_config_version::Entity)
                    .from((C::Id, C::Version))
                    .to((job_config_version::Column::JobConfigId, job_config_version::Column::Version))
                    .into(),
            )
            .filter(C::DeletedAt.is_null())
            .filter(has_labels(self.backend(), job_config_version::Column::Labels, labels));
        if let Some(namespace) = namespace {
            question = question.filter(C::Namespace.eq(namespace));
        }
        if let Some(ConfigKey { namespace, name }) = after {
            question = question.filter(
                Condition::any().add(C::Namespace.gt(namespace)).add(C::Namespace.eq(namespace).and(C::Name.gt(name))),
            );
        }
        let rows: Vec<(String, String, i32, i32, String, i64)> = question
            .select_only()
            .columns([C::Namespace, C::Name, C::Version])
            .columns([
                job_config_version::Column::TaskCount,
                job_config_version::Column::Labels,
                job_config_version::Column::CreatedAt,
            ])
            .order_by_asc(C::Namespace)
            .order_by_asc(C::Name)
            .limit(limit + 1)
            .into_tuple()
            .all(self.reader())
            .await?;
        let rows = rows
            .into_iter()
            .map(|(namespace, name, version, task_count, labels, updated_at)| {
                let labels = map("job_config_version", &name, &labels)?;
                Ok(ListedConfig {
                    namespace,
                    name,
                    version: version.cast_unsigned(),
                    task_count: task_count.cast_unsigned(),
                    labels,
                    updated_at: Timestamp(updated_at),
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Page::cut(rows, limit))
    }

    /// The versions of a job config, newest first, below the one given; `None` when there is no such config.
    pub async fn config_versions(
        &self,
        namespace: &str,
        name: &str,
        below: Option<u32>,
        limit: u64,
    ) -> Result<Option<Page<ConfigVersion>>, Error> {
        use job_config_version::Column as C;
        let Some(config) = self.live_config(namespace, name).await? else { return Ok(None) };
        let mut question = job_config_version::Entity::find().filter(C::JobConfigId.eq(config.id));
        if let Some(below) = below {
            question = question.filter(C::Version.lt(below.cast_signed()));
        }
        let rows: Vec<(i32, i64, i32)> = question
            .select_only()
            .columns([C::Version, C::CreatedAt, C::TaskCount])
            .order_by_desc(C::Version)
            .limit(limit + 1)
            .into_tuple()
            .all(self.reader())
            .await?;
        let page = Page::cut(rows, limit);
        let counts: Vec<(i32, i64)> = job::Entity::find()
            .filter(job::Column::Namespace.eq(namespace))
            .filter(job::Column::Name.eq(name))
            .filter(job::Column::JobConfigId.eq(config.id))
            .filter(job::Column::Version.is_in(page.rows.iter().map(|row| row.0)))
            .select_only()
            .column(job::Column::Version)
            .expr(Expr::col(job::Column::Id).count())
            .group_by(job::Column::Version)
            .into_tuple()
            .all(self.reader())
            .await?;
        let counts: BTreeMap<i32, i64> = counts.into_iter().collect();
        let rows = page
            .rows
            .into_iter()
            .map(|(version, created_at, task_count)| ConfigVersion {
                version: version.cast_unsigned(),
                created_at: Timestamp(created_at),
                task_count: task_count.cast_unsigned(),
                job_count: counts.get(&version).map_or(0, |count| u32::try_from(*count).unwrap_or(u32::MAX)),
            })
            .collect();
        Ok(Some(Page { rows, more: page.more }))
    }

    /// How many jobs of a config are live on versions before this one.
    pub async fn live_jobs_before(&self, config: Uuid, version: u32) -> Result<u32, Error> {
        // The condition of the index over live jobs, as a text: with parameters SQLite would not take it.
        let live = Expr::cust("state IN ('CREATED', 'RUNNING', 'TERMINATING')");
        let count: Option<i64> = job::Entity::find()
            .filter(job::Column::JobConfigId.eq(config))
            .filter(job::Column::Version.lt(version.cast_signed()))
            .filter(live)
            .select_only()
            .expr(Expr::col(job::Column::Id).count())
            .into_tuple()
            .one(self.reader())
            .await?;
        Ok(count.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX)))
    }

    /// Names of a namespace, to find the one that was meant.
    pub async fn config_names(&self, namespace: &str) -> Result<Vec<String>, Error> {
        Ok(job_config::Entity::find()
            .filter(job_config::Column::Namespace.eq(namespace))
            .filter(job_config::Column::DeletedAt.is_null())
            .select_only()
            .column(job_config::Column::Name)
            .order_by_asc(job_config::Column::Name)
            .limit(NAMES_MAX)
            .into_tuple()
            .all(self.reader())
            .await?)
    }

    async fn live_config(&self, namespace: &str, name: &str) -> Result<Option<job_config::Model>, Error> {
        Ok(job_config::Entity::find()
            .filter(job_config::Column::Namespace.eq(namespace))
            .filter(job_config::Column::Name.eq(name))
            .filter(job_config::Column::DeletedAt.is_null())
            .one(self.reader())
            .await?)
    }
}
