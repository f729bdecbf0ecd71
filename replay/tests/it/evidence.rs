//! A sealed `log.db` on disk with several users, boxes, a branch, an erasure, a rotated key and signed
//! checkpoints; and ways to meddle with it.

use std::{collections::HashSet, sync::Arc};

use cocoonbox_commands::{agent, boxes, directory, user};
use cocoonbox_events::{
    AgentEvent, ChainHash, KeyStore, Kind, LogEvent, LogId, LogKind, NewLog, Parent, SigningKeys,
    SqliteStore, Store, SystemClock, SystemIds,
    checkpoint::{KeyName, Note, Signer, Statement, VerifierKey},
    limits::PAGE_EVENTS_MAX,
};
use cocoonbox_proto::log::v1::{self as wire, actor};
use cocoonbox_replay::{
    Against, AllReport, VerifyReport,
    checkpoint::{Kept, Outside, Source},
    verify_all_against,
};
use tempfile::TempDir;

use crate::world::{World, account, actor, box_log, log, system};

pub(crate) struct Evidence {
    pub(crate) folder: TempDir,
    pub(crate) keys: Arc<KeyStore>,
    /// The first key that signed here; retired by now.
    pub(crate) first_key: VerifierKey,
    pub(crate) second_key: VerifierKey,
    /// Every checkpoint that was made, as an auditor may have kept it.
    pub(crate) notes: Vec<Note>,
    world: World,
}

pub(crate) fn second_account() -> LogId {
    log(4)
}

pub(crate) fn second_box_log() -> LogId {
    log(5)
}

/// Branches off the first box log.
pub(crate) fn branch() -> LogId {
    log(6)
}

pub(crate) fn host() -> KeyName {
    KeyName::new("logs.example").unwrap()
}

impl Evidence {
    pub(crate) async fn laid_down() -> Self {
        let folder = TempDir::new().unwrap();
        let keys = Arc::new(KeyStore::open(folder.path()).unwrap());
        let store = Arc::new(
            SqliteStore::open(
                folder.path().join("log.db"),
                keys.clone(),
                Arc::new(SystemClock),
                Arc::new(SystemIds),
            )
            .unwrap(),
        );
        let mut world = World::whole().await;
        for (id, kind, owner) in [
            (system(), LogKind::System, ""),
            (account(), LogKind::Account, "u1"),
            (box_log(), LogKind::Box, "u1"),
            (second_account(), LogKind::Account, "u2"),
            (second_box_log(), LogKind::Box, "u2"),
        ] {
            let owner = owner.to_owned();
            let parent = None;
            let new = NewLog {
                id,
                kind,
                owner,
                parent,
            };
            store.open(new).await.unwrap();
            if world.store.info(id).is_ok() {
                let page = world.store.read(id, 0, PAGE_EVENTS_MAX).await.unwrap();
                store.replicate(id, page.events).await.unwrap();
            }
        }
        world.store = store.clone();
        let first_key = keys.rotate(&host(), 1).unwrap();
        let mut this = Self {
            folder,
            second_key: first_key.clone(),
            first_key,
            keys,
            notes: Vec::new(),
            world,
        };
        this.issued(&this.first_key.clone()).await;
        this.second_user().await;
        this.erased().await;
        this.sign_all().await;
        this.rotated().await;
        this.branched().await;
        this.sign_all().await;
        store.close().await;
        this
    }

    async fn issued(&mut self, key: &VerifierKey) {
        let event = LogEvent::CheckpointKeyIssued(wire::LogCheckpointKeyIssued {
            name: key.name().to_string(),
            public_key: key.public().to_vec(),
        });
        self.world
            .forge(system(), "log/checkpoint-keys", event)
            .await;
    }

    async fn rotated(&mut self) {
        self.second_key = self.keys.rotate(&host(), 2).unwrap();
        self.issued(&self.second_key.clone()).await;
        let event = LogEvent::CheckpointKeyRetired(wire::LogCheckpointKeyRetired {
            name: self.first_key.name().to_string(),
            public_key: self.first_key.public().to_vec(),
        });
        self.world
            .forge(system(), "log/checkpoint-keys", event)
            .await;
        let size = self.world.store.tail(system()).unwrap().pos;
        self.sign(system(), size).await;
        self.keys.retire(&self.first_key, 3).unwrap();
    }

    /// Another user, whose box has streams of the same names.
    async fn second_user(&mut self) {
        let host = actor(actor::Kind::Host, "");
        let add = directory::Command::AddUser {
            user_id: "u2".into(),
            name: "bob".into(),
            account_log: second_account(),
            admin: false,
        };
        let world = &mut self.world;
        world
            .send::<directory::State>(system(), "directory", add, host.clone(), None)
            .await;
        let create = user::Command::Create {
            user_id: "u2".into(),
            name: "bob".into(),
            admin: false,
        };
        world
            .send::<user::State>(second_account(), "user/u2", create, host.clone(), None)
            .await;
        let (wake_id, image) = ("w9".to_owned(), "core-1".to_owned());
        for command in [
            boxes::Command::Ensure {
                box_id: "b1".into(),
                flavor: 1,
                name: "main".into(),
                box_log: second_box_log(),
                user_id: "u2".into(),
                operation_id: "o9".into(),
            },
            boxes::Command::Starting {
                wake_id: wake_id.clone(),
                image,
            },
            boxes::Command::Running {
                wake_id,
                agent_version: "0.1".into(),
            },
        ] {
            world
                .send::<boxes::State>(second_account(), "box/b1", command, host.clone(), None)
                .await;
        }
        let create = agent::Command::Create(Box::new(cocoonbox_proto::log::v1::AgentCreated {
            agent_id: "main".into(),
            name: "main".into(),
            model: Some(wire::ModelChoice {
                wire: wire::Wire::OpenaiChat.into(),
                model: "m1".into(),
                output_tokens_max: 100,
                ..wire::ModelChoice::default()
            }),
            approval: wire::ApprovalPolicy::ApproveAll.into(),
            steps_max: 5,
            ..cocoonbox_proto::log::v1::AgentCreated::default()
        }));
        world
            .send::<agent::State>(second_box_log(), "agent/main", create, host, None)
            .await;
        for name in ["a", "b", "c"] {
            world
                .forge(second_box_log(), "agent/main", renamed(name))
                .await;
        }
    }

