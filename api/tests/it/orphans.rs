//! What a starting api does with machines that it finds. Removing one removes somebody's files.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use cocoonbox_api::{
    capsules::Place,
    channel::Channels,
    checkpoints::{self, Checkpointer},
    control::Desks,
    credential::Signer,
    door::{Channel, DoorServices, WebPolicy},
    gateway::{Gateway, GatewayConfig, UsageSink},
    images::Images,
    lease::Owners,
    lifecycle::{Context, Lifecycle},
};
use cocoonbox_events::{
    Append, BoxEvent, CommandId, Expect, Ids as _, KeyStore, LogId, LogKind, MemoryStore, NewEvent,
    NewLog, Store, StreamName, SystemClock, SystemIds,
};
use cocoonbox_installation::{Holder, leases::EmbeddedLeases};
use cocoonbox_machines::{
    BoxId, Error, Limits, Listener, Machine, MachineState, Machines, Promises, Spec, Stream, Usage,
    WakeId, machine::Isolation,
};
use cocoonbox_proto::log::v1::{Actor, BoxDeleted, UsageModelCalled};
use tokio_util::sync::CancellationToken;

/// Machines that are there, and what is asked of them.
struct Found {
    boxes: Vec<BoxId>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Machines for Found {
    fn promises(&self) -> Promises {
        Promises {
            memory_kept_on_hibernate: false,
            survives_host_restart: true,
            isolation: Isolation::Container,
        }
    }

    async fn ensure(&self, spec: &Spec) -> Result<Machine, Error> {
        Err(Error::NotFound(spec.box_id.to_string()))
    }

    async fn get(&self, _: &BoxId) -> Result<Option<Machine>, Error> {
        Ok(None)
    }

    async fn list(&self) -> Result<Vec<Machine>, Error> {
        let machine = |id: &BoxId| Machine {
            box_id: id.clone(),
            wake_id: None,
            state: MachineState::Stopped,
        };
        Ok(self.boxes.iter().map(machine).collect())
    }

    async fn hibernate(&self, id: &BoxId) -> Result<(), Error> {
        self.asked.lock().unwrap().push(format!("hibernate {id}"));
        Ok(())
    }

    async fn delete(&self, id: &BoxId) -> Result<(), Error> {
        self.asked.lock().unwrap().push(format!("delete {id}"));
        Ok(())
    }

    async fn wait(&self, _: &BoxId, _: &WakeId) -> Result<(), Error> {
        Ok(())
    }

    async fn dial(&self, id: &BoxId, _: &WakeId, _: u16) -> Result<Stream, Error> {
        Err(Error::NotRunning(id.to_string()))
    }

    async fn listen(&self, id: &BoxId, _: &WakeId, _: u16) -> Result<Listener, Error> {
        Err(Error::NotRunning(id.to_string()))
    }

    async fn usage(&self, _: &BoxId) -> Result<Usage, Error> {
        Ok(Usage::default())
    }
}

struct Nowhere;

#[async_trait]
impl UsageSink for Nowhere {
    async fn record(&self, _: UsageModelCalled, _: &Channel) {}
}

/// Starts a lifecycle over these machines, lets it look once, and returns what it asked of them.
async fn started(store: Arc<dyn Store>, boxes: &[&str]) -> Vec<String> {
    let boxes = boxes.iter().map(|id| BoxId::new(*id).unwrap()).collect();
    let machines = Arc::new(Found {
        boxes,
        asked: Mutex::default(),
    });
    let gateway = Gateway::new(GatewayConfig::default(), Arc::new(Nowhere)).unwrap();
    let me = Holder {
        id: "one".into(),
        address: String::new(),
        place: String::new(),
    };
    let folder = tempfile::tempdir().unwrap();
    let keys = Arc::new(KeyStore::open(folder.path()).unwrap());
    let parts = checkpoints::Parts {
        store: store.clone(),
        keys: keys.clone(),
        objects: Arc::new(checkpoints::Folder::new(folder.path().join("objects"))),
        clock: Arc::new(SystemClock),
        host: None,
    };
    let (_, checkpoints) = Checkpointer::new(parts, LogId(SystemIds.draw())).unwrap();
    let context = Context {
        store,
        checkpoints,
        machines: machines.clone(),
        owners: Owners::new(Arc::new(EmbeddedLeases::default()), me),
        channels: Channels::default(),
        desks: Desks::default(),
        signer: Arc::new(Signer::new(&[1; 32])),
        door: Arc::new(DoorServices::new(
            Arc::new(gateway),
            WebPolicy::default(),
            Vec::new(),
        )),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        images: Images::new(PathBuf::from("core.erofs")),
        agent: PathBuf::from("agent"),
        limits: Limits {
            memory_bytes: 1 << 30,
            cpu_millis: 1_000,
            pids: 100,
            io_bytes_per_second: None,
            disk_bytes: None,
        },
        idle_after: None,
        models: None,
        capsules: Place::new(None, folder.path().join("cache"), keys),
        saves_first: false,
    };
    let stop = CancellationToken::new();
    // Orphans come first, before it asks whether it is to stop.
    stop.cancel();
    Lifecycle::new(Arc::new(context)).run(stop).await;
    let asked = machines.asked.lock().unwrap();
    asked.clone()
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock), Arc::new(SystemIds)))
}

/// Writes an event that no history of a box begins with.
async fn unreadable_box(store: &dyn Store, id: &str) {
    let log = LogId(SystemIds.draw());
    let new = NewLog {
        id: log,
        kind: LogKind::Account,
        owner: "ada".into(),
        parent: None,
    };
    store.open(new).await.unwrap();
    let stream = StreamName::new(format!("box/{id}")).unwrap();
    let deleted = BoxEvent::Deleted(BoxDeleted {
        operation_id: "op".into(),
    });
    let append = Append {
        command: CommandId(SystemIds.draw()),
        digest: [0; 32],
        expect: vec![(stream.clone(), Expect::Absent)],
        events: vec![NewEvent {
            stream,
            payload: deleted.into(),
        }],
        actor: Actor::default(),
        cause: None,
    };
    store.append(log, append).await.unwrap();
}

#[tokio::test]
async fn a_machine_that_no_log_names_is_removed() {
    assert_eq!(started(store(), &["stray"]).await, ["delete stray"]);
}

#[tokio::test]
async fn a_machine_whose_log_cannot_be_read_keeps_its_disks() {
    let store = store();
    unreadable_box(&*store, "kept").await;
    assert_eq!(started(store, &["kept", "stray"]).await, ["delete stray"]);
}
