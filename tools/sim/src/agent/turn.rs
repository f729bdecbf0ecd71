//! The turn loop of one agent, with a scripted model and scripted tools.

use std::{collections::BTreeSet, sync::Arc};

use cocoonbox_commands::{
    agent::{Chunk, Command, Next, State, ToolCall},
    exec,
};
use cocoonbox_events::{
    AgentEvent, Append, CommandId, Fold, Ids, Kind, LogEvent, LogId, NewEvent, Payload, Store,
    StreamName,
};
use cocoonbox_proto::log::v1::{
    Actor, AgentCreated, Block, Effect, ExecExited, ExecStarted, LogErasureDone,
    LogErasureRequested, ModelChoice, StopReason, TextBlock, TokenUsage, ToolUseBlock, Wire,
    agent_model_failed::Reason, agent_output_streamed::Part, agent_tool_finished::Outcome, block,
    exec_exited, exec_output_streamed::Source,
};

use super::{Agent, Refusal};
use crate::broken::Broken;

impl Agent {
    /// Takes up what an earlier process left, then works until the process ends.
    pub(super) async fn work(self: Arc<Self>) {
        if let Err(refusal) = self.run().await {
            self.sim.note(&self.place.to_string(), || {
                format!("turn loop ends: {refusal:?}")
            });
        }
    }

    async fn run(&self) -> Result<(), Refusal> {
        self.bury().await?;
        let mut fold = self.fold::<State>("agent/main")?;
        let create = Command::Create(Box::new(AgentCreated {
            agent_id: "main".to_owned(),
            name: "main".to_owned(),
            model: Some(ModelChoice {
                wire: Wire::AnthropicMessages.into(),
                model: "scripted".to_owned(),
                ..ModelChoice::default()
            }),
            approval: cocoonbox_proto::log::v1::ApprovalPolicy::ApproveAll.into(),
            steps_max: 6,
            ..AgentCreated::default()
        }));
        let id = CommandId::derive(b"main", "create");
        self.execute(&mut fold, &create, id, b"main").await?;
        if self.broken != Broken::RepeatedEffect {
            let id = CommandId(self.ids.draw());
            self.execute(&mut fold, &Command::Restarted, id, b"")
                .await?;
        }
        loop {
            fold.refresh(self.store())
                .await
                .map_err(|error| Refusal::Store(format!("{error:?}")))?;
            match fold.state.next() {
                Next::Idle | Next::Wait(_) | Next::WaitBudget { .. } => self.wake.notified().await,
                Next::Advance => self.advance(&mut fold).await?,
                Next::CallModel { call_id, .. } => self.call(&mut fold, &call_id).await?,
                Next::RunTools(calls) => {
                    for call in calls {
                        self.run_tool(&mut fold, &call).await?;
                    }
                }
            }
        }
    }

    /// Ends the execs that nobody watches any more.
    async fn bury(&self) -> Result<(), Refusal> {
        let log = self.log().ok_or(Refusal::NotReleased)?;
        let mut running = BTreeSet::new();
        let mut after = 0;
        loop {
            let page = self.store().read(log, after, usize::MAX).await;
            let page = page.map_err(|error| Refusal::Store(format!("{error:?}")))?;
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.pos;
            for event in &page.events {
                match Kind::from_number(event.kind) {
                    Some(Kind::ExecStarted) => drop(running.insert(event.stream.to_string())),
                    Some(Kind::ExecExited) => drop(running.remove(event.stream.as_str())),
                    _ => {}
                }
            }
        }
        for stream in running {
            let mut fold = self.fold::<exec::State>(&stream)?;
            let id = CommandId(self.ids.draw());
            self.execute(&mut fold, &exec::Command::Interrupt, id, b"")
                .await?;
        }
        Ok(())
    }

