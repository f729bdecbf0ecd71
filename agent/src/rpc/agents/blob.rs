//! Handing out a blob, part by part as the caller takes them.

use cocoonbox_proto::agent::v1::{BlobPart, ReadBlobRequest};
use futures::{Stream, StreamExt, stream};
use tonic::Status;

use super::super::status;
use crate::blobs::{Blobs, Piece};

/// Begins to read; what is wrong with the name or the offset is said at once.
pub(super) async fn read(
    blobs: Blobs,
    request: ReadBlobRequest,
) -> Result<impl Stream<Item = Result<BlobPart, Status>> + Send, Status> {
    let ReadBlobRequest { name, offset } = request;
    let first = blobs.read(&name, offset).await;
    let first = first.map_err(|error| status::blob_error(&error))?;
    let after = offset + first.data.len() as u64;
    let rest = stream::try_unfold(after, move |offset| {
        let (blobs, name) = (blobs.clone(), name.clone());
        async move {
            let piece = blobs.read(&name, offset).await;
            let piece = piece.map_err(|error| status::blob_error(&error))?;
            if piece.data.is_empty() {
                return Ok(None);
            }
            let after = offset + piece.data.len() as u64;
            Ok(Some((part(piece), after)))
        }
    });
    Ok(stream::iter([Ok(part(first))]).chain(rest))
}

fn part(piece: Piece) -> BlobPart {
    BlobPart {
        media_type: piece.media_type,
        size_bytes: piece.size_bytes,
        data: piece.data,
    }
}
