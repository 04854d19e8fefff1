//! Finding a job or a scheduler by a part of its id.

use sea_orm::{ColumnTrait as _, DbBackend, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use uuid::Uuid;

use crate::store::{Error, Store, entity::scheduler, sql};

/// How many candidates are named when a part of an id fits several.
pub const CANDIDATES_MAX: usize = 5;

/// The fewest hex digits that name anything. The last [`TAIL`] of a job's id are indexed.
const DIGITS_MIN: usize = 4;
const TAIL: usize = 4;

/// What a part of an id leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Exactly this one.
    One(Uuid),
    /// Nothing.
    None,
    /// Several; some of them, newest first.
    Several(Vec<Uuid>),
    /// It is no part of an id: fewer than 4 or more than 32 hex digits, or something else.
    Malformed,
}

impl Found {
    /// Which of some ids a part of one means.
    pub(super) fn among(part: &str, known: &[Uuid]) -> Self {
        let Some(digits) = digits(part) else { return Self::Malformed };
        let fits = |id: &&Uuid| {
            let id = id.simple().to_string();
            id.starts_with(&digits) || id.ends_with(&digits)
        };
        Self::from_candidates(known.iter().filter(fits).copied().collect())
    }

    fn from_candidates(mut candidates: Vec<Uuid>) -> Self {
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.dedup();
        match candidates[..] {
            [] => Self::None,
            [one] => Self::One(one),
            _ => {
                candidates.truncate(CANDIDATES_MAX);
                Self::Several(candidates)
            }
        }
    }
}

impl Store {
    /// Finds a job by its id, or by a unique beginning or end of it.
    pub async fn find_job(&self, part: &str) -> Result<Found, Error> {
        self.find_in("job", "NOT removing", part).await
    }

    /// Whether a part of an id names jobs that are not kept any more.
    pub async fn was_removed(&self, part: &str) -> Result<bool, Error> {
        let found = self.find_in("removed_job", "true", part).await?;
        Ok(matches!(found, Found::One(_) | Found::Several(_)))
    }

    /// Finds a callback by its id, or by a unique beginning or end of it.
    pub async fn find_callback(&self, part: &str) -> Result<Found, Error> {
        self.find_in("callback", "true", part).await
    }

    /// Finds a row of a table with an index over the last digits of its ids, of those rows that can be seen.
    async fn find_in(&self, table: &str, seen: &str, part: &str) -> Result<Found, Error> {
        let Some(digits) = digits(part) else { return Ok(Found::Malformed) };
        let (low, high) = range(&digits);
        // The end is looked up by its indexed digits first, and only then compared in full.
        let (tail, text) = match self.backend() {
            DbBackend::Postgres => ("right(CAST(id AS text), 4)", "replace(CAST(id AS text), '-', '')"),
            _ => ("lower(substr(hex(id), -4))", "lower(hex(id))"),
        };
        let text = format!(
            "SELECT id FROM (SELECT id FROM {table} WHERE id BETWEEN :low AND :high AND {seen} LIMIT :limit) AS beginning
             UNION
             SELECT id FROM (SELECT id FROM {table} WHERE {tail} = :tail AND {text} LIKE :end AND {seen} LIMIT :limit)
                 AS ending"
        );
        let params = [
            ("low", low.into()),
            ("high", high.into()),
            ("tail", digits[digits.len() - TAIL..].into()),
            ("end", format!("%{digits}").into()),
            ("limit", (CANDIDATES_MAX as i64 + 1).into()),
        ];
        let rows =
            sea_orm::ConnectionTrait::query_all_raw(self.reader(), sql::statement(self.backend(), &text, &params));
        let candidates = rows.await?.iter().map(|row| row.try_get("", "id")).collect::<Result<_, _>>()?;
        Ok(Found::from_candidates(candidates))
    }

    /// Finds a scheduler by its id, or by a unique beginning or end of it.
    pub async fn find_scheduler(&self, part: &str) -> Result<Found, Error> {
        let Some(digits) = digits(part) else { return Ok(Found::Malformed) };
        let (low, high) = range(&digits);
        let beginning = scheduler::Column::Id.between(low, high);
        // A cluster has a handful of schedulers, and those of the last days are remembered: no index is needed.
        let recent: Vec<Uuid> = scheduler::Entity::find()
            .select_only()
            .column(scheduler::Column::Id)
            .order_by_desc(scheduler::Column::Id)
            .limit(super::NAMES_MAX)
            .into_tuple()
            .all(self.reader())
            .await?;
        let mut candidates: Vec<Uuid> = scheduler::Entity::find()
            .select_only()
            .column(scheduler::Column::Id)
            .filter(beginning)
            .limit(CANDIDATES_MAX as u64 + 1)
            .into_tuple()
            .all(self.reader())
            .await?;
        candidates.extend(recent.into_iter().filter(|id| id.simple().to_string().ends_with(&digits)));
        Ok(Found::from_candidates(candidates))
    }
}

/// The hex digits of a part of an id, in lower case; dashes mean nothing.
fn digits(part: &str) -> Option<String> {
    let digits: String = part.chars().filter(|&c| c != '-').map(|c| c.to_ascii_lowercase()).collect();
    let fits = (DIGITS_MIN..=32).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then_some(digits)
}

/// The lowest and the highest id that begins so.
fn range(digits: &str) -> (Uuid, Uuid) {
    let free = 4 * (32 - u32::try_from(digits.len()).unwrap_or(32));
    let bits = u128::from_str_radix(digits, 16).unwrap_or(0);
    let low = bits.checked_shl(free).unwrap_or(0);
    let rest = 1_u128.checked_shl(free).map_or(u128::MAX, |above| above - 1);
    (Uuid::from_u128(low), Uuid::from_u128(low | rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_four_to_thirty_two_hex_digits() {
        assert_eq!(digits("01AB-cd"), Some("01abcd".to_owned()));
        assert_eq!(digits("abc"), None);
        assert_eq!(digits("wxyz"), None);
        assert_eq!(digits(&"a".repeat(33)), None);
        assert_eq!(digits("%___"), None);
    }

    #[test]
    fn a_beginning_is_a_range_of_ids() {
        let (low, high) = range("0192");
        assert_eq!(low.to_string(), "01920000-0000-0000-0000-000000000000");
        assert_eq!(high.to_string(), "0192ffff-ffff-ffff-ffff-ffffffffffff");
        let whole = Uuid::now_v7();
        assert_eq!(range(&whole.simple().to_string()), (whole, whole));
    }
}
