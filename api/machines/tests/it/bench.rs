//! A driver with a data folder of its own, and ways to look into its boxes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cocoonbox_machines::container::Config;
use cocoonbox_machines::machine::Limits;
use cocoonbox_machines::{BoxId, Container, Error, Identity, Machines, Spec, Stream, WakeId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) const ROOT: u32 = 0;
pub(crate) const AGENT: u32 = 990;
pub(crate) const USER: u32 = 1000;

const INIT_PORT: u16 = 7443;

/// Of a box with limited disks.
pub(crate) const DISK_BYTES: u64 = 96 << 20;

/// Generous: the machine that runs the tests may be busy with other things.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(5);

pub(crate) struct Bench {
    pub(crate) machines: Arc<dyn Machines>,
    pub(crate) data: PathBuf,
    /// What its boxes may use.
    pub(crate) limits: Limits,
    folder: Option<tempfile::TempDir>,
    abandoned: bool,
}

const LIMITS: Limits = Limits {
    memory_bytes: 512 << 20,
    cpu_millis: 1000,
    pids: 128,
    io_bytes_per_second: None,
    disk_bytes: None,
};

impl Bench {
    pub(crate) fn container() -> Self {
        let folder = data_folder();
        let mut bench = Self::over(&folder.path().join("data"));
        bench.folder = Some(folder);
        bench
    }

    /// A driver whose boxes have limited disks.
    pub(crate) fn with_volumes() -> Self {
        let mut bench = Self::container();
        bench.limits.disk_bytes = Some(DISK_BYTES);
        bench
    }

    /// A driver over a data folder that outlives it.
    pub(crate) fn over(data: &Path) -> Self {
        let machines =
            Container::new(Config::new(data)).unwrap_or_else(|e| panic!("{}", chain(&e)));
        let machines = Arc::new(machines);
        Self {
            machines,
            data: data.to_owned(),
            limits: LIMITS,
            folder: None,
            abandoned: false,
        }
    }

    /// Lets go of the driver and leaves the boxes as they are.
    pub(crate) fn abandon(mut self) {
        self.abandoned = true;
    }

    /// A box that may use what boxes of this bench may.
    pub(crate) fn spec(&self, id: &str, wake: &str) -> Spec {
        Spec {
            limits: self.limits,
            ..spec(id, wake)
        }
    }

    /// Brings a box up and waits until its init answers.
    pub(crate) async fn up(&self, id: &str, wake: &str) -> Spec {
        let spec = self.spec(id, wake);
        self.machines.ensure(&spec).await.expect("the box starts");
        assert_eq!(self.run(&spec, USER, "echo hello").await, "hello\n");
        spec
    }

    /// Runs a command in the box, which must succeed, and returns what it printed.
    pub(crate) async fn run(&self, spec: &Spec, uid: u32, command: &str) -> String {
        let (status, output) = self.try_run(spec, uid, command).await;
        assert_eq!(status, 0, "`{command}` as {uid}: {output}");
        output
    }

    pub(crate) async fn try_run(&self, spec: &Spec, uid: u32, command: &str) -> (i32, String) {
        let mut stream = self.ask(spec, uid, command).await;
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        let read = tokio::time::timeout(DEADLINE, read).await;
        read.unwrap_or_else(|_| panic!("`{command}` goes on"))
            .expect("an answer");
        let (status, output) = answer.split_once('\n').expect("a status line");
        (status.parse().expect("a status"), output.to_owned())
    }

    /// Sends a command to the box's init and returns what the answer comes from.
    pub(crate) async fn ask(&self, spec: &Spec, uid: u32, command: &str) -> Stream {
        let deadline = Instant::now() + DEADLINE;
        let mut stream = loop {
            match self
                .machines
                .dial(&spec.box_id, &spec.wake_id, INIT_PORT)
                .await
            {
                Ok(stream) => break stream,
                Err(Error::Io { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(STEP).await;
                }
                Err(e) => panic!("{}", chain(&e)),
            }
        };
        let request = format!("{uid}\n{command}\n");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("a request");
        stream
    }
}

impl Drop for Bench {
    /// A test that failed leaves boxes; they must not outlive it.
    fn drop(&mut self) {
        if self.abandoned {
            return;
        }
        let machines = Arc::clone(&self.machines);
        let cleaned = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                for machine in machines.list().await.expect("a list") {
                    machines
                        .delete(&machine.box_id)
                        .await
                        .expect("a removed box");
                }
            });
        });
        let cleaned = cleaned.join();
        assert!(
            cleaned.is_ok() || std::thread::panicking(),
            "the bench was not cleaned up"
        );
    }
}

pub(crate) fn spec(id: &str, wake: &str) -> Spec {
    Spec {
        box_id: BoxId::new(id).expect("a box id"),
        wake_id: WakeId(wake.to_owned()),
        image: image().to_owned(),
        agent: init().to_owned(),
        identity: Identity(serde_json::json!({ "box": id, "wake": wake })),
        limits: LIMITS,
    }
}

/// Where the boxes' disks go. Checked here since it is the first thing every test needs.
pub(crate) fn data_folder() -> tempfile::TempDir {
    assert!(
        rustix::process::geteuid().is_root(),
        "these tests start containers: run them as root"
    );
    tempfile::Builder::new()
        .prefix("cocoonbox-machines-")
        .tempdir()
        .expect("a temporary folder")
}

/// Polls until the condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(STEP).await;
    }
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), |s| format!("{error}: {}", chain(s)))
}

/// `COCOONBOX_IMAGE`, or what `image/build` prints.
fn image() -> &'static Path {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| {
        if let Some(image) = std::env::var_os("COCOONBOX_IMAGE") {
            return image.into();
        }
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../image/build");
        let built = Command::new(build)
            .stderr(Stdio::inherit())
            .output()
            .expect("image/build runs");
        assert!(
            built.status.success(),
            "image/build ended with {}",
            built.status
        );
        String::from_utf8(built.stdout)
            .expect("a path")
            .trim()
            .into()
    })
}

fn init() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/init.py"))
}
