//! A calendar file becomes calendars, or a list of everything that is wrong with it.

use std::collections::HashMap;

use super::{
    keys,
    problem::{Part, Path, Problem},
    reader, tree,
    validate::check_name,
};
use crate::domain::schedule::{Calendar, CalendarConfig, DESCRIPTION_MAX, DateRange, RANGES_MAX};

/// Reads a calendar file: its documents in order, each of them valid, or every problem in the order of the file. Those
/// that name no namespace get this one.
pub fn read_calendars(source: &str, namespace: &str) -> Result<Vec<CalendarConfig>, Vec<Problem>> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let (trees, mut problems) = tree::parse(source);
    let mut calendars = Vec::with_capacity(trees.len());
    let mut seen = HashMap::new();
    for tree in &trees {
        let mut found = Vec::new();
        let mut fields = reader::read(&tree.root, &keys::CALENDAR, &Path::default(), &mut found);
        let mut text = |key| fields.text(key).unwrap_or_default();
        let (given, name, description) = (text("namespace"), text("name"), text("description"));
        let dates = fields.texts("exclude").unwrap_or_default();
        let namespace = if given.is_empty() { namespace.to_owned() } else { given };
        let read = found.is_empty();
        let (config, wrong) = calendar(namespace, name, description, &dates);
        if read {
            found.extend(wrong);
        }
        for problem in found.iter_mut().filter(|problem| problem.span.is_none()) {
            problem.span = Some(tree.root.locate(&problem.path, problem.part == Part::Key));
        }
        let place = tree.root.locate(&Path::default().key("name"), false);
        let full_name = (config.namespace.clone(), config.calendar.name.clone());
        if let Some(first) = seen.insert(full_name, place).filter(|_| !config.calendar.name.is_empty()) {
            let message =
                format!("{:?} is there twice in this file, first on line {}", config.calendar.name, first.line);
            found.push(Problem::new(Path::default().key("name"), message).at(place));
        }
        problems.append(&mut found);
        calendars.push(config);
    }
    if trees.is_empty() && problems.is_empty() {
        let problem = Problem::new(Path::default(), "the file holds no calendar");
        problems.push(problem.suggest("a calendar has a name and dates: exclude: [2026-12-25]".to_owned()));
    }
    if problems.is_empty() { Ok(calendars) } else { Err(problems) }
}

/// A calendar out of its fields, with everything that is wrong with it.
pub fn calendar(
    namespace: String,
    name: String,
    description: String,
    dates: &[String],
) -> (CalendarConfig, Vec<Problem>) {
    let (root, mut problems) = (Path::default(), Vec::new());
    check_name("the namespace", &namespace, &root.key("namespace"), &mut problems);
    check_name("the calendar", &name, &root.key("name"), &mut problems);
    if description.chars().count() > DESCRIPTION_MAX {
        let message = format!("a description has at most {DESCRIPTION_MAX} characters");
        problems.push(Problem::new(root.key("description"), message));
    }
    let path = root.key("exclude");
    if dates.len() > RANGES_MAX {
        let message =
            format!("{} dates and ranges; at most {RANGES_MAX}: write what is together as one range", dates.len());
        problems.push(Problem::new(path.clone(), message));
    }
    let mut exclude: Vec<DateRange> = Vec::with_capacity(dates.len().min(RANGES_MAX));
    for (place, date) in dates.iter().enumerate().take(RANGES_MAX) {
        match date.parse() {
            Ok(range) => exclude.push(range),
            Err(error) => problems.push(Problem::new(path.index(place), format!("{error}"))),
        }
    }
    exclude.sort_unstable_by_key(|range| (range.first, range.last));
    exclude.dedup();
    (CalendarConfig { namespace, description, calendar: Calendar { name, exclude } }, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_calendars_is_read_with_dates_and_ranges_in_order() {
        let source =
            "name: holidays-de\nexclude: [2026-12-25..2026-12-26, 2026-10-03]\n---\nname: freeze\nnamespace: ops\n";
        let read = read_calendars(source, "default").unwrap();
        let shown: Vec<String> = read[0].calendar.exclude.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["2026-10-03", "2026-12-25..2026-12-26"]);
        assert_eq!((read[0].namespace.as_str(), read[1].namespace.as_str()), ("default", "ops"));
    }

    #[test]
    fn everything_wrong_is_told_at_once_and_where() {
        let source = "name: Holidays\nexclude:\n  - 2026-02-30\n  - 2026-12-31..2026-12-24\n  - 2026-12-25\n";
        let wrong = read_calendars(source, "default").unwrap_err();
        let lines: Vec<usize> = wrong.iter().map(|problem| problem.span.unwrap().line).collect();
        assert_eq!(lines, [1, 3, 4], "{wrong:?}");
        assert!(wrong[1].message.contains("2026-12-24..2026-12-31"), "{wrong:?}");
        assert_eq!(read_calendars("name: a\ndates: []\n", "default").unwrap_err().len(), 1);
        assert!(read_calendars("", "default").is_err());
    }
}
