use std::{path::Path, time::Duration};

use rustix::process::Signal;
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

use super::{part::Ending, *};

/// Far more than any of it takes.
const MAX: Duration = Duration::from_secs(30);

struct Desktop {
    happened: mpsc::UnboundedReceiver<Happened>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
    folder: tempfile::TempDir,
}

impl Desktop {
    /// `$F` in the plan is a folder of the test's own.
    fn start(plan: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("desktop.toml");
        let plan = plan.replace("$F", folder.path().to_str().unwrap());
        std::fs::write(&path, plan).unwrap();
        let plan = Plan::read(&path).unwrap().unwrap();
        let stop = CancellationToken::new();
        let (sender, happened) = mpsc::unbounded_channel();
        let told = move |one| drop(sender.send(one));
        let wanted = std::os::unix::net::UnixListener::bind(folder.path().join("wanted")).unwrap();
        let wanted = HashMap::from([("wanted".to_owned(), Demand::new(wanted).unwrap())]);
        let task = tokio::spawn(run(plan, wanted, None, stop.clone(), told));
        Self {
            happened,
            stop,
            task,
            folder,
        }
    }

    async fn next(&mut self) -> Happened {
        let next = timeout(MAX, self.happened.recv()).await;
        next.expect("something happens").expect("it runs")
    }

    async fn started(&mut self) -> String {
        match self.next().await {
            Happened::Started { part, .. } => part,
            other => panic!("{other:?}"),
        }
    }

    fn pid(&self, part: &str) -> rustix::process::Pid {
        let text = std::fs::read_to_string(self.folder.path().join(part)).unwrap();
        rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(MAX, self.task).await.unwrap().unwrap().unwrap();
    }
}

fn lives(pid: rustix::process::Pid) -> bool {
    Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists()
}

/// The lower one is ready when it has written its id; the upper one runs on it.
const TWO: &str = r#"
[environment]
WORD = "said in the plan"
[[part]]
name = "lower"
command = ["sh", "-c", "echo $WORD >&2; echo $$ > $F/lower; exec sleep 1000"]
ready = { command = ["test", "-s", "$F/lower"] }
[[part]]
name = "upper"
command = ["sh", "-c", "echo $$ > $F/upper; exec sleep 1000"]
needs = ["lower"]
ready = { command = ["test", "-s", "$F/upper"] }
"#;

#[tokio::test]
async fn a_part_that_is_killed_comes_back_and_takes_along_what_needs_it() {
    let mut desktop = Desktop::start(TWO);
    assert_eq!(desktop.started().await, "lower");
    assert_eq!(desktop.started().await, "upper");
    let (lower, upper) = (desktop.pid("lower"), desktop.pid("upper"));
    for part in ["lower", "upper"] {
        std::fs::remove_file(desktop.folder.path().join(part)).unwrap();
    }
    rustix::process::kill_process(lower, Signal::KILL).unwrap();
    let Happened::Failed {
        part,
        ending,
        output,
        failures,
        wait,
    } = desktop.next().await
    else {
        panic!("it did not fail");
    };
    assert_eq!((part.as_str(), failures), ("lower", 1));
    assert_eq!(ending, Ending::Signalled(9));
    assert_eq!(output, "said in the plan");
    assert!(wait > Duration::ZERO);
    assert_eq!(desktop.started().await, "lower");
    assert_eq!(desktop.started().await, "upper");
    assert!(!lives(upper), "the upper one was started anew");
    let (lower, upper) = (desktop.pid("lower"), desktop.pid("upper"));
    desktop.end().await;
    assert!(!lives(lower) && !lives(upper), "nothing is left");
}

#[tokio::test]
async fn a_part_that_cannot_run_is_tried_ever_more_slowly_and_hinders_no_other() {
    let mut desktop = Desktop::start(
        r#"
[[part]]
name = "absent"
command = ["/nowhere/at/all"]
[[part]]
name = "upper"
command = ["sleep", "1000"]
needs = ["absent"]
[[part]]
name = "beside"
command = ["sleep", "1000"]
"#,
    );
    let (mut waits, mut beside) = (Vec::new(), false);
    while waits.len() < 3 || !beside {
        match desktop.next().await {
            Happened::Started { part, .. } => {
                assert_eq!(part, "beside");
                beside = true;
            }
            Happened::Failed {
                part, ending, wait, ..
            } => {
                assert_eq!(part, "absent");
                assert!(matches!(ending, Ending::NotStarted(_)), "{ending:?}");
                waits.push(wait.as_millis());
            }
            ended @ Happened::Ended { .. } => panic!("{ended:?}"),
        }
    }
    assert_eq!(waits[..3], [100, 200, 400]);
    desktop.end().await;
}

