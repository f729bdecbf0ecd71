//! Writing down what happens to the desktop.

use std::{path::PathBuf, time::Duration};

use cocoonbox_commands::desktop::{Command, Rejection, STREAM, State};
use cocoonbox_events::{Fold, StreamName};
use cocoonbox_proto::{
    log::v1::DesktopStarted,
    toolhost::v1::{
        DesktopReport, DesktopWatchRequest, desktop_client::DesktopClient, desktop_report::What,
    },
};
use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time::sleep};
use tokio_util::sync::CancellationToken;
use tonic::{
    Status,
    transport::{Channel, Endpoint, Uri},
};

use crate::journal::{Error, Journal};

/// Init starts a desktop again that ended, within its backoff.
const RETRY: Duration = Duration::from_millis(200);

/// Follows the desktop's reports.
#[derive(Clone, Debug)]
pub(crate) struct Desktop {
    socket: PathBuf,
    wake_id: String,
    stop: CancellationToken,
}

/// Why the reports are not followed any more.
enum End {
    /// To be tried again.
    Lost(Status),
    /// The log takes nothing any more.
    Closed,
}

impl Desktop {
    /// `socket` is not there where the box has no desktop.
    pub(crate) fn new(socket: PathBuf, wake_id: String, stop: CancellationToken) -> Self {
        Self {
            socket,
            wake_id,
            stop,
        }
    }

    /// Writes every report that the log does not have yet, until the box is stopped. Returns at once if there
    /// is no desktop. The box has to be released.
    pub(crate) async fn follow(self, journal: Journal) {
        if !self.socket.exists() {
            return;
        }
        let Ok(stream) = StreamName::new(STREAM) else {
            return;
        };
        let mut fold = journal.fold(stream);
        let client = DesktopClient::new(self.channel());
        let follow = async {
            loop {
                match self.take(client.clone(), &journal, &mut fold).await {
                    End::Lost(status) => tracing::info!(%status, "desktop does not report"),
                    End::Closed => return,
                }
                sleep(RETRY).await;
            }
        };
        self.stop.run_until_cancelled(follow).await;
    }

    async fn take(
        &self,
        mut client: DesktopClient<Channel>,
        journal: &Journal,
        fold: &mut Fold<State>,
    ) -> End {
        if fold.refresh(&**journal.store()).await.is_err() {
            return End::Lost(Status::internal("the log cannot be read"));
        }
        let request = DesktopWatchRequest {
            session: fold.state.session.clone(),
            after: fold.state.report,
        };
        let mut reports = match client.watch(request).await {
            Ok(reports) => reports.into_inner(),
            Err(status) => return End::Lost(status),
        };
        loop {
            let report = match reports.message().await {
                Ok(Some(report)) => report,
                Ok(None) => return End::Lost(Status::unavailable("it ended")),
                Err(status) => return End::Lost(status),
            };
            let Some(command) = self.command(report) else {
                continue;
            };
            let own = journal.own_actor();
            match journal.record(fold, &command, own, &self.stop).await {
                Ok(_) => {}
                // The user can be at the other end: a report that makes no sense is not worth an end.
                Err(Error::Rejected(rejection)) => said(&rejection),
                Err(Error::Closed | Error::Load(_) | Error::Append(_)) => return End::Closed,
            }
        }
    }

    fn command(&self, report: DesktopReport) -> Option<Command> {
        let session = report.session;
        Some(match report.what? {
            What::Parts(parts) => Command::Begin(DesktopStarted {
                session,
                wake_id: self.wake_id.clone(),
                parts: parts.parts,
            }),
            What::Started(started) => Command::PartStarted {
                session,
                since_ms: report.since_ms,
                started,
            },
            What::Failed(failed) => Command::PartFailed { session, failed },
        })
    }

    fn channel(&self) -> Channel {
        let socket = self.socket.clone();
        Endpoint::from_static("http://desktop").connect_with_connector_lazy(tower::service_fn(
            move |_: Uri| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            },
        ))
    }
}

fn said(rejection: &Rejection) {
    tracing::warn!(%rejection, "a report of the desktop is not taken");
}