    /// A chunk of output, erased as it has to be.
    async fn erased(&mut self) {
        let store = self.world.store.clone();
        let page = store.read(box_log(), 0, PAGE_EVENTS_MAX).await.unwrap();
        let chunk = Kind::AgentOutputStreamed.number();
        let found = page.events.iter().find(|event| event.kind == chunk);
        let positions = vec![found.unwrap().pos];
        let asked = LogEvent::ErasureRequested(wire::LogErasureRequested {
            positions: positions.clone(),
            ..wire::LogErasureRequested::default()
        });
        self.world.forge(box_log(), "log/erasure", asked).await;
        store.erase(box_log(), &positions).await.unwrap();
        let done = LogEvent::ErasureDone(wire::LogErasureDone { positions });
        self.world.forge(box_log(), "log/erasure", done).await;
    }

    /// The box was set back by two events and went on.
    async fn branched(&mut self) {
        let store = self.world.store.clone();
        let pos = store.tail(box_log()).unwrap().pos - 2;
        let chain = store.chain_at(box_log(), pos).await.unwrap();
        let parent = Some(Parent {
            log: box_log(),
            pos,
            chain,
        });
        let new = NewLog {
            id: branch(),
            kind: LogKind::Box,
            owner: "u1".into(),
            parent,
        };
        self.world.rewind_box(new).await;
        for name in ["d", "e", "f"] {
            self.world
                .forge(branch(), "agent/main", renamed(name))
                .await;
        }
        self.world
            .forge(branch(), "agent/other", renamed("g"))
            .await;
    }

    /// Signs every third position and the tail of every log, behind what is signed.
    async fn sign_all(&mut self) {
        for info in self.world.store.logs() {
            let base = info.parent.map_or(0, |parent| parent.pos);
            let signed = self.notes.iter().map(|note| &note.statement);
            let signed = signed.filter(|said| said.log == info.id);
            let from = signed.map(|said| said.size).max().unwrap_or(base);
            for size in from + 1..=info.tail.pos {
                if size % 3 == 0 || size == info.tail.pos {
                    self.sign(info.id, size).await;
                }
            }
        }
    }

    async fn sign(&mut self, log: LogId, size: u64) {
        let chain = self.world.store.chain_at(log, size).await.unwrap();
        let note = statement(log, size, chain).sign(&self.keys.signers().unwrap());
        let kept = note.to_checkpoint();
        self.world.store.keep_checkpoint(log, kept).await.unwrap();
        self.notes.push(note);
    }

    /// Opens the file as whoever has write access to it can, with the guards taken off.
    pub(crate) fn meddler(&self) -> rusqlite::Connection {
        let file = rusqlite::Connection::open(self.folder.path().join("log.db")).unwrap();
        // The store wants to see guards; these let everything through.
        file.execute_batch(
            "PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF;
             DROP TRIGGER event_is_final; DROP TRIGGER event_is_kept;
             CREATE TRIGGER event_is_kept BEFORE DELETE ON event WHEN 0 BEGIN SELECT 1; END;
             CREATE TRIGGER event_is_final BEFORE UPDATE ON event WHEN 0 BEGIN SELECT 1; END;",
        )
        .unwrap();
        file
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        let path = self.folder.path().join("log.db");
        Arc::new(SqliteStore::open_read_only(path, self.keys.clone()).unwrap())
    }

    /// The auditor's key only.
    pub(crate) fn trust(&self) -> Against {
        Against {
            trust: vec![self.first_key.clone()],
            outside: Outside::default(),
            file: None,
        }
    }

    /// The auditor's key, and the checkpoints that they have kept.
    pub(crate) fn kept(&self) -> Against {
        let mut against = self.trust();
        for note in &self.notes {
            against.outside.add(Kept {
                note: note.clone(),
                source: Source::File("kept".into()),
            });
        }
        against
    }

    pub(crate) async fn verify(&self, against: &Against) -> AllReport {
        verify_all_against(&self.store(), against).await.unwrap()
    }
}

pub(crate) fn statement(log: LogId, size: u64, chain: ChainHash) -> Statement {
    Statement {
        host: host(),
        log,
        size,
        chain,
    }
}

pub(crate) fn forger() -> Signer {
    Signer::new(host(), &zeroize::Zeroizing::new([66; 32]))
}

/// The positions of a log that a report names, as breaks or findings.
pub(crate) fn named(report: &AllReport, log: LogId) -> HashSet<u64> {
    let of_log = of(report, log);
    let breaks = of_log.and_then(|one| one.first_break.as_ref().map(|found| found.pos));
    let own = of_log.into_iter().flat_map(|one| one.findings.iter());
    let findings = own.chain(report.findings.iter());
    let findings = findings.filter(|found| found.log == log);
    breaks
        .into_iter()
        .chain(findings.map(|found| found.pos))
        .collect()
}

pub(crate) fn of(report: &AllReport, log: LogId) -> Option<&VerifyReport> {
    report.logs.iter().find(|one| one.log == log)
}

fn renamed(name: &str) -> AgentEvent {
    AgentEvent::Renamed(wire::AgentRenamed { name: name.into() })
}
