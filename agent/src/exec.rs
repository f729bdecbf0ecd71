//! Commands that run in the box, each a stream `exec/<id>` of the log.
//!
//! A logged exec belongs to the log: its output goes there, bounded, and it goes on whoever listens. A
//! pipe belongs to its caller: raw bytes both ways, and only their counts are kept.

mod attach;
mod coalescer;
mod execs;
mod logged;
pub(crate) mod pipe;
mod screen;
mod stream;
mod summary;
mod toolhost;

pub(crate) use attach::attach;
pub(crate) use execs::{Ending, Execs, Live, Spec, StartError, stream as stream_name};
pub(crate) use pipe::Piped;
pub(crate) use screen::Screen;
pub(crate) use stream::follow;
pub(crate) use toolhost::Toolhost;
