//! The limits of a log, in one place. Each is checked before anything is written.

/// Larger bodies are blobs, and the event holds their name.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// Headers hold ids only.
pub const HEADER_BYTES_MAX: usize = 4 * 1024;
/// One append is one transaction and one answer; more belongs in several.
pub const APPEND_EVENTS_MAX: usize = 256;
pub const APPEND_BYTES_MAX: usize = 1024 * 1024;
/// Appends waiting for the writer. About a second of work at the measured rates; past it callers are
/// told to slow down instead of growing the heap.
pub const QUEUE_APPENDS_MAX: usize = 4_096;
/// And this is how much heap they may hold: the appends of a busy second are far below it.
pub const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A write-ahead log of this size says that some reader pins it: worth a warning, then an alarm.
pub const WAL_BYTES_WARNING: u64 = 64 * 1024 * 1024;
pub const WAL_BYTES_DEGRADED: u64 = 512 * 1024 * 1024;
/// Keeps a reader's transaction under 50 ms, so that the write-ahead log can be reset.
pub const PAGE_EVENTS_MAX: usize = 1_000;
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
pub const STREAM_NAME_BYTES_MAX: usize = 200;
