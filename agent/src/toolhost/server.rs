//! The toolhost's gRPC server.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    os::unix::net::UnixListener as StdListener,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use cocoonbox_proto::toolhost::v1::{
    EditRequest, FetchRequest, FileResponse, GlobRequest, GrepRequest, GuidanceRequest,
    GuidanceResponse, LsRequest, ReadRequest, RunInput, RunOutput, WriteRequest, run_input,
    toolhost_server::{Toolhost, ToolhostServer},
};
use futures::{Stream, StreamExt};
use tokio::{
    net::UnixListener,
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use super::{
    environment::environment,
    fetch::Fetcher,
    files::{self, Answer, Files, Roots},
    peer::Peers,
    run,
    runner::Runner,
};

/// Commands at one time: two processes and six descriptors each. Others wait.
const RUNS_MAX: usize = 256;

/// How long a command waits for its turn before its caller is told that the box is busy.
const TURN_MAX: Duration = Duration::from_mins(1);

/// Frames of output that wait for the caller; more would only be memory.
const OUT_FRAMES_MAX: usize = 2;

/// A prompt's worth of file content plus room for its escapes.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// File calls at one time; each may hold a file in memory.
const FILE_CALLS_MAX: usize = 4;

/// Settings of a toolhost.
#[derive(Clone, Debug)]
pub struct Config {
    pub roots: Roots,
    pub peers: Peers,
    /// The binary that supervises commands: this one.
    pub supervisor: PathBuf,
    /// URL of the proxy through which everything outside is reached.
    pub door: String,
    /// What commands see besides the usual: where the desktop is.
    pub environment: BTreeMap<String, String>,
}

struct Host {
    files: Arc<Files>,
    fetcher: Fetcher,
    door: String,
    environment: BTreeMap<String, String>,
    runner: Runner,
    runs: Arc<Semaphore>,
    file_calls: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// Serves callers on `listener` until `stop`. Commands that still run are cancelled.
pub async fn serve(
    listener: StdListener,
    config: Config,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let tasks = TaskTracker::new();
    let runner = Runner::new(config.supervisor);
    let host = Host {
        files: Arc::new(Files::new(config.roots, runner.converter())),
        fetcher: Fetcher::new(config.door.clone(), runner.converter()),
        door: config.door,
        environment: config.environment,
        runner,
        runs: Arc::new(Semaphore::new(RUNS_MAX)),
        file_calls: Arc::new(Semaphore::new(FILE_CALLS_MAX)),
        tasks: tasks.clone(),
    };
    let incoming = match incoming(listener) {
        Ok(incoming) => incoming,
        Err(error) => {
            tracing::error!(%error, "socket not usable");
            return Ok(());
        }
    };
    let peers = config.peers;
    let incoming = incoming.filter(move |stream| {
        let admitted = stream.as_ref().map_or(true, |stream| peers.admits(stream));
        std::future::ready(admitted)
    });
    let service = ToolhostServer::new(host)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
        .await?;
    tasks.close();
    Ok(())
}

fn incoming(listener: StdListener) -> io::Result<UnixListenerStream> {
    listener.set_nonblocking(true)?;
    Ok(UnixListenerStream::new(UnixListener::from_std(listener)?))
}

impl Host {
    /// Runs file work off the runtime, a few at a time.
    async fn file_work<A: Into<Answer>>(
        &self,
        work: impl FnOnce(&Files) -> Result<A, files::Refusal> + Send + 'static,
    ) -> Result<Response<FileResponse>, Status> {
        let permit = Arc::clone(&self.file_calls).acquire_owned().await;
        let files = Arc::clone(&self.files);
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&files).map(Into::into)
        })
        .await
        .map_err(|_| Status::internal("the file tool panicked"))?;
        Ok(response(done))
    }
}

fn response(done: Result<Answer, impl std::fmt::Display>) -> Response<FileResponse> {
    Response::new(match done {
        Ok(Answer { text, picture }) => FileResponse {
            ok: true,
            text,
            picture,
        },
        Err(refusal) => FileResponse {
            text: refusal.to_string(),
            ..FileResponse::default()
        },
    })
}

#[async_trait]
impl Toolhost for Host {
    type RunStream = Pin<Box<dyn Stream<Item = Result<RunOutput, Status>> + Send>>;

    async fn run(
        &self,
        request: Request<Streaming<RunInput>>,
    ) -> Result<Response<Self::RunStream>, Status> {
        let mut input = request.into_inner();
        let first = input.message().await?.and_then(|input| input.frame);
        let Some(run_input::Frame::Start(mut start)) = first else {
            return Err(Status::invalid_argument("the first frame is not `start`"));
        };
        let permit = timeout(TURN_MAX, Arc::clone(&self.runs).acquire_owned())
            .await
            .map_err(|_| Status::resource_exhausted("too many commands run in this box"))?
            .map_err(|_| Status::unavailable("the toolhost stops"))?;
        // Relative to the workspace, which is also where an empty one leads.
        let roots = &self.files.roots;
        let cwd = Path::new(roots.workspace()).join(&start.cwd);
        start.cwd = cwd.to_string_lossy().into_owned();
        let mut over: HashMap<_, _> = self.environment.clone().into_iter().collect();
        over.extend(std::mem::take(&mut start.env));
        start.env = environment(roots.home(), &self.door, start.tty.is_some(), over);
        let (out, frames) = mpsc::channel(OUT_FRAMES_MAX);
        let runner = self.runner.clone();
        let reapers = self.tasks.clone();
        self.tasks.spawn(async move {
            run::run(runner, start, input, out, reapers).await;
            drop(permit);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(frames))))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<FileResponse>, Status> {
        let request = request.into_inner();
        self.file_work(move |files| files::read(files, &request))
            .await
    }

    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<FileResponse>, Status> {
        let request = request.into_inner();
        self.file_work(move |files| files::write(files, &request))
            .await
    }

    async fn edit(&self, request: Request<EditRequest>) -> Result<Response<FileResponse>, Status> {
        let request = request.into_inner();
        self.file_work(move |files| files::edit(files, &request))
            .await
    }

    async fn ls(&self, request: Request<LsRequest>) -> Result<Response<FileResponse>, Status> {
        let request = request.into_inner();
        self.file_work(move |files| files::ls(files, &request))
            .await
    }

    async fn guidance(
        &self,
        _: Request<GuidanceRequest>,
    ) -> Result<Response<GuidanceResponse>, Status> {
        let _permit = Arc::clone(&self.file_calls).acquire_owned().await;
        let files = Arc::clone(&self.files);
        let found = tokio::task::spawn_blocking(move || files::guidance(&files.roots)).await;
        let found = found.map_err(|_| Status::internal("reading guidance panicked"))?;
        Ok(Response::new(found))
    }

    async fn grep(&self, request: Request<GrepRequest>) -> Result<Response<FileResponse>, Status> {
        let request = request.into_inner();
        self.file_work(move |files| files::grep(files, &request))
            .await
    }

    async fn glob(&self, request: Request<GlobRequest>) -> Result<Response<FileResponse>, Status> {
        let request = request.into_inner();
        self.file_work(move |files| files::glob(files, &request))
            .await
    }

    async fn fetch(
        &self,
        request: Request<FetchRequest>,
    ) -> Result<Response<FileResponse>, Status> {
        Ok(response(self.fetcher.fetch(request.into_inner()).await))
    }
}
