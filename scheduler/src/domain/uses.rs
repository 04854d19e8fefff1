//! Which job configs name which others: names that must mean something, and rings that must not be.
//!
//! A `job` task makes jobs of the config that it names, and so does a callback that starts one; `after_jobs` makes jobs of
//! its own config when those it names finish. Any of these ways a run of one config leads to a run of another, and a ring of that would make jobs without end. It is
//! refused when definitions are applied, over all of them together.

use std::collections::{BTreeMap, BTreeSet};

use super::definition::{
    JobConfig, Path, Problem, Target,
    callback::{Action, Callback},
    did_you_mean,
};

/// How many names of a ring are shown; of a longer one the beginning and the end are.
const SHOWN_MAX: usize = 12;

/// How one job config names another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A `job` task runs it.
    Task,
    /// It comes after it.
    After,
    /// A callback starts it.
    Callback,
}

impl Kind {
    /// The word that the database uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Task => "TASK",
            Self::After => "AFTER",
            Self::Callback => "CALLBACK",
        }
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Task, Self::After, Self::Callback].into_iter().find(|kind| kind.word() == word)
    }
}

/// That one job config names another of its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// The config that names.
    pub user: String,
    /// How.
    pub kind: Kind,
    /// The config that is named.
    pub name: String,
}

/// The job configs of a namespace, as they are stored.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Their names, or as many of them as are asked about.
    pub names: BTreeSet<String>,
    /// What they name.
    pub uses: Vec<Use>,
}

/// What a definition names, and where it does so.
pub fn of(config: &JobConfig) -> Vec<(Use, Path)> {
    let one = |kind, name: &str| Use { user: config.name.clone(), kind, name: name.to_owned() };
    let tasks = Path::default().key("tasks");
    let in_tasks = config.tasks.iter().enumerate().filter_map(|(place, task)| match &task.target {
        Target::Job(job) => Some((one(Kind::Task, &job.name), tasks.index(place).key("job").key("name"))),
        _ => None,
    });
    let after = Path::default().key("after_jobs");
    let after = config.after_jobs.iter().enumerate().map(|(place, name)| (one(Kind::After, name), after.index(place)));
    let told = started(&config.callbacks, &Path::default());
    let of_tasks =
        config.tasks.iter().enumerate().flat_map(|(place, task)| started(&task.callbacks, &tasks.index(place)));
    let told = told.into_iter().chain(of_tasks).map(|(name, path)| (one(Kind::Callback, name), path));
    in_tasks.chain(after).chain(told).collect()
}

/// The job configs that some callbacks start, and where they are named.
fn started<'c>(callbacks: &'c [Callback], whose: &Path) -> Vec<(&'c str, Path)> {
    let callback = |(place, callback): (usize, &'c Callback)| match &callback.action {
        Action::Job(job) => Some((job.name.as_str(), whose.key("callbacks").index(place).key("job").key("name"))),
        Action::Http(_) | Action::Email(_) => None,
    };
    callbacks.iter().enumerate().filter_map(callback).collect()
}

/// The names that definitions name, by namespace; a namespace where they name nothing is left out.
pub fn named(configs: &[&JobConfig]) -> BTreeMap<String, BTreeSet<String>> {
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for config in configs {
        for (one, _) in of(config) {
            named.entry(config.namespace.clone()).or_default().insert(one.name);
        }
    }
    named
}

/// Tells what is wrong with what definitions of any namespaces name, given what else there is in those of [`named`]. Each
/// problem comes with the position of its definition.
pub fn problems(configs: &[&JobConfig], known: &BTreeMap<String, Known>) -> Vec<(usize, Problem)> {
    let mut problems = Vec::new();
    for (namespace, known) in known {
        let (positions, within): (Vec<usize>, Vec<&JobConfig>) =
            configs.iter().copied().enumerate().filter(|(_, config)| config.namespace == *namespace).unzip();
        problems.extend(check(&within, known).into_iter().map(|(position, problem)| (positions[position], problem)));
    }
    problems
}

/// Tells what is wrong with what definitions name, given what else there is: names that mean nothing, and rings. The
/// definitions are of one namespace and take the place of stored ones of their names, so that their order does not
/// matter. Each problem comes with the position of its definition.
fn check(configs: &[&JobConfig], known: &Known) -> Vec<(usize, Problem)> {
    let given: BTreeSet<&str> = configs.iter().map(|config| config.name.as_str()).collect();
    let mut problems = Vec::new();
    let mut ways: Ways<'_> = BTreeMap::new();
    for stored in known.uses.iter().filter(|stored| !given.contains(stored.user.as_str())) {
        lead(&mut ways, stored);
    }
    let uses: Vec<Vec<(Use, Path)>> = configs.iter().map(|config| of(config)).collect();
    for (position, uses) in uses.iter().enumerate() {
        for (one, path) in uses {
            if known.names.contains(&one.name) || given.contains(one.name.as_str()) {
                lead(&mut ways, one);
                continue;
            }
            let names = known.names.iter().map(String::as_str).chain(given.iter().copied());
            let hint = did_you_mean(&one.name, names.filter(|name| *name != one.user));
            let hint = hint.unwrap_or_else(|| "apply it first, or in the same file".to_owned());
            let message = format!("job config {:?} does not exist", one.name);
            problems.push((position, Problem::new(path.clone(), message).suggest(hint)));
        }
    }
    if let Some(ring) = ring(&ways, given) {
        problems.extend(tell(configs, &uses, &ring));
    }
    problems
}

