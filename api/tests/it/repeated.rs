//! A call that had no effect, sent again when it would have one.

use std::sync::Arc;

use cocoonbox_api::{
    Config, Server,
    config::{File, Fleet},
    gateway::GatewayConfig,
};
use cocoonbox_commands::boxes::{self, Command};
use cocoonbox_events::{
    CommandId, Fold, Ids as _, LogId, LogKind, Meta, StreamName, SystemClock, SystemIds,
    limits::PAGE_EVENTS_MAX,
};
use cocoonbox_installation::{Address, Installation, Purpose};
use cocoonbox_proto::{
    control::v1::{
        BootstrapRequest, BoxRef, Operation, Phase, boxes_client::BoxesClient,
        users_client::UsersClient,
    },
    log::v1::Actor,
};
use tempfile::TempDir;
use tonic::{Request, Status, transport::Channel};

const BOX: &str = "b0123456789abcdef";

/// A server that cannot start a machine: there is no image.
async fn server(dir: &TempDir) -> Server {
    let data = dir.path().join("data");
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        fleet: Fleet::embedded(&data),
        image: dir.path().join("core.erofs"),
        agent: dir.path().join("agent"),
        file: File::default(),
        gateway: GatewayConfig::default(),
        models: None,
        data,
    };
    Server::start(config).await.unwrap()
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    request
}

async fn hibernate(server: &Server, token: &str, command_id: &str) -> Result<Operation, Status> {
    let public = Channel::from_shared(format!("http://{}", server.listen)).unwrap();
    let asked = BoxRef {
        box_id: BOX.to_owned(),
        command_id: command_id.to_owned(),
    };
    let mut boxes = BoxesClient::new(public.connect().await.unwrap());
    let answer = boxes.hibernate(with_token(asked, token)).await;
    answer.map(tonic::Response::into_inner)
}

/// What the lifecycle would say of a box, said while no server runs. Returns the kinds of all its events.
async fn tell(dir: &TempDir, reports: &[Command]) -> Vec<&'static str> {
    let data = dir.path().join("data");
    let address = Address::Folder(data.clone());
    let one = Installation::open(
        &address,
        &data,
        Purpose::Use,
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    );
    let one = one.await.unwrap();
    let mut logs = one.store.logs().into_iter();
    let account = logs.find(|log| log.kind == LogKind::Account);
    let account = account.unwrap().id;
    let stream = StreamName::new(format!("box/{BOX}")).unwrap();
    let mut fold = Fold::<boxes::State>::new(account, stream.clone());
    for report in reports {
        let meta = Meta {
            command: CommandId(SystemIds.draw()),
            actor: Actor::default(),
            cause: None,
        };
        let told = fold.execute(&*one.store, report, &meta, [0; 32]).await;
        assert!(!told.unwrap().events.is_empty(), "{report:?}");
    }
    let page = one.store.read_stream(account, &stream, 0, PAGE_EVENTS_MAX);
    let kinds = page.await.unwrap().events.into_iter();
    let kinds = kinds.map(|event| event.payload().unwrap().unwrap().kind().name());
    let kinds = kinds.collect();
    one.close().await;
    kinds
}

fn ensure(user_id: &str, operation_id: &str) -> Command {
    Command::Ensure {
        box_id: BOX.into(),
        flavor: 1,
        name: "main".into(),
        box_log: LogId(SystemIds.draw()),
        user_id: user_id.into(),
        operation_id: operation_id.into(),
    }
}

fn running(wake_id: &str) -> [Command; 2] {
    [
        Command::Starting {
            wake_id: wake_id.into(),
            image: "core".into(),
        },
        Command::Running {
            wake_id: wake_id.into(),
            agent_version: "1".into(),
        },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_hibernate_puts_nothing_to_sleep() {
    let dir = tempfile::tempdir().unwrap();
    let first = server(&dir).await;
    let socket = format!("unix:{}", dir.path().join("data/run/api.sock").display());
    let socket = tonic::transport::Endpoint::from_shared(socket).unwrap();
    let boot = BootstrapRequest {
        name: "ann".to_owned(),
        label: "test".to_owned(),
    };
    let issued = UsersClient::new(socket.connect().await.unwrap())
        .bootstrap(boot)
        .await;
    let issued = issued.unwrap().into_inner();
    let (user, token) = (issued.user.unwrap().id, issued.token);
    first.stop().await;

    // The box is made, runs and sleeps.
    let mut told = vec![ensure(&user, "op-made")];
    told.extend(running("w1"));
    told.push(Command::Hibernate {
        operation_id: "op-sleep".into(),
        reason: "asked".into(),
    });
    told.push(Command::Hibernated {
        memory_kept: false,
        quiesced: true,
    });
    tell(&dir, &told).await;

    let second = server(&dir).await;
    let id = SystemIds.draw().to_string();
    let asked = hibernate(&second, &token, &id).await.unwrap();
    assert_eq!((asked.phase(), asked.id.as_str()), (Phase::Done, ""));
    second.stop().await;

    // It was woken since.
    let mut told = vec![ensure(&user, "op-woken")];
    told.extend(running("w2"));
    tell(&dir, &told).await;
    let third = server(&dir).await;
    let late = hibernate(&third, &token, &id).await.unwrap();
    assert_eq!((late.phase(), late.id.as_str()), (Phase::Done, ""));
    assert_eq!(late.offset_key, asked.offset_key);
    third.stop().await;
    let kinds = tell(&dir, &[]).await;
    let asked = kinds
        .iter()
        .filter(|kind| **kind == "box.hibernate_requested");
    assert_eq!(asked.count(), 1, "{kinds:?}");
}
