//! Two processes on one database: whom one deletes, the other forgets.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cocoonbox_api::erase::Elsewhere;
use cocoonbox_events::{
    Append, BoxEvent, CommandId, DirectoryEvent, Ids as _, LogId, LogKind, NewEvent, NewLog,
    OffsetKey, Payload, StreamName, SystemClock, SystemIds,
};
use cocoonbox_installation::{Address, Installation, Purpose};
use cocoonbox_projections::{Runner, Views, forget_for_good, is_forgotten};
use cocoonbox_proto::log::v1::{Actor, BoxCreated, DirectoryUserRemoved};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

const PLANTED: &str = "planted-needle-of-";
const DEADLINE: Duration = Duration::from_secs(20);
/// How often the file is looked at: it changes a moment after what rings.
const LOOK: Duration = Duration::from_millis(20);

/// What a process has of its own, without its doors.
struct Process {
    dir: TempDir,
    installation: Installation,
    views: Views,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Process {
    async fn start(url: &str, master_of: Option<&Self>) -> Self {
        let dir = TempDir::new().unwrap();
        if let Some(first) = master_of {
            let from = first.dir.path().join("master.key");
            std::fs::copy(from, dir.path().join("master.key")).unwrap();
        }
        let address = Address::parse(url, dir.path()).unwrap();
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        let opening = Installation::open(&address, dir.path(), Purpose::Use, clock, ids);
        let installation = opening.await.unwrap();
        let views = Views::open(&dir.path().join("views.db")).unwrap();
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let runner = Runner::new(installation.store.clone(), views.clone());
        tasks.spawn(runner.run(stop.clone()));
        Self {
            dir,
            installation,
            views,
            stop,
            tasks,
        }
    }

    fn follow_the_directory(&mut self) {
        let (store, keys) = (&self.installation.store, &self.installation.keys);
        let elsewhere = Elsewhere::new(store.clone(), keys.clone(), self.views.clone());
        self.tasks.spawn(elsewhere.run(self.stop.clone()));
    }

    fn files(&self) -> [PathBuf; 2] {
        ["views.db", "views.db-wal"].map(|name| self.dir.path().join(name))
    }

    fn holds(&self, user: &str) -> bool {
        let needle = planted(user);
        let has = |path: &Path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            bytes
                .windows(needle.len())
                .any(|at| at == needle.as_bytes())
        };
        self.files().iter().any(|path| has(path))
    }

    async fn has_seen(&self, key: &OffsetKey) {
        self.views.at_least(key, DEADLINE).await.unwrap();
    }

    async fn forgets(&self, user: &str) {
        let forgetting = async {
            while !is_forgotten(&self.views, user).await.unwrap() {
                let mut changed = self.views.changed();
                let _rang = timeout(LOOK, changed.changed()).await;
            }
        };
        timeout(DEADLINE, forgetting)
            .await
            .expect("never forgotten");
        assert!(!self.holds(user), "{user} still lies in the file");
        assert_eq!(names(&self.views, user).await, [String::new()]);
    }

    async fn open(&self, kind: LogKind, owner: &str) -> LogId {
        let new = NewLog {
            id: LogId(SystemIds.draw()),
            kind,
            owner: owner.to_owned(),
            parent: None,
        };
        self.installation.store.open(new).await.unwrap().log
    }

    async fn write(&self, log: LogId, stream: &str, payload: impl Into<Payload>) -> OffsetKey {
        let stream = StreamName::new(stream).unwrap();
        let append = Append {
            command: CommandId(SystemIds.draw()),
            digest: [0; 32],
            expect: Vec::new(),
            events: vec![NewEvent {
                stream,
                payload: payload.into(),
            }],
            actor: Actor::default(),
            cause: None,
        };
        let appended = self.installation.store.append(log, append).await;
        let range = appended.unwrap().range();
        OffsetKey::new(log, range.last, range.chain)
    }

    async fn write_box(&self, account: LogId, user: &str) -> OffsetKey {
        let created = BoxCreated {
            name: planted(user),
            ..BoxCreated::default()
        };
        self.write(account, "box/b1", BoxEvent::Created(created))
            .await
    }

    /// What a deletion does last.
    async fn delete(&self, system: LogId, user: &str) {
        self.installation.keys.destroy(user).await.unwrap();
        forget_for_good(&self.installation.store, &self.views, user)
            .await
            .unwrap();
        let user_id = user.to_owned();
        let removed = DirectoryEvent::UserRemoved(DirectoryUserRemoved { user_id });
        self.write(system, "directory", removed).await;
    }

    async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

fn planted(user: &str) -> String {
    format!("{PLANTED}{user}")
}

async fn names(views: &Views, user: &str) -> Vec<String> {
    let boxes = views.boxes(user).await.unwrap();
    boxes.into_iter().map(|row| row.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_one_process_deletes_the_others_forget() {
    let url = cocoonbox_postgres::shared().database().unwrap();
    let one = Process::start(&url, None).await;
    let mut two = Process::start(&url, Some(&one)).await;
    let system = one.open(LogKind::System, "").await;
    let mut accounts = Vec::new();
    for user in ["ada", "bob", "eve"] {
        let account = one.open(LogKind::Account, user).await;
        let key = one.write_box(account, user).await;
        for process in [&one, &two] {
            process.has_seen(&key).await;
            assert!(process.holds(user), "the test plants nothing");
        }
        accounts.push(account);
    }

    // While it runs, with the key still kept open there.
    two.follow_the_directory();
    one.delete(system, "ada").await;
    two.forgets("ada").await;
    assert_eq!(names(&two.views, "bob").await, [planted("bob")]);
    two.stop.cancel();
    while two.tasks.join_next().await.is_some() {}

    // While it is down; what it finds at its start.
    one.delete(system, "bob").await;
    assert!(two.holds("bob") && two.holds("eve"));
    two.stop = CancellationToken::new();
    let runner = Runner::new(two.installation.store.clone(), two.views.clone());
    two.tasks.spawn(runner.run(two.stop.clone()));
    two.follow_the_directory();
    two.forgets("bob").await;
    two.forgets("ada").await;
    assert_eq!(names(&two.views, "eve").await, [planted("eve")]);
    // Those who stay go on.
    let key = one.write_box(accounts[2], "eve").await;
    two.has_seen(&key).await;
    assert!(two.holds("eve") && !is_forgotten(&two.views, "eve").await.unwrap());
    one.end().await;
    two.end().await;
}
