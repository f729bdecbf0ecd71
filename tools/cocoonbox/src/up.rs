//! Starting and stopping the api of this host.

mod process;
mod remembered;

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Child,
    time::Duration,
};

use cocoonbox_proto::control::v1::BootstrapRequest;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    cli::boxes::Up,
    client::{Address, Client, request},
    context::Context,
    credentials::{Login, Secret},
    exit::Exit,
    failure::Failure,
    output::Progress,
    users,
};

pub use process::serve_detached;

/// A first start makes keys and databases; a later one reads the log of many boxes.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// The api lets calls end and closes the log.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// An api that answers has written its pid file, or is just about to.
const PID_TIMEOUT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);
/// Lines of the api's log that are shown when it does not start.
const LOG_LINES: usize = 12;

/// The files of an api under its data directory.
struct Place {
    data: PathBuf,
    socket: Address,
    pid_file: PathBuf,
    log_file: PathBuf,
}

impl Place {
    fn of(ctx: &Context) -> Result<Self, Failure> {
        let data = std::path::absolute(ctx.data_dir())
            .map_err(|error| Failure::local("data directory", &error))?;
        let run = data.join("run");
        Ok(Self {
            socket: Address::unix(&run.join("api.sock")),
            pid_file: run.join("api.pid"),
            log_file: run.join("api.log"),
            data,
        })
    }

    fn run(&self) -> PathBuf {
        self.data.join("run")
    }
}

pub async fn up(ctx: &mut Context, args: Up) -> Result<Exit, Failure> {
    let place = Place::of(ctx)?;
    let run = place.run();
    private_folder(&place.data)
        .and_then(|()| private_folder(&run))
        .map_err(|error| Failure::local(format!("making `{}`", run.display()), &error))?;
    // One at a time; the lock goes with the process.
    let lock = fs::File::create(run.join("up.lock"))
        .and_then(|file| file.lock().map(|()| file))
        .map_err(|error| Failure::local("taking `up.lock`", &error))?;
    let was_up = serves(&place).await;
    if !was_up {
        start(ctx, &place, &args).await?;
    }
    let user = log_in(ctx, &place, &args).await?;
    drop(lock);
    let api = ctx.global.api.clone();
    let words = if was_up { "runs already" } else { "runs" };
    ctx.out.answer(
        &json!({"api": api.to_string(), "started": !was_up, "user": user, "data_dir": place.data}),
        format!("the api {words} at {api}; you are {user}"),
    )?;
    ctx.out
        .note("next: `cocoonbox ensure`, then `cocoonbox send …`");
    Ok(Exit::Ok)
}

pub async fn down(ctx: &mut Context) -> Result<Exit, Failure> {
    let place = Place::of(ctx)?;
    let deadline = Instant::now() + PID_TIMEOUT;
    let mut running = process::find(&place.pid_file)?;
    while running.is_none() && serves(&place).await {
        if Instant::now() > deadline {
            let message = format!(
                "an api answers at {}, but `{}` does not name it",
                place.socket,
                place.pid_file.display()
            );
            return Err(
                Failure::new(Exit::Failure, message).advise("stop it the way it was started")
            );
        }
        tokio::time::sleep(POLL).await;
        running = process::find(&place.pid_file)?;
    }
    let was_up = running.is_some();
    if let Some(process) = running {
        let progress = ctx.out.progress("stopping the api");
        process.terminate()?;
        let ended = tokio::task::spawn_blocking(move || process.wait(STOP_TIMEOUT)).await;
        drop(progress);
        if !ended.is_ok_and(|ended| ended) {
            let message = format!(
                "the api does not end; its log is `{}`",
                place.log_file.display()
            );
            return Err(Failure::new(Exit::Unavailable, message));
        }
    }
    let words = if was_up {
        "the api is stopped"
    } else {
        "no api runs here"
    };
    ctx.out.answer(&json!({"stopped": was_up}), words)?;
    Ok(Exit::Ok)
}

async fn start(ctx: &mut Context, place: &Place, args: &Up) -> Result<(), Failure> {
    let progress = ctx.out.progress("starting the api");
    let mut serve = remembered::Serve::resolve(&place.data, args)?;
    serve.listen = ctx
        .global
        .api
        .host_port()
        .map(str::to_owned)
        .ok_or_else(|| {
            Failure::usage("`up` starts an api at an http address").advise("--api http://HOST:PORT")
        })?;
    let mut child = process::spawn(&place.data, &place.log_file, &serve)?;
    let started = wait_until_up(ctx, place, &mut child, &progress).await;
    if started.is_ok() {
        serve.remember(&place.data)?;
    }
    started
}

/// Waits for health over the socket; an api that ends before is told with the end of its log.
async fn wait_until_up(
    ctx: &mut Context,
    place: &Place,
    child: &mut Child,
    progress: &Progress,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut said = false;
    loop {
        if serves(place).await {
            return Ok(());
        }
        let ended = child
            .try_wait()
            .map_err(|error| Failure::local("waiting for the api", &error))?;
        let log = place.log_file.display();
        if let Some(status) = ended {
            let message = format!(
                "the api ended at once ({status}); it says:\n{}",
                log_end(&place.log_file)
            );
            return Err(
                Failure::new(Exit::Failure, message).advise(format!("the whole is in `{log}`"))
            );
        }
        if begun.elapsed() > START_TIMEOUT {
            let message = format!(
                "the api does not answer after {} s",
                START_TIMEOUT.as_secs()
            );
            return Err(
                Failure::new(Exit::Unavailable, message).advise(format!("its log is `{log}`"))
            );
        }
        if !said && begun.elapsed() > Duration::from_secs(3) {
            said = true;
            progress.step(
                &mut ctx.out,
                format!("waiting for the api; its log is {log}"),
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Keeps a token that works: the one there is, or another one from the api's own socket.
async fn log_in(ctx: &mut Context, place: &Place, args: &Up) -> Result<String, Failure> {
    let api = ctx.global.api.clone();
    if let Some(token) = ctx.token()? {
        let client = Client::connect(&api, Some(&token)).await?;
        match users::who(&client).await {
            Ok(user) => return Ok(user.name),
            Err(failure) if failure.exit == Exit::Refused => {}
            Err(failure) => return Err(failure),
        }
        if ctx.environment.token.is_some() {
            return Err(Failure::new(
                Exit::Refused,
                "the token in COCOONBOX_TOKEN is not valid here",
            )
            .advise("unset it, and `up` makes another"));
        }
    }
    let client = Client::connect(&place.socket, None).await?;
    let name = args
        .admin
        .clone()
        .unwrap_or_else(|| ctx.environment.user.clone());
    let call = BootstrapRequest {
        name,
        label: "cocoonbox up".to_owned(),
    };
    let issued = client.users().bootstrap(request(call)).await?.into_inner();
    let user = issued.user.unwrap_or_default().name;
    let login = Login {
        token: Secret::new(issued.token),
        token_id: issued.token_id,
        user: user.clone(),
    };
    ctx.credentials().put(&api.to_string(), &login)?;
    Ok(user)
}

async fn serves(place: &Place) -> bool {
    match Client::connect(&place.socket, None).await {
        Ok(client) => client.is_healthy().await.unwrap_or(false),
        Err(_) => false,
    }
}

fn private_folder(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn log_end(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
    end.iter()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