/// Which runs lead to runs of which others.
type Ways<'u> = BTreeMap<&'u str, BTreeSet<&'u str>>;

fn lead<'u>(ways: &mut Ways<'u>, one: &'u Use) {
    let (from, to) = match one.kind {
        Kind::Task | Kind::Callback => (&one.user, &one.name),
        Kind::After => (&one.name, &one.user),
    };
    ways.entry(from).or_default().insert(to);
}

/// A ring that one of these is part of or leads to, if there is one.
fn ring<'u>(ways: &Ways<'u>, starts: BTreeSet<&'u str>) -> Option<Vec<&'u str>> {
    let next = |name: &str| ways.get(name).into_iter().flatten().copied();
    let mut done = BTreeSet::new();
    for start in starts {
        // The names on the way here, each with those that are still to be looked at.
        let mut way = vec![(start, next(start).collect::<Vec<_>>())];
        let mut passed = BTreeSet::from([start]);
        while let Some((name, rest)) = way.last_mut() {
            let Some(other) = rest.pop() else {
                done.insert(*name);
                passed.remove(*name);
                way.pop();
                continue;
            };
            if passed.contains(other) {
                return Some(way.iter().map(|(name, _)| *name).skip_while(|name| *name != other).collect());
            }
            if !done.contains(other) {
                passed.insert(other);
                way.push((other, next(other).collect()));
            }
        }
    }
    None
}

