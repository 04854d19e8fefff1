//! `docs/models.md` shows what the models come to; each test sees to its own row.

use std::{
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

/// Set to have rows written instead of compared.
const WRITE: &str = "BATON_WRITE_DOCS";

/// The page is one file, and tests run side by side.
static PAGE: Mutex<()> = Mutex::new(());

/// Sees that the page has this row, which its first two cells name.
pub(crate) fn shows(model: &str, without: &str, rest: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/models.md");
    let (key, row) = (format!("| {model} | {without} |"), format!("| {model} | {without} | {rest} |"));
    let _alone = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let page = fs::read_to_string(&path).expect("docs/models.md can be read");
    let shown = page.lines().find(|line| line.starts_with(&key));
    if shown == Some(row.as_str()) {
        return;
    }
    assert!(std::env::var_os(WRITE).is_some(), "docs/models.md is not up to date: run this with {WRITE}=1\n{row}");
    let shown =
        shown.unwrap_or_else(|| panic!("docs/models.md has no row that begins {key:?}: put one where it belongs"));
    fs::write(&path, page.replace(shown, &row)).expect("docs/models.md can be written");
}
