//! Bytes that are too large for the event that names them: pictures, and tool output as it was.
//!
//! They are streams `blob/<name>` of the box's log, so they are replicated, sealed, erased and read while
//! the box sleeps like everything else. The name is the BLAKE3 of the bytes, in hex, keyed with
//! `derive_key("cocoonbox 2026 blob name", <16 bytes of the log id>)`: the same bytes are there once in a
//! log, and whoever does not know the log cannot tell from a name what is beneath it.

mod picture;
mod text;

pub(crate) use picture::{BadPicture, image_of};
pub(crate) use text::shorten;

use std::sync::Arc;

use cocoonbox_commands::blob::{BLOB_BYTES_MAX, Command, PART_BYTES_MAX, Rejection, State};
use cocoonbox_events::{BlobEvent, Fold, LogId, Payload, ReadError, StreamName};
use cocoonbox_proto::log::v1::Image;

use crate::journal::{self, Journal};

/// Told apart from every other key that is derived from a log id.
const NAME_CONTEXT: &str = "cocoonbox 2026 blob name";
/// Length of a name: 32 bytes in hex.
const NAME_CHARS: usize = 64;

/// Stores blobs in the box's log and reads them.
#[derive(Clone)]
pub(crate) struct Blobs {
    journal: Journal,
}

/// A piece of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) media_type: String,
    /// Of the whole blob.
    pub(crate) size_bytes: u64,
    pub(crate) data: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("`{0}` is not the name of a blob")]
    BadName(String),
    #[error("there is no blob `{0}`")]
    NotFound(String),
    #[error("the bytes were erased")]
    Erased,
    #[error("the blob begins behind its end: it has {size_bytes} bytes")]
    Behind { size_bytes: u64 },
    #[error(transparent)]
    Picture(#[from] BadPicture),
    #[error(transparent)]
    Store(#[from] journal::Error<Rejection>),
    #[error("reading a blob")]
    Read(#[source] ReadError),
}

impl Blobs {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { journal }
    }

    /// Stores bytes and returns their name. What is there already is not written again.
    pub(crate) async fn store(&self, media_type: &str, data: Arc<[u8]>) -> Result<String, Error> {
        let name = name(self.journal.log(), &data);
        let mut fold = self.journal.fold::<State>(stream(&name)?);
        let command = Command::Store {
            name: name.clone(),
            media_type: media_type.to_owned(),
            data,
        };
        loop {
            let actor = self.journal.own_actor();
            self.journal.execute(&mut fold, &command, actor).await?;
            if fold.state.is_whole() {
                return Ok(name);
            }
        }
    }

    /// Stores a picture, after a look at what its bytes are.
    pub(crate) async fn store_picture(&self, data: &[u8]) -> Result<Image, Error> {
        let mut image = image_of(data)?;
        image.blob = self.store(&image.media_type, data.into()).await?;
        Ok(image)
    }

    /// Reads bytes from `offset` on: those of one part, or none at the end.
    pub(crate) async fn read(&self, name: &str, offset: u64) -> Result<Piece, Error> {
        let part = offset / PART_BYTES_MAX as u64;
        let within = usize::try_from(offset % PART_BYTES_MAX as u64).unwrap_or(0);
        let (store, stream) = (self.journal.store(), stream(name)?);
        let log = self.journal.log();
        // A part is one event of the stream, in order, so the part before is where to read on.
        let page = store.read_stream(log, &stream, part, 1).await;
        let page = page.map_err(Error::Read)?;
        let Some(event) = page.events.first() else {
            return self.end(name, offset).await;
        };
        let stored = match event.payload() {
            Ok(Some(Payload::Blob(BlobEvent::Stored(stored)))) => stored,
            Ok(None) => return Err(Error::Erased),
            Ok(Some(_)) | Err(_) => return Err(Error::NotFound(name.to_owned())),
        };
        let Some(data) = stored.data.get(within..) else {
            let size_bytes = stored.size_bytes;
            return Err(Error::Behind { size_bytes });
        };
        Ok(Piece {
            media_type: stored.media_type,
            size_bytes: stored.size_bytes,
            data: data.to_vec(),
        })
    }

    /// Reads up to `limit` bytes from `offset` on.
    pub(crate) async fn read_up_to(
        &self,
        name: &str,
        offset: u64,
        limit: usize,
    ) -> Result<Piece, Error> {
        let mut piece = self.read(name, offset).await?;
        while piece.data.len() < limit {
            let next = offset + piece.data.len() as u64;
            if next >= piece.size_bytes {
                break;
            }
            piece.data.extend(self.read(name, next).await?.data);
        }
        piece.data.truncate(limit);
        Ok(piece)
    }

    /// Reads all of a blob.
    pub(crate) async fn whole(&self, name: &str) -> Result<Piece, Error> {
        self.read_up_to(name, 0, BLOB_BYTES_MAX).await
    }

    /// What there is to say where no part begins.
    async fn end(&self, name: &str, offset: u64) -> Result<Piece, Error> {
        let mut fold: Fold<State> = self.journal.fold(stream(name)?);
        let store = self.journal.store();
        fold.refresh(&**store).await.map_err(journal::Error::Load)?;
        let state = fold.state;
        if state.parts == 0 {
            return Err(Error::NotFound(name.to_owned()));
        }
        if offset > state.size_bytes {
            let size_bytes = state.size_bytes;
            return Err(Error::Behind { size_bytes });
        }
        Ok(Piece {
            media_type: state.media_type,
            size_bytes: state.size_bytes,
            data: Vec::new(),
        })
    }
}

/// Returns the name of bytes in a log.
fn name(log: LogId, data: &[u8]) -> String {
    let key = blake3::derive_key(NAME_CONTEXT, log.as_bytes());
    blake3::keyed_hash(&key, data).to_hex().to_string()
}

fn stream(name: &str) -> Result<StreamName, Error> {
    let bad = || Error::BadName(name.chars().take(NAME_CHARS).collect());
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if name.len() != NAME_CHARS || !name.bytes().all(is_hex) {
        return Err(bad());
    }
    StreamName::new(format!("blob/{name}")).map_err(|_| bad())
}
