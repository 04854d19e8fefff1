//! Which job configs name which others.

use std::collections::BTreeSet;

use sea_orm::{ConnectionTrait as _, DbBackend};
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

/// What there is of these names in a namespace, and what all its job configs name. Complete for as long as the lock is held.
pub async fn known(tx: &Tx, namespace: &str, named: &BTreeSet<String>) -> Result<Known, Error> {
    let mut input = Input::new([text("wanted")]);
    for name in named {
        input.push([name.as_str().into()]);
    }
    let names = format!("WITH {{input}} {NAMES} AND name IN (SELECT wanted FROM input)");
    let names = tx.query(input.statement(tx.backend(), &names, &[("namespace", namespace.into())])).await?;
    let uses = tx.query(sql::statement(tx.backend(), &users(""), &[("namespace", namespace.into())])).await?;
    read(&names, &uses)
}

/// Those who name a job config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users {
    /// The first few, by name.
    pub first: Vec<Use>,
    /// How many there are in all.
    pub total: u32,
}

/// Who else names a job config. Complete for as long as the lock is held.
pub async fn users_of(tx: &Tx, namespace: &str, name: &str, limit: u32) -> Result<Users, Error> {
    let text = format!(
        "SELECT user_name, kind, name, count(*) OVER () AS total FROM ({}) AS users
         ORDER BY user_name, kind LIMIT :limit",
        users("AND used.name = :name AND job_config.name <> :name")
    );
    let params = [("namespace", namespace.into()), ("name", name.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), &text, &params)).await?;
    let total = rows.first().map_or(Ok(0), |row| row.count("total"))?;
    Ok(Users { first: rows.iter().map(one).collect::<Result<_, _>>()?, total })
}

impl Store {
    /// The job configs of a namespace and what they name, as they are at this moment.
    pub async fn uses(&self, namespace: &str) -> Result<Known, Error> {
        let of = [("namespace", namespace.into())];
        let names = self.reader().query_all_raw(sql::statement(self.backend(), NAMES, &of)).await?;
        let uses = self.reader().query_all_raw(sql::statement(self.backend(), &users(""), &of)).await?;
        read(&names, &uses)
    }
}

/// The names of a namespace.
const NAMES: &str = "SELECT name FROM job_config WHERE deleted_at IS NULL AND namespace = :namespace AND version > 0";

/// Who names whom in a namespace, of those uses of which a condition holds.
fn users(condition: &str) -> String {
    let of = |table: &str, kind: &str| {
        format!(
            "SELECT job_config.name AS user_name, {kind} AS kind, used.name FROM {table} AS used
             JOIN job_config ON job_config.id = used.job_config_id
             WHERE job_config.deleted_at IS NULL AND used.namespace = :namespace {condition}"
        )
    };
    format!("{} UNION ALL {}", of("job_config_use", "used.kind"), of("job_config_start", "'CALLBACK'"))
}

fn read(names: &[impl Row], uses: &[impl Row]) -> Result<Known, Error> {
    Ok(Known {
        names: names.iter().map(|row| row.column("name")).collect::<Result<_, Error>>()?,
        uses: uses.iter().map(one).collect::<Result<_, Error>>()?,
    })
}

fn one(row: &impl Row) -> Result<Use, Error> {
    let (user, kind): (String, String) = (row.column("user_name")?, row.column("kind")?);
    let kind =
        Kind::from_word(&kind).ok_or_else(|| unreadable("job_config_use", &user, "the kind is not one of ours"))?;
    Ok(Use { user, kind, name: row.column("name")? })
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
