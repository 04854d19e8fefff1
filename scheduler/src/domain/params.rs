//! The parameters of a job: what its definition declares, with what the request gives.

use std::collections::BTreeMap;

use chrono::{DateTime, FixedOffset};

use super::{
    definition::{
        did_you_mean,
        limits::{PARAM_MAX, PARAMS_TOTAL_MAX},
    },
    reference::Scope,
    template::Renderer,
};

/// Why a parameter cannot have a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Which one.
    pub name: String,
    /// Why, and what would be right.
    pub message: String,
}

/// Works out the parameters of a job, once, when it is made: a given value as it is, a default as the template it may be.
/// Tells everything that is wrong otherwise.
pub fn evaluate(
    declared: &BTreeMap<String, String>,
    given: &BTreeMap<String, String>,
    logical_time: DateTime<FixedOffset>,
) -> Result<BTreeMap<String, String>, Vec<Invalid>> {
    let mut wrong = Vec::new();
    for name in given.keys().filter(|name| !declared.contains_key(*name)) {
        let hint = did_you_mean(name, declared.keys().map(String::as_str)).unwrap_or_else(|| match declared.len() {
            0 => "the job takes no params".to_owned(),
            _ => format!("the job takes {}", declared.keys().take(20).cloned().collect::<Vec<_>>().join(", ")),
        });
        wrong.push(Invalid { name: name.clone(), message: format!("is not a param of this job: {hint}") });
    }
    let renderer = Renderer::new(&Scope { logical_time, ..Scope::default() });
    let mut params = BTreeMap::new();
    let mut total = 0;
    for (name, default) in declared {
        let value = match given.get(name) {
            Some(value) => Ok(value.clone()),
            None => renderer.render("its default", default),
        };
        match value.and_then(|value| check(&value).map(|()| value)) {
            Ok(value) => {
                total += name.len() + value.len();
                params.insert(name.clone(), value);
            }
            Err(message) => wrong.push(Invalid { name: name.clone(), message }),
        }
    }
    if total > PARAMS_TOTAL_MAX {
        let message = format!("all params together have {total} bytes; at most {PARAMS_TOTAL_MAX}");
        wrong.push(Invalid { name: String::new(), message });
    }
    if wrong.is_empty() { Ok(params) } else { Err(wrong) }
}

/// Whether a text can be the value of a parameter.
pub fn check(value: &str) -> Result<(), String> {
    if value.len() > PARAM_MAX {
        return Err(format!("has {} bytes; at most {PARAM_MAX}", value.len()));
    }
    if value.contains('\0') {
        return Err("holds the character U+0000, which no process can be given".to_owned());
    }
    Ok(())
}

/// The environment variable in which a task finds a parameter.
pub fn variable(name: &str) -> String {
    format!("BATON_PARAM_{}", name.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn time() -> DateTime<FixedOffset> {
        DateTime::parse_from_rfc3339("2026-12-01T02:30:00+08:00").expect("a time")
    }

    #[test]
    fn given_values_are_literal_and_defaults_are_worked_out() {
        let declared = map(&[("day", "{{ logical_time | date('%Y-%m-%d') }}"), ("mode", "full"), ("x", "")]);
        let params = evaluate(&declared, &map(&[("x", "{{ params.day }}")]), time()).expect("params");
        assert_eq!(params, map(&[("day", "2026-12-01"), ("mode", "full"), ("x", "{{ params.day }}")]));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let declared = map(&[("day", "1"), ("bad", "{{ logical_time | date('%Q') }}"), ("nul", "")]);
        let large = "x".repeat(PARAM_MAX + 1);
        let given = map(&[("dya", "2"), ("day", &large), ("nul", "\0")]);
        let wrong = evaluate(&declared, &given, time()).expect_err("wrong");
        let told: Vec<&str> = wrong.iter().map(|wrong| wrong.name.as_str()).collect();
        assert_eq!(told, ["dya", "bad", "day", "nul"]);
        assert!(wrong[0].message.contains("did you mean \"day\"?"), "{wrong:?}");
        assert!(wrong[2].message.contains("65536"), "{wrong:?}");
    }

    #[test]
    fn params_together_must_fit_into_an_environment() {
        let value = "x".repeat(PARAM_MAX);
        let declared: BTreeMap<_, _> = (0..9).map(|place| (format!("p{place}"), value.clone())).collect();
        let wrong = evaluate(&declared, &BTreeMap::new(), time()).expect_err("too much");
        assert!(wrong[0].message.contains("524288"), "{wrong:?}");
    }
}
