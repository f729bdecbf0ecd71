//! Everything of a run in one place: who there is, and who is up.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use cocoonbox_commands::{directory, user};
use cocoonbox_events::{
    Aggregate, Append, CommandId, Fold, Ids, LogEvent, LogId, Meta, NewEvent, NewLog, Store,
    StreamName,
    checkpoint::{KeyName, Signer},
    store::LogKind,
};
use cocoonbox_proto::log::v1::{Actor, LogCheckpointKeyIssued};
use zeroize::Zeroizing;

use crate::{
    api::{Api, Parts, views::ViewFile},
    broken::Broken,
    chance::Chance,
    chaos::Faults,
    client::Client,
    clock::{SeededIds, SkewedClock},
    control::Control,
    disk::Fault,
    host::Host,
    ledger::Ledger,
    net::{Net, Place, Weather},
    scheduler::{Sim, lock},
};

/// A world, ready to run.
pub struct World {
    pub sim: Sim,
    pub net: Net,
    pub ledger: Ledger,
    pub ids: Arc<SeededIds>,
    pub broken: Broken,
    pub faults: Faults,
    pub control: Arc<Control>,
    pub host: Arc<Host>,
    /// Each with the log that their account began with.
    pub users: BTreeMap<String, LogId>,
    pub clients: usize,
    /// Signs what the auditor takes home.
    pub signer: Signer,
    slots: Vec<Slot>,
    state: Mutex<State>,
}

/// One api replica, whichever of its lives it is in.
struct Slot {
    clock: Arc<SkewedClock>,
    views: Arc<ViewFile>,
    running: Mutex<Option<Arc<Api>>>,
}

#[derive(Default)]
struct State {
    is_calm: bool,
    is_at_rest: bool,
    left: usize,
}

