//! What a task finds when it starts: its environment, its directory, its program.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt as _,
    path::{Component, Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    task::{RunSpec, TaskRef},
    tree::KEY_VARIABLE,
};

/// What every task inherits from the runner. Nothing else does, unless `--pass-env` names it.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// Where programs are looked for when the runner itself has no PATH.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where things of one attempt are.
pub(crate) struct Places<'a> {
    pub(crate) tmp: &'a Path,
    pub(crate) output: &'a Path,
    pub(crate) key: &'a str,
}

/// The whole environment of a task: inherited, passed on, its own, and Baton's, each stronger than the one before.
pub(crate) fn environment(
    task: TaskRef,
    spec: &RunSpec,
    places: &Places<'_>,
    pass_env: &[String],
) -> BTreeMap<OsString, OsString> {
    let mut all: BTreeMap<OsString, OsString> = BTreeMap::new();
    all.insert("PATH".into(), PATH_DEFAULT.into());
    for name in INHERITED.into_iter().chain(pass_env.iter().map(String::as_str)) {
        if let Some(value) = env::var_os(name) {
            all.insert(name.into(), value);
        }
    }
    for (name, value) in &spec.env {
        all.insert(name.into(), value.into());
    }
    for (name, value) in &spec.params {
        all.insert(param_variable(name).into(), value.into());
    }
    let mut set = |name: &str, value: OsString| all.insert(name.into(), value);
    set("BATON_JOB_ID", spec.job_id.clone().into());
    set("BATON_JOB_NAME", spec.job_name.clone().into());
    set("BATON_TASK_ID", task.id.to_string().into());
    set("BATON_TASK_NAME", spec.task_name.clone().into());
    set("BATON_ATTEMPT", task.attempt.to_string().into());
    set("BATON_TMPDIR", places.tmp.into());
    set("BATON_OUTPUT", places.output.into());
    set(KEY_VARIABLE, places.key.into());
    if let Some(time) = spec.fire_time {
        set("BATON_FIRE_TIME", rfc3339(time).into());
    }
    if let Some(index) = spec.shard_index {
        set("BATON_SHARD_INDEX", index.to_string().into());
        set("BATON_SHARD_COUNT", spec.shard_count.unwrap_or(0).to_string().into());
        set("BATON_SHARD_ITEM", spec.shard_item.clone().into());
    }
    all
}

/// `day-of week` becomes `BATON_PARAM_DAY_OF_WEEK`.
fn param_variable(name: &str) -> String {
    let upper = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("BATON_PARAM_{}", upper.collect::<String>())
}

/// The directory of a task: below the runner's work directory, as far as its text goes. (A link in there that leads
/// elsewhere was put there by whoever owns the machine.)
pub(crate) fn working_dir(work_dir: &Path, relative: &str) -> Result<PathBuf, String> {
    let mut depth = 0_usize;
    for part in Path::new(relative).components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(format!(
                    "working_dir `{relative}` leads out of the runner's work directory; give a path below it"
                ));
            }
        }
    }
    if relative.is_empty() {
        // It was there when the runner started. Should it be gone, the spawn fails, and says so.
        return Ok(work_dir.to_owned());
    }
    let dir = work_dir.join(relative);
    if dir.is_dir() {
        return Ok(dir);
    }
    let what = if dir.exists() { "is not a directory" } else { "does not exist" };
    Err(format!("working_dir {} {what} on this runner; create it there or change working_dir", dir.display()))
}

/// The file to execute. A name without a slash is looked up in the task's own PATH, here rather than in the child: with
/// a PATH of its own the standard library would fall back to a slow fork.
pub(crate) fn program(name: &str, dir: &Path, path: Option<&OsStr>) -> Result<PathBuf, String> {
    if name.is_empty() {
        return Err("the command is empty".to_owned());
    }
    if name.contains('/') {
        return Ok(dir.join(name));
    }
    let path = path.unwrap_or_default();
    let mut found_but = None;
    for place in env::split_paths(path) {
        let candidate = dir.join(place).join(name);
        match candidate.metadata() {
            Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => return Ok(candidate),
            Ok(file) if file.is_file() => found_but = Some(candidate),
            _ => {}
        }
    }
    Err(match found_but {
        Some(file) => format!("{} is not executable", file.display()),
        None => format!("program `{name}` was not found on this runner; its PATH is {}", path.to_string_lossy()),
    })
}

/// An instant in UTC, such as `2026-12-01T09:00:00Z`, with as many digits of the second as it has.
fn rfc3339(time: SystemTime) -> String {
    let (seconds, nanos) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (since.as_secs() as i64, since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let borrow = i64::from(before.subsec_nanos() > 0);
            (-(before.as_secs() as i64) - borrow, (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000)
        }
    };
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a date, with years that begin in March so that the leap day comes last.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let fraction = match nanos {
        0 => String::new(),
        nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = |seconds, nanos| rfc3339(UNIX_EPOCH + Duration::new(seconds, nanos));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400, 0), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_796_115_600, 250_000_000), "2026-12-01T09:00:00.25Z");
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_millis(1)), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_directory_outside_the_work_directory_is_refused() {
        let work = tempfile::tempdir().unwrap();
        std::fs::create_dir(work.path().join("in")).unwrap();
        for fine in ["", ".", "in", "in/..", "./in/."] {
            assert!(working_dir(work.path(), fine).is_ok(), "{fine}");
        }
        for refused in ["/tmp", "..", "in/../..", "../in"] {
            assert!(working_dir(work.path(), refused).unwrap_err().contains("leads out"), "{refused}");
        }
        assert!(working_dir(work.path(), "gone").unwrap_err().contains("does not exist"));
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_the_path_searched() {
        let error = program("no-such-program", Path::new("/"), Some(OsStr::new("/usr/bin:/bin"))).unwrap_err();
        assert!(error.contains("no-such-program") && error.contains("/usr/bin:/bin"), "{error}");
        assert_eq!(program("./x", Path::new("/w"), None).unwrap(), Path::new("/w/./x"));
        assert!(program("sh", Path::new("/"), Some(OsStr::new("/bin"))).is_ok());
    }

    #[test]
    fn parameters_become_shell_names() {
        assert_eq!(param_variable("day-of.week2"), "BATON_PARAM_DAY_OF_WEEK2");
    }
}
