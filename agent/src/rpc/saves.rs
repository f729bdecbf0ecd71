//! `Saves`: the api saves the box where its agents wait for it.

use async_trait::async_trait;
use cocoonbox_proto::agent::v1::{SaveAnswer, SaveAsk, saves_server};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status, Streaming};

use crate::saves::Saves;

pub(crate) struct SavesService {
    pub(crate) saves: Saves,
    pub(crate) tasks: TaskTracker,
    /// The process ends.
    pub(crate) stop: CancellationToken,
}

#[async_trait]
impl saves_server::Saves for SavesService {
    type ServeStream = ReceiverStream<Result<SaveAsk, Status>>;

    async fn serve(
        &self,
        request: Request<Streaming<SaveAnswer>>,
    ) -> Result<Response<Self::ServeStream>, Status> {
        let (asks, asked) = mpsc::channel(1);
        let (saves, stop) = (self.saves.clone(), self.stop.clone());
        let answers = request.into_inner();
        let stream = saves.begin();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = asks.closed() => {}
                () = hear(&saves, stream, answers) => {}
                () = tell(&saves, stream, &asks) => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(asked)))
    }
}

async fn hear(saves: &Saves, stream: u64, mut answers: Streaming<SaveAnswer>) {
    while let Ok(Some(answer)) = answers.message().await {
        saves.take(stream, answer);
    }
}

async fn tell(saves: &Saves, stream: u64, to: &mpsc::Sender<Result<SaveAsk, Status>>) {
    while let Some(asks) = saves.next(stream).await {
        for ask in asks {
            if to.send(Ok(ask)).await.is_err() {
                return;
            }
        }
    }
}
