//! The agent as real processes on temporary folders, with a scripted model behind a plain door.

mod cancel;
mod crash;
mod credentials;
mod door;
mod events;
mod execs;
mod files;
mod init;
mod pipes;
mod quiesce;
mod trees;
mod turns;
mod world;
