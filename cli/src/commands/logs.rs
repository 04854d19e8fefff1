//! `baton logs`: what tasks wrote, as they wrote it.

use std::{collections::HashMap, time::Duration};

use baton::v1::{
    FollowRequest, GetJobRequest, GetTaskRequest, LogChunk, LogSelector, LogStream, ReadRequest, Task, TaskKind,
};
use clap::ValueEnum;

use crate::{
    backoff::Backoff,
    client::Client,
    context::Context,
    errors::{Error, Exit, is_broken_connection},
    follow,
    output::{Output, escape::Filter},
    selector::{Selector, short_id},
};

/// The longest line that is held back until its end comes.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// What `logs` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton logs 7be0d21c                   every task, each line with the name of its task
  baton logs 7be0d21c/join -f           one task, as it writes
  baton logs 7be0d21c/resize#3 --tail 50
  baton logs 7be0d21c/join --attempt 1
  baton logs 7be0d21c/join --stream stderr > join.err

Standard output and standard error of a task both go to standard output, as they arrived.
A single task's bytes come out exactly as it wrote them; on a terminal, colours pass and
other control sequences do not.")]
pub struct Args {
    /// Whose: JOB[/TASK[#SHARD]].
    #[arg(value_name = "JOB[/TASK[#SHARD]]")]
    target: Selector,
    /// Go on as the log grows, until the tasks have ended.
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines of each task.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tail: Option<u32>,
    /// Which attempt; the last when not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Only this output.
    #[arg(long, value_enum)]
    stream: Option<Stream>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Stream {
    Stdout,
    Stderr,
}

/// Prints the log.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let client = context.client().await?;
    let selector = LogSelector {
        job_id: args.target.job.clone(),
        name: args.target.task.clone(),
        shard_index: args.target.shard,
        attempt: args.attempt.unwrap_or(0),
        stream: match args.stream {
            None => LogStream::Unspecified,
            Some(Stream::Stdout) => LogStream::Stdout,
            Some(Stream::Stderr) => LogStream::Stderr,
        }
        .into(),
    };
    let tail_lines = args.tail.unwrap_or(0);
    if context.output.is_name() {
        return Err(Error::Usage("a log has no names: leave -o name out".to_owned()));
    }
    let task = task(client, &args.target).await;
    // Its output is that of the tasks of the job.
    if let Some(task) = task.as_ref().filter(|task| !task.child_job_id.is_empty()) {
        let message = format!("task {} stands for job {}, whose tasks write", args.target.task, task.child_job_name);
        return Err(Error::with_next(message, format!("read that: baton logs {}", short_id(&task.child_job_id))));
    }
    let several = !context.output.is_data() && are_several(client, &args.target, task.as_ref()).await?;
    let mut printer = Printer::new(context.output, several);
    if args.follow {
        follow(
            context,
            client,
            FollowRequest { selector: Some(selector), tail_lines, ..FollowRequest::default() },
            &mut printer,
        )
        .await?;
    } else {
        let mut request = ReadRequest { selector: Some(selector), tail_lines, ..ReadRequest::default() };
        loop {
            let response = client.read(request.clone()).await?;
            if context.output.is_data() {
                context.output.data(&response)?;
            } else {
                printer.print(&response.chunks)?;
            }
            if response.next_cursor.is_empty() {
                break;
            }
            request = ReadRequest { cursor: response.next_cursor, tail_lines: 0, ..request };
        }
    }
    printer.finish()?;
    Ok(Exit::Ok)
}

/// Follows through broken connections: the cursor says where to go on.
async fn follow(
    context: &Context,
    client: &Client,
    mut request: FollowRequest,
    printer: &mut Printer,
) -> Result<(), Error> {
    let mut backoff = Backoff::default();
    let mut lost = false;
    loop {
        let broken = match client.follow(request.clone()).await {
            Err(status) => status,
            Ok(mut stream) => loop {
                match stream.message().await {
                    Ok(Some(message)) => {
                        lost = false;
                        backoff.reset();
                        if context.output.is_data() {
                            context.output.data(&message)?;
                        } else {
                            printer.print(&message.chunks)?;
                        }
                        if !message.cursor.is_empty() {
                            request.cursor = message.cursor;
                            request.tail_lines = 0;
                        }
                    }
                    Ok(None) => return Ok(()),
                    Err(status) => break status,
                }
            },
        };
        if !is_broken_connection(&broken) {
            return Err(broken.into());
        }
        if !std::mem::replace(&mut lost, true) {
            context.output.note(&format!("connection lost ({}); dialling again", follow::cause(Some(broken))));
        }
        pause(backoff.next()).await;
    }
}

async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

/// The task that is asked for, if it is there. Whatever is wrong with the question is told by the answer to it.
async fn task(client: &Client, target: &Selector) -> Option<Task> {
    if target.task.is_empty() {
        return None;
    }
    let request = GetTaskRequest { job_id: target.job.clone(), name: target.task.clone(), shard_index: target.shard };
    client.get_task(request).await.ok()?.task
}

/// Whether the lines of more than one task may come, so that each must say whose it is.
async fn are_several(client: &Client, target: &Selector, task: Option<&Task>) -> Result<bool, Error> {
    if target.task.is_empty() {
        let job = client.get_job(GetJobRequest { job_id: target.job.clone() }).await?.job.unwrap_or_default();
        return Ok(job.tasks.len() != 1);
    }
    Ok(task.is_some_and(|task| task.kind() == TaskKind::Group))
}

