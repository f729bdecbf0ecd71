//! Machines: what a box runs on, behind one trait.
//!
//! A driver turns a [`Spec`] into a running machine and back. It keeps no history: what should run is
//! decided by the log outside, what does run is asked of the driver ([`Machines::get`]).

pub mod container;
pub mod machine;

pub use container::Container;
pub use machine::{
    BoxId, Error, Fill, Identity, Limits, Listener, Machine, MachineState, Machines, Promises,
    Spec, Stream, Usage, UserFolder, WakeId,
};
