//! One installation: a data folder, an api process, a scripted model.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::Instant,
};

use cocoonbox_model::{Script, Server};
use cocoonbox_proto::control::v1::{BootstrapRequest, users_client::UsersClient};
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    Chance, User,
    operation::delete_all,
    process,
    programs::Programs,
    remains::{self, Remains},
    runtime::run_apart,
    until::{GENEROUS, STEP},
};

/// Planted as the model's key: it must turn up nowhere but at the model.
pub const MODEL_KEY: &str = "sk-planted-0123456789-e2e-key-that-no-box-may-see";
/// Before the process id in the name of an installation's folder.
const PREFIX: &str = "cocoonbox-e2e-";
/// Below the ports that the kernel hands out to clients, so that nobody takes ours while the api is down.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Lines of the api's log shown when it does not start.
const LOG_LINES: usize = 40;

/// What an installation is started with.
#[derive(Debug)]
pub struct Setup {
    script: Script,
    env: Vec<(String, String)>,
    config: String,
    errors_expected: Vec<&'static str>,
}

/// A running installation. Dropped, it deletes its boxes, stops the api, and fails the test if anything
/// stays behind on the host.
#[derive(Debug)]
pub struct Installation {
    folder: Option<tempfile::TempDir>,
    data: PathBuf,
    port: u16,
    env: Mutex<Vec<(String, String)>>,
    errors_expected: Vec<&'static str>,
    process: Mutex<Option<Child>>,
    users: Mutex<Vec<User>>,
    model: Server,
}

impl Setup {
    /// A model that says hello to everything.
    pub fn plain() -> Self {
        Self::scripted("[[conversation]]\n[[conversation.step]]\ntext = \"Hello.\"\n")
    }

