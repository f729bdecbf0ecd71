//! Exports: logs as JSON Lines that anybody can read and check, and a store that reads them.

mod index;
mod line;
mod store;
mod write;

pub use self::{
    index::OpenError,
    line::{ExportLine, FORMAT, Header, LINE_BYTES_MAX, LineError, decode_line, encode_line},
    store::ExportStore,
    write::{ExportError, Plan, VERIFIER, Written},
};
