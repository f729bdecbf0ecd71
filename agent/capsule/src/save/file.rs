//! A file's bytes as chunks.

use std::os::fd::BorrowedFd;

use rustix::{
    fs::{SeekFrom, Stat, seek},
    io::{Errno, pread},
};

use crate::{
    chunk::{CUT_MAX, INLINE, Rule},
    entry::{Content, Piece},
    error::Error,
    key::Kind,
    tree::PieceBuilder,
};

use super::{meta, sink::Sink};

/// How much of a file is in memory. Several chunks, so that what is moved to the front is little.
const WINDOW: usize = 4 * CUT_MAX;
/// Below this a hole saves nothing.
const SPARSE_FROM: u64 = 4096;

/// Why a file was not read to its end.
pub(super) enum ReadError {
    /// The file: it is left out, the save goes on.
    File(Errno),
    /// The capsule: the save ends.
    Capsule(Error),
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Capsule(error)
    }
}

impl From<Errno> for ReadError {
    fn from(errno: Errno) -> Self {
        Self::File(errno)
    }
}

/// Reads files, one after the other, with one buffer.
pub(super) struct FileSaver {
    window: Vec<u8>,
}

impl FileSaver {
    pub(super) fn new() -> Self {
        Self { window: Vec::new() }
    }

    /// Reads what `stat` says is there, and not more: a file that grows for ever has an end too. Answers
    /// the content and how many bytes it stands for, fewer if the file became shorter.
    pub(super) fn read(
        &mut self,
        file: BorrowedFd<'_>,
        stat: &Stat,
        sink: &mut Sink<'_>,
    ) -> Result<(Content, u64), ReadError> {
        let size = meta::size(stat);
        if size < INLINE {
            let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
            let read = fill(file, &mut bytes, 0)?;
            bytes.truncate(read);
            return Ok((Content::Inline(bytes), read as u64));
        }
        let allocated = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        let is_sparse = size >= SPARSE_FROM && allocated < size;
        let mut pieces = PieceBuilder::default();
        let mut at = 0;
        let mut rule = None;
        while at < size {
            let (data, end) = if is_sparse {
                extent(file, at, size)?
            } else {
                (at, size)
            };
            let hole = Piece {
                bytes: data - at,
                chunk: None,
            };
            pieces.push(hole, sink)?;
            at = self.cut(file, data, end, size, &mut rule, &mut pieces, sink)?;
            if at < end {
                break;
            }
        }
        let pieces = pieces.finish(sink)?;
        let length = pieces.length().unwrap_or(0);
        Ok((Content::Pieces(pieces), length))
    }

    /// Cuts a run of data without holes; answers where it ended.
    #[expect(
        clippy::too_many_arguments,
        reason = "one step of `read`, on its state"
    )]
    fn cut(
        &mut self,
        file: BorrowedFd<'_>,
        start: u64,
        end: u64,
        size: u64,
        rule: &mut Option<Rule>,
        pieces: &mut PieceBuilder,
        sink: &mut Sink<'_>,
    ) -> Result<u64, ReadError> {
        let seed = sink.cut_seed();
        let mut window = std::mem::take(&mut self.window);
        // Bytes of the file in the window, those before `used` already cut.
        let (mut held, mut used, mut at) = (0usize, 0usize, start);
        let mut is_end = start >= end;
        let done = loop {
            if !is_end && held - used < CUT_MAX {
                window.copy_within(used..held, 0);
                held -= used;
                used = 0;
                let left = end - at - held as u64;
                let want = usize::try_from(left)
                    .unwrap_or(usize::MAX)
                    .min(WINDOW - held);
                if window.len() < held + want {
                    window.resize(held + want, 0);
                }
                match fill(file, &mut window[held..held + want], at + held as u64) {
                    Ok(read) => {
                        is_end = read < want || read as u64 == left;
                        held += read;
                    }
                    Err(errno) => break Err(errno.into()),
                }
            }
            if used == held {
                break Ok(at);
            }
            let head = &window[used..held];
            let rule = *rule.get_or_insert_with(|| {
                // Only the beginning of a file says what it is.
                Rule::of(size, if at == 0 { head } else { &[] })
            });
            let length = rule.next(seed, at, head, is_end);
            let put = sink.put(Kind::Data, &head[..length]).and_then(|id| {
                let piece = Piece {
                    bytes: length as u64,
                    chunk: Some(id),
                };
                pieces.push(piece, sink)
            });
            if let Err(error) = put {
                break Err(error.into());
            }
            used += length;
            at += length as u64;
        };
        self.window = window;
        done
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut read = 0;
    while read < buffer.len() {
        match pread(file, &mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(read)
}

/// The next run of data from `at` on: where it begins and ends. At the end of the file if there is none.
fn extent(file: BorrowedFd<'_>, at: u64, size: u64) -> Result<(u64, u64), Errno> {
    let data = match seek(file, SeekFrom::Data(at)) {
        Ok(data) => data.min(size),
        Err(Errno::NXIO) => return Ok((size, size)),
        // A file system that does not know.
        Err(Errno::INVAL | Errno::NOTSUP) => return Ok((at, size)),
        Err(errno) => return Err(errno),
    };
    let end = match seek(file, SeekFrom::Hole(data)) {
        Ok(end) => end.min(size),
        Err(Errno::NXIO) => size,
        Err(errno) => return Err(errno),
    };
    Ok((data, end))
}
