//! Screens for viewers on this host.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::{Duration, sleep, timeout},
};

use crate::{fake::Fake, program::Program};

const DEADLINE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(10);

/// The bug: a viewer that types and leaves at once, as scripts do, and the last keys are lost.
#[tokio::test]
async fn what_a_viewer_says_last_is_heard() {
    let fake = Fake::new();
    let program = Program::new(fake.serve().await);
    let mut command = program.command(env!("CARGO_BIN_EXE_cocoonbox").as_ref());
    command.args(["--quiet", "screen", "--listen", "127.0.0.1:0"]);
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let said = timeout(DEADLINE, lines.next_line()).await;
    let said = said.expect("it says where").unwrap().unwrap();
    let address = said.strip_prefix("the screen of main is at ").unwrap();
    for _ in 0..20 {
        let mut viewer = TcpStream::connect(address).await.unwrap();
        viewer.read_exact(&mut [0; 12]).await.unwrap();
        viewer.write_all(b"the last keys").await.unwrap();
    }
    let heard = async {
        while fake.state().seen.screens.len() < 20 {
            sleep(STEP).await;
        }
    };
    timeout(DEADLINE, heard).await.expect("all are heard");
    for screen in &fake.state().seen.screens {
        assert_eq!(screen.as_deref().unwrap(), b"the last keys");
    }
}

#[tokio::test]
async fn only_this_host_is_listened_to() {
    let program = Program::new("http://127.0.0.1:1");
    let run = program.run(&["screen", "--listen", "0.0.0.0:5901"]).await;
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("only a loopback address"),
        "{}",
        run.stderr
    );
}
