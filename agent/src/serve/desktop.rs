//! Writing down what happens to the desktop.

use std::{path::PathBuf, time::Duration};

use cocoonbox_commands::desktop::{Command, Rejection, SHARED_DISPLAY, STREAM, State};
use cocoonbox_events::{Fold, StreamName};
use cocoonbox_proto::{
    log::v1::{DesktopPictured, DesktopStarted},
    toolhost::v1::{
        DesktopPictureRequest, DesktopReport, DesktopWatchRequest, desktop_client::DesktopClient,
        desktop_report::What,
    },
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Status, transport::Channel};

use crate::{
    blobs::{self, Blobs},
    journal::{Error, Journal},
    seats::Seats,
    socket,
};

/// Init starts a desktop again that ended, within its backoff.
const RETRY: Duration = Duration::from_millis(200);

/// For a picture to be taken and written down.
const PICTURE_MAX: Duration = Duration::from_secs(2);

/// Of an answer with a picture.
const PICTURE_BYTES_MAX: usize = 5 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
enum NoPicture {
    #[error("the desktop does not answer")]
    Desktop(#[from] Status),
    #[error("it cannot be kept")]
    Blob(#[from] blobs::Error),
    #[error("it cannot be written down")]
    Journal(#[from] Error<Rejection>),
    #[error("`{STREAM}` is no name of a stream")]
    Stream,
}

/// Follows the desktop's reports.
#[derive(Clone)]
pub(crate) struct Desktop {
    socket: PathBuf,
    wake_id: String,
    /// Whoever gives displays to agents hears of their ends.
    seats: Seats,
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
    pub(crate) fn new(
        socket: PathBuf,
        wake_id: String,
        seats: Seats,
        stop: CancellationToken,
    ) -> Self {
        Self {
            socket,
            wake_id,
            seats,
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
                Ok(_) => {
                    if let Command::Begin(begun) = &command {
                        self.seats.desktop_began(&begun.session);
                    }
                }
                // The user can be at the other end: a report that makes no sense is not worth an end.
                Err(Error::Rejected(rejection)) => said(&rejection),
                Err(Error::Closed | Error::Load(_) | Error::Append(_)) => return End::Closed,
            }
        }
    }

    /// Puts what the display shows into the log, for who looks while the box sleeps. A box without a desktop shows
    /// nothing, and one that cannot be looked at in time sleeps all the same.
    pub(crate) async fn picture(&self, journal: &Journal, blobs: &Blobs) {
        if !self.socket.exists() {
            return;
        }
        match timeout(PICTURE_MAX, self.take_picture(journal, blobs)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!(?error, "no last picture"),
            Err(_) => tracing::info!("no last picture in time"),
        }
    }

    async fn take_picture(&self, journal: &Journal, blobs: &Blobs) -> Result<(), NoPicture> {
        let client = DesktopClient::new(self.channel());
        let mut client = client.max_decoding_message_size(PICTURE_BYTES_MAX);
        let taken = client.picture(DesktopPictureRequest {}).await?;
        let image = blobs.store_picture(&taken.into_inner().png).await?;
        let stream = StreamName::new(STREAM).map_err(|_| NoPicture::Stream)?;
        let mut fold = journal.fold::<State>(stream);
        let pictured = Command::Picture(DesktopPictured {
            display: SHARED_DISPLAY,
            image: Some(image),
        });
        journal
            .execute(&mut fold, &pictured, journal.own_actor())
            .await?;
        Ok(())
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
            What::Failed(failed) => {
                self.seats.ended(&failed.part);
                Command::PartFailed { session, failed }
            }
            What::Ended(part) => {
                self.seats.ended(&part);
                return None;
            }
        })
    }

    fn channel(&self) -> Channel {
        socket::channel("http://desktop", self.socket.clone())
    }
}

fn said(rejection: &Rejection) {
    tracing::warn!(%rejection, "a report of the desktop is not taken");
}
