//! Whether checkpoints are made as they should.

/// Numbers for people and metrics. Counts are since the process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Logs whose checkpoint is due and was not written.
    pub logs_behind: u64,
    pub written: u64,
    pub failed: u64,
    /// Why the last one failed, if it did.
    pub fault: Option<String>,
    /// Another checkpoint of the same size lies in the object store. Stays until the process ends: it
    /// has to be seen by somebody.
    pub alarm: Option<String>,
}
