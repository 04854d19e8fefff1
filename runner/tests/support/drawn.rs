//! Tables of the docs that tests draw: each lies between two marks of its own.

use std::{env, fs, path::Path};

/// Holds a drawn table against the one in a page, or writes it there with `BATON_WRITE_DOCS=1`.
#[allow(unreachable_pub, reason = "test programs share it as a module, unit tests as their own")]
pub fn hold(page: &str, name: &str, drawn: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let (open, close) = (format!("<!-- drawn: {name} -->\n"), format!("<!-- end: {name} -->"));
    let start = text.find(&open).unwrap_or_else(|| panic!("{page} has no mark {open}")) + open.len();
    let end = start + text[start..].find(&close).unwrap_or_else(|| panic!("{page} has no mark {close}"));
    if env::var_os("BATON_WRITE_DOCS").is_some() {
        let anew = format!("{}{drawn}{}", &text[..start], &text[end..]);
        fs::write(&path, anew).unwrap_or_else(|error| panic!("{page}: {error}"));
    } else {
        assert_eq!(&text[start..end], drawn, "{page} is out of date: run the test with BATON_WRITE_DOCS=1");
    }
}