/// Writes chunks as they come: as they are for one task, line by line with its name for several.
struct Printer {
    output: Output,
    several: bool,
    sources: HashMap<(String, i32), Source>,
}

/// One output of one task.
struct Source {
    prefix: String,
    filter: Filter,
    line: Vec<u8>,
}

impl Printer {
    fn new(output: Output, several: bool) -> Self {
        Self { output, several, sources: HashMap::new() }
    }

    fn print(&mut self, chunks: &[LogChunk]) -> Result<(), Error> {
        let mut out = Vec::new();
        for chunk in chunks {
            self.take(chunk, &mut out);
        }
        if out.is_empty() { Ok(()) } else { self.output.raw(&out) }
    }

    fn take(&mut self, chunk: &LogChunk, out: &mut Vec<u8>) {
        let (output, several) = (self.output, self.several);
        let key = (chunk.task_id.clone(), chunk.stream);
        let source = self.sources.entry(key).or_insert_with(|| Source {
            prefix: prefix(chunk),
            filter: Filter::new(output.color),
            line: Vec::new(),
        });
        if chunk.skipped > 0 {
            let text = format!("[baton: {} bytes left out, the log reached its limit]", chunk.skipped);
            if several {
                source.end_line(out);
                source.write(format!("{text}\n").as_bytes(), output, out);
            } else {
                // Between the bytes of a single task nothing may stand that it did not write.
                output.note(&text);
            }
        }
        if !several {
            if output.terminal {
                out.extend_from_slice(source.filter.text(&chunk.data).as_bytes());
            } else {
                out.extend_from_slice(&chunk.data);
            }
            return;
        }
        source.write(&chunk.data, output, out);
    }

    /// Writes what has no end of line yet.
    fn finish(&mut self) -> Result<(), Error> {
        let mut out = Vec::new();
        for source in self.sources.values_mut() {
            source.end_line(&mut out);
        }
        if out.is_empty() { Ok(()) } else { self.output.raw(&out) }
    }
}

impl Source {
    fn write(&mut self, data: &[u8], output: Output, out: &mut Vec<u8>) {
        let safe;
        let data = if output.terminal {
            safe = self.filter.text(data);
            safe.as_bytes()
        } else {
            data
        };
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.line.len() >= LINE_BYTES_MAX {
                self.end_line(out);
            }
        }
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        if self.line.is_empty() {
            return;
        }
        out.extend_from_slice(self.prefix.as_bytes());
        let colored = self.line.contains(&0x1b);
        let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        out.extend_from_slice(text);
        // A colour that a task left on must not run into the name of the next.
        out.extend_from_slice(if colored { b"\x1b[0m\n" } else { b"\n" });
        self.line.clear();
    }
}

fn prefix(chunk: &LogChunk) -> String {
    match chunk.shard_index {
        Some(shard) => format!("{}#{shard} | ", chunk.name),
        None => format!("{} | ", chunk.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::time::TimeMode;

    fn output(terminal: bool) -> Output {
        Output { format: None, terminal, color: terminal, error_color: false, time: TimeMode::Utc, quiet: true }
    }

    fn chunk(name: &str, shard: Option<u32>, data: &'static [u8]) -> LogChunk {
        LogChunk {
            name: name.into(),
            task_id: format!("{name}-{shard:?}"),
            shard_index: shard,
            stream: LogStream::Stdout.into(),
            data: data.into(),
            ..LogChunk::default()
        }
    }

    fn printed(printer: &mut Printer, chunks: &[LogChunk]) -> Vec<u8> {
        let mut out = Vec::new();
        for chunk in chunks {
            printer.take(chunk, &mut out);
        }
        out
    }

    #[test]
    fn one_task_comes_out_byte_for_byte() {
        let data: &[u8] = b"\xff\x00\x1b]0;x\x07 no newline";
        assert_eq!(printed(&mut Printer::new(output(false), false), &[chunk("a", None, data)]), data);
    }

    #[test]
    fn several_tasks_never_share_a_line() {
        let mut printer = Printer::new(output(false), true);
        let chunks = [chunk("a", None, b"one\ntw"), chunk("b", Some(3), b"other\n"), chunk("a", None, b"o\nthree")];
        assert_eq!(printed(&mut printer, &chunks), b"a | one\nb#3 | other\na | two\n");
        let mut rest = Vec::new();
        printer.sources.values_mut().for_each(|source| source.end_line(&mut rest));
        assert_eq!(rest, b"a | three\n");
    }

    #[test]
    fn an_endless_line_is_not_held_for_ever() {
        let mut printer = Printer::new(output(false), true);
        let data: &'static [u8] = vec![b'x'; LINE_BYTES_MAX + 5].leak();
        let out = printed(&mut printer, &[chunk("a", None, data)]);
        assert!(out.len() > LINE_BYTES_MAX && out.ends_with(b"x\n"));
    }

    #[test]
    fn a_colour_does_not_run_into_the_next_name() {
        let mut printer = Printer::new(output(true), true);
        let out = printed(&mut printer, &[chunk("a", None, b"\x1b[31mred\n")]);
        assert_eq!(out, b"a | \x1b[31mred\x1b[0m\n");
    }

    #[test]
    fn what_was_left_out_is_said() {
        let mut printer = Printer::new(output(false), true);
        let cut = LogChunk { skipped: 9, ..chunk("a", None, b"tail\n") };
        let out = printed(&mut printer, &[chunk("a", None, b"hea"), cut]);
        assert_eq!(out, b"a | hea\na | [baton: 9 bytes left out, the log reached its limit]\na | tail\n");
    }
}
