//! A user, a box and an agent, with ids and times that are the same each time.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use cocoonbox_commands::{agent, boxes, directory, exec, user};
use cocoonbox_events::{
    Aggregate, Append, BoxEvent, CommandId, EventId, Fold, Ids, LogId, LogKind, ManualClock,
    MemoryStore, Meta, NewEvent, NewLog, Payload, Store, StreamName,
};
use cocoonbox_proto::log::v1::{
    Actor, ApprovalPolicy, Block, BoxLogRewound, ExecExited, ExecStarted, ModelChoice, StopReason,
    TextBlock, TokenUsage, ToolUseBlock, Wire, actor, agent_output_streamed::Part,
    agent_tool_finished::Outcome, block, exec_exited, exec_output_streamed::Source,
};

/// 2026-01-02 03:04:05 UTC.
const START_US: i64 = 1_767_323_045_000_000;

/// Ids in order.
#[derive(Default)]
struct Counted(AtomicU64);

impl Ids for Counted {
    fn draw(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::SeqCst)) + 1)
    }
}

pub(crate) struct World {
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    now_us: i64,
    commands: u128,
    drawn: u64,
}

pub(crate) fn log(n: u8) -> LogId {
    LogId::from_slice(&[n; 16]).unwrap()
}

pub(crate) fn system() -> LogId {
    log(1)
}

pub(crate) fn account() -> LogId {
    log(2)
}

pub(crate) fn box_log() -> LogId {
    log(3)
}

