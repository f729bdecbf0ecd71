//! Which tools there are, and how a call finds its own.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use cocoonbox_commands::agent::ToolCall;
use cocoonbox_proto::log::v1::{Block, Risk, block};
use tokio_util::sync::CancellationToken;

use super::{
    Asker, Context, Finished, Told, Tool,
    args::{Problem, Schemas},
};
use crate::{args::Read, blobs::Blobs, mcp::Servers, wire::ToolSpec};

/// Every tool of the box, in groups, in the order in which a model is told of them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tools {
    blobs: Blobs,
    table: Arc<RwLock<Table>>,
    schemas: Arc<Schemas>,
    servers: Arc<OnceLock<Servers>>,
}

type Group = Vec<Arc<dyn Tool>>;

#[derive(Default)]
struct Table {
    groups: Vec<(String, Group)>,
    /// Made when first asked for. Every turn of every agent shares them.
    offered: Vec<(Asker, Arc<Offered>)>,
}

/// What agents of one kind are told of.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) tools: Vec<ToolSpec>,
    /// BLAKE3 of them as they are offered.
    pub(crate) hash: Vec<u8>,
}

impl Tools {
    /// An empty table. What is too long for a result is kept in `blobs`.
    pub(crate) fn new(blobs: Blobs) -> Self {
        Self {
            blobs,
            table: Arc::default(),
            schemas: Arc::default(),
            servers: Arc::default(),
        }
    }

    /// Puts a group of tools in the place of the one of this name, or behind all others. A tool whose
    /// name an earlier group has is not found.
    pub(crate) fn replace(&self, group: &str, tools: Group) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.offered.clear();
        match table.groups.iter_mut().find(|(name, _)| name == group) {
            Some((_, there)) => *there = tools,
            None => table.groups.push((group.to_owned(), tools)),
        }
    }

    /// Takes in the tools of MCP servers, as they come and go; once.
    pub(crate) fn follow(&self, servers: Servers) {
        self.servers.get_or_init(|| servers);
    }

    /// Brings the table up to date before a model is told of it. May be dropped at any time.
    pub(crate) async fn refresh(&self) {
        if let Some(servers) = self.servers.get() {
            servers.refresh(self).await;
        }
    }

    /// Returns what this agent is told of.
    pub(crate) fn offered(&self, asker: Asker) -> Arc<Offered> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(offered) = table.made(asker) {
            return offered;
        }
        drop(table);
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(offered) = table.made(asker) {
            return offered;
        }
        let offered = Arc::new(Offered::of(&table.all(), asker));
        table.offered.push((asker, Arc::clone(&offered)));
        offered
    }

    /// Notes in a reply what its tools say that they risk.
    pub(crate) fn note_risks(&self, asker: Asker, blocks: &mut [Block]) {
        let all = self.all();
        for block in blocks {
            if let Some(block::Block::ToolUse(called)) = &mut block.block {
                let mut offered = all.iter().filter(|tool| tool.is_for(asker));
                let found = offered.find(|tool| tool.spec().name == called.name);
                let risk = found.map_or(Risk::Unspecified, |tool| tool.risk_at_least());
                called.risk_at_least = risk.into();
            }
        }
    }

    /// Carries a call out. `None`: this process is ending, and the next one says what became of it.
    pub(crate) async fn run(
        &self,
        agent_id: &str,
        asker: Asker,
        call: &ToolCall,
        cancel: &CancellationToken,
    ) -> Option<Told> {
        let finished = match self.found(asker, call) {
            Ok((tool, read)) => {
                let context = Context {
                    agent_id,
                    asker,
                    call,
                };
                let running = tool.run(&context, read.value, cancel);
                let finished = if tool.stops() {
                    running.await
                } else {
                    tokio::select! {
                        finished = running => finished,
                        () = cancel.cancelled() => Some(Finished::cancelled()),
                    }
                };
                finished?.repaired(&read.repairs)
            }
            Err(problem) if call.cut => Finished::error(format!(
                "nothing was run: your reply reached its length limit inside these arguments \
                 ({problem}). Write less at once, for example a file in several parts."
            )),
            Err(problem) => Finished::error(format!("nothing was run: {problem}")),
        };
        Some(finished.told(&self.blobs).await)
    }

    /// Says what became of a call that an earlier process was carrying out, as far as is known.
    /// `None`: nobody knows.
    pub(crate) async fn recover(
        &self,
        agent_id: &str,
        asker: Asker,
        call: &ToolCall,
    ) -> Option<Told> {
        let finished = match self.found(asker, call) {
            Ok((tool, read)) => {
                let context = Context {
                    agent_id,
                    asker,
                    call,
                };
                let finished = tool.recover(&context, read.value).await?;
                finished.repaired(&read.repairs)
            }
            // It cannot have run.
            Err(problem) => Finished::error(format!("nothing was run: {problem}")),
        };
        Some(finished.told(&self.blobs).await)
    }

    /// Tells every tool that an agent's turn has come to its end.
    pub(crate) fn turn_over(&self, agent_id: &str) {
        for tool in &*self.all() {
            tool.turn_over(agent_id);
        }
    }

    fn found(&self, asker: Asker, call: &ToolCall) -> Result<(Arc<dyn Tool>, Read), Problem> {
        let all = self.all();
        let mut offered = all.iter().filter(|tool| tool.is_for(asker));
        let Some(tool) = offered.find(|tool| tool.spec().name == call.name) else {
            let shown = |c: &char| !c.is_control();
            return Err(Problem::NoSuchTool {
                name: call.name.chars().filter(shown).take(60).collect(),
                known: self
                    .offered(asker)
                    .tools
                    .iter()
                    .map(|tool| tool.name.clone())
                    .collect(),
            });
        };
        let read = self.schemas.read(tool.spec(), &call.args_json, call.cut)?;
        Ok((Arc::clone(tool), read))
    }

    fn all(&self) -> Group {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.all()
    }
}

impl Table {
    fn made(&self, asker: Asker) -> Option<Arc<Offered>> {
        let found = self.offered.iter().find(|(of, _)| *of == asker);
        found.map(|(_, offered)| Arc::clone(offered))
    }

    fn all(&self) -> Group {
        let tools = self.groups.iter().flat_map(|(_, tools)| tools);
        tools.cloned().collect()
    }
}

impl Offered {
    fn of(all: &[Arc<dyn Tool>], asker: Asker) -> Self {
        let mut tools = Vec::<ToolSpec>::new();
        for tool in all.iter().filter(|tool| tool.is_for(asker)) {
            let spec = tool.spec();
            if !tools.iter().any(|known| known.name == spec.name) {
                tools.push(spec.clone());
            }
        }
        let hash = hash(&tools);
        Self { tools, hash }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.tools.iter().map(|tool| tool.name.clone().into_owned())
    }
}

fn hash(tools: &[ToolSpec]) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    for tool in tools {
        for part in [
            tool.name.as_ref(),
            tool.description.as_ref(),
            &tool.parameters.to_string(),
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    hasher.finalize().as_bytes().to_vec()
}
