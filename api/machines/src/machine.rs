//! The contract between the control plane and whatever runs boxes.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// A box id: `[a-z0-9-]`, 1 to 63 characters, used as a folder and cgroup name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BoxId(String);

/// Names one run of a machine. A new one is drawn for each start, so that whatever was made for an
/// earlier run (a credential, a connection) is dead by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WakeId(pub String);

/// What the agent in the box is told about itself. Not secret (seeds 12.1).
///
/// Delivered as JSON in `/run/cocoonbox-identity/identity` before the agent starts, readable by the
/// agent's user, writable by nobody in the box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity(pub serde_json::Value);

/// What to run.
#[derive(Clone, Debug)]
pub struct Spec {
    pub box_id: BoxId,
    pub wake_id: WakeId,
    /// The root filesystem image: an EROFS file or an unpacked folder.
    pub image: PathBuf,
    /// The static agent binary of the host, shown read-only in the box.
    pub agent: PathBuf,
    pub identity: Identity,
    pub limits: Limits,
}

/// Caps on one machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    /// Bytes that it may read from its disks, and as many that it may write to them, in a second; `None` = as
    /// many as there are.
    pub io_bytes_per_second: Option<u64>,
    /// What its disks may hold together, but for the agent's, which has to be able to say that they are full.
    /// Counts for boxes that are made with it; `None` = whatever the host has.
    pub disk_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// Processes run.
    Running,
    /// Disks are kept, nothing runs.
    Stopped,
}

/// One machine as it is at this moment.
#[derive(Clone, Debug)]
pub struct Machine {
    pub box_id: BoxId,
    /// The run it was last started for; `None` if it was never started.
    pub wake_id: Option<WakeId>,
    pub state: MachineState,
}

/// What a driver can and cannot keep. Shown to the user as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    pub memory_kept_on_hibernate: bool,
    pub survives_host_restart: bool,
    pub isolation: Isolation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    Container,
    MicroVm,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub memory_bytes: u64,
    pub cpu_us: u64,
    pub disk_bytes: u64,
    pub pids: u32,
}

/// A folder of a box with files of its user: what is saved and given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFolder {
    /// Where the box has it.
    pub path: &'static str,
    /// Where the host has it. The box cannot change the way there; what is in it is whatever the box makes it.
    pub place: PathBuf,
    /// Whose it is in the box, and on the disk: user and group.
    pub owner: (u32, u32),
}

/// Puts the user's files into the folders of a new box. Blocks.
pub type Fill = Box<dyn FnOnce(&[UserFolder]) -> std::io::Result<()> + Send>;

/// A byte stream into a box.
pub type Stream = tokio::net::TcpStream;
/// A listener inside a box's network, held by the host.
pub type Listener = tokio::net::TcpListener;