pub(crate) fn stream(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub(crate) fn actor(kind: actor::Kind, id: &str) -> Actor {
    Actor {
        kind: kind.into(),
        id: id.into(),
    }
}

impl World {
    pub(crate) async fn empty() -> Self {
        let clock = Arc::new(ManualClock::at(START_US));
        let memory = Arc::new(MemoryStore::new(
            clock.clone(),
            Arc::new(Counted::default()),
        ));
        let store: Arc<dyn Store> = memory.clone();
        for (id, kind, owner) in [
            (system(), LogKind::System, ""),
            (account(), LogKind::Account, "u1"),
            (box_log(), LogKind::Box, "u1"),
        ] {
            store
                .open(NewLog {
                    id,
                    kind,
                    owner: owner.into(),
                    parent: None,
                })
                .await
                .unwrap();
        }
        Self {
            memory,
            store,
            clock,
            now_us: START_US,
            commands: 0,
            drawn: 0,
        }
    }

    /// Sends a command and returns the id of the last event of the stream.
    pub(crate) async fn send<A: Aggregate>(
        &mut self,
        log: LogId,
        name: &str,
        command: A::Command,
        by: Actor,
        cause: Option<EventId>,
    ) -> Option<EventId> {
        self.now_us += 1_000_250;
        self.clock.set(self.now_us);
        self.commands += 1;
        let id = CommandId(uuid::Uuid::from_u128(self.commands << 64));
        let meta = Meta {
            command: id,
            actor: by,
            cause,
        };
        let mut fold = Fold::<A>::new(log, stream(name));
        fold.execute(&*self.store, &command, &meta, [0; 32])
            .await
            .unwrap();
        fold.last
    }

    /// Writes an event that no decider decided.
    pub(crate) async fn forge(
        &mut self,
        log: LogId,
        name: &str,
        payload: impl Into<Payload>,
    ) -> u64 {
        self.forge_all(log, name, vec![payload.into()]).await
    }

    /// Writes such events in one append.
    pub(crate) async fn forge_all(
        &mut self,
        log: LogId,
        name: &str,
        payloads: Vec<Payload>,
    ) -> u64 {
        self.commands += 1;
        let event = |payload| NewEvent {
            stream: stream(name),
            payload,
        };
        let append = Append {
            command: CommandId(uuid::Uuid::from_u128(self.commands << 64)),
            digest: [0; 32],
            expect: Vec::new(),
            events: payloads.into_iter().map(event).collect(),
            actor: actor(actor::Kind::Host, ""),
            cause: None,
        };
        self.store.append(log, append).await.unwrap().range().last
    }

    /// Leaves the box log for a branch, as the api does: told first, then done.
    pub(crate) async fn rewind_box(&mut self, new: NewLog) {
        let parent = new.parent.unwrap();
        let told = BoxLogRewound {
            old_log: parent.log.as_bytes().to_vec(),
            new_log: new.id.as_bytes().to_vec(),
            common: parent.pos,
            chain: parent.chain.0.to_vec(),
            left_pos: self.store.tail(parent.log).unwrap().pos,
            reason: "ASKED".into(),
        };
        let told = BoxEvent::LogRewound(told);
        self.forge(account(), "box/b1", told).await;
        self.store.rewind(new).await.unwrap();
    }

    /// A world whose box log is a replica that ends at `pos`.
    pub(crate) async fn cut(&self, pos: u64) -> Self {
        let mut cut = Self::empty().await;
        (cut.now_us, cut.commands, cut.drawn) = (self.now_us, self.commands, self.drawn);
        let mut events = self.store.read(box_log(), 0, 1_000).await.unwrap().events;
        events.retain(|event| event.pos <= pos);
        cut.store.replicate(box_log(), events).await.unwrap();
        cut
    }

    pub(crate) async fn agent(&mut self, command: agent::Command) {
        let by = actor(actor::Kind::Agent, "main");
        self.send::<agent::State>(box_log(), "agent/main", command, by, None)
            .await;
    }

    pub(crate) async fn agent_state(&self) -> agent::State {
        let mut fold = Fold::<agent::State>::new(box_log(), stream("agent/main"));
        fold.refresh(&*self.store).await.unwrap();
        fold.state
    }

    pub(crate) async fn create_agent(&mut self, approval: ApprovalPolicy) {
        let model = ModelChoice {
            wire: Wire::OpenaiChat.into(),
            model: "m1".into(),
            output_tokens_max: 100,
            ..ModelChoice::default()
        };
        let (agent_id, name) = ("main".to_owned(), "main".to_owned());
        self.agent(agent::Command::Create(Box::new(
            cocoonbox_proto::log::v1::AgentCreated {
                agent_id,
                name,
                model: Some(model),
                approval: approval.into(),
                steps_max: 5,
                ..cocoonbox_proto::log::v1::AgentCreated::default()
            },
        )))
        .await;
    }

    pub(crate) fn draw(&mut self) -> String {
        self.drawn += 1;
        format!("d{}", self.drawn)
    }

    /// Writes every step that is due.
    pub(crate) async fn settle(&mut self) -> agent::Next {
        loop {
            let next = self.agent_state().await.next();
            if next != agent::Next::Advance {
                return next;
            }
            let (turn_id, call_id, approval_id) = (self.draw(), self.draw(), self.draw());
            self.agent(agent::Command::Advance {
                turn_id,
                call_id,
                approval_id,
                now_us: 0,
            })
            .await;
        }
    }

    pub(crate) async fn reply(&mut self, blocks: Vec<Block>, stop: StopReason) {
        let agent::Next::CallModel { call_id, .. } = self.settle().await else {
            panic!("no call")
        };
        self.agent(replied(call_id, blocks, stop)).await;
    }

    /// Everything once: two logs that are tied together, a turn with a tool, an exec.
    pub(crate) async fn whole() -> Self {
        let mut world = Self::empty().await;
        let host = actor(actor::Kind::Host, "");
        let ann = actor(actor::Kind::User, "u1");
        let reactor = actor(actor::Kind::System, "lifecycle");
        let add = directory::Command::AddUser {
            user_id: "u1".into(),
            name: "ann".into(),
            account_log: account(),
            admin: true,
        };
        world
            .send::<directory::State>(system(), "directory", add, host.clone(), None)
            .await;
        let create = user::Command::Create {
            user_id: "u1".into(),
            name: "ann".into(),
            admin: true,
        };
        world
            .send::<user::State>(account(), "user/u1", create, host, None)
            .await;
        let ensure = boxes::Command::Ensure {
            box_id: "b1".into(),
            flavor: 1,
            name: "main".into(),
            box_log: box_log(),
            user_id: "u1".into(),
            operation_id: "o1".into(),
        };
        let asked = world.boxes(ensure, ann, None).await;
        let start = boxes::Command::Starting {
            wake_id: "w1".into(),
            image: "core-1".into(),
        };
        let started = world.boxes(start, reactor.clone(), asked).await;
        let up = boxes::Command::Running {
            wake_id: "w1".into(),
            agent_version: "0.1".into(),
        };
        let running = world.boxes(up, reactor.clone(), started).await;

        world.create_agent(ApprovalPolicy::ApproveAll).await;
        let prompt = agent::Command::Prompt {
            prompt_id: "p1".into(),
            text: "Größe?".into(),
            steer: false,
            images: Vec::new(),
        };
        world.agent(prompt).await;
        let agent::Next::CallModel { call_id, .. } = world.settle().await else {
            panic!()
        };
        let chunk = |offset, text: &str| agent::Chunk {
            block: 0,
            part: Part::Text,
            offset,
            text: text.into(),
        };
        let chunks = vec![chunk(0, "let me "), chunk(7, "look")];
        world
            .agent(agent::Command::Streamed { call_id, chunks })
            .await;
        world
            .reply(
                vec![text("let me look"), tool("c1", "shell")],
                StopReason::ToolUse,
            )
            .await;
        world.settle().await;
        world.exec().await;
        world.agent(finished("c1", Outcome::Ok)).await;
        world.reply(vec![text("12")], StopReason::EndTurn).await;
        world.settle().await;

        let tail = world.store.tail(box_log()).unwrap();
        let anchor = boxes::Command::Anchor {
            box_log: box_log(),
            pos: tail.pos,
            chain: tail.chain,
        };
        world.boxes(anchor, reactor, running).await;
        world
    }

    pub(crate) async fn boxes(
        &mut self,
        command: boxes::Command,
        by: Actor,
        cause: Option<EventId>,
    ) -> Option<EventId> {
        self.send::<boxes::State>(account(), "box/b1", command, by, cause)
            .await
    }

    async fn exec(&mut self) {
        let start = exec::Command::Start(ExecStarted {
            exec_id: "e1".into(),
            argv: vec!["wc".into()],
            tool_call_id: "c1".into(),
            ..ExecStarted::default()
        });
        let output = exec::Command::Output {
            source: Source::Stdout,
            offset: 0,
            data: b"12\n".to_vec(),
            skipped: 0,
        };
        let exit = exec::Command::Exit(ExecExited {
            reason: exec_exited::Reason::Exited.into(),
            ..ExecExited::default()
        });
        for command in [start, output, exit] {
            let by = actor(actor::Kind::Agent, "main");
            self.send::<exec::State>(box_log(), "exec/e1", command, by, None)
                .await;
        }
    }
}

pub(crate) fn replied(call_id: String, blocks: Vec<Block>, stop: StopReason) -> agent::Command {
    agent::Command::Replied {
        call_id,
        blocks,
        stop,
        vendor_stop: "v".into(),
        usage: TokenUsage {
            input: 3,
            output: 4,
            ..TokenUsage::default()
        },
        vendor_request_id: "r".into(),
    }
}

pub(crate) fn finished(id: &str, outcome: Outcome) -> agent::Command {
    let (tool_call_id, content) = (id.to_owned(), "12".to_owned());
    agent::Command::ToolFinished {
        tool_call_id,
        outcome,
        content,
        exec_id: "e1".into(),
        images: Vec::new(),
        blob: String::new(),
    }
}

pub(crate) fn text(text: &str) -> Block {
    Block {
        block: Some(block::Block::Text(TextBlock { text: text.into() })),
    }
}

pub(crate) fn tool(id: &str, name: &str) -> Block {
    let args_json = "{}".to_owned();
    let tool = ToolUseBlock {
        tool_call_id: id.into(),
        name: name.into(),
        args_json,
        ..ToolUseBlock::default()
    };
    Block {
        block: Some(block::Block::ToolUse(tool)),
    }
}