impl World {
    /// Makes a world: its size is drawn as well.
    pub fn new(sim: &Sim, chance: &mut Chance, faults: Faults, broken: Broken) -> Arc<Self> {
        let net = Net::new(sim.clone());
        let ledger = Ledger::new(sim.clone());
        let ids = Arc::new(SeededIds::new(chance.fork("ids")));
        let control = Control::new(
            sim.clone(),
            net.clone(),
            ledger.clone(),
            ids.clone(),
            broken,
        );
        let host = Host::new(
            sim.clone(),
            net.clone(),
            ledger.clone(),
            ids.clone(),
            broken,
        );
        let users: BTreeMap<String, LogId> = (0..2)
            .map(|number| (format!("u{number}"), LogId(ids.draw())))
            .collect();
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&chance.bytes16());
        let slots = (0..2 + chance.index(2)).map(|_| Slot {
            clock: Arc::new(SkewedClock::new(
                sim.clone(),
                chance.between(-5_000_000, 5_000_000),
            )),
            views: Arc::default(),
            running: Mutex::default(),
        });
        let name = KeyName::new("sim").expect("a plain name");
        Arc::new(Self {
            sim: sim.clone(),
            net,
            ledger,
            ids,
            broken,
            faults,
            signer: Signer::new(name, &Zeroizing::new(seed)),
            control: Arc::new(control),
            host: Arc::new(host),
            users,
            clients: 3,
            slots: slots.collect(),
            state: Mutex::default(),
        })
    }

    /// Starts everybody, the database first.
    pub async fn begin(self: Arc<Self>) {
        self.net.set_life(Place::Host, Some(self.sim.new_life()));
        self.control.start();
        let Some(store) = self.control.store() else {
            return;
        };
        let system = LogId(self.ids.draw());
        self.open(&store, system, LogKind::System, "").await;
        self.issue_key(&store, system).await;
        for (user, log) in &self.users {
            self.open(&store, *log, LogKind::Account, user).await;
            let add = directory::Command::AddUser {
                user_id: user.clone(),
                name: user.clone(),
                account_log: *log,
                admin: false,
            };
            self.tell::<directory::State>(&store, system, "directory", add)
                .await;
            let create = user::Command::Create {
                user_id: user.clone(),
                name: user.clone(),
                admin: false,
            };
            self.tell::<user::State>(&store, *log, &format!("user/{user}"), create)
                .await;
        }
        self.control.stream_to_standby(0);
        for number in 0..self.slots.len() {
            self.start_api(number);
        }
        let users: Vec<&String> = self.users.keys().collect();
        for number in 0..self.clients {
            Client::start(&self, number, users[number % users.len()]);
        }
        self.start_chaos();
        self.start_audit();
    }

    async fn open(&self, store: &dyn Store, id: LogId, kind: LogKind, owner: &str) {
        let new = NewLog {
            id,
            kind,
            owner: owner.to_owned(),
            parent: None,
        };
        store.open(new).await.expect("nothing is wrong yet");
        let info = store.info(id).expect("it was opened");
        self.ledger.opened(&info);
    }

    async fn issue_key(&self, store: &dyn Store, system: LogId) {
        let key = self.signer.verifier();
        let issued = LogEvent::CheckpointKeyIssued(LogCheckpointKeyIssued {
            name: key.name().to_string(),
            public_key: key.public().to_vec(),
        });
        let append = Append {
            command: CommandId(self.ids.draw()),
            digest: [0; 32],
            expect: Vec::new(),
            events: vec![NewEvent {
                stream: StreamName::new("log/checkpoint-keys").expect("a plain name"),
                payload: issued.into(),
            }],
            actor: Actor::default(),
            cause: None,
        };
        let appended = store.append(system, append).await;
        appended.expect("nothing is wrong yet");
    }

    async fn tell<A: Aggregate>(
        &self,
        store: &dyn Store,
        log: LogId,
        stream: &str,
        command: A::Command,
    ) {
        let stream = StreamName::new(stream).expect("a plain name");
        let meta = Meta {
            command: CommandId(self.ids.draw()),
            actor: Actor::default(),
            cause: None,
        };
        let mut fold = Fold::<A>::new(log, stream);
        let told = fold.execute(store, &command, &meta, [0; 32]).await;
        told.expect("nothing is wrong yet");
    }

    pub fn apis_count(&self) -> usize {
        self.slots.len()
    }

    pub fn api(&self, number: usize) -> Option<Arc<Api>> {
        lock(&self.slots[number].running).clone()
    }

    pub fn views(&self, number: usize) -> Arc<ViewFile> {
        Arc::clone(&self.slots[number].views)
    }

    pub fn start_api(&self, number: usize) {
        let slot = &self.slots[number];
        let api = Api::start(Parts {
            sim: self.sim.clone(),
            net: self.net.clone(),
            ledger: self.ledger.clone(),
            number,
            broken: self.broken,
            clock: slot.clock.clone(),
            users: self.users.clone(),
            control: self.control.clone(),
            host: self.host.clone(),
            ids: self.ids.clone(),
            views: slot.views.clone(),
        });
        *lock(&slot.running) = Some(api);
    }

    pub fn crash_api(&self, number: usize) {
        let slot = &self.slots[number];
        if let Some(api) = lock(&slot.running).take() {
            api.end();
            self.net.set_life(Place::Api(number), None);
            slot.views.crash();
            self.sim.note("chaos", || format!("api-{number} is killed"));
        }
    }

    pub fn jump_clock(&self, number: usize, by_us: i64) {
        self.slots[number].clock.jump(by_us);
    }

    pub fn is_calm(&self) -> bool {
        lock(&self.state).is_calm
    }

    /// Ends all faults. From here on everything that is owed has to be done.
    pub fn calm(&self) {
        lock(&self.state).is_calm = true;
        self.net.heal();
        self.net.set_weather(Weather {
            delay_ms_max: 20,
            ..Weather::default()
        });
        self.control.disk().set_fault(Fault::None);
        self.host.mend_disks();
        self.sim.note("chaos", || "calm".to_owned());
    }

    /// Says that nothing is owed any more.
    pub fn rest(&self) {
        lock(&self.state).is_at_rest = true;
    }

    pub async fn wait_for_rest(&self) {
        while !lock(&self.state).is_at_rest {
            self.sim.sleep_ms(200).await;
        }
    }

    pub fn has_left(&self) {
        lock(&self.state).left += 1;
    }

    /// Whether every client has seen what it wanted to see.
    pub fn is_left(&self) -> bool {
        lock(&self.state).left == self.clients
    }

    /// Whether whole logs may be gone: a standby was promoted that had not heard of them.
    pub fn has_lost_logs(&self) -> bool {
        self.control.promotions() > 0
    }
}
