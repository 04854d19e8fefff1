//! Job files: which ones an `-f` names, and what is in them.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use crate::errors::Error;

/// The largest job file that a scheduler takes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How many job files one directory may hold.
const FILES_MAX: usize = 1_000;

/// The text of a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFile {
    /// As the user named it; "-" is standard input.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// Reads a file, every `.yaml`, `.yml` and `.json` file of a directory by name, or standard input for "-".
pub fn read(path: &str) -> Result<Vec<JobFile>, Error> {
    if path == "-" {
        return Ok(vec![JobFile { name: "-".to_owned(), text: text("standard input", io::stdin().lock())? }]);
    }
    let metadata = fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    if !metadata.is_dir() {
        return Ok(vec![one(path)?]);
    }
    let entries = fs::read_dir(path).map_err(|error| cannot_read(path, &error))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| cannot_read(path, &error))?.path();
        let is_job_file = |extension: &std::ffi::OsStr| ["yaml", "yml", "json"].iter().any(|known| extension == *known);
        if entry.extension().is_some_and(is_job_file) && entry.is_file() {
            names.push(entry);
        }
    }
    names.sort();
    match names.len() {
        0 => Err(Error::with_next(
            format!("the directory \"{path}\" holds no .yaml, .yml or .json file"),
            "write one with `baton init`",
        )),
        n if n > FILES_MAX => {
            Err(Error::local(format!("\"{path}\" holds {n} job files; at most {FILES_MAX} are read")))
        }
        _ => names.iter().map(|name| one(&name.to_string_lossy())).collect(),
    }
}

fn one(path: &str) -> Result<JobFile, Error> {
    let file = fs::File::open(Path::new(path)).map_err(|error| cannot_read(path, &error))?;
    Ok(JobFile { name: path.to_owned(), text: text(path, file)? })
}

fn text(name: &str, source: impl io::Read) -> Result<String, Error> {
    let mut bytes = Vec::new();
    source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| cannot_read(name, &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::local(format!("\"{name}\" is larger than the 4 MiB a job file may have")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        Error::local(format!("{name}:{line}: the file is not UTF-8 text"))
    })
}

fn cannot_read(name: &str, error: &io::Error) -> Error {
    let cause = crate::errors::root_cause(error);
    Error::with_next(
        format!("cannot read \"{name}\": {cause}"),
        "name a job file, a directory of them, or - for standard input",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_in_the_order_of_its_names() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.yml", "notes.txt", "c.json"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let files = read(directory.path().to_str().unwrap()).unwrap();
        let texts: Vec<_> = files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(texts, ["a.yml", "b.yaml", "c.json"]);
    }

    #[test]
    fn what_cannot_be_a_job_file_is_refused_with_its_reason() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read(directory.path().to_str().unwrap()).unwrap_err().to_string().contains("holds no .yaml"));
        let file = directory.path().join("a.yaml");
        fs::write(&file, b"name: a\nx: \xff\n").unwrap();
        assert!(
            read(file.to_str().unwrap()).unwrap_err().to_string().ends_with("a.yaml:2: the file is not UTF-8 text")
        );
        fs::write(&file, vec![b'#'; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(read(file.to_str().unwrap()).unwrap_err().to_string().contains("4 MiB"));
        assert!(read("/nowhere.yaml").unwrap_err().to_string().contains("no such file or directory"));
    }
}
