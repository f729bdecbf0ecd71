//! Checkpoints while logs move: when, by which key, where they go, and who gets them.

use std::{path::Path, sync::Arc, time::Duration};

use cocoonbox_api::{
    auth::{Caller, Denied},
    checkpoints::{Checkpointer, Folder, Handle, Parts, Rpc, Standing},
};
use cocoonbox_events::{
    Append, CommandId, Ids as _, KeyStore, Kind, LogId, LogKind, MemoryStore, NewEvent, NewLog,
    SigningKeys as _, Store, StreamName, SystemClock, SystemIds, UserEvent,
    checkpoint::{KeyName, Note},
};
use cocoonbox_proto::{
    control::v1::{
        ListCheckpointsRequest, ListKeysRequest, RotateKeyRequest, StandingRequest,
        checkpoints_server::Checkpoints as _,
    },
    log::v1::{Actor, UserRenamed},
};
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request};

struct World {
    store: Arc<dyn Store>,
    keys: Arc<KeyStore>,
    folder: TempDir,
    system: LogId,
    ann: LogId,
    bob: LogId,
}

struct Running {
    handle: Handle,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl World {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock), Arc::new(SystemIds)));
        let folder = tempfile::tempdir().unwrap();
        let [system, ann, bob] = std::array::from_fn(|_| LogId(SystemIds.draw()));
        for (id, kind, owner) in [
            (system, LogKind::System, ""),
            (ann, LogKind::Account, "ann"),
            (bob, LogKind::Account, "bob"),
        ] {
            let (owner, parent) = (owner.to_owned(), None);
            let new = NewLog {
                id,
                kind,
                owner,
                parent,
            };
            store.open(new).await.unwrap();
        }
        Self {
            store,
            keys: Arc::new(KeyStore::open(folder.path()).unwrap()),
            folder,
            system,
            ann,
            bob,
        }
    }

    fn objects(&self) -> std::path::PathBuf {
        self.folder.path().join("objects")
    }

    fn start(&self) -> Running {
        let parts = Parts {
            store: self.store.clone(),
            keys: self.keys.clone(),
            objects: Arc::new(Folder::new(self.objects())),
            clock: Arc::new(SystemClock),
            host: Some(KeyName::new("logs.example").unwrap()),
        };
        let (checkpointer, handle) = Checkpointer::new(parts, self.system).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(checkpointer.run(stop.clone()));
        Running { handle, stop, task }
    }

    /// Appends events one by one.
    async fn write(&self, log: LogId, count: usize) {
        for _ in 0..count {
            let name = "a".to_owned();
            let append = Append {
                command: CommandId(SystemIds.draw()),
                digest: [0; 32],
                expect: Vec::new(),
                events: vec![NewEvent {
                    stream: StreamName::new("user/a").unwrap(),
                    payload: UserEvent::Renamed(UserRenamed { name }).into(),
                }],
                actor: Actor::default(),
                cause: None,
            };
            self.store.append(log, append).await.unwrap();
        }
    }

    async fn notes(&self, log: LogId) -> Vec<Note> {
        let kept = self.store.checkpoints(log, 0, 1_000).await.unwrap();
        let mut notes = Vec::new();
        for one in kept {
            // What is in the store is in the objects, byte for byte.
            let name = format!("checkpoints/{log}/{:016}", one.size);
            let object = std::fs::read_to_string(self.objects().join(name)).unwrap();
            assert_eq!(object, one.note);
            notes.push(Note::parse(&one.note).unwrap());
        }
        notes
    }

    async fn sizes(&self, log: LogId) -> Vec<u64> {
        let notes = self.notes(log).await;
        notes.iter().map(|note| note.statement.size).collect()
    }
}

