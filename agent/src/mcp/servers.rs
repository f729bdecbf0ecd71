//! Which servers there are, and what is in the table of tools because of them.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use cocoonbox_proto::toolhost::v1::{RunStart, run_exit, run_output::Frame};
use futures::future::join_all;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    config::{self, BadConfig, Config},
    http::Outside,
    server::{Ground, Server},
    tool::{McpTool, StatusTool},
};
use crate::{
    exec::{Execs, Toolhost},
    tool::{Tool, Tools},
};

/// The file is looked at again after this long: the agent itself may have written it.
const CONFIG_PACE: Duration = Duration::from_secs(2);
const CONFIG_READ_MAX: Duration = Duration::from_secs(5);
/// Tools of all servers together.
const TOOLS_MAX: usize = 256;
/// The group of the table.
const GROUP: &str = "mcp";

/// Every MCP server of the box. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Servers(Arc<Inner>);

struct Inner {
    ground: Ground,
    stop: CancellationToken,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    looked: Option<Instant>,
    servers: BTreeMap<String, Arc<Server>>,
    /// What is wrong with the file or with an entry of it, by name; the file's is empty.
    faults: BTreeMap<String, String>,
    /// What the table was made of.
    published: Vec<(String, u64, Option<String>)>,
}

impl Servers {
    /// Nothing is started before the first refresh; everything ends with `stop`.
    pub(crate) fn new(
        toolhost: Toolhost,
        execs: Execs,
        door: SocketAddr,
        stop: CancellationToken,
    ) -> Self {
        let ground = Ground {
            toolhost,
            execs,
            outside: Arc::new(Outside::new(door)),
            tasks: TaskTracker::new(),
        };
        Self(Arc::new(Inner {
            ground,
            stop,
            known: Mutex::default(),
        }))
    }

    /// Brings the table up to what is set up and offered. May be dropped at any time.
    pub(crate) async fn refresh(&self, tools: &Tools) {
        let mut known = self.0.known.lock().await;
        match known.looked {
            None => {
                let config = self.config().await;
                self.apply(&mut known, config);
            }
            // A model call does not wait for a look at a file that rarely changes.
            Some(at) if at.elapsed() > CONFIG_PACE => {
                known.looked = Some(Instant::now());
                let servers = self.clone();
                self.0.ground.tasks.spawn(async move {
                    let config = servers.config().await;
                    let mut known = servers.0.known.lock().await;
                    servers.apply(&mut known, config);
                });
            }
            Some(_) => {}
        }
        join_all(known.servers.values().map(Server::settled)).await;
        known.publish(tools);
    }

    /// Returns once every server has ended. They do when `stop` is cancelled.
    pub(crate) async fn ended(&self) {
        self.0.ground.tasks.close();
        self.0.ground.tasks.wait().await;
    }

    fn apply(&self, known: &mut Known, config: Result<Config, BadConfig>) {
        known.looked = Some(Instant::now());
        known.faults.clear();
        let config = match config {
            Ok(config) => config,
            Err(bad) => {
                // What worked goes on while somebody is writing the file.
                known.faults.insert(String::new(), bad.to_string());
                return;
            }
        };
        known.servers.retain(|name, server| {
            let is_kept = matches!(config.get(name), Some(Ok(reach)) if *reach == server.reach);
            if !is_kept {
                server.retire();
            }
            is_kept
        });
        for (name, reach) in config {
            match reach {
                Ok(reach) => drop(known.servers.entry(name.clone()).or_insert_with(|| {
                    let stop = self.0.stop.child_token();
                    Server::new(name, reach, self.0.ground.clone(), stop)
                })),
                Err(bad) => drop(known.faults.insert(name, bad.to_string())),
            }
        }
    }

    /// Reads the file as the user. One that is not there is empty.
    async fn config(&self) -> Result<Config, BadConfig> {
        let length = (config::FILE_BYTES_MAX + 1).to_string();
        let start = RunStart {
            argv: ["head", "-c", &length, config::FILE]
                .map(str::to_owned)
                .into(),
            timeout_ms: u64::try_from(CONFIG_READ_MAX.as_millis()).unwrap_or(u64::MAX),
            ..RunStart::default()
        };
        let reading = async {
            let mut run = self.0.ground.toolhost.run(start).await.ok()?;
            let mut text = Vec::new();
            while let Ok(Some(output)) = run.output.message().await {
                match output.frame {
                    Some(Frame::Stdout(data)) => text.extend_from_slice(&data),
                    Some(Frame::Exited(exit)) => {
                        let is_read = exit.reason() == run_exit::Reason::Exited && exit.code == 0;
                        return Some(if is_read { text } else { Vec::new() });
                    }
                    _ => {}
                }
            }
            None
        };
        let text = timeout(CONFIG_READ_MAX, reading).await.ok().flatten();
        let text = text.ok_or_else(|| BadConfig::NotReadable("it could not be read".to_owned()))?;
        config::parse(&String::from_utf8_lossy(&text))
    }
}

impl Known {
    fn publish(&mut self, tools: &Tools) {
        let all: Vec<_> = self.servers.values().map(|s| (s, s.offered())).collect();
        let faults = self
            .faults
            .iter()
            .map(|(name, fault)| (name.clone(), 0, Some(fault.clone())));
        let made_of: Vec<_> = all
            .iter()
            .map(|(server, offered)| {
                (
                    server.name.clone(),
                    offered.generation,
                    offered.fault.clone(),
                )
            })
            .chain(faults)
            .collect();
        if made_of == self.published {
            return;
        }
        let mut group: Vec<Arc<dyn Tool>> = Vec::new();
        if !made_of.is_empty() {
            group.push(Arc::new(StatusTool::new(&all, &self.faults)));
        }
        for (server, offered) in &all {
            for offer in &offered.catalogue.offers {
                if group.len() <= TOOLS_MAX {
                    group.push(Arc::new(McpTool::new(
                        Arc::clone(server),
                        Arc::clone(offer),
                    )));
                }
            }
        }
        tools.replace(GROUP, group);
        self.published = made_of;
    }
}
