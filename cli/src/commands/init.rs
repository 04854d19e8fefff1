//! `baton init`: a commented job file to start from.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write as _},
};

use clap::ValueEnum;

use crate::{
    context::Context,
    errors::{Error, Exit, root_cause},
};

/// What `init` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton init                       hello.yaml, the smallest job
  baton init etl                   etl.yaml: parents, parameters, data from task to task
  baton init shards                shards.yaml: work split over many processes
  baton init etl -f nightly.yaml
  baton init hello -f - | baton apply -f -

A file that exists is never overwritten.")]
pub struct Args {
    /// Which one.
    #[arg(value_enum, default_value = "hello")]
    example: Example,
    /// Where to write it; the example's name with .yaml when not given, - for standard output.
    #[arg(short, long, value_name = "FILE|-")]
    file: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Example {
    /// The smallest job.
    Hello,
    /// A graph with parameters, and data that goes from task to task.
    Etl,
    /// Work that is split over many processes and brought together again.
    Shards,
}

impl Example {
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Hello => ("hello", include_str!("../../templates/hello.yaml")),
            Self::Etl => ("etl", include_str!("../../templates/etl.yaml")),
            Self::Shards => ("shards", include_str!("../../templates/shards.yaml")),
        }
    }
}

/// Writes it.
pub fn run(context: &Context, args: &Args) -> Result<Exit, Error> {
    let (name, text) = args.example.parts();
    let path = args.file.clone().unwrap_or_else(|| format!("{name}.yaml"));
    if path == "-" {
        context.output.raw(text.as_bytes())?;
        return Ok(Exit::Ok);
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Error::with_next(
                format!("\"{path}\" exists and is left as it is"),
                "name another file with -f",
            ));
        }
        Err(error) => return Err(Error::local(format!("cannot write \"{path}\": {}", root_cause(&error)))),
    }
    context.output.line(&if context.output.is_name() { path.clone() } else { format!("wrote {path}") })?;
    context.output.note(&format!("next: baton apply -f {path} && baton run {name} --follow"));
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_sound() {
        for example in Example::value_variants() {
            let (name, text) = example.parts();
            let file = crate::files::JobFile { name: name.to_owned(), text: text.to_owned() };
            super::super::validate::check(&[file], "").unwrap_or_else(|error| panic!("{}", error.to_text(false)));
            assert!(text.contains(&format!("name: {name}\n")), "{name} is run by its own name");
        }
    }
}
