//! shim
use super::time::Timestamp;
use std::collections::BTreeMap;
/// p
#[derive(Debug)]
pub struct Problem {
    /// n
    pub name: String,
    /// m
    pub message: String,
}
/// e
pub fn evaluate(
    declared: &BTreeMap<String, String>,
    given: &BTreeMap<String, String>,
    _now: Timestamp,
) -> Result<BTreeMap<String, String>, Problem> {
    let mut all = declared.clone();
    for (k, v) in given {
        if !declared.contains_key(k) {
            return Err(Problem { name: k.clone(), message: "is not declared".into() });
        }
        all.insert(k.clone(), v.clone());
    }
    Ok(all)
}
