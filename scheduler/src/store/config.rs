//! Job configs as rows: what an apply, a run and a delete write, and the plan of a version.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use uuid::Uuid;

use super::{
    Error, Tx,
    row::{Record, Row, unreadable},
    sql::{self, Input, int, uuid},
};
use crate::domain::{
    definition::JobConfig,
    time::{Timestamp, micros},
};

/// A job config, locked.
#[derive(Debug, Clone)]
pub struct ConfigRow {
    /// Its id.
    pub id: Uuid,
    /// Its newest version.
    pub version: u32,
    /// Its schedules are switched off, those that it will have too.
    pub disabled: Option<Disabled>,
}

/// That the schedules of a config are switched off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disabled {
    /// Until when; `None` means until somebody switches them on.
    pub until: Option<Timestamp>,
    /// Why.
    pub reason: String,
}

/// A version as it was stored.
#[derive(Debug, Clone)]
pub struct VersionRow {
    /// The definition.
    pub definition: JobConfig,
    /// The ids of its task configs, by node.
    pub task_config_ids: Vec<Uuid>,
    /// Its edges, (parent, child) by node.
    pub edges: Vec<(u32, u32)>,
}

/// What can be told of a version without its definition.
#[derive(Debug, Clone)]
pub struct ShapeRow {
    /// The names of its tasks, by node.
    pub names: Vec<String>,
    /// The ids of its task configs, by node.
    pub task_config_ids: Vec<Uuid>,
    /// Its edges, (parent, child) by node.
    pub edges: Vec<(u32, u32)>,
}

/// Locks job configs by (namespace, name), in id order; deleted ones do not exist.
pub async fn lock(tx: &Tx, names: &[(String, String)]) -> Result<BTreeMap<(String, String), ConfigRow>, Error> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut input = Input::new([sql::text("namespace"), sql::text("name")]);
    for (namespace, name) in names {
        input.push([namespace.as_str().into(), name.as_str().into()]);
    }
    let text = "WITH {input} SELECT id, version, namespace, name, disabled_at, disabled_until, disabled_reason
                FROM job_config
                WHERE deleted_at IS NULL AND (namespace, name) IN (SELECT namespace, name FROM input)
                ORDER BY id {for_update}";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter().map(|row| Ok(((row.column("namespace")?, row.column("name")?), read(row)?))).collect()
}

