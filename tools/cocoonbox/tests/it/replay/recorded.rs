//! A data directory as an api leaves it, with ids, salts and times that are the same each time.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use cocoonbox_commands::{agent, boxes, directory, exec, user};
use cocoonbox_events::{
    Aggregate, CommandId, EventId, Fold, Ids, KeyStore, LogId, LogKind, ManualClock, Meta, NewLog,
    SqliteStore, Store, StreamName,
    checkpoint::{KeyName, Signer, Statement},
};
use cocoonbox_proto::log::v1::{
    Actor, ApprovalPolicy, Block, ExecExited, ExecStarted, ModelChoice, StopReason, TextBlock,
    TokenUsage, ToolUseBlock, Wire, actor, agent_tool_finished::Outcome, block, exec_exited,
    exec_output_streamed::Source,
};

use crate::program::{Program, Run};

/// 2026-01-02 03:04:05 UTC.
const START_US: i64 = 1_767_323_045_000_000;

#[derive(Default)]
struct Counted(AtomicU64);

impl Ids for Counted {
    fn draw(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::SeqCst)) + 1)
    }

    fn salt(&self) -> Option<[u8; 16]> {
        Some(*self.draw().as_bytes())
    }
}

/// A store that is being written, and the program that reads it.
pub(crate) struct Recorded {
    pub(crate) program: Program,
    pub(crate) store: SqliteStore,
    clock: Arc<ManualClock>,
    now_us: i64,
    commands: u128,
}

pub(crate) fn log(n: u8) -> LogId {
    LogId::from_slice(&[n; 16]).unwrap()
}

pub(crate) fn box_log() -> LogId {
    log(3)
}

/// The key that signs the checkpoints.
pub(crate) fn signer() -> Signer {
    let name = KeyName::new("logs.example").unwrap();
    Signer::new(name, &[7; 32].into())
}

fn actor(kind: actor::Kind, id: &str) -> Actor {
    Actor {
        kind: kind.into(),
        id: id.into(),
    }
}

fn open(data: &Path, clock: Arc<ManualClock>, ids: Arc<dyn Ids>) -> SqliteStore {
    std::fs::create_dir_all(data).unwrap();
    let keys = Arc::new(KeyStore::open(data).unwrap());
    SqliteStore::open(data.join("log.db"), keys, clock, ids).unwrap()
}

impl Recorded {
    /// A user with a box, in which an agent counted words.
    pub(crate) async fn whole() -> Self {
        let program = Program::new("http://127.0.0.1:9");
        let data = program.home.path().join(".local/share/cocoonbox");
        let clock = Arc::new(ManualClock::at(START_US));
        let store = open(&data, clock.clone(), Arc::new(Counted::default()));
        let mut recorded = Self {
            program,
            store,
            clock,
            now_us: START_US,
            commands: 0,
        };
        for (n, kind, owner) in [
            (1, LogKind::System, ""),
            (2, LogKind::Account, "u1"),
            (3, LogKind::Box, "u1"),
        ] {
            let new = NewLog {
                id: log(n),
                kind,
                owner: owner.into(),
                parent: None,
            };
            recorded.store.open(new).await.unwrap();
        }
        recorded.account().await;
        recorded.turn().await;
        recorded.anchor().await;
        recorded
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.program.home.path().join(".local/share/cocoonbox")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.program.home.path().join(name)
    }

