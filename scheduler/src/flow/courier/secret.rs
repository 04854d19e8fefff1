//! Secrets are looked up when they are needed, so that a changed one is used at once, and live no longer than a try.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::domain::definition::callback::Secret;

/// Where the operator keeps a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Password {
    /// In a variable of the environment.
    Variable(String),
    /// In a file.
    File(PathBuf),
}

impl Password {
    /// Reads `env:NAME` or `file:PATH`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            // The text itself may be the password: it is not repeated.
            _ => Err("is no reference to a password; write env:NAME or file:PATH".to_owned()),
        }
    }

    /// The password. What goes wrong names the place, never what is there.
    pub(super) fn look_up(&self) -> Result<String, String> {
        match self {
            Self::Variable(name) => variable(name),
            Self::File(path) => file(path),
        }
    }
}

/// The secret that a definition refers to.
pub(super) fn look_up(reference: &str, directory: Option<&Path>) -> Result<String, String> {
    match Secret::parse(reference)? {
        Secret::Variable(name) => variable(&name),
        Secret::File(name) => match directory {
            Some(directory) => file(&directory.join(name)),
            None => Err(format!("secret file {name:?}: start the scheduler with --secrets-dir")),
        },
    }
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("secret {name} is not set in the environment of the scheduler"))
}

fn file(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("secret file {}: {error}", path.display()))?;
    // Editors end files with a line's end, which is no part of a secret.
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_file_lies_in_the_directory_of_secrets() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("hook"), "s3cret\n").unwrap();
        assert_eq!(look_up("file:hook", Some(directory.path())), Ok("s3cret".to_owned()));
        assert!(look_up("file:other", Some(directory.path())).unwrap_err().contains("other"));
        assert!(look_up("file:hook", None).unwrap_err().contains("--secrets-dir"));
        assert!(look_up("file:../hook", Some(directory.path())).is_err());
    }

    #[test]
    fn what_is_missing_is_named() {
        let problem = look_up("env:BATON_SECRET_NOT_THERE", None).unwrap_err();
        assert!(problem.contains("BATON_SECRET_NOT_THERE is not set"), "{problem}");
        assert!(!Password::parse("hunter2").unwrap_err().contains("hunter2"));
        assert_eq!(Password::parse("env:SMTP"), Ok(Password::Variable("SMTP".to_owned())));
    }
}
