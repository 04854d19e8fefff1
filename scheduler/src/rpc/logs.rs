//! Takes in and gives out the output of tasks.

mod append;
mod follow;
mod selector;

use baton::v1::{
    AppendRequest, AppendResponse, FollowRequest, FollowResponse, ReadRequest, ReadResponse,
    log_service_server::LogService,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use self::selector::{Cursor, Selected};
use super::{
    api::{Api, Fields},
    status::Error,
};

/// Bytes of a page when the request does not say.
const PAGE_BYTES_DEFAULT: usize = 1 << 20;
/// Bytes of a page at most.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// What a page leaves of a message of 4 MiB for everything that is not output.
const PAGE_BYTES_MARGIN: usize = 512 << 10;
/// Lines of a tail at most.
const TAIL_LINES_MAX: u32 = 100_000;

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Logs(pub(super) Api);

impl Logs {
    async fn page(&self, request: ReadRequest) -> Result<ReadResponse, Error> {
        check(request.tail_lines, &request.cursor)?;
        let bytes_max = match request.max_bytes as usize {
            0 => PAGE_BYTES_DEFAULT,
            bytes @ 1..=PAGE_BYTES_MAX => bytes.min(PAGE_BYTES_MAX - PAGE_BYTES_MARGIN),
            _ => return Err(Error::invalid("max_bytes", format!("is at most {PAGE_BYTES_MAX}"))),
        };
        let mut selected = Selected::find(&self.0, request.selector.unwrap_or_default(), false).await?;
        let mut cursor = Cursor::read(&selected.job, &request.cursor)?;
        if request.tail_lines > 0 {
            let chunks = selected.tail(request.tail_lines, bytes_max).await?.1;
            return Ok(ReadResponse { chunks, next_cursor: String::new() });
        }
        let (chunks, more) = selected.page(&mut cursor, bytes_max).await?;
        let next_cursor = if more { cursor.token() } else { String::new() };
        Ok(ReadResponse { chunks, next_cursor })
    }
}

/// A tail has a bound, and begins at the end: a cursor makes no sense with it.
fn check(tail_lines: u32, cursor: &str) -> Result<(), Error> {
    let mut fields = Fields::default();
    if tail_lines > TAIL_LINES_MAX {
        fields.refuse("tail_lines", format!("is at most {TAIL_LINES_MAX}"));
    }
    if tail_lines > 0 && !cursor.is_empty() {
        fields.refuse("cursor", "goes on where a page ended, which tail_lines does not: set one of them");
    }
    fields.check()
}

#[async_trait]
impl LogService for Logs {
    type AppendStream = append::Answers;

    async fn append(&self, request: Request<Streaming<AppendRequest>>) -> Result<Response<Self::AppendStream>, Status> {
        Ok(Response::new(append::start(&self.0, request.into_inner())))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<ReadResponse>, Status> {
        Ok(Response::new(self.page(request.into_inner()).await?))
    }

    type FollowStream = ReceiverStream<Result<FollowResponse, Status>>;

    async fn follow(&self, request: Request<FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        Ok(Response::new(follow::start(&self.0, request.into_inner()).await?))
    }
}

/// The answer to one message of a runner.
type Answer = Result<AppendResponse, Status>;
