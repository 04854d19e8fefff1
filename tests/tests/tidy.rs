//! The repository keeps its own rules: arrows point one way, files say what they are, nothing is left unfinished.

use std::{
    fs,
    path::{Path, PathBuf},
};

use baton_tests::programs::repository;

/// A file longer than this is refused. Past 600 lines it wants to be two already.
const LINES_MAX: usize = 850;

/// Which rooms a room of the scheduler may know. The arrows point one way: rpc, flow, store, domain.
const ROOMS: [(&str, &[&str]); 3] =
    [("domain", &["store", "flow", "rpc"]), ("store", &["flow", "rpc"]), ("flow", &["rpc"])];

/// Where the messages of the protocol may be known; everywhere else there are values of our own.
const PROTO: [&str; 7] =
    ["scheduler/src/rpc/", "runner/src/link", "runner/tests/", "cli/", "tests/", "bench/", "proto/"];

/// Every Rust file of the repository, by its path from the root.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![repository().to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory can be read").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((relative(&path), fs::read_to_string(&path).expect("it is text")));
            }
        }
    }
    found.sort();
    assert!(found.len() > 20, "the sources are gone");
    found
}

fn relative(path: &Path) -> String {
    let path: PathBuf = path.strip_prefix(repository()).expect("it lies in the repository").into();
    path.display().to_string()
}

/// Fails with every offence at once.
#[track_caller]
fn none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

/// Lines of code with their numbers, comments left out.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn the_arrows_between_rooms_point_one_way() {
    let mut offences = Vec::new();
    for (path, text) in sources() {
        for (room, forbidden) in ROOMS {
            if !path.starts_with(&format!("scheduler/src/{room}/")) && path != format!("scheduler/src/{room}.rs") {
                continue;
            }
            for (number, line) in code(&text) {
                for other in forbidden {
                    let direct = line.contains(&format!("crate::{other}"));
                    // use crate::{flow::x, store::y}
                    let nested = line.contains("crate::{") && line.contains(&format!("{other}::"));
                    if direct || nested {
                        offences.push(format!("{path}:{number}: {room} knows {other}: {}", line.trim()));
                    }
                }
            }
        }
    }
    none("a room knows only what lies below it", &offences);
}

#[test]
fn the_messages_of_the_protocol_stay_at_the_doors() {
    let mut offences = Vec::new();
    for (path, text) in sources() {
        if PROTO.iter().any(|allowed| path.starts_with(allowed)) {
            continue;
        }
        for (number, line) in code(&text) {
            if line.contains("baton::v1") || line.contains("use baton::{") {
                offences.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    none("messages of the protocol are known only where they come in and go out", &offences);
}

#[test]
fn entities_stay_in_the_store() {
    let mut offences = Vec::new();
    for (path, text) in sources() {
        // A test that lets two connections race by hand speaks to the database itself.
        let by_hand = path.contains("/tests/");
        if !path.starts_with("scheduler/src/") || path.starts_with("scheduler/src/store/") || by_hand {
            continue;
        }
        for (number, line) in code(&text) {
            if line.contains("sea_orm::") || line.contains("store::entity") {
                offences.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    none("only the store knows its entities and sea-orm", &offences);
}

#[test]
fn every_file_opens_with_a_sentence_that_says_what_it_is() {
    let offences = sources().into_iter().filter(|(_, text)| {
        let opening = text.lines().next().and_then(|line| line.strip_prefix("//! "));
        opening.is_none_or(|sentence| sentence.trim().is_empty())
    });
    none("a file opens with `//! ` and a sentence", &offences.map(|(path, _)| path).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_unfinished() {
    // Put together here, so that this file is not its own offence.
    let marks = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"]].map(|halves| halves.concat());
    let mut offences = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(|letter: char| !letter.is_alphanumeric());
            if words.any(|word| marks.iter().any(|mark| word == mark)) {
                offences.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none("what is left to do is in an issue", &offences);
}

#[test]
fn tests_wait_for_events_and_never_for_a_while() {
    let waits = ["thread", "time"].map(|module| format!("{module}::sleep("));
    let mut offences = Vec::new();
    for (path, text) in sources() {
        let in_tests = path.starts_with("tests/") || path.contains("/tests/");
        // At the margin it marks a test module; further in, what an item has for tests alone.
        let start = if in_tests { Some(0) } else { text.find("\n#[cfg(test)]") };
        let Some(start) = start else { continue };
        let before = text[..start].lines().count();
        for (number, line) in code(&text[start..]) {
            if waits.iter().any(|wait| line.contains(wait.as_str())) {
                offences.push(format!("{path}:{}: {}", before + number, line.trim()));
            }
        }
    }
    none("a test awaits what happens", &offences);
}

#[test]
fn no_test_is_switched_off() {
    let mark = ["#[ign", "ore"].concat();
    let offences = sources().into_iter().filter(|(_, text)| text.contains(&mark)).map(|(path, _)| path);
    none("a test that is not run proves nothing", &offences.collect::<Vec<_>>());
}

#[test]
fn long_files_want_to_be_two() {
    let offences = sources().into_iter().filter_map(|(path, text)| {
        let lines = text.lines().count();
        (lines > LINES_MAX).then(|| format!("{path}: {lines} lines"))
    });
    none(&format!("a file has at most {LINES_MAX} lines"), &offences.collect::<Vec<_>>());
}

/// docs/faults.md says in which test each fault happens: those tests are there. `module::moral` is a test of the whole
/// system, `path::moral` one of another file.
#[test]
fn the_table_of_faults_names_tests_that_exist() {
    let page = fs::read_to_string(repository().join("docs/faults.md")).expect("the page is there");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |")).collect();
    assert!(rows.len() > 50, "the table is gone");
    let missing: Vec<String> = rows
        .into_iter()
        .filter_map(|row| row.rsplit('`').nth(1))
        .filter(|name| {
            let Some((file, moral)) = name.rsplit_once("::") else { return true };
            let file = if file.contains('/') { file.to_owned() } else { format!("tests/tests/system/{file}.rs") };
            let text = fs::read_to_string(repository().join(file)).unwrap_or_default();
            !text.contains(&format!("fn {moral}("))
        })
        .map(str::to_owned)
        .collect();
    none("the table of faults names tests that do not exist", &missing);
}
