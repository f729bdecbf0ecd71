//! `Agents.ReadBlob`: pictures and whole tool outputs that events of a box name, from its replica.

use std::sync::Arc;

use cocoonbox_events::{BlobEvent, LogId, Payload, ReadError, Store, StreamName};
use cocoonbox_proto::agent::v1::{BlobPart, ReadBlobRequest};
use futures::{Stream, stream};
use tonic::{Code, Status};

use crate::status;

/// Of a name: 32 bytes in hex.
const NAME_CHARS: usize = 64;
/// Of every part but the last, as `commands::blob` writes them.
const PART_BYTES: u64 = cocoonbox_commands::blob::PART_BYTES_MAX as u64;

/// Where reading goes on.
struct At {
    store: Arc<dyn Store>,
    log: LogId,
    stream: StreamName,
    offset: u64,
    is_first: bool,
}

/// Begins to read a blob. Parts come as the caller takes them.
pub fn read(
    store: Arc<dyn Store>,
    log: LogId,
    request: &ReadBlobRequest,
) -> Result<impl Stream<Item = Result<BlobPart, Status>> + Send + use<>, Status> {
    let name = request.name.as_str();
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let is_name = name.len() == NAME_CHARS && name.bytes().all(is_hex);
    let stream = StreamName::new(format!("blob/{name}"));
    let (true, Ok(stream)) = (is_name, stream) else {
        return Err(status::bad_field("name", "is not the name of a blob"));
    };
    let at = At {
        store,
        log,
        stream,
        offset: request.offset,
        is_first: true,
    };
    Ok(stream::try_unfold(Some(at), |at| async {
        match at {
            Some(at) => at.next().await,
            None => Ok(None),
        }
    }))
}

impl At {
    /// Reads on from the offset: what is left of the part that it is in.
    async fn next(mut self) -> Result<Option<(BlobPart, Option<Self>)>, Status> {
        // A part is one event of the stream, so those before it are what to skip.
        let part = self.offset / PART_BYTES;
        let page = self.store.read_stream(self.log, &self.stream, part, 1);
        let page = page.await.map_err(|error| unread(&error))?;
        let Some(event) = page.events.first() else {
            // Nothing at the beginning is no blob; nothing behind its last part is its end.
            return if self.is_first {
                Err(absent())
            } else {
                Ok(None)
            };
        };
        let stored = match event.payload() {
            Ok(Some(Payload::Blob(BlobEvent::Stored(stored)))) => stored,
            Ok(None) => {
                let message = "the content was erased";
                return Err(status::status(Code::NotFound, "ERASED", message));
            }
            Ok(Some(_)) | Err(_) => return Err(absent()),
        };
        let within = usize::try_from(self.offset % PART_BYTES).unwrap_or(usize::MAX);
        let data = stored.data.get(within..).unwrap_or_default().to_vec();
        self.offset += data.len() as u64;
        self.is_first = false;
        let is_end = data.is_empty() || self.offset >= stored.size_bytes;
        let part = BlobPart {
            media_type: stored.media_type,
            size_bytes: stored.size_bytes,
            data,
        };
        Ok(Some((part, (!is_end).then_some(self))))
    }
}

fn absent() -> Status {
    let message = "there is no such blob in this box's log, or it is not here yet";
    status::status(Code::NotFound, "NO_SUCH_BLOB", message)
}

fn unread(error: &ReadError) -> Status {
    status::internal(error)
}
