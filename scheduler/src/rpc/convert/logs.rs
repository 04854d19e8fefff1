//! Which output of a task it is, as messages and back.

use baton::v1;

use crate::{rpc::status::Violation, store::log};

pub(crate) fn log_stream(stream: log::Stream) -> v1::LogStream {
    match stream {
        log::Stream::Stdout => v1::LogStream::Stdout,
        log::Stream::Stderr => v1::LogStream::Stderr,
    }
}

/// Which output a request names; both when it names none.
pub(crate) fn read_log_stream(field: &str, stream: i32) -> Result<Option<log::Stream>, Violation> {
    match v1::LogStream::try_from(stream) {
        Ok(v1::LogStream::Unspecified) => Ok(None),
        Ok(v1::LogStream::Stdout) => Ok(Some(log::Stream::Stdout)),
        Ok(v1::LogStream::Stderr) => Ok(Some(log::Stream::Stderr)),
        Err(_) => Err(Violation::new(field, "is no output: LOG_STREAM_STDOUT or LOG_STREAM_STDERR")),
    }
}
