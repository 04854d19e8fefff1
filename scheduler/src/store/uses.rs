//! Which job configs name which others.

use sea_orm::{ConnectionTrait as _, DbBackend, Statement};
use uuid::Uuid;

use super::{
    Error, Store, Tx,
    row::{Row, unreadable},
    sql::{self, Input, text},
};
use crate::domain::uses::{Kind, Known, Use};

/// The number of the lock under which names are checked; any number that no other lock has.
const LOCK: i64 = 0x0062_6174_6f6e_0001;

/// Has everybody else wait who is about to store or to delete what others name: two applies must not close a ring
/// together, nor a delete take away what an apply has just found. To be taken before any job config is locked.
pub async fn lock(tx: &Tx) -> Result<(), Error> {
    if tx.backend() == DbBackend::Postgres {
        tx.query(sql::statement(tx.backend(), "SELECT pg_advisory_xact_lock(:lock)", &[("lock", LOCK.into())])).await?;
    }
    Ok(())
}

/// The job configs of a namespace and what they name. Complete for as long as the lock is held.
pub async fn known(tx: &Tx, namespace: &str) -> Result<Known, Error> {
    let [names, uses] = questions(tx.backend(), namespace);
    read(&tx.query(names).await?, &tx.query(uses).await?)
}

impl Store {
    /// The job configs of a namespace and what they name, as they are at this moment.
    pub async fn uses(&self, namespace: &str) -> Result<Known, Error> {
        let [names, uses] = questions(self.backend(), namespace);
        read(&self.reader().query_all_raw(names).await?, &self.reader().query_all_raw(uses).await?)
    }
}

fn questions(backend: DbBackend, namespace: &str) -> [Statement; 2] {
    let of = [("namespace", namespace.into())];
    let names = "SELECT name FROM job_config WHERE deleted_at IS NULL AND namespace = :namespace AND version > 0";
    let uses = "SELECT job_config.name AS user_name, job_config_use.kind, job_config_use.name FROM job_config_use
                JOIN job_config ON job_config.id = job_config_use.job_config_id
                WHERE job_config.deleted_at IS NULL AND job_config_use.namespace = :namespace
                UNION ALL
                SELECT job_config.name AS user_name, 'CALLBACK' AS kind, job_config_start.name FROM job_config_start
                JOIN job_config ON job_config.id = job_config_start.job_config_id
                WHERE job_config.deleted_at IS NULL AND job_config_start.namespace = :namespace";
    [names, uses].map(|text| sql::statement(backend, text, &of))
}

fn read(names: &[impl Row], uses: &[impl Row]) -> Result<Known, Error> {
    Ok(Known {
        names: names.iter().map(|row| row.column("name")).collect::<Result<_, Error>>()?,
        uses: uses
            .iter()
            .map(|row| {
                let (user, kind): (String, String) = (row.column("user_name")?, row.column("kind")?);
                let kind = Kind::from_word(&kind)
                    .ok_or_else(|| unreadable("job_config_use", &user, "the kind is not one of ours"))?;
                Ok(Use { user, kind, name: row.column("name")? })
            })
            .collect::<Result<_, Error>>()?,
    })
}

/// Writes what the newest version of a locked job config names. What it no longer comes after is forgotten.
pub async fn put(tx: &Tx, config: Uuid, namespace: &str, uses: &[Use]) -> Result<(), Error> {
    let of = [("config", config.into()), ("namespace", namespace.into())];
    for text in [
        "DELETE FROM job_config_use WHERE job_config_id = :config",
        "DELETE FROM job_config_start WHERE job_config_id = :config",
    ] {
        tx.execute(sql::statement(tx.backend(), text, &of)).await?;
    }
    let (mut named, mut started) = (Input::new([text("kind"), text("name")]), Input::new([text("name")]));
    for one in uses {
        match one.kind {
            Kind::Task | Kind::After => named.push([one.kind.word().into(), one.name.as_str().into()]),
            Kind::Callback => started.push([one.name.as_str().into()]),
        }
    }
    if !named.is_empty() {
        let text = "WITH {input} INSERT INTO job_config_use (job_config_id, kind, namespace, name)
                    SELECT DISTINCT :config, kind, :namespace, name FROM input";
        tx.execute(named.statement(tx.backend(), text, &of)).await?;
    }
    if !started.is_empty() {
        let text = "WITH {input} INSERT INTO job_config_start (job_config_id, namespace, name)
                    SELECT DISTINCT :config, :namespace, name FROM input";
        tx.execute(started.statement(tx.backend(), text, &of)).await?;
    }
    let text = "DELETE FROM after_end WHERE job_config_id = :config AND name NOT IN (
                    SELECT name FROM job_config_use WHERE job_config_id = :config AND kind = 'AFTER')";
    tx.execute(sql::statement(tx.backend(), text, &of)).await?;
    Ok(())
}