    async fn report(&self, fold: &mut Fold<State>, command: Command) -> Result<(), Refusal> {
        let id = CommandId(self.ids.draw());
        match self.execute(fold, &command, id, b"").await {
            // Too late: what it speaks of was cancelled. The next look says what is wanted.
            Ok(_) | Err(Refusal::Rejected(_)) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    async fn advance(&self, fold: &mut Fold<State>) -> Result<(), Refusal> {
        let wait_ms = i64::try_from(fold.state.retry_after_ms()).unwrap_or(0);
        if wait_ms > 0 {
            // A cancel must not wait.
            let woken = self.wake.notified();
            if self.sim.timeout_ms(wait_ms, woken).await.is_some() {
                return Ok(());
            }
        }
        let command = Command::Advance {
            turn_id: self.draw(),
            call_id: self.draw(),
            approval_id: self.draw(),
            now_us: 0,
        };
        self.report(fold, command).await
    }

    async fn call(&self, fold: &mut Fold<State>, call_id: &str) -> Result<(), Refusal> {
        let failed = |reason: Reason, retryable| Command::ModelFailed {
            call_id: call_id.to_owned(),
            reason,
            detail: "scripted".to_owned(),
            retryable,
            retry_after_ms: 0,
        };
        if fold.state.is_cancelling() {
            return self.report(fold, failed(Reason::Cut, false)).await;
        }
        let (fate, chunks, took) = self
            .sim
            .draw(|c| (c.below(100), c.below(3), c.between(20, 400)));
        self.sim.sleep_ms(took).await;
        let mut text = String::new();
        for number in 0..chunks {
            let piece = format!("{call_id}/{number}/{} ", self.draw());
            let chunk = Chunk {
                block: 0,
                part: Part::Text,
                offset: text.len() as u64,
                text: piece.clone(),
            };
            text.push_str(&piece);
            let command = Command::Streamed {
                call_id: call_id.to_owned(),
                chunks: vec![chunk],
            };
            self.report(fold, command).await?;
            self.sim.sleep_ms(30).await;
            if fold.state.is_cancelling() {
                return self.report(fold, failed(Reason::Cut, false)).await;
            }
        }
        let command = match fate {
            0..10 => failed(Reason::Overloaded, true),
            10..13 => failed(Reason::Cut, false),
            _ => Self::reply(call_id, &text, fate),
        };
        self.report(fold, command).await
    }

    fn reply(call_id: &str, text: &str, fate: u64) -> Command {
        let mut blocks = vec![Block {
            block: Some(block::Block::Text(TextBlock {
                text: format!("{text}whole"),
            })),
        }];
        let uses = if fate < 60 { 1 + fate % 2 } else { 0 };
        for number in 0..uses {
            let name = if (fate + number).is_multiple_of(3) {
                "read"
            } else {
                "shell"
            };
            blocks.push(Block {
                block: Some(block::Block::ToolUse(ToolUseBlock {
                    tool_call_id: format!("{call_id}-{number}"),
                    name: name.to_owned(),
                    args_json: "{}".to_owned(),
                    ..ToolUseBlock::default()
                })),
            });
        }
        Command::Replied {
            call_id: call_id.to_owned(),
            blocks,
            stop: if uses > 0 {
                StopReason::ToolUse
            } else {
                StopReason::EndTurn
            },
            vendor_stop: String::new(),
            usage: TokenUsage::default(),
            vendor_request_id: String::new(),
        }
    }

    async fn run_tool(&self, fold: &mut Fold<State>, call: &ToolCall) -> Result<(), Refusal> {
        let finished = |outcome, exec_id: String| Command::ToolFinished {
            tool_call_id: call.tool_call_id.clone(),
            outcome,
            content: "done".to_owned(),
            exec_id,
            images: Vec::new(),
            blob: String::new(),
        };
        if fold.state.is_cancelling() {
            let command = finished(Outcome::Cancelled, String::new());
            return self.report(fold, command).await;
        }
        let took = self.sim.draw(|chance| chance.between(5, 1_500));
        if call.effect == Effect::ReadOnly {
            self.sim.sleep_ms(took).await;
            return self
                .report(fold, finished(Outcome::Ok, String::new()))
                .await;
        }
        let exec_id = self.draw();
        let mut exec = self.fold::<exec::State>(&format!("exec/{exec_id}"))?;
        let start = exec::Command::Start(ExecStarted {
            exec_id: exec_id.clone(),
            argv: vec!["true".to_owned()],
            tool_call_id: call.tool_call_id.clone(),
            ..ExecStarted::default()
        });
        self.exec(&mut exec, start).await?;
        self.ledger
            .effect(&self.place.to_string(), fold.log, &call.tool_call_id);
        self.sim.sleep_ms(took).await;
        let output = exec::Command::Output {
            source: Source::Stdout,
            offset: 0,
            data: format!("output of {exec_id}").into_bytes(),
            skipped: 0,
        };
        self.exec(&mut exec, output).await?;
        let exit = exec::Command::Exit(ExecExited {
            reason: exec_exited::Reason::Exited.into(),
            ..ExecExited::default()
        });
        self.exec(&mut exec, exit).await?;
        self.report(fold, finished(Outcome::Ok, exec_id)).await
    }

    async fn exec(
        &self,
        fold: &mut Fold<exec::State>,
        command: exec::Command,
    ) -> Result<(), Refusal> {
        let id = CommandId(self.ids.draw());
        self.execute(fold, &command, id, b"").await.map(drop)
    }

    /// Erases streamed chunks once the whole reply is in the log.
    pub(super) async fn tidy(self: Arc<Self>) {
        loop {
            let pause = self.sim.draw(|chance| chance.between(1_500, 6_000));
            self.sim.sleep_ms(pause).await;
            let Some(log) = self.log() else { return };
            if self.erase_chunks(log).await.is_none() {
                return;
            }
        }
    }

    async fn erase_chunks(&self, log: LogId) -> Option<()> {
        let mut chunks: Vec<(u64, String, Vec<u8>)> = Vec::new();
        let mut whole = BTreeSet::new();
        let mut owed: Vec<u64> = Vec::new();
        let mut after = 0;
        loop {
            let page = self.store().read(log, after, usize::MAX).await.ok()?;
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.pos;
            for event in page.events.iter().filter(|event| event.log == log) {
                match event.payload().ok()? {
                    Some(Payload::Agent(AgentEvent::OutputStreamed(chunk))) => {
                        let body = event.body.as_ref()?.payload.to_vec();
                        chunks.push((event.pos, chunk.call_id, body));
                    }
                    Some(Payload::Agent(AgentEvent::ModelReplied(reply))) => {
                        whole.insert(reply.call_id);
                    }
                    Some(Payload::Log(LogEvent::ErasureRequested(asked))) => {
                        owed.extend(asked.positions);
                    }
                    Some(Payload::Log(LogEvent::ErasureDone(done))) => {
                        owed.retain(|pos| !done.positions.contains(pos));
                    }
                    _ => {}
                }
            }
        }
        // What an earlier process asked for and did not finish comes first.
        if owed.is_empty() {
            chunks.retain(|(_, call, _)| whole.contains(call));
            owed = chunks.iter().map(|(pos, ..)| *pos).collect();
            if owed.is_empty() {
                return Some(());
            }
            let asked = LogErasureRequested {
                positions: owed.clone(),
                reason: "whole".to_owned(),
                ..LogErasureRequested::default()
            };
            self.log_erasure(log, LogEvent::ErasureRequested(asked))
                .await?;
        } else {
            chunks.retain(|(pos, ..)| owed.contains(pos));
        }
        self.store().erase(log, &owed).await.ok()?;
        let done = LogErasureDone { positions: owed };
        self.log_erasure(log, LogEvent::ErasureDone(done)).await?;
        for (pos, _, body) in chunks {
            self.ledger.erased(log, pos, body);
        }
        Some(())
    }

    async fn log_erasure(&self, log: LogId, event: LogEvent) -> Option<()> {
        let open = self.open.read().await;
        if !*open {
            return None;
        }
        let stream = StreamName::new("log/erasure").ok()?;
        let append = Append {
            command: CommandId(self.ids.draw()),
            digest: [0; 32],
            expect: Vec::new(),
            events: vec![NewEvent {
                stream,
                payload: event.into(),
            }],
            actor: Actor::default(),
            cause: None,
        };
        self.store().append(log, append).await.ok().map(drop)
    }
}
