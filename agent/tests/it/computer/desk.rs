//! A desktop of the test's own, as an image's plan has it.

use std::{
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use cocoonbox_proto::toolhost::v1::{
    ComputerActRequest, FileResponse, computer_client::ComputerClient,
};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::world::eventually;

const AGENT: &str = env!("CARGO_BIN_EXE_cocoonbox-agent");

/// Displays of this process. Numbers follow from its id, so that tests beside each other do not meet.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// `$N` is the display's number, `$F` the test's folder.
const PLAN: &str = r#"
[environment]
DISPLAY = ":$N"
DBUS_SESSION_BUS_ADDRESS = "unix:path=$F/bus"
XDG_RUNTIME_DIR = "$F"
LC_ALL = "C.UTF-8"
NO_AT_BRIDGE = "0"

[[part]]
name = "bus"
command = ["dbus-daemon", "--config-file=$F/bus.conf", "--nofork", "--nopidfile", "--nosyslog"]
ready = { socket = "$F/bus" }

[[part]]
name = "screen"
command = [
  "Xvnc", ":$N", "-rfbport", "-1", "-rfbunixpath", "$F/vnc", "-SecurityTypes", "None", "-geometry", "1280x800",
  "-depth", "24", "-nolisten", "tcp", "-noreset",
]
ready = { socket = "/tmp/.X11-unix/X$N" }

[[part]]
name = "accessibility"
command = ["/usr/libexec/at-spi-bus-launcher", "--launch-immediately"]
needs = ["bus", "screen"]
ready = { command = [
  "dbus-send", "--session", "--print-reply", "--reply-timeout=2000", "--dest=org.a11y.Bus", "/org/a11y/bus",
  "org.freedesktop.DBus.Properties.Set", "string:org.a11y.Status", "string:IsEnabled", "variant:boolean:true",
] }

[[part]]
name = "windows"
command = ["openbox", "--sm-disable"]
needs = ["accessibility", "screen"]
ready = { command = ["sh", "-c", "xprop -root _NET_SUPPORTING_WM_CHECK | grep -q 0x"] }

[[part]]
name = "all"
command = ["sh", "-c", "touch $F/ready; exec sleep 100000"]
needs = ["windows"]
"#;

/// A bus that starts nothing by itself, as in an image: a second accessibility bus, started because somebody asked for
/// one, would race with the plan's, which then ends again and again and takes the window manager with it.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=$F/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

pub(crate) struct Desk {
    folder: TempDir,
    number: u32,
    desktop: Child,
    holder: Child,
    client: ComputerClient<Channel>,
    programs: Vec<Child>,
}

impl Desk {
    /// `None` where this machine has not what it takes.
    pub(crate) async fn start() -> Option<Self> {
        for needed in [
            "/usr/bin/Xvnc",
            "/usr/bin/openbox",
            "/usr/libexec/at-spi-bus-launcher",
        ] {
            if !Path::new(needed).exists() {
                println!("not tested: there is no {needed}");
                return None;
            }
        }
        let folder = TempDir::with_prefix("desk").expect("a folder");
        let number = 100 + std::process::id() % 50_000 + NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.path().join("desktop.toml");
        for (path, text) in [(&path, PLAN), (&folder.path().join("bus.conf"), BUS)] {
            let text = text
                .replace("$N", &number.to_string())
                .replace("$F", folder.path().to_str().expect("a path"));
            std::fs::write(path, text).expect("a write");
        }
        let mut command = Command::new(AGENT);
        command
            .arg("desktop")
            .arg("--plan")
            .arg(&path)
            .arg("--socket")
            .arg(folder.path().join("desktop.sock"))
            .process_group(0)
            .stdin(Stdio::null());
        let desktop = command.spawn().expect("a desktop");
        let ready = folder.path().join("ready");
        eventually("the desktop is up", || ready.exists()).await;
        let (holder, client) = holder(folder.path(), number).await;
        Some(Self {
            folder,
            number,
            desktop,
            holder,
            client,
            programs: Vec::new(),
        })
    }

    pub(crate) fn client(&self) -> ComputerClient<Channel> {
        self.client.clone()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn display(&self) -> String {
        format!(":{}", self.number)
    }

    fn environment(folder: &Path, number: u32) -> [(&'static str, String); 7] {
        let folder = folder.to_str().expect("a path");
        [
            ("DISPLAY", format!(":{number}")),
            (
                "DBUS_SESSION_BUS_ADDRESS",
                format!("unix:path={folder}/bus"),
            ),
            ("XDG_RUNTIME_DIR", folder.to_owned()),
            ("HOME", folder.to_owned()),
            ("LC_ALL", "C.UTF-8".to_owned()),
            ("GTK_MODULES", "atk-bridge".to_owned()),
            // Nothing here has a graphics card, and looking for one takes long.
            ("GSK_RENDERER", "cairo".to_owned()),
        ]
    }

    /// Starts a program on it.
    pub(crate) fn run(&mut self, program: &str, arguments: &[&str]) -> Pid {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(Self::environment(self.folder.path(), self.number))
            .env("F", self.folder.path())
            .stdin(Stdio::null());
        let child = command.process_group(0).spawn().expect("a program");
        let pid = pid(&child);
        self.programs.push(child);
        pid
    }

    /// Starts a program of the tests', written in Python, and waits until its window has the keyboard.
    pub(crate) async fn python(&mut self, script: &str, title: &str) -> Pid {
        let pid = self.program(script, title).await;
        self.active(title).await;
        pid
    }

    /// Starts a program of the tests', written in Python, and waits for its window.
    pub(crate) async fn program(&mut self, script: &str, title: &str) -> Pid {
        let path = self.path(&format!("program-{}.py", self.programs.len()));
        std::fs::write(&path, script).expect("a write");
        let pid = self.run("/usr/bin/python3", &[path.to_str().expect("a path")]);
        self.window(title).await;
        pid
    }

    /// Waits for a window, and returns its name.
    pub(crate) async fn window(&self, title: &str) -> String {
        let quoted = format!("\"{title}\"");
        for _ in 0..1_200 {
            let told = self.look(json!({ "action": "windows" })).await;
            if let Some(line) = told.lines().find(|line| line.contains(&quoted)) {
                let (_, rest) = line.split_once("[w").expect("a name");
                let (name, _) = rest.split_once(']').expect("a name");
                return format!("w{name}");
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("no window {title}");
    }

    /// Waits until the window manager has given a window the keyboard, which it does after it has shown it.
    pub(crate) async fn active(&self, title: &str) {
        let quoted = format!("\"{title}\"");
        for _ in 0..400 {
            let told = self.look(json!({ "action": "windows" })).await;
            let mut lines = told.lines().filter(|line| line.contains(&quoted));
            if lines.any(|line| line.contains("[active]")) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("window {title} does not become active");
    }

    async fn asked(&self, look: bool, args: &Value) -> FileResponse {
        let request = ComputerActRequest {
            agent_id: "main".to_owned(),
            args_json: args.to_string(),
            look,
        };
        let answer = self.client.clone().act(request).await;
        answer.expect("an answer").into_inner()
    }

    pub(crate) async fn act(&self, args: Value) -> String {
        let answer = self.asked(false, &args).await;
        assert!(answer.ok, "{args}: {}", answer.text);
        answer.text
    }

    pub(crate) async fn refused(&self, args: Value) -> String {
        let answer = self.asked(false, &args).await;
        assert!(!answer.ok, "{args}: {}", answer.text);
        answer.text
    }

    pub(crate) async fn look(&self, args: Value) -> String {
        let answer = self.asked(true, &args).await;
        assert!(answer.ok, "{args}: {}", answer.text);
        answer.text
    }

    pub(crate) async fn picture(&self, args: Value) -> Vec<u8> {
        let answer = self.asked(true, &args).await;
        assert!(answer.ok, "{args}: {}", answer.text);
        answer.picture
    }

    pub(crate) async fn snapshot(&self) -> String {
        self.look(json!({ "action": "snapshot" })).await
    }

    /// A snapshot with these words: a program may tell its elements later than its window is there.
    async fn shown(&self, words: &str) -> String {
        let mut shown = String::new();
        for _ in 0..400 {
            shown = self.snapshot().await;
            if shown.contains(words) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        shown
    }

    /// The ref of the first line with these words.
    pub(crate) async fn reference(&self, words: &str) -> String {
        reference(&self.shown(words).await, words)
    }

    /// The middle of what the first line with these words is about.
    pub(crate) async fn middle(&self, words: &str) -> (i64, i64) {
        let shown = self.shown(words).await;
        let line = line(&shown, words);
        let (_, rest) = line.rsplit_once(" (").expect("a place");
        let numbers = rest.split(|c: char| !c.is_ascii_digit());
        let numbers = numbers.filter(|word| !word.is_empty()).take(4);
        let numbers: Vec<i64> = numbers
            .map(|word| word.parse().expect("a number"))
            .collect();
        (numbers[0] + numbers[2] / 2, numbers[1] + numbers[3] / 2)
    }

    /// The holder's process.
    pub(crate) fn holder(&self) -> Pid {
        pid(&self.holder)
    }

    /// What `desktop` runs when the holder has ended.
    pub(crate) fn put_away(&self) {
        let mut command = Command::new(AGENT);
        command.args(["computer", "--put-away"]);
        command.envs(Self::environment(self.folder.path(), self.number));
        assert!(command.status().expect("it runs").success());
    }

    /// Waits until a file holds something that is wanted.
    pub(crate) async fn holds(&self, name: &str, wanted: &str) {
        let path = self.path(name);
        let is_it = || std::fs::read_to_string(&path).is_ok_and(|text| text == wanted);
        for _ in 0..200 {
            if is_it() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let found = std::fs::read_to_string(&path);
        panic!(
            "`{name}` holds {found:?}, not {wanted:?}\n{}",
            self.snapshot().await
        );
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.holder.kill().ok();
        self.holder.wait().ok();
        for program in &mut self.programs {
            kill_process_group(pid(program), Signal::KILL).ok();
            program.wait().ok();
        }
        kill_process_group(pid(&self.desktop), Signal::KILL).ok();
        self.desktop.wait().ok();
        let number = self.number;
        std::fs::remove_file(format!("/tmp/.X11-unix/X{number}")).ok();
        std::fs::remove_file(format!("/tmp/.X{number}-lock")).ok();
    }
}

async fn holder(folder: &Path, number: u32) -> (Child, ComputerClient<Channel>) {
    let socket = folder.join("computer.sock");
    let mut command = Command::new(AGENT);
    command
        .arg("computer")
        .arg("--socket")
        .arg(&socket)
        .envs(Desk::environment(folder, number))
        .stdin(Stdio::null());
    let holder = command.spawn().expect("a holder");
    let listening = socket.clone();
    eventually("the holder listens", || {
        std::os::unix::net::UnixStream::connect(&listening).is_ok()
    })
    .await;
    let channel = Endpoint::from_static("http://computer").connect_with_connector_lazy(
        tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        }),
    );
    let client = ComputerClient::new(channel).max_decoding_message_size(16 << 20);
    (holder, client)
}

fn pid(child: &Child) -> Pid {
    let pid = i32::try_from(child.id()).expect("an id");
    Pid::from_raw(pid).expect("an id")
}

fn line<'a>(shown: &'a str, words: &str) -> &'a str {
    let line = shown.lines().find(|line| line.contains(words));
    line.unwrap_or_else(|| panic!("no `{words}` in\n{shown}"))
}

/// The ref of the first line with these words.
pub(crate) fn reference(shown: &str, words: &str) -> String {
    let line = line(shown, words);
    let (_, rest) = line
        .split_once("[ref=")
        .unwrap_or_else(|| panic!("no ref: {line}"));
    rest.split(']').next().expect("a ref").to_owned()
}