impl Running {
    async fn until(&self, is_so: impl FnMut(&Standing) -> bool) -> Standing {
        let mut watch = self.handle.watch();
        watch.wait_for(is_so).await.unwrap().clone()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

fn one_day() -> Duration {
    Duration::from_hours(24)
}

#[tokio::test(start_paused = true)]
async fn a_log_is_signed_after_a_minute_or_a_thousand_events() {
    let world = World::new().await;
    let running = world.start();
    world.write(world.ann, 3).await;
    let began = Instant::now();
    running.until(|standing| standing.written >= 1).await;
    let waited = began.elapsed();
    assert!((59..62).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(world.sizes(world.ann).await, [3]);

    let began = Instant::now();
    world.write(world.ann, 1_024).await;
    let before = running.handle.standing().written;
    running.until(|standing| standing.written > before).await;
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(world.sizes(world.ann).await, [3, 1_027]);

    // What does not move is not signed again. The system log tells of the key.
    tokio::time::sleep(one_day()).await;
    assert_eq!(world.sizes(world.ann).await, [3, 1_027]);
    assert_eq!(world.sizes(world.system).await, [1]);
    assert!(world.sizes(world.bob).await.is_empty());

    // A box that goes to sleep does not wait for the minute; nor does the end.
    let began = Instant::now();
    world.write(world.ann, 1).await;
    running.handle.now(world.ann);
    let before = running.handle.standing().written;
    running.until(|standing| standing.written > before).await;
    assert!(began.elapsed() < Duration::from_secs(5));
    world.write(world.bob, 2).await;
    running.stop().await;
    assert_eq!(world.sizes(world.ann).await, [3, 1_027, 1_028]);
    assert_eq!(world.sizes(world.bob).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn a_new_key_comes_with_the_old_ones_word() {
    let world = World::new().await;
    let running = world.start();
    world.write(world.ann, 1).await;
    running.until(|standing| standing.written >= 2).await;
    let first = world.keys.current().unwrap().unwrap().verifier();
    world.write(world.ann, 1).await;
    let issued = running.handle.rotate().await.unwrap().unwrap();
    let second = world.keys.current().unwrap().unwrap().verifier();
    assert_eq!((&issued.key, issued.retired_us), (&second, None));
    assert_ne!(first, second);
    assert_eq!(
        world.keys.signers().unwrap().len(),
        1,
        "the old one signs no more"
    );

    // The first checkpoints behind the rotation have both signatures, the next ones one.
    let signed = |notes: &[Note], key| {
        notes
            .iter()
            .map(|note| note.signers([key]).is_ok())
            .collect()
    };
    for log in [world.system, world.ann] {
        let notes = world.notes(log).await;
        let (old, new): (Vec<bool>, Vec<bool>) = (signed(&notes, &first), signed(&notes, &second));
        assert_eq!((old, new), (vec![true, true], vec![false, true]));
    }
    world.write(world.ann, 1).await;
    running.stop().await;
    let notes = world.notes(world.ann).await;
    assert!(notes[2].signers([&first]).is_err());
    assert!(notes[2].signers([&second]).is_ok());
    // The system log tells it in this order, and again after another start.
    for _ in 0..2 {
        world.start().stop().await;
        let page = world.store.read(world.system, 0, 100).await.unwrap();
        let kinds: Vec<_> = page.events.iter().map(|event| event.kind).collect();
        let [issued, retired] =
            [Kind::LogCheckpointKeyIssued, Kind::LogCheckpointKeyRetired].map(Kind::number);
        assert_eq!(kinds, [issued, issued, retired]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rotation_that_was_cut_short_is_finished() {
    let world = World::new().await;
    world.write(world.ann, 1).await;
    world.start().stop().await;
    let first = world.keys.current().unwrap().unwrap().verifier();
    // As a crash leaves it between the key and the log.
    let name = KeyName::new("logs.example").unwrap();
    world.keys.rotate(&name, 0).unwrap();
    world.write(world.ann, 1).await;
    world.start().stop().await;
    assert_eq!(world.keys.signers().unwrap().len(), 1);
    let notes = world.notes(world.system).await;
    assert!(notes.last().unwrap().signers([&first]).is_ok());
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_written_are_seen_and_made_good() {
    let world = World::new().await;
    std::fs::write(world.objects(), "where the folder should be").unwrap();
    let running = world.start();
    world.write(world.ann, 1).await;
    let standing = running.until(|standing| standing.failed >= 3).await;
    assert!(standing.fault.unwrap().contains("checkpoints/"));
    assert!(standing.logs_behind > 0);
    std::fs::remove_file(world.objects()).unwrap();
    let standing = running
        .until(|one| one.logs_behind == 0 && one.written > 1)
        .await;
    assert_eq!((standing.fault, standing.alarm), (None, None));
    assert_eq!(world.sizes(world.ann).await, [1]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_were_lost_in_a_crash_are_made_at_the_next_start() {
    let world = World::new().await;
    for _ in 0..3 {
        world.write(world.ann, 1).await;
        world.start().stop().await;
    }
    std::fs::remove_dir_all(world.objects().join("checkpoints")).unwrap();
    world.start().stop().await;
    assert_eq!(world.sizes(world.ann).await, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn another_checkpoint_of_the_same_size_is_an_alarm() {
    let world = World::new().await;
    let folder = world.objects().join(format!("checkpoints/{}", world.ann));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{:016}", 1));
    std::fs::write(&path, "of a history that was written anew").unwrap();
    let running = world.start();
    world.write(world.ann, 1).await;
    let standing = running.until(|standing| standing.alarm.is_some()).await;
    assert!(standing.alarm.unwrap().contains(&world.ann.to_string()));
    running.stop().await;
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(kept, "of a history that was written anew", "and it is kept");
}

#[tokio::test(start_paused = true)]
async fn two_of_them_do_no_harm() {
    let world = World::new().await;
    let running = [world.start(), world.start()];
    for _ in 0..3 {
        world.write(world.ann, 5).await;
        tokio::time::sleep(Duration::from_secs(90)).await;
    }
    for one in running {
        assert_eq!(one.handle.standing().alarm, None);
        one.stop().await;
    }
    assert_eq!(world.sizes(world.ann).await, [5, 10, 15]);
    assert_eq!(
        files(&world.objects().join(format!("checkpoints/{}", world.ann))),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn everybody_gets_their_own_and_the_operator_all() {
    let world = World::new().await;
    for _ in 0..2 {
        world.write(world.ann, 1).await;
        world.write(world.bob, 1).await;
        world.start().stop().await;
    }
    let running = world.start();
    let rpc = Rpc {
        store: world.store.clone(),
        handle: running.handle.clone(),
    };
    let ann = Caller::User {
        user_id: "ann".into(),
        token_id: "t".into(),
        admin: false,
    };
    let by = |caller: &Caller, call: ListCheckpointsRequest| request(caller, call);
    let list = async |caller: &Caller, call| {
        let answer = rpc.list(by(caller, call)).await;
        answer.map(tonic::Response::into_inner)
    };
    let newest = list(&ann, ListCheckpointsRequest::default()).await.unwrap();
    let [one] = &newest.checkpoints[..] else {
        panic!("{newest:?}")
    };
    assert_eq!(
        (one.log_id.as_str(), one.size),
        (&*world.ann.to_string(), 2)
    );
    assert!(Note::parse(&one.note).is_ok());
    let of = |log: LogId, after_size| ListCheckpointsRequest {
        log_id: log.to_string(),
        after_size,
        ..ListCheckpointsRequest::default()
    };
    let all = list(&ann, of(world.ann, 0)).await.unwrap();
    assert_eq!(all.checkpoints.len(), 2);
    let behind = list(&ann, of(world.ann, 1)).await.unwrap();
    assert_eq!(behind.checkpoints.len(), 1);
    // Neither another's nor the system log, and no telling whether they are there.
    for log in [world.bob, world.system, LogId(SystemIds.draw())] {
        let refused = list(&ann, of(log, 0)).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
    }
    // The operator's, page by page.
    let mut call = ListCheckpointsRequest {
        page_size: 1,
        ..ListCheckpointsRequest::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = list(&Caller::Host, call.clone()).await.unwrap();
        seen.extend(page.checkpoints.iter().map(|one| one.log_id.clone()));
        if page.next_page_token.is_empty() {
            break;
        }
        call.page_token = page.next_page_token;
    }
    seen.sort();
    let mut logs = [world.system, world.ann, world.bob].map(|log| log.to_string());
    logs.sort();
    assert_eq!(seen, logs);

    let nobody = Caller::Nobody(Denied::NoToken);
    let refused = list(&nobody, ListCheckpointsRequest::default()).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    let keys = rpc
        .list_keys(request(&ann, ListKeysRequest {}))
        .await
        .unwrap();
    assert_eq!(keys.get_ref().keys.len(), 1);
    let refused = rpc.rotate_key(request(&ann, RotateKeyRequest {})).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let rotated = rpc
        .rotate_key(request(&Caller::Host, RotateKeyRequest {}))
        .await;
    assert!(rotated.unwrap().get_ref().key.is_some());
    let keys = rpc
        .list_keys(request(&ann, ListKeysRequest {}))
        .await
        .unwrap();
    assert_eq!(keys.get_ref().keys.len(), 2);
    let refused = rpc.standing(request(&ann, StandingRequest {})).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let standing = rpc
        .standing(request(&Caller::Host, StandingRequest {}))
        .await;
    assert_eq!(standing.unwrap().get_ref().failed, 0);
    running.stop().await;
}

fn request<T>(caller: &Caller, call: T) -> Request<T> {
    let mut request = Request::new(call);
    request.extensions_mut().insert(caller.clone());
    request
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}