    /// A model that plays a script (see `tools/model/README.md`).
    pub fn scripted(script: &str) -> Self {
        let mut script = Script::parse(script).expect("the script is valid");
        script.api_key = Some(MODEL_KEY.to_owned());
        Self {
            script,
            env: Vec::new(),
            config: String::new(),
            errors_expected: Vec::new(),
        }
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What stands in `cocoonbox.toml`.
    pub fn config(mut self, toml: &str) -> Self {
        toml.clone_into(&mut self.config);
        self
    }

    /// ERROR lines of the api that hold this text do not fail the test.
    pub fn expect_error(mut self, part: &'static str) -> Self {
        self.errors_expected.push(part);
        self
    }

    /// Starts it and returns once it answers.
    pub async fn start(self) -> Installation {
        let _programs = Programs::get();
        let base = std::env::var_os("COCOONBOX_E2E_DIR")
            .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        remains::sweep(&base, PREFIX);
        let folder = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .tempdir_in(&base)
            .expect("a folder for the installation can be made");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("the data folder can be made");
        fs::write(data.join("cocoonbox.toml"), &self.config).expect("the config can be written");
        let model = Server::start_local(self.script)
            .await
            .expect("the scripted model starts");
        let mut env = vec![
            ("ANTHROPIC_API_KEY".to_owned(), MODEL_KEY.to_owned()),
            ("ANTHROPIC_BASE_URL".to_owned(), model.url()),
        ];
        env.extend(self.env);
        let installation = Installation {
            folder: Some(folder),
            data,
            port: free_port(),
            env: Mutex::new(env),
            errors_expected: self.errors_expected,
            process: Mutex::new(None),
            users: Mutex::new(Vec::new()),
            model,
        };
        installation.restart().await;
        installation.bootstrap().await;
        installation
    }
}

impl Installation {
    /// Starts one whose model says hello to everything.
    pub async fn start() -> Self {
        Setup::plain().start().await
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// What its api has in its environment.
    pub fn env(&self) -> Vec<(String, String)> {
        self.env.lock().expect("not poisoned").clone()
    }

    /// Gives it something else in its environment at the next start.
    pub fn set_env(&self, name: &str, value: &str) {
        let mut env = self.env.lock().expect("not poisoned");
        env.push((name.to_owned(), value.to_owned()));
    }

    /// Host and port that clients connect to.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A connection of its own; connects when first used, and again after a break.
    pub fn channel(&self) -> Channel {
        channel(self.port)
    }

    /// A connection of its own on which the api may be only so many bytes ahead of what is read.
    pub fn narrow_channel(&self, window_bytes: u32) -> Channel {
        Endpoint::from_shared(format!("http://127.0.0.1:{}", self.port))
            .expect("a valid address")
            .initial_stream_window_size(window_bytes)
            .initial_connection_window_size(window_bytes)
            .connect_lazy()
    }

    pub fn model(&self) -> &Server {
        &self.model
    }

    /// Pid of the api.
    pub fn pid(&self) -> i32 {
        let process = self.process.lock().expect("not poisoned");
        let id = process.as_ref().map(Child::id).expect("the api runs");
        i32::try_from(id).expect("a pid fits")
    }

    /// The first admin.
    pub fn admin(&self) -> User {
        self.users.lock().expect("not poisoned")[0].clone()
    }

    /// Makes a user.
    pub async fn user(&self, name: &str) -> User {
        let user = self.admin().create(name, self.channel()).await;
        self.users.lock().expect("not poisoned").push(user.clone());
        user
    }

    /// What of this installation is on the host.
    pub fn remains(&self) -> Remains {
        Remains::of(&self.data)
    }

    /// Everything that the api has logged so far.
    pub fn api_log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Kills the api with SIGKILL; boxes go on running.
    pub fn kill9(&self) {
        if let Some(mut api) = self.process.lock().expect("not poisoned").take() {
            let _gone = api.kill();
            let _status = api.wait();
        }
    }

    /// Starts the api if it does not run, and returns once it answers.
    pub async fn restart(&self) {
        {
            let mut process = self.process.lock().expect("not poisoned");
            if process.is_none() {
                let child = spawn(&self.data, self.port, &self.log_file(), &self.env());
                *process = Some(child);
            }
        }
        wait_until_up(self.port, &self.process, &self.log_file()).await;
    }

    /// Asks the api to end and waits for it; boxes go on running. Panics if it ends badly or not at all.
    pub fn stop(&self) {
        if let Some(api) = self.process.lock().expect("not poisoned").take() {
            reap(api, &self.log_file());
        }
    }

    async fn bootstrap(&self) {
        let socket = self.data.join("run/api.sock");
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
        });
        let channel = Endpoint::from_static("http://api.sock").connect_with_connector_lazy(connect);
        let request = BootstrapRequest {
            name: "admin".into(),
            label: "e2e".into(),
        };
        let issued = UsersClient::new(channel).bootstrap(request).await;
        let issued = issued
            .expect("the first admin can be made over the unix socket")
            .into_inner();
        let admin = User::new(issued, self.channel());
        self.users.lock().expect("not poisoned").push(admin);
    }

    fn log_file(&self) -> PathBuf {
        self.data.with_file_name("api.log")
    }

    fn log_tail(&self) -> String {
        log_tail(&self.log_file())
    }

    fn is_running(&self) -> bool {
        self.process.lock().is_ok_and(|process| process.is_some())
    }

    /// ERROR lines that no test said to expect.
    fn unexpected_errors(&self) -> Vec<String> {
        let log = self.api_log();
        let expected = |line: &str| self.errors_expected.iter().any(|part| line.contains(part));
        let errors = log
            .lines()
            .filter(|line| line.contains("ERROR") && !expected(line));
        errors.map(str::to_owned).collect()
    }

