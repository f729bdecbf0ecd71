//! Where a file is cut.
//!
//! Files up to 256 KiB are one chunk. Larger ones are cut where their content says so (FastCDC, seeded per
//! user), SQLite databases every 16 KiB, since they change in place by pages. Part of the format: another
//! rule would store everything again.

use fastcdc::v2020::FastCDC;

/// Files of up to so many bytes are kept in their directory's chunk (fewer than this).
pub const INLINE: u64 = 128;
/// Files up to this are one chunk.
pub const WHOLE: u64 = 256 << 10;
pub const CUT_MIN: usize = 64 << 10;
pub const CUT_AVERAGE: usize = 256 << 10;
pub const CUT_MAX: usize = 1 << 20;
/// Chunks of SQLite databases.
pub const BLOCK: usize = 16 << 10;
/// How a SQLite database begins.
pub const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// How a file is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Whole,
    Blocks,
    Content,
}

impl Rule {
    /// The rule for a file of `size` bytes that begins with `head`.
    pub fn of(size: u64, head: &[u8]) -> Self {
        if size > BLOCK as u64 && head.starts_with(SQLITE) {
            Self::Blocks
        } else if size <= WHOLE {
            Self::Whole
        } else {
            Self::Content
        }
    }

    /// How long the next chunk is, of `bytes` that stand at `offset` in the file. `is_end` says that nothing
    /// follows them; else there are at least [`CUT_MAX`].
    pub fn next(self, seed: u64, offset: u64, bytes: &[u8], is_end: bool) -> usize {
        debug_assert!(is_end || bytes.len() >= CUT_MAX, "too little to decide on");
        match self {
            Self::Whole => bytes.len().min(CUT_MAX),
            Self::Blocks => {
                let into = usize::try_from(offset % BLOCK as u64).unwrap_or(0);
                bytes.len().min(BLOCK - into)
            }
            Self::Content => cutter(bytes, seed).cut(0, bytes.len()).1,
        }
    }
}

/// Cuts a run of bytes, with one seeded table for all of it.
pub(crate) fn cutter(bytes: &[u8], seed: u64) -> FastCDC<'_> {
    FastCDC::with_level_and_seed(
        bytes,
        CUT_MIN,
        CUT_AVERAGE,
        CUT_MAX,
        fastcdc::v2020::Normalization::Level1,
        seed,
    )
}
