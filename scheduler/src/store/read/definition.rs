//! Definitions by version. A version never changes, so those used last are kept.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use sea_orm::{ConnectionTrait as _, EntityTrait as _};
use uuid::Uuid;

use super::parse;
use crate::{
    domain::definition::{JobConfig, TaskConfig},
    store::{Error, Store, entity::job_config_version, row::Row as _, sql},
};

/// How many bytes of definitions are kept, about, as they lie in memory: thousands of small ones, or a few of the largest.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// What is left of them once that is too much. To find those that were used longest ago, all are looked at, so that many go
/// at once.
const KEPT_BYTES_LEFT: usize = KEPT_BYTES_MAX / 4 * 3;

/// One version of a job config, ready to be used.
#[derive(Debug, PartialEq)]
pub struct Definition {
    /// As it was applied.
    pub config: JobConfig,
    /// Its tasks with every default filled in; a task's `node` is its position here.
    pub tasks: Vec<TaskConfig>,
}

impl Definition {
    /// What it takes of memory, about, if it takes so many bytes in the database: its tasks are there twice, and a short task
    /// is mostly what it leaves open.
    fn weight(&self, stored: usize) -> usize {
        let tasks = self.config.tasks.len() + self.tasks.len();
        size_of::<Self>() + tasks * size_of::<TaskConfig>() + 3 * stored
    }

    /// The task config with this name and its node.
    pub fn task(&self, name: &str) -> Option<(u32, &TaskConfig)> {
        let node = self.tasks.iter().position(|task| task.name == name)?;
        Some((u32::try_from(node).ok()?, &self.tasks[node]))
    }
}

/// The definitions used last.
#[derive(Debug, Default)]
pub struct Definitions {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_version: HashMap<(Uuid, u32), Entry>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    definition: Arc<Definition>,
    bytes: usize,
    used: u64,
}

impl Definitions {
    fn get(&self, key: (Uuid, u32)) -> Option<Arc<Definition>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let now = kept.clock;
        let entry = kept.by_version.get_mut(&key)?;
        entry.used = now;
        Some(entry.definition.clone())
    }

    fn keep(&self, key: (Uuid, u32), definition: Arc<Definition>, bytes: usize) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let used = kept.clock;
        if let Some(replaced) = kept.by_version.insert(key, Entry { definition, bytes, used }) {
            kept.bytes -= replaced.bytes;
        }
        kept.bytes += bytes;
        if kept.bytes > KEPT_BYTES_MAX {
            kept.make_room();
        }
    }
}

impl Kept {
    /// Lets go what was used longest ago. The newest one stays, however large it is: it is in use anyway.
    fn make_room(&mut self) {
        let mut oldest: Vec<((Uuid, u32), u64)> =
            self.by_version.iter().map(|(key, entry)| (*key, entry.used)).collect();
        oldest.sort_unstable_by_key(|(_, used)| *used);
        oldest.pop();
        for (key, _) in oldest {
            if self.bytes <= KEPT_BYTES_LEFT {
                break;
            }
            if let Some(entry) = self.by_version.remove(&key) {
                self.bytes -= entry.bytes;
            }
        }
    }
}

impl Store {
    /// One version of a job config, also of a deleted one.
    pub async fn definition(&self, config: Uuid, version: u32) -> Result<Option<Arc<Definition>>, Error> {
        let key = (config, version);
        if let Some(definition) = self.definitions.get(key) {
            return Ok(Some(definition));
        }
        let row = job_config_version::Entity::find_by_id((config, version.cast_signed())).one(self.reader()).await?;
        let Some(row) = row else { return Ok(None) };
        let parsed: JobConfig = parse("job_config_version", format!("{config} v{version}"), &row.definition)?;
        let definition = Arc::new(Definition { tasks: parsed.resolved(), config: parsed });
        self.definitions.keep(key, definition.clone(), definition.weight(row.definition.len()));
        Ok(Some(definition))
    }

    /// The same, for showing jobs of it: of a definition that this version cannot read, the names of its tasks.
    pub async fn definition_or_names(&self, config: Uuid, version: u32) -> Result<Option<Arc<Definition>>, Error> {
        match self.definition(config, version).await {
            Err(Error::Unreadable { .. }) => {}
            other => return other,
        }
        let text = "SELECT name FROM task_config WHERE job_config_id = :config AND version = :version ORDER BY node";
        let params = [("config", config.into()), ("version", version.cast_signed().into())];
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), text, &params)).await?;
        let named = |name| TaskConfig { name, ..TaskConfig::default() };
        let tasks: Vec<TaskConfig> = rows.iter().map(|row| row.column("name").map(named)).collect::<Result<_, _>>()?;
        Ok(Some(Arc::new(Definition { config: JobConfig::default(), tasks })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let definitions = Definitions::default();
        let definition = Arc::new(Definition { config: JobConfig::default(), tasks: Vec::new() });
        let id = Uuid::now_v7();
        for version in 1..=4 {
            definitions.keep((id, version), definition.clone(), KEPT_BYTES_MAX / 4);
        }
        assert!(definitions.get((id, 1)).is_some());
        definitions.keep((id, 5), definition.clone(), KEPT_BYTES_MAX / 4);
        let kept: Vec<u32> = (1..=5).filter(|version| definitions.get((id, *version)).is_some()).collect();
        assert_eq!(kept, [1, 4, 5]);
        definitions.keep((id, 6), definition, KEPT_BYTES_MAX * 2);
        assert!(definitions.get((id, 6)).is_some());
        assert_eq!(definitions.kept.lock().unwrap().by_version.len(), 1);
    }
}
