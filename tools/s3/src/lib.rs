//! A real server of S3 for tests and measurements, over a folder that goes with it.

use std::{
    env, fs, io,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Its only bucket.
pub const BUCKET: &str = "capsules";
/// Who asks signs with these.
pub const ACCESS_KEY: &str = "AK";
pub const SECRET_KEY: &str = "SK-planted-0123456789-that-no-log-may-tell";
const READY: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

/// A server. Dropped, it is killed, and what it held is gone.
#[derive(Debug)]
pub struct Server {
    /// Absent while it is down.
    process: Option<Process>,
    program: PathBuf,
    port: u16,
    folder: tempfile::TempDir,
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("there is no `{0}`: `tools/test` installs it")]
    NotInstalled(PathBuf),
    #[error("the server of S3")]
    Run(#[from] io::Error),
    #[error("the server of S3 does not listen")]
    Silent,
    #[error("the server of S3 ended; its port may be somebody else's now")]
    Ended,
}

impl Server {
    /// Returns once it listens.
    pub fn start() -> Result<Self, ServerError> {
        let program = program();
        if !program.exists() {
            return Err(ServerError::NotInstalled(program));
        }
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join(BUCKET))?;
        loop {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let mut process = Process::spawn(&program, port, folder.path())?;
            // It ends if somebody else got the port first.
            if process.is_listening(port)? {
                return Ok(Self {
                    process: Some(process),
                    program,
                    port,
                    folder,
                });
            }
        }
    }

    /// Kills it. What it held stays.
    pub fn go_down(&mut self) {
        self.process = None;
    }

    /// Starts it again at the same address.
    pub fn come_up(&mut self) -> Result<(), ServerError> {
        let mut process = Process::spawn(&self.program, self.port, self.folder.path())?;
        if !process.is_listening(self.port)? {
            return Err(ServerError::Ended);
        }
        self.process = Some(process);
        Ok(())
    }

    /// `http://…`, as clients are given it.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where a prefix of the bucket is, as cocoonbox takes it.
    pub fn address(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}?endpoint={}", self.endpoint())
    }

    /// Its bucket as a folder, a file for each object.
    pub fn bucket(&self) -> PathBuf {
        self.folder.path().join(BUCKET)
    }
}

/// What `tools/test` installs.
fn program() -> PathBuf {
    let folder = |name| env::var_os(name).map(PathBuf::from);
    let cache = folder("COCOONBOX_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|base| base.join("cocoonbox")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/cocoonbox")));
    cache.unwrap_or_default().join("tools/bin/s3s-fs")
}

#[derive(Debug)]
struct Process(Child);

impl Process {
    /// Its keys are no secrets, and it takes them as arguments only.
    fn spawn(program: &Path, port: u16, folder: &Path) -> io::Result<Self> {
        let child = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }

    /// Whether it came up; false if it ended instead.
    fn is_listening(&mut self, port: u16) -> Result<bool, ServerError> {
        let begun = Instant::now();
        while begun.elapsed() < READY {
            if self.0.try_wait()?.is_some() {
                return Ok(false);
            }
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(true);
            }
            std::thread::sleep(POLL);
        }
        Err(ServerError::Silent)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails where it has ended already.
        self.0.kill().ok();
        if let Err(error) = self.0.wait() {
            eprintln!("a test's server of S3 was not waited for: {error}");
        }
    }
}