/// The newest version of a job config, without a lock; a deleted one does not exist.
pub async fn newest(tx: &Tx, namespace: &str, name: &str) -> Result<Option<ConfigRow>, Error> {
    let text = "SELECT id, version, disabled_at, disabled_until, disabled_reason FROM job_config
                WHERE deleted_at IS NULL AND namespace = :namespace AND name = :name AND version > 0";
    let params = [("namespace", namespace.into()), ("name", name.into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.first().map(read).transpose()
}

/// Makes job configs without versions for names that have none, in the order of the names. Whoever makes one of them at
/// this moment is waited for.
pub async fn ensure(tx: &Tx, names: &BTreeSet<(String, String)>, now: Timestamp) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([uuid("id"), sql::text("namespace"), sql::text("name")]);
    for (namespace, name) in names {
        input.push([Uuid::now_v7().into(), namespace.as_str().into(), name.as_str().into()]);
    }
    let text = "WITH {input} INSERT INTO job_config (id, namespace, name, version, created_at, updated_at)
                SELECT id, namespace, name, 0, CAST(:now AS bigint), CAST(:now AS bigint) FROM input
                WHERE true ORDER BY namespace, name
                ON CONFLICT (namespace, name) WHERE deleted_at IS NULL DO NOTHING";
    tx.execute(input.statement(tx.backend(), text, &[("now", now.0.into())])).await?;
    Ok(())
}

/// Takes back job configs that got no version after all.
pub async fn take_back(tx: &Tx, configs: &[Uuid]) -> Result<(), Error> {
    if configs.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([uuid("wanted")]);
    for config in configs {
        input.push([(*config).into()]);
    }
    let text = "WITH {input} DELETE FROM job_config WHERE version = 0 AND id IN (SELECT wanted FROM input)";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// Adds a version and makes it the newest: the definition, a row for each of its tasks and each of its edges.
pub async fn insert_version(
    tx: &Tx,
    config: Uuid,
    version: u32,
    definition: &JobConfig,
    source: &str,
    edges: &[(u32, u32)],
    now: Timestamp,
) -> Result<(), Error> {
    let encoded = serde_json::to_string(definition).expect("a definition has a JSON form");
    let labels = serde_json::to_string(&definition.labels).expect("a map of texts has a JSON form");
    let text = "INSERT INTO job_config_version
                    (job_config_id, version, definition, source, labels, task_count, created_at)
                VALUES (:config, :version, :definition, :source, :labels, :tasks, :now)";
    let tasks = i32::try_from(definition.tasks.len()).unwrap_or(i32::MAX);
    let params = [
        ("config", config.into()),
        ("version", version.cast_signed().into()),
        ("definition", encoded.into()),
        ("source", source.into()),
        ("labels", labels.into()),
        ("tasks", tasks.into()),
        ("now", now.0.into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;

    let ids: Vec<Uuid> = definition.tasks.iter().map(|_| Uuid::now_v7()).collect();
    let mut nodes = Input::new([uuid("id"), int("node"), sql::text("name")]);
    for (node, (task, id)) in (0_i32..).zip(definition.tasks.iter().zip(&ids)) {
        nodes.push([(*id).into(), node.into(), task.name.as_str().into()]);
    }
    let text = "WITH {input} INSERT INTO task_config (id, job_config_id, version, node, name)
                SELECT id, :config, CAST(:version AS integer), node, name FROM input";
    let params = [("config", config.into()), ("version", version.cast_signed().into())];
    tx.execute(nodes.statement(tx.backend(), text, &params)).await?;

    let mut arrows = Input::new([uuid("child_id"), uuid("parent_id")]);
    for (parent, child) in edges {
        arrows.push([ids[*child as usize].into(), ids[*parent as usize].into()]);
    }
    if !arrows.is_empty() {
        let text = "WITH {input} INSERT INTO task_dependency (child_id, parent_id)
                    SELECT child_id, parent_id FROM input";
        tx.execute(arrows.statement(tx.backend(), text, &[])).await?;
    }

    // What it says of all its jobs, those of other versions too, stands where it is asked for without reading a definition.
    let text = "UPDATE job_config SET version = :version, updated_at = :now, max_active_jobs = :max,
                    retain_age = :age, retain_count = :count, retain_logs = :logs
                WHERE id = :config";
    let kept = definition.retention.unwrap_or_default();
    let params = [
        ("config", config.into()),
        ("version", version.cast_signed().into()),
        ("now", now.0.into()),
        ("max", definition.max_active_jobs.map(u32::cast_signed).into()),
        ("age", kept.age.map(micros).into()),
        ("count", kept.count.map(u32::cast_signed).into()),
        ("logs", kept.logs.map(micros).into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Takes a job config out of use; its jobs and versions stay.
pub async fn delete(tx: &Tx, config: Uuid, now: Timestamp) -> Result<(), Error> {
    let text = "UPDATE job_config SET deleted_at = :now WHERE id = :config";
    tx.execute(sql::statement(tx.backend(), text, &[("config", config.into()), ("now", now.0.into())])).await?;
    Ok(())
}

/// Switches the schedules of a config off or on, those that it will have too; the rows of those it has are written apart.
pub async fn set_disabled(tx: &Tx, config: Uuid, disabled: Option<&Disabled>, now: Timestamp) -> Result<(), Error> {
    let text = "UPDATE job_config SET disabled_at = :at, disabled_until = :until, disabled_reason = :reason
                WHERE id = :config";
    let params = [
        ("config", config.into()),
        ("at", disabled.map(|_| now.0).into()),
        ("until", disabled.and_then(|disabled| disabled.until).map(|at| at.0).into()),
        ("reason", disabled.map_or("", |disabled| disabled.reason.as_str()).into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// How many jobs of a config have not ended, made from a version before this one.
pub async fn live_jobs_before(tx: &Tx, config: Uuid, version: u32) -> Result<u32, Error> {
    let text = "SELECT count(*) AS live FROM job WHERE job_config_id = :config AND version < :version
                AND state IN ('CREATED', 'RUNNING', 'TERMINATING')";
    let params = [("config", config.into()), ("version", version.cast_signed().into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.first().map_or(Ok(0), |row| row.count("live"))
}

/// The definition of a version alone.
pub async fn definition(tx: &Tx, config: Uuid, version: u32) -> Result<Option<JobConfig>, Error> {
    let text = "SELECT definition FROM job_config_version WHERE job_config_id = :config AND version = :version";
    let params = [("config", config.into()), ("version", version.cast_signed().into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let encoded: String = row.column("definition")?;
    serde_json::from_str(&encoded)
        .map(Some)
        .map_err(|error| unreadable("job_config_version", format!("{config} v{version}"), &error.to_string()))
}

/// The names and edges of a version, which every version of Baton can read.
pub async fn shape(tx: &Tx, config: Uuid, version: u32) -> Result<ShapeRow, Error> {
    let params = [("config", config.into()), ("version", version.cast_signed().into())];
    let text = "SELECT id, name FROM task_config WHERE job_config_id = :config AND version = :version ORDER BY node";
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    let task_config_ids: Vec<Uuid> = rows.iter().map(|row| row.column("id")).collect::<Result<_, _>>()?;
    let names = rows.iter().map(|row| row.column("name")).collect::<Result<_, _>>()?;
    let nodes: BTreeMap<Uuid, u32> = task_config_ids.iter().copied().zip(0..).collect();
    let text = "SELECT task_dependency.parent_id, task_dependency.child_id FROM task_config
                JOIN task_dependency ON task_dependency.child_id = task_config.id
                WHERE task_config.job_config_id = :config AND task_config.version = :version";
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    let edges = rows
        .iter()
        .map(|row| Ok((nodes[&row.column::<Uuid>("parent_id")?], nodes[&row.column::<Uuid>("child_id")?])))
        .collect::<Result<_, Error>>()?;
    Ok(ShapeRow { names, task_config_ids, edges })
}

/// What became of reading one version.
pub type Version = Result<VersionRow, Error>;

/// Versions with their graphs, in three statements for any number of them. One that does not exist is left out; one that
/// cannot be read tells so and holds up no other.
pub async fn versions(tx: &Tx, wanted: &[(Uuid, u32)]) -> Result<Vec<((Uuid, u32), Version)>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut input = Input::new([uuid("config"), int("wanted")]);
    for (config, version) in wanted {
        input.push([(*config).into(), version.cast_signed().into()]);
    }
    let key = |row: &Record| Ok::<_, Error>((row.column::<Uuid>("config")?, row.number("wanted")?));

    let text = "WITH {input} SELECT input.config, input.wanted, task_config.id FROM input
                JOIN task_config ON task_config.job_config_id = input.config AND task_config.version = input.wanted
                ORDER BY input.config, input.wanted, task_config.node";
    let mut ids: HashMap<(Uuid, u32), Vec<Uuid>> = HashMap::new();
    let mut places: HashMap<Uuid, u32> = HashMap::new();
    for row in tx.query(input.clone().statement(tx.backend(), text, &[])).await? {
        let of_version = ids.entry(key(&row)?).or_default();
        let id = row.column("id")?;
        places.insert(id, u32::try_from(of_version.len()).unwrap_or(u32::MAX));
        of_version.push(id);
    }
    let text = "WITH {input} SELECT input.config, input.wanted, task_dependency.parent_id, task_dependency.child_id
                FROM input
                JOIN task_config ON task_config.job_config_id = input.config AND task_config.version = input.wanted
                JOIN task_dependency ON task_dependency.child_id = task_config.id";
    let mut edges: HashMap<(Uuid, u32), Vec<(u32, u32)>> = HashMap::new();
    for row in tx.query(input.clone().statement(tx.backend(), text, &[])).await? {
        let edge = (places[&row.column::<Uuid>("parent_id")?], places[&row.column::<Uuid>("child_id")?]);
        edges.entry(key(&row)?).or_default().push(edge);
    }
    let text = "WITH {input} SELECT input.config, input.wanted, job_config_version.definition FROM input
                JOIN job_config_version ON job_config_version.job_config_id = input.config
                    AND job_config_version.version = input.wanted";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter()
        .map(|row| {
            let key = key(row)?;
            let encoded: String = row.column("definition")?;
            let version = serde_json::from_str(&encoded)
                .map_err(|error| unreadable("job_config_version", format!("{} v{}", key.0, key.1), &error.to_string()))
                .map(|definition| VersionRow {
                    definition,
                    task_config_ids: ids.remove(&key).unwrap_or_default(),
                    edges: edges.remove(&key).unwrap_or_default(),
                });
            Ok((key, version))
        })
        .collect()
}

fn read(row: &impl Row) -> Result<ConfigRow, Error> {
    let mut disabled = None;
    if row.time("disabled_at")?.is_some() {
        disabled = Some(Disabled { until: row.time("disabled_until")?, reason: row.column("disabled_reason")? });
    }
    Ok(ConfigRow { id: row.column("id")?, version: row.number("version")?, disabled })
}