    /// Deletes all boxes, stops the api and returns what is wrong then.
    fn take_down(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let users = self
            .users
            .lock()
            .map(|users| users.clone())
            .unwrap_or_default();
        if self.is_running() {
            wrong.extend(run_apart(async { delete_all(&users).await }));
        }
        let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.stop()));
        if stopped.is_err() {
            wrong.push("the api did not stop as it should".to_owned());
        }
        let remains = self.remains();
        wrong.extend(
            remains
                .of_boxes()
                .into_iter()
                .map(|line| format!("left behind: {line}")),
        );
        wrong.extend(
            remains
                .disks()
                .into_iter()
                .map(|id| format!("left behind: disks of {id}")),
        );
        wrong.extend(self.unexpected_errors());
        wrong
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        let is_failing = std::thread::panicking();
        let wrong = if is_failing {
            Vec::new()
        } else {
            self.take_down()
        };
        if is_failing {
            eprintln!("the api's log:\n{}", self.log_tail());
        }
        self.kill9();
        self.remains().clear();
        if let Some(folder) = self.folder.take() {
            if std::env::var_os("COCOONBOX_E2E_KEEP").is_some() {
                eprintln!("kept: {}", folder.keep().display());
            } else {
                let _busy = folder.close();
            }
        }
        assert!(wrong.is_empty(), "after the test:\n{}", wrong.join("\n"));
    }
}

/// Starts an api on a data folder.
pub(crate) fn spawn(data: &Path, port: u16, log: &Path, env: &[(String, String)]) -> Child {
    let programs = Programs::get();
    let log = File::options().create(true).append(true).open(log);
    Command::new(&programs.api)
        .arg("serve")
        .arg("--data-dir")
        .arg(data)
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .arg("--image")
        .arg(&programs.image)
        .arg("--agent")
        .arg(&programs.agent)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/root")
        .env("RUST_BACKTRACE", "1")
        // Errors say where they come from; only a panic needs more.
        .env("RUST_LIB_BACKTRACE", "0")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.expect("the api's log can be opened"))
        .spawn()
        .expect("the api can be started")
}

/// Returns once the api at this port answers; panics if it ends before.
pub(crate) async fn wait_until_up(port: u16, process: &Mutex<Option<Child>>, log: &Path) {
    let started = Instant::now();
    loop {
        let mut health = HealthClient::new(channel(port));
        let request = HealthCheckRequest {
            service: String::new(),
        };
        if health.check(request).await.is_ok() {
            return;
        }
        let ended = process
            .lock()
            .expect("not poisoned")
            .as_mut()
            .map(Child::try_wait);
        if let Some(Ok(Some(status))) = ended {
            let log = log_tail(log);
            panic!("the api ended with {status} while it started:\n{log}");
        }
        assert!(
            started.elapsed() < GENEROUS,
            "the api does not answer on port {port}:\n{}",
            log_tail(log)
        );
        tokio::time::sleep(STEP).await;
    }
}

/// Asks an api to end and waits for it. Panics if it ends badly or not at all.
pub(crate) fn reap(mut api: Child, log: &Path) {
    process::signal(i32::try_from(api.id()).expect("a pid fits"), Signal::TERM);
    let started = Instant::now();
    while started.elapsed() < GENEROUS {
        if let Ok(Some(status)) = api.try_wait() {
            assert!(
                status.success(),
                "the api ended with {status}:\n{}",
                log_tail(log)
            );
            return;
        }
        std::thread::sleep(STEP);
    }
    let _gone = api.kill();
    let _status = api.wait();
    panic!(
        "the api did not end within {GENEROUS:?} of SIGTERM:\n{}",
        log_tail(log)
    );
}

fn log_tail(path: &Path) -> String {
    let log = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

pub(crate) fn channel(port: u16) -> Channel {
    Endpoint::from_shared(format!("http://127.0.0.1:{port}"))
        .expect("a valid address")
        .connect_lazy()
}

pub(crate) fn free_port() -> u16 {
    let mut chance = Chance::drawn();
    loop {
        let span = u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(chance.below(span)).expect("below the span");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
