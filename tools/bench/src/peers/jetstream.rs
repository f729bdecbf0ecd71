//! NATS JetStream in a process of its own, with file storage.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use async_nats::jetstream::{
    self, Context,
    consumer::{DeliverPolicy, pull::OrderedConfig},
    stream::{Config, StorageType},
};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use crate::{
    log::{append::Run, setting::PAYLOAD_BYTES},
    samples::Samples,
};

const STREAM: &str = "log";
/// Publishes on their way at once while a stream is only filled.
const FILLING: usize = 4_096;
/// A server that takes longer to listen does not come up.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// When the server says that a message is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Once it is on disk: what the stores promise.
    Always,
    /// The server's own default: on disk some time later. Only for filling.
    Later,
}

/// A running server with one stream. Stopped and removed when dropped.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    context: Context,
}

impl Server {
    pub(crate) async fn start(program: &Path, folder: PathBuf, sync: Sync) -> anyhow::Result<Self> {
        fs::create_dir_all(&folder)?;
        let ports = folder.join("ports");
        fs::create_dir_all(&ports)?;
        let sync = match sync {
            Sync::Always => "sync_interval: always",
            Sync::Later => "",
        };
        let config = format!(
            "listen: 127.0.0.1:-1\nports_file_dir: \"{}\"\njetstream {{ store_dir: \"{}\", max_file: 64GB, {sync} }}\n",
            ports.display(),
            folder.display(),
        );
        let path = folder.join("nats.conf");
        fs::write(&path, config)?;
        let mut child = Command::new(program)
            .arg("--config")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting `{}`", program.display()))?;
        let address = match address(&mut child, &ports).await {
            Ok(address) => address,
            Err(error) => {
                drop(child.kill());
                drop(child.wait());
                return Err(error);
            }
        };
        let client = async_nats::connect(address).await?;
        let mut context = jetstream::new(client);
        context.set_timeout(Duration::from_mins(1));
        context
            .get_or_create_stream(Config {
                name: STREAM.to_owned(),
                subjects: vec!["exec.*".to_owned()],
                storage: StorageType::File,
                ..Config::default()
            })
            .await?;
        Ok(Self {
            child,
            folder,
            context,
        })
    }

    /// Writers that publish one message, wait for the ack, and publish the next.
    pub(crate) async fn produce(&self, writers: usize, span: Duration) -> anyhow::Result<Run> {
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for writer in 0..writers {
            let context = self.context.clone();
            tasks.spawn(async move {
                let mut acks = Samples::default();
                while start.elapsed() < span {
                    let payload = payload()?;
                    let sent = Instant::now();
                    context
                        .publish(format!("exec.{writer}"), payload.into())
                        .await?
                        .await?;
                    acks.push(sent.elapsed());
                }
                anyhow::Ok(acks)
            });
        }
        let mut acks = Samples::default();
        while let Some(done) = tasks.join_next().await {
            acks.extend(done??);
        }
        let events = acks.len() as u64;
        Ok(Run {
            events,
            batches: events,
            took: start.elapsed(),
            acks,
        })
    }

    pub(crate) async fn fill(&self, events: u64) -> anyhow::Result<()> {
        let mut waiting = Vec::new();
        for number in 0..events {
            let subject = format!("exec.{}", number % 64);
            waiting.push(self.context.publish(subject, payload()?.into()).await?);
            if waiting.len() == FILLING || number + 1 == events {
                for ack in waiting.drain(..) {
                    ack.await?;
                }
            }
        }
        Ok(())
    }

    /// Reads `events` messages behind the sequence number `after`.
    pub(crate) async fn read(&self, after: u64, events: u64) -> anyhow::Result<()> {
        let stream = self.context.get_stream(STREAM).await?;
        let consumer = stream
            .create_consumer(OrderedConfig {
                deliver_policy: DeliverPolicy::ByStartSequence {
                    start_sequence: after + 1,
                },
                ..OrderedConfig::default()
            })
            .await?;
        let mut messages = consumer.messages().await?;
        let (mut read, mut bytes) = (0, 0);
        while read < events {
            let Some(message) = messages.next().await else {
                bail!("the stream ended after {read} messages");
            };
            bytes += message?.payload.len();
            read += 1;
        }
        ensure!(
            bytes as u64 >= events * PAYLOAD_BYTES as u64,
            "messages are short"
        );
        Ok(())
    }

    /// Memory of the server in RAM, in KB.
    pub(crate) fn resident_kb(&self) -> u64 {
        crate::host::resident_kb_of(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Waits for the file in which the server says where it listens.
async fn address(child: &mut Child, ports: &Path) -> anyhow::Result<String> {
    let deadline = Instant::now() + STARTS_WITHIN;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            bail!("the server ended with {status}; `sync_interval` wants version 2.10 or newer");
        }
        for file in fs::read_dir(ports)? {
            let text = fs::read_to_string(file?.path())?;
            let said: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            if let Some(address) = said["nats"][0].as_str() {
                return Ok(address.to_owned());
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("the server does not listen")
}

fn payload() -> anyhow::Result<Vec<u8>> {
    let mut data = vec![0; PAYLOAD_BYTES];
    getrandom::fill(&mut data).map_err(|error| anyhow::anyhow!("random source: {error}"))?;
    Ok(data)
}