/// Shows a ring where a definition closes it.
fn tell(configs: &[&JobConfig], uses: &[Vec<(Use, Path)>], ring: &[&str]) -> Option<(usize, Problem)> {
    let pairs: Vec<(&str, &str)> = ring.iter().copied().zip(ring.iter().copied().cycle().skip(1)).collect();
    let closes = |one: &Use| match one.kind {
        Kind::Task | Kind::Callback => pairs.contains(&(one.user.as_str(), one.name.as_str())),
        Kind::After => pairs.contains(&(one.name.as_str(), one.user.as_str())),
    };
    let found = uses.iter().enumerate().find_map(|(position, uses)| {
        let (one, path) = uses.iter().find(|(one, _)| closes(one))?;
        Some((position, one, path))
    });
    let (position, one, path) = found?;
    // The ring is told from the definition that closes it on.
    let first = ring.iter().position(|name| *name == configs[position].name).unwrap_or(0);
    let mut names: Vec<&str> = ring[first..].iter().chain(&ring[..first]).copied().collect();
    names.push(names[0]);
    if names.len() > SHOWN_MAX {
        let half = SHOWN_MAX / 2;
        names.splice(half..names.len() - half, ["…"]);
    }
    let message = match ring.len() {
        1 => format!("job config {:?} would lead to itself without end", one.user),
        count => format!("these {count} job configs would lead to one another without end: {}", names.join(" → ")),
    };
    Some((position, Problem::new(path.clone(), message).suggest("take out one of these names".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::definition::read;

    /// "b: job a, after c, starts d" as a definition.
    fn config(text: &str) -> JobConfig {
        let (name, uses) = text.split_once(':').expect("a name and what it names");
        let mut source = format!("name: {name}\ntasks:\n  - {{name: work, shell: 'true'}}\n");
        let uses: Vec<(&str, &str)> = uses.split(',').filter_map(|one| one.trim().split_once(' ')).collect();
        for (_, other) in uses.iter().filter(|(kind, _)| *kind == "job") {
            source.extend(["  - {name: run-", other, ", job: {name: ", other, "}}\n"]);
        }
        let starts: Vec<&str> = uses.iter().filter(|(kind, _)| *kind == "starts").map(|(_, other)| *other).collect();
        if !starts.is_empty() {
            source.push_str("callbacks:\n");
        }
        for other in starts {
            source.extend(["  - {events: [failed], job: {name: ", other, "}}\n"]);
        }
        let after: Vec<&str> = uses.iter().filter(|(kind, _)| *kind == "after").map(|(_, other)| *other).collect();
        if !after.is_empty() {
            source.extend(["after_jobs: [", &after.join(", "), "]\n"]);
        }
        read(&source, "default").unwrap_or_else(|problems| panic!("{problems:#?}")).remove(0).config
    }

    /// What is said of an apply of these, when those are stored.
    fn said(given: &[&str], stored: &[&str]) -> Vec<String> {
        let stored: Vec<JobConfig> = stored.iter().map(|text| config(text)).collect();
        let known = Known {
            names: stored.iter().map(|config| config.name.clone()).collect(),
            uses: stored.iter().flat_map(of).map(|(one, _)| one).collect(),
        };
        let given: Vec<JobConfig> = given.iter().map(|text| config(text)).collect();
        let problems = check(&given.iter().collect::<Vec<_>>(), &known);
        problems.into_iter().map(|(at, problem)| format!("{at} {}: {}", problem.path, problem.message)).collect()
    }

    #[test]
    fn what_leads_to_itself_is_refused_with_the_ring() {
        let cases: &[(&[&str], &[&str], &[&str])] = &[
            (&["a:"], &[], &[]),
            (&["a: job b"], &["b:"], &[]),
            // A diamond is no ring.
            (&["a: job b, job c"], &["b: job d", "c: job d", "d:"], &[]),
            (&["a: job b, job c", "b: job d", "c: job d", "d:"], &[], &[]),
            (
                &["b: job a"],
                &["a: job b", "b:"],
                &["0 tasks[1].job.name: these 2 job configs would lead to one another without end: b → a → b"],
            ),
            // In one file, whatever the order of its documents.
            (
                &["a: job b", "b: job c", "c: job a"],
                &[],
                &["0 tasks[1].job.name: these 3 job configs would lead to one another without end: a → b → c → a"],
            ),
            (
                &["b: after a"],
                &["a: after b", "b:"],
                &["0 after_jobs[0]: these 2 job configs would lead to one another without end: b → a → b"],
            ),
            // The end of b starts a, which runs b again.
            (
                &["a: job b, after b"],
                &["b:"],
                &["0 tasks[1].job.name: these 2 job configs would lead to one another without end: a → b → a"],
            ),
            // a runs b and is followed by it: two runs of b, and no more.
            (&["b: after a"], &["a: job b", "b:"], &[]),
            // A callback starts a job as well.
            (&["a: starts b"], &["b:"], &[]),
            (&["a: starts a"], &[], &["0 callbacks[0].job.name: job config \"a\" would lead to itself without end"]),
            (
                &["b: starts a"],
                &["a: job b", "b:"],
                &["0 callbacks[0].job.name: these 2 job configs would lead to one another without end: b → a → b"],
            ),
            // What is replaced counts no longer.
            (&["a:", "b: job a"], &["a: job b", "b:"], &[]),
        ];
        for (given, stored, expected) in cases {
            assert_eq!(said(given, stored), *expected, "{given:?} upon {stored:?}");
        }
    }

    #[test]
    fn namespaces_know_nothing_of_each_other() {
        let within = |namespace: &str, text| JobConfig { namespace: namespace.to_owned(), ..config(text) };
        let given =
            [within("a", "load:"), within("b", "plan: job load"), within("b", "alone:"), within("c", "x: job y")];
        let given: Vec<&JobConfig> = given.iter().collect();
        let named = named(&given);
        assert_eq!(named.keys().collect::<Vec<_>>(), ["b", "c"]);
        assert!(named["b"].contains("load"));
        let known = Known { names: ["y".to_owned()].into(), uses: Vec::new() };
        let problems = problems(&given, &[("b".to_owned(), Known::default()), ("c".to_owned(), known)].into());
        let told: Vec<_> = problems.iter().map(|(at, problem)| (*at, problem.message.as_str())).collect();
        assert_eq!(told, [(1, "job config \"load\" does not exist")]);
    }

    #[test]
    fn a_name_that_means_nothing_is_refused_with_the_one_that_was_meant() {
        let known = Known { names: ["load".to_owned()].into(), uses: Vec::new() };
        let problems = check(&[&config("plan: job lod, after nothing-like-it")], &known);
        let said: Vec<_> = problems
            .iter()
            .map(|(_, problem)| (problem.message.as_str(), problem.suggestion.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(
            said,
            [
                ("job config \"lod\" does not exist", "did you mean \"load\"?"),
                ("job config \"nothing-like-it\" does not exist", "apply it first, or in the same file"),
            ]
        );
    }

    #[test]
    fn a_long_chain_is_no_matter_and_a_long_ring_is_told_in_part() {
        let chain: Vec<String> = (0..5_000).map(|at| format!("c{at}: job c{}", at + 1)).collect();
        let stored: Vec<&str> = chain.iter().map(String::as_str).collect();
        assert_eq!(said(&["c5000:"], &stored), Vec::<String>::new());
        let said = said(&["c5000: job c0"], &stored);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("these 5001 job configs") && said[0].contains("→ … →"), "{said:?}");
    }
}
