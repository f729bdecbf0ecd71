//! The database goes away under a running process, and comes back.

use std::{path::Path, time::Duration};

use cocoonbox_api::{
    Config, Server,
    config::{File, Fleet},
    gateway::GatewayConfig,
};
use cocoonbox_installation::Address;
use cocoonbox_postgres::Cluster;
use cocoonbox_proto::control::v1::{
    BootstrapRequest, ConditionRequest, ConditionResponse, EnsureRequest, WhoAmIRequest,
    boxes_client::BoxesClient, operator_client::OperatorClient, users_client::UsersClient,
};
use tonic::{Code, Request, Status, transport::Channel};

/// `cocoonbox doctor` calls it an outage when the database has been silent for longer.
const SILENT_MS: i64 = 3_000;
const LOOK: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_mins(1);

async fn server(data: &Path, url: &str) -> Server {
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        fleet: Fleet {
            store: Address::parse(url, data).unwrap(),
            ..Fleet::embedded(data)
        },
        image: data.join("core.erofs"),
        agent: data.join("agent"),
        file: File::default(),
        gateway: GatewayConfig::default(),
        models: None,
        data: data.to_owned(),
    };
    Server::start(config).await.unwrap()
}

struct Caller {
    socket: Channel,
    public: Channel,
    token: String,
}

impl Caller {
    fn with_token<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let bearer = format!("Bearer {}", self.token).parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        request
    }

    /// Reads who it is: the token is looked up in the database.
    async fn reads(&self) -> Result<String, Status> {
        let asked = self.with_token(WhoAmIRequest {});
        let answer = UsersClient::new(self.public.clone())
            .who_am_i(asked)
            .await?;
        Ok(answer.into_inner().name)
    }

    /// Has a box made, under an id that is the same each time.
    async fn writes(&self) -> Result<String, Status> {
        let ensure = EnsureRequest {
            command_id: "00000000-0000-4000-8000-000000000001".to_owned(),
            ..EnsureRequest::default()
        };
        let asked = self.with_token(ensure);
        let answer = BoxesClient::new(self.public.clone()).ensure(asked).await?;
        Ok(answer.into_inner().id)
    }

    async fn until(&self, is_so: impl Fn(&ConditionResponse) -> bool) -> ConditionResponse {
        let looking = async {
            loop {
                let mut operator = OperatorClient::new(self.socket.clone());
                let told = operator.condition(ConditionRequest {}).await;
                let told = told.unwrap().into_inner();
                if is_so(&told) {
                    return told;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(DEADLINE, looking).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_say_unavailable_the_operator_is_told_and_all_comes_back() {
    let cluster = Cluster::start().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = server(&data, &cluster.database().unwrap()).await;
    let socket = format!("unix:{}", data.join("run/api.sock").display());
    let socket = tonic::transport::Endpoint::from_shared(socket).unwrap();
    let public = Channel::from_shared(format!("http://{}", server.listen)).unwrap();
    let mut caller = Caller {
        socket: socket.connect().await.unwrap(),
        public: public.connect().await.unwrap(),
        token: String::new(),
    };
    let boot = BootstrapRequest {
        name: "ann".to_owned(),
        label: "test".to_owned(),
    };
    let issued = UsersClient::new(caller.socket.clone())
        .bootstrap(boot)
        .await;
    caller.token = issued.unwrap().into_inner().token;
    assert_eq!(caller.reads().await.unwrap(), "ann");
    let well = |told: &ConditionResponse| {
        told.database
            .as_ref()
            .is_some_and(|database| database.is_listening && database.polled_ago_ms <= SILENT_MS)
    };
    caller.until(well).await;

    cluster.stop_immediately().unwrap();
    for _ in 0..2 {
        let refused = caller.reads().await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        let refused = caller.writes().await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    }
    // What `cocoonbox doctor` says DATABASE of.
    let told = caller.until(|told| {
        let database = told.database.as_ref();
        database.is_some_and(|database| database.polled_ago_ms > SILENT_MS)
    });
    let database = told.await.database.unwrap();
    assert!(
        database.failed_polls > 0 && !database.is_listening,
        "{database:?}"
    );

    cluster.start_again().unwrap();
    caller.until(well).await;
    assert_eq!(caller.reads().await.unwrap(), "ann");
    // What was refused was not done, and what is sent again is done once.
    let made = caller.writes().await.unwrap();
    assert_eq!(caller.writes().await.unwrap(), made);
    server.stop().await;
}