/// Answers one caller and ends, well if it is told so.
const ON_DEMAND: &str = r#"
[[part]]
name = "below"
command = ["sleep", "1000"]
[[part]]
name = "wanted"
command = ["python3", "-c", """
import socket, sys
listener = socket.socket(fileno=0)
listener.setblocking(True)
caller, _ = listener.accept()
sys.exit(0 if caller.recv(4) == b'good' else 3)
"""]
needs = ["below"]
on_demand = true
after = ["sh", "-c", "echo put away >> $F/after"]
"#;

#[tokio::test]
async fn a_part_on_demand_runs_while_it_is_wanted() {
    let mut desktop = Desktop::start(ON_DEMAND);
    assert_eq!(desktop.started().await, "below");
    let socket = desktop.folder.path().join("wanted");
    let ask = |word: &[u8]| {
        let mut caller = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        std::io::Write::write_all(&mut caller, word).unwrap();
        caller
    };
    // What ends well comes back for the next one only.
    for _ in 0..2 {
        let caller = ask(b"good");
        assert_eq!(desktop.started().await, "wanted");
        drop(caller);
        let ended = desktop.next().await;
        assert!(matches!(ended, Happened::Ended { part } if part == "wanted"));
    }
    let caller = ask(b"evil");
    assert_eq!(desktop.started().await, "wanted");
    let Happened::Failed { part, ending, .. } = desktop.next().await else {
        panic!("it did not fail");
    };
    assert_eq!((part.as_str(), ending), ("wanted", Ending::Exited(3)));
    drop(caller);
    let after = std::fs::read_to_string(desktop.folder.path().join("after")).unwrap();
    // Twice when it had ended well, once when it had not.
    assert_eq!(after, "put away\n".repeat(3));
    drop(ask(b"good"));
    assert_eq!(desktop.started().await, "wanted");
    desktop.end().await;
}

/// `$F` is a folder of the test's own. Its part `computer` ends well when it is told so.
const PRIVATE: &str = r#"
part = []
[private]
count = 2
[private.environment]
NUMBER = "{n}"
[[private.part]]
name = "screen"
command = ["sh", "-c", "echo $$ > $F/screen-$NUMBER; exec sleep 1000"]
ready = { command = ["test", "-s", "$F/screen-{n}"] }
[[private.part]]
name = "computer"
command = ["python3", "-c", """
import socket
listener = socket.socket(fileno=0)
listener.setblocking(True)
caller, _ = listener.accept()
caller.sendall(b'up')
caller.recv(4)
"""]
needs = ["screen"]
on_demand = true
"#;

fn private(folder: &Path, plan: &str) -> Plan {
    let plan = plan.replace("$F", folder.to_str().unwrap());
    let path = folder.join("desktop.toml");
    std::fs::write(&path, plan).unwrap();
    Plan::read(&path).unwrap().unwrap().private(2).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_display_of_ones_own_is_up_when_it_is_asked_for_and_ends_with_its_computer() {
    let folder = tempfile::tempdir().unwrap();
    let plan = private(folder.path(), PRIVATE);
    let socket = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let kept = tokio::spawn(serve_private(plan, listener, CancellationToken::new()));
    let mut caller = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let caller = tokio::task::spawn_blocking(move || {
        let mut word = [0; 2];
        std::io::Read::read_exact(&mut caller, &mut word).unwrap();
        assert_eq!(&word, b"up");
        caller
    });
    let caller = timeout(MAX, caller).await.unwrap().unwrap();
    let pid = std::fs::read_to_string(folder.path().join("screen-2")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    assert!(lives(pid));
    drop(caller);
    timeout(MAX, kept).await.unwrap().unwrap().unwrap();
    assert!(!lives(pid), "something is left");
}

#[tokio::test]
async fn a_display_of_ones_own_that_does_not_come_up_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let plan = private(folder.path(), &PRIVATE.replace("exec sleep 1000", "exit 4"));
    let listener = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let kept = serve_private(plan, listener, CancellationToken::new());
    let kept = timeout(MAX, kept).await.unwrap();
    assert!(matches!(kept, Err(Error::Private(part)) if part == "screen"));
}
