//! A turn as its user sees it: when a token is there that a vendor has just said, and how soon a cancel
//! has ended everything.

mod vendor;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use cocoonbox_proto::{
    agent::v1::{
        AgentRef, EventsRequest, SendRequest, agents_client::AgentsClient,
        session_client::SessionClient,
    },
    log::v1::event_or_heartbeat::Item,
};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::{
    boxes::client::{Api, Wire},
    samples::Samples,
    table::Table,
};
use vendor::{Did, Play, Vendor};

/// What takes longer is stuck.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Between two turns: longer than the loop's pace of streamed output, which is not what is measured.
const REST: Duration = Duration::from_millis(120);

/// More than a turn has.
const UNREAD_MAX: usize = 1_024;

/// Events of the box's log as they come.
struct Heard(mpsc::Receiver<(String, Instant)>);

/// What is timed.
#[derive(Default)]
struct Took {
    in_the_box: Samples,
    at_the_client: Samples,
    left: Samples,
    ended: Samples,
    killed: Samples,
}

/// `direct`: the same box without the edge. The api has to know the vendor at `address` as its Anthropic.
pub(crate) async fn run(
    api: &Api,
    id: &str,
    direct: SessionClient<Wire>,
    address: SocketAddr,
    turns: usize,
) -> anyhow::Result<Table> {
    let mut vendor = Vendor::start(address).await?;
    let mut agents = api.agents(id)?;
    let mut took = Took::default();
    // The first turn makes what later ones find: connections, files, the tools' schemas.
    let mut client = Heard::of(api.session(id)?).await?;
    send(&mut agents).await?;
    client.until("agent.turn_ended").await?;
    let mut inside = Heard::of(direct).await?;
    inside.until("agent.turn_ended").await?;
    let _said = timed(vendor.next()).await?;
    for _ in 0..turns {
        tokio::time::sleep(REST).await;
        send(&mut agents).await?;
        let Did::Token(written) = timed(vendor.next()).await? else {
            bail!("the gateway left the vendor")
        };
        let there = inside.until("agent.output_streamed").await?;
        took.in_the_box.push(there.duration_since(written));
        let there = client.until("agent.output_streamed").await?;
        took.at_the_client.push(there.duration_since(written));
        client.until("agent.turn_ended").await?;
        inside.until("agent.turn_ended").await?;
    }
    for _ in 0..turns.div_ceil(4) {
        vendor.plays(Play::Silence);
        send(&mut agents).await?;
        client.until("agent.output_streamed").await?;
        let _said = timed(vendor.next()).await?;
        let asked = cancel(&mut agents).await?;
        let Did::Left(left) = timed(vendor.next()).await? else {
            bail!("the cancelled model was asked again")
        };
        took.left.push(left.duration_since(asked));
        let ended = client.until("agent.turn_ended").await?;
        took.ended.push(ended.duration_since(asked));
    }
    for number in 0..turns.div_ceil(4) {
        // No other process sleeps for so long.
        let mark = format!("{}.{number:04}", 800_000 + std::process::id());
        vendor.plays(Play::Command(format!("sleep {mark} & sleep {mark}")));
        send(&mut agents).await?;
        client.until("exec.started").await?;
        until_running(&mark).await?;
        let asked = cancel(&mut agents).await?;
        let ended = client.until("agent.turn_ended").await?;
        ensure!(
            running(&mark)? == 0,
            "the turn has ended and its command has not"
        );
        took.killed.push(ended.duration_since(asked));
    }
    Ok(table(&took))
}

fn table(took: &Took) -> Table {
    let mut table = Table::timed(
        "A turn",
        &[
            (
                "first token, from the vendor's write to the box's log",
                &took.in_the_box,
            ),
            (
                "first token, from the vendor's write to the client",
                &took.at_the_client,
            ),
            ("cancel, until the vendor's stream is closed", &took.left),
            (
                "cancel while the model speaks, until the turn has ended",
                &took.ended,
            ),
            (
                "cancel while a command runs, until all of it is killed and the turn has ended",
                &took.killed,
            ),
        ],
    );
    table.note(
        "The whole way: vendor, gateway and door, agent, its log, replica, edge, a client's stream. Each token is on \
         the disk twice before the client has it, in the box's log and in its copy. The first row is read by a second \
         client, which is in the box's network; a token is timed from the vendor's write, in one process on one host.",
    );
    table
}

impl Heard {
    async fn of(mut session: SessionClient<Wire>) -> anyhow::Result<Self> {
        let request = EventsRequest {
            streams: vec!["agent/".to_owned(), "exec/".to_owned()],
            ..EventsRequest::default()
        };
        let mut events = session
            .events(request)
            .await
            .context("Events")?
            .into_inner();
        let (hearing, heard) = mpsc::channel(UNREAD_MAX);
        tokio::spawn(async move {
            while let Ok(Some(item)) = events.message().await {
                let at = Instant::now();
                if let Some(Item::Event(event)) = item.item
                    && hearing.send((event.kind, at)).await.is_err()
                {
                    return;
                }
            }
        });
        Ok(Self(heard))
    }

    /// Returns when the next event of this kind came.
    async fn until(&mut self, kind: &str) -> anyhow::Result<Instant> {
        let next = async {
            while let Some((heard, at)) = self.0.recv().await {
                if heard == kind {
                    return Ok(at);
                }
            }
            bail!("the events ended")
        };
        timed(next)
            .await
            .with_context(|| format!("waiting for `{kind}`"))
    }
}

async fn timed<T>(waiting: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(WAIT_MAX, waiting)
        .await
        .context("it takes too long")?
}

async fn send(agents: &mut AgentsClient<Wire>) -> anyhow::Result<()> {
    let request = SendRequest {
        prompt: "go".to_owned(),
        client_nonce: Uuid::now_v7().to_string(),
        ..SendRequest::default()
    };
    agents.send(request).await.context("Send")?;
    Ok(())
}

/// Returns when it was asked.
async fn cancel(agents: &mut AgentsClient<Wire>) -> anyhow::Result<Instant> {
    let asked = Instant::now();
    agents.cancel(AgentRef::default()).await.context("Cancel")?;
    Ok(asked)
}

/// The command is in the log before its processes are there.
async fn until_running(mark: &str) -> anyhow::Result<()> {
    let looking = async {
        while running(mark)? < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    timed(looking).await.context("the command does not run")
}

/// How many processes of this host sleep for `mark`.
fn running(mark: &str) -> anyhow::Result<usize> {
    let line = format!("sleep\0{mark}\0");
    let entries = std::fs::read_dir("/proc")?;
    let lines = entries.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    Ok(lines.filter(|found| found == line.as_bytes()).count())
}
