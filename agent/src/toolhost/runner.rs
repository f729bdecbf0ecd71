//! Starts supervised commands.

use std::{io, os::fd::OwnedFd, path::PathBuf, process::Stdio, sync::Arc};

use cocoonbox_proto::toolhost::v1::RunStart;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::{Child, Command},
};

use super::{
    convert::Converter,
    stdio::{self, Ends},
    strays::Strays,
};
use crate::supervise::{
    self,
    word::{self, LEN, Word},
};

/// Longest reason for a command that did not start.
const REASON_BYTES_MAX: usize = 64 * 1024;

/// Knows the binary that supervises, and which supervisors run.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    program: PathBuf,
    strays: Arc<Strays>,
}

/// A supervised command. Dropping it cancels the command.
pub(crate) struct Run {
    pub(crate) ends: Option<Ends>,
    pub(crate) pid: u32,
    pub(crate) control: Control,
    pub(crate) report: Report,
}

/// Tells the supervisor what to do.
pub(crate) struct Control(OwnedWriteHalf);

/// Hears from the supervisor and waits for it.
pub(crate) struct Report {
    socket: OwnedReadHalf,
    supervisor: Child,
    pid: i32,
    strays: Arc<Strays>,
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Command(String),
    #[error("starting the supervisor")]
    Supervisor(#[source] io::Error),
}

impl Runner {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self {
            program,
            strays: Arc::default(),
        }
    }

    /// Returns what converts with the same binary.
    pub(crate) fn converter(&self) -> Converter {
        Converter::new(self.program.clone(), Arc::clone(&self.strays))
    }

    /// Starts a command; its environment is complete.
    pub(crate) async fn start(&self, start: &RunStart) -> Result<Run, Error> {
        let bytes = start.encode_to_vec();
        if bytes.len() > word::START_BYTES_MAX {
            return Err(Error::Command(
                "arguments and environment are longer than the system takes; use a file".into(),
            ));
        }
        let (ends, its_stdio) = stdio::open(start).map_err(Error::Supervisor)?;
        let (ours, its) = UnixStream::pair().map_err(Error::Supervisor)?;
        let (supervisor, pid) = self.spawn(its).map_err(Error::Supervisor)?;
        let (socket, mut control) = ours.into_split();
        let mut report = Report {
            socket,
            supervisor,
            pid,
            strays: Arc::clone(&self.strays),
        };
        word::send_stdio(control.as_ref(), bytes.len(), &its_stdio).map_err(Error::Supervisor)?;
        drop(its_stdio);
        control.write_all(&bytes).await.map_err(Error::Supervisor)?;
        match report.next().await {
            Some(Word::Started(pid)) => Ok(Run {
                ends: Some(ends),
                pid: u32::try_from(pid).unwrap_or_default(),
                control: Control(control),
                report,
            }),
            Some(Word::NotStarted(len)) => {
                let reason = report.text(len).await;
                report.ended().await;
                Err(Error::Command(reason))
            }
            _ => {
                report.ended().await;
                Err(Error::Supervisor(io::ErrorKind::UnexpectedEof.into()))
            }
        }
    }

    fn spawn(&self, its: UnixStream) -> io::Result<(Child, i32)> {
        let its = its.into_std()?;
        its.set_nonblocking(false)?;
        let mut command = Command::new(&self.program);
        command
            .arg0(supervise::NAME)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(its))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.strays.start(|| {
            let child = command.spawn()?;
            let pid = child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .unwrap_or_default();
            Ok((child, pid))
        })
    }
}

impl Control {
    pub(crate) async fn say(&mut self, word: Word) {
        // A supervisor that is gone has nothing left to do it to.
        self.0.write_all(&word.encode()).await.ok();
    }
}

impl Report {
    /// Returns the next word; `None` if the supervisor is gone. Not cancel-safe after the first byte,
    /// and words are written whole, so it is never in between for long.
    pub(crate) async fn next(&mut self) -> Option<Word> {
        let mut bytes = [0; LEN];
        self.socket.read_exact(&mut bytes).await.ok()?;
        Word::decode(bytes)
    }

    async fn text(&mut self, len: i32) -> String {
        let len = usize::try_from(len)
            .unwrap_or_default()
            .min(REASON_BYTES_MAX);
        let mut bytes = vec![0; len];
        match self.socket.read_exact(&mut bytes).await {
            Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => "the command could not be started".to_owned(),
        }
    }

    /// Waits until the supervisor is gone, and with it the whole tree.
    pub(crate) async fn ended(mut self) {
        let status = self.supervisor.wait().await;
        self.strays.ended(self.pid);
        if !status.is_ok_and(|status| status.success()) {
            // It was killed: what it watched over has come to us.
            let strays = Arc::clone(&self.strays);
            if tokio::task::spawn_blocking(move || strays.kill())
                .await
                .is_err()
            {
                tracing::error!("looking for strays panicked");
            }
        }
    }
}