    /// Runs `replay` with a time zone.
    pub(crate) async fn replay(&self, args: &[&str]) -> Run {
        let mut command = self.command(args);
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{stderr}");
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr,
        }
    }

    pub(crate) fn command(&self, args: &[&str]) -> tokio::process::Command {
        let program = Path::new(env!("CARGO_BIN_EXE_cocoonbox"));
        let mut command = self.program.command(program);
        command.arg("replay").args(args).env("TZ", "Europe/Berlin");
        command
    }

    /// Like [`Self::replay`], of which only the result matters.
    pub(crate) async fn told(&self, args: &[&str]) -> String {
        let run = self.replay(args).await;
        assert_eq!(run.code, 0, "{}{}", run.text(), run.stderr);
        self.without_home(&run.text())
    }

    /// The folder has another name each time.
    pub(crate) fn without_home(&self, text: &str) -> String {
        text.replace(&self.program.home.path().display().to_string(), "~")
    }

    /// Ends the writer and begins it again, as an api that is restarted does.
    pub(crate) async fn restart(&mut self) {
        self.store.close().await;
        let data = self.data();
        let other = tempfile::tempdir().unwrap();
        // The old one has to be gone before the new one takes the lock.
        let ids = Arc::new(cocoonbox_events::SystemIds);
        let parked = open(other.path(), self.clock.clone(), ids.clone());
        drop(std::mem::replace(&mut self.store, parked));
        self.store = open(&data, self.clock.clone(), ids);
    }

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
        let meta = Meta {
            command: CommandId(uuid::Uuid::from_u128(self.commands << 64)),
            actor: by,
            cause,
        };
        let mut fold = Fold::<A>::new(log, StreamName::new(name).unwrap());
        let executed = fold.execute(&self.store, &command, &meta, [0; 32]);
        executed.await.unwrap();
        fold.last
    }

    pub(crate) async fn rename_box(&mut self, name: &str) {
        let rename = boxes::Command::Rename { name: name.into() };
        self.boxes(rename, None).await;
    }

    async fn boxes(&mut self, command: boxes::Command, cause: Option<EventId>) -> Option<EventId> {
        let by = actor(actor::Kind::System, "lifecycle");
        self.send::<boxes::State>(log(2), "box/b1", command, by, cause)
            .await
    }

    async fn account(&mut self) {
        let host = || actor(actor::Kind::Host, "");
        let add = directory::Command::AddUser {
            user_id: "u1".into(),
            name: "ann".into(),
            account_log: log(2),
            admin: true,
        };
        self.send::<directory::State>(log(1), "directory", add, host(), None)
            .await;
        let create = user::Command::Create {
            user_id: "u1".into(),
            name: "ann".into(),
            admin: true,
        };
        self.send::<user::State>(log(2), "user/u1", create, host(), None)
            .await;
        let ensure = boxes::Command::Ensure {
            box_id: "b1".into(),
            flavor: 1,
            name: "main".into(),
            box_log: box_log(),
            user_id: "u1".into(),
            operation_id: "o1".into(),
        };
        let asked = self.boxes(ensure, None).await;
        let starting = boxes::Command::Starting {
            wake_id: "w1".into(),
            image: "core-1".into(),
        };
        let started = self.boxes(starting, asked).await;
        let running = boxes::Command::Running {
            wake_id: "w1".into(),
            agent_version: "0.1".into(),
        };
        self.boxes(running, started).await;
    }

    pub(crate) async fn agent(&mut self, command: agent::Command) {
        let by = actor(actor::Kind::Agent, "main");
        self.send::<agent::State>(box_log(), "agent/main", command, by, None)
            .await;
    }

    /// Writes every step that is due; the call that is out then.
    async fn settle(&mut self) -> String {
        loop {
            let name = StreamName::new("agent/main").unwrap();
            let mut fold = Fold::<agent::State>::new(box_log(), name);
            fold.refresh(&self.store).await.unwrap();
            match fold.state.next() {
                agent::Next::Advance => {
                    let id = |what: &str| format!("{what}{}", self.commands);
                    let advance = agent::Command::Advance {
                        turn_id: id("t"),
                        call_id: id("c"),
                        approval_id: id("a"),
                        now_us: 0,
                    };
                    self.agent(advance).await;
                }
                agent::Next::CallModel { call_id, .. } => return call_id,
                _ => return String::new(),
            }
        }
    }

    async fn reply(&mut self, blocks: Vec<block::Block>, stop: StopReason) {
        let call_id = self.settle().await;
        let replied = agent::Command::Replied {
            call_id,
            blocks: blocks
                .into_iter()
                .map(|block| Block { block: Some(block) })
                .collect(),
            stop,
            vendor_stop: String::new(),
            usage: TokenUsage {
                input: 3,
                output: 4,
                ..TokenUsage::default()
            },
            vendor_request_id: String::new(),
        };
        self.agent(replied).await;
    }

    async fn turn(&mut self) {
        let create = agent::Command::Create(Box::new(cocoonbox_proto::log::v1::AgentCreated {
            agent_id: "main".into(),
            name: "main".into(),
            model: Some(ModelChoice {
                wire: Wire::OpenaiChat.into(),
                model: "m1".into(),
                output_tokens_max: 100,
                ..ModelChoice::default()
            }),
            approval: ApprovalPolicy::ApproveAll.into(),
            steps_max: 5,
            ..cocoonbox_proto::log::v1::AgentCreated::default()
        }));
        self.agent(create).await;
        let prompt = agent::Command::Prompt {
            prompt_id: "p1".into(),
            text: "count the words, Schätzchen".into(),
            steer: false,
            images: Vec::new(),
        };
        self.agent(prompt).await;
        let tool = block::Block::ToolUse(ToolUseBlock {
            tool_call_id: "tool-1".into(),
            name: "shell".into(),
            args_json: "{}".into(),
            ..ToolUseBlock::default()
        });
        self.reply(vec![tool], StopReason::ToolUse).await;
        self.settle().await;
        self.exec().await;
        let finished = agent::Command::ToolFinished {
            tool_call_id: "tool-1".into(),
            outcome: Outcome::Ok,
            content: "12".into(),
            exec_id: "e1".into(),
            images: Vec::new(),
            blob: String::new(),
        };
        self.agent(finished).await;
        let text = block::Block::Text(TextBlock {
            text: "There are 12.".into(),
        });
        self.reply(vec![text], StopReason::EndTurn).await;
        self.settle().await;
    }

    async fn exec(&mut self) {
        let start = exec::Command::Start(ExecStarted {
            exec_id: "e1".into(),
            argv: vec!["wc".into(), "-w".into()],
            tool_call_id: "tool-1".into(),
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

    async fn anchor(&mut self) {
        let tail = self.store.tail(box_log()).unwrap();
        let anchor = boxes::Command::Anchor {
            box_log: box_log(),
            pos: tail.pos,
            chain: tail.chain,
        };
        self.boxes(anchor, None).await;
    }

    /// Signs where every log is.
    pub(crate) async fn sign(&self) {
        for info in self.store.logs() {
            let statement = Statement {
                host: KeyName::new("logs.example").unwrap(),
                log: info.id,
                size: info.tail.pos,
                chain: info.tail.chain,
            };
            let checkpoint = statement.sign([&signer()]).to_checkpoint();
            self.store
                .keep_checkpoint(info.id, checkpoint)
                .await
                .unwrap();
        }
    }
}
