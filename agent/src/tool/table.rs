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
    groups: Arc<RwLock<Vec<(String, Group)>>>,
    schemas: Arc<Schemas>,
    servers: Arc<OnceLock<Servers>>,
}

type Group = Vec<Arc<dyn Tool>>;

impl Tools {
    /// An empty table. What is too long for a result is kept in `blobs`.
    pub(crate) fn new(blobs: Blobs) -> Self {
        Self {
            blobs,
            groups: Arc::default(),
            schemas: Arc::default(),
            servers: Arc::default(),
        }
    }

    /// Puts a group of tools in the place of the one of this name, or behind all others. A tool whose
    /// name an earlier group has is not found.
    pub(crate) fn replace(&self, group: &str, tools: Group) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        match groups.iter_mut().find(|(name, _)| name == group) {
            Some((_, there)) => *there = tools,
            None => groups.push((group.to_owned(), tools)),
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
    pub(crate) fn specs(&self, asker: Asker) -> Vec<ToolSpec> {
        let mut specs = Vec::<ToolSpec>::new();
        for tool in self.all().iter().filter(|tool| tool.is_for(asker)) {
            let spec = tool.spec();
            if !specs.iter().any(|known| known.name == spec.name) {
                specs.push(spec.clone());
            }
        }
        specs
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
                let context = Context { agent_id, call };
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
                let context = Context { agent_id, call };
                let finished = tool.recover(&context, read.value).await?;
                finished.repaired(&read.repairs)
            }
            // It cannot have run.
            Err(problem) => Finished::error(format!("nothing was run: {problem}")),
        };
        Some(finished.told(&self.blobs).await)
    }

    fn found(&self, asker: Asker, call: &ToolCall) -> Result<(Arc<dyn Tool>, Read), Problem> {
        let all = self.all();
        let mut offered = all.iter().filter(|tool| tool.is_for(asker));
        let Some(tool) = offered.find(|tool| tool.spec().name == call.name) else {
            let shown = |c: &char| !c.is_control();
            return Err(Problem::NoSuchTool {
                name: call.name.chars().filter(shown).take(60).collect(),
                known: self
                    .specs(asker)
                    .into_iter()
                    .map(|spec| spec.name)
                    .collect(),
            });
        };
        let read = self.schemas.read(tool.spec(), &call.args_json, call.cut)?;
        Ok((Arc::clone(tool), read))
    }

    fn all(&self) -> Group {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        groups.iter().flat_map(|(_, tools)| tools.clone()).collect()
    }
}