/// Runs machines.
///
/// Every call is idempotent: a caller that was killed between a call and its answer makes the same call
/// again. Calls for one box are serialised by the driver; calls for different boxes run side by side.
/// A cancelled future may leave the effect done or not done, never half done in a way that the next
/// call does not repair.
#[async_trait]
pub trait Machines: Send + Sync + 'static {
    fn promises(&self) -> Promises;

    /// Says that this process drives the box from here on, under a fence number that is higher than that
    /// of whoever drove it before. Changes by a process with a smaller one are refused from then on as
    /// [`Error::Replaced`], however late they come. A process that never claims is never refused.
    async fn claim(&self, id: &BoxId, fence: u64) -> Result<(), Error> {
        let _ = (id, fence);
        Ok(())
    }

    /// Brings the machine up for `spec.wake_id`. If it runs for that wake id already, this only says so;
    /// if it runs for another, that run is stopped first. Disks are created when absent and kept else.
    ///
    /// Success says that the agent was started, not that it answers: [`dial`](Self::dial) until it does, and
    /// [`wait`](Self::wait) tells if it ended. The agent must be PID 1: it reaps, and it stops on SIGTERM, which may
    /// come more than once.
    async fn ensure(&self, spec: &Spec) -> Result<Machine, Error>;

    /// Tells the run `wake` of a machine what has changed about itself. Reaches it by the file that it has its
    /// identity from. Fine if that is not what runs: the next start tells it. A driver that cannot leaves it to
    /// the next start, too.
    async fn tell(&self, id: &BoxId, wake: &WakeId, identity: &Identity) -> Result<(), Error> {
        let _ = (id, wake, identity);
        Ok(())
    }

    /// Gives `to` a copy of the disks of `from`, which must not run and is left as it is: all of them or
    /// none. Fine if `to` has disks already.
    async fn copy(&self, from: &BoxId, to: &BoxId) -> Result<(), Error> {
        let _ = to;
        Err(Error::CannotCopy(from.to_string()))
    }

    /// Gives a box that has none disks of its own, with the user's files that `fill` puts into them: all or none. Fine
    /// if the box has disks already. `fill` goes on to its end even if the caller gives up.
    async fn make(&self, id: &BoxId, disk_bytes: Option<u64>, fill: Fill) -> Result<(), Error> {
        drop((disk_bytes, fill));
        Err(Error::CannotFill(id.to_string()))
    }

    /// Returns the folders with the user's files of a box that has disks here, running or not. They stay what they
    /// are until the disks are removed, which takes them out of this place first.
    async fn folders(&self, id: &BoxId) -> Result<Vec<UserFolder>, Error> {
        Err(Error::CannotShow(id.to_string()))
    }

    /// Returns the machine, or `None` where no disks of it exist.
    async fn get(&self, id: &BoxId) -> Result<Option<Machine>, Error>;

    /// Lists every machine of which anything exists, running or not.
    async fn list(&self) -> Result<Vec<Machine>, Error>;

    /// Stops what runs (a grace period, then kill) and keeps the disks. Fine if nothing runs.
    async fn hibernate(&self, id: &BoxId) -> Result<(), Error>;

    /// Stops what runs and removes the disks. Fine if nothing exists.
    async fn delete(&self, id: &BoxId) -> Result<(), Error>;

    /// Resolves when the run `wake` of the machine has ended, for whatever reason: at once if that is not
    /// what runs, or if there is no such machine.
    async fn wait(&self, id: &BoxId, wake: &WakeId) -> Result<(), Error>;

    /// Connects to `127.0.0.1:port` in the box's network, of this run only.
    async fn dial(&self, id: &BoxId, wake: &WakeId, port: u16) -> Result<Stream, Error>;

    /// Listens on `127.0.0.1:port` in the box's network. The box can connect to it; the identity of a
    /// connection accepted from it is the box. Drop it when the run ends: it never errors by itself.
    async fn listen(&self, id: &BoxId, wake: &WakeId, port: u16) -> Result<Listener, Error>;

    async fn usage(&self, id: &BoxId) -> Result<Usage, Error>;

    /// Returns how many processes of what runs were killed since its start because its memory was full. Cheap: may
    /// be asked every second.
    async fn memory_kills(&self, id: &BoxId) -> Result<u64, Error> {
        let _ = id;
        Ok(0)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("box id `{0}` is not 1 to 63 characters of a-z, 0-9 and -")]
    BadBoxId(String),
    #[error("box `{0}` has no machine")]
    NotFound(String),
    #[error("box `{0}` is not running")]
    NotRunning(String),
    #[error("box `{box_id}` runs as wake `{actual}`, not `{expected}`")]
    OtherWake {
        box_id: String,
        expected: String,
        actual: String,
    },
    #[error("box `{0}` runs; its disks cannot be copied")]
    Runs(String),
    #[error("the disks of box `{0}` cannot be copied by this driver")]
    CannotCopy(String),
    #[error("the disks of box `{0}` cannot be filled by this driver")]
    CannotFill(String),
    #[error("the files of box `{0}` cannot be reached by this driver")]
    CannotShow(String),
    #[error("another process drives box `{0}` by now")]
    Replaced(String),
    #[error("{program} is not installed: {hint}")]
    MissingProgram {
        program: &'static str,
        hint: &'static str,
    },
    #[error("{doing}")]
    Host {
        doing: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("{doing} for box `{box_id}`")]
    Io {
        box_id: String,
        doing: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("{program} {doing} for box `{box_id}`: {stderr}")]
    Program {
        program: &'static str,
        doing: &'static str,
        box_id: String,
        stderr: String,
    },
}

impl Error {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Host { .. } | Self::Io { .. } | Self::Program { .. }
        )
    }
}

impl BoxId {
    pub fn new(id: impl Into<String>) -> Result<Self, Error> {
        let id = id.into();
        let fits = (1..=63).contains(&id.len())
            && id
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !id.starts_with('-');
        if fits {
            Ok(Self(id))
        } else {
            Err(Error::BadBoxId(id))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for BoxId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
