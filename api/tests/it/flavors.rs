//! Which image a box is made of.

use cocoonbox_api::{
    Config, Server,
    config::{File, Fleet},
    gateway::GatewayConfig,
};
use cocoonbox_proto::control::v1::{
    BootstrapRequest, Box as BoxMessage, EnsureRequest, Flavor, GetBoxRequest, ListBoxesRequest,
    boxes_client::BoxesClient, desktop, users_client::UsersClient,
};
use tempfile::TempDir;
use tonic::{Request, Status, transport::Channel};
use tonic_types::StatusExt;

struct Api {
    server: Server,
    token: String,
}

impl Api {
    /// An api that was given an image of `core`, in a folder with others. None of them is one that boots.
    async fn start(dir: &TempDir) -> Self {
        let data = dir.path().join("data");
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            fleet: Fleet::embedded(&data),
            image: dir.path().join("core-0123456789ab.erofs"),
            agent: dir.path().join("agent"),
            file: File::default(),
            gateway: GatewayConfig::default(),
            models: None,
            data,
        };
        let server = Server::start(config).await.unwrap();
        let socket = format!("unix:{}", dir.path().join("data/run/api.sock").display());
        let socket = tonic::transport::Endpoint::from_shared(socket).unwrap();
        let boot = BootstrapRequest {
            name: "ann".to_owned(),
            label: "test".to_owned(),
        };
        let mut users = UsersClient::new(socket.connect().await.unwrap());
        let token = users.bootstrap(boot).await.unwrap().into_inner().token;
        Self { server, token }
    }

    async fn boxes(&self) -> BoxesClient<Channel> {
        let public = Channel::from_shared(format!("http://{}", self.server.listen)).unwrap();
        BoxesClient::new(public.connect().await.unwrap())
    }

    fn asked<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let bearer = format!("Bearer {}", self.token).parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        request
    }

    async fn ensure(&self, name: &str, flavor: Flavor) -> Result<BoxMessage, Status> {
        let ensure = EnsureRequest {
            flavor: flavor.into(),
            name: name.to_owned(),
            ..EnsureRequest::default()
        };
        let ensured = self.boxes().await.ensure(self.asked(ensure)).await;
        ensured.map(tonic::Response::into_inner)
    }
}

fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    details
        .error_info()
        .map_or_else(String::new, |info| info.reason.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_has_the_flavor_that_it_was_made_with_and_there_has_to_be_an_image_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let api = Api::start(&dir).await;
    let refused = api.ensure("office", Flavor::Desktop).await.unwrap_err();
    assert_eq!(reason(&refused), "NO_IMAGE");
    let advice = "run `image/build desktop`";
    assert!(refused.message().ends_with(advice), "{}", refused.message());
    let list = api.asked(ListBoxesRequest::default());
    let list = api.boxes().await.list(list).await.unwrap().into_inner();
    assert!(list.boxes.is_empty(), "nothing was begun");

    // Found though it was built after the api began.
    std::fs::write(dir.path().join("desktop-0123456789ab.erofs"), b"").unwrap();
    let made = api.ensure("office", Flavor::Desktop).await.unwrap();
    assert_eq!(made.flavor(), Flavor::Desktop);
    let again = api.ensure("office", Flavor::Unspecified).await.unwrap();
    assert_eq!((&again.id, again.flavor()), (&made.id, Flavor::Desktop));
    let refused = api.ensure("office", Flavor::Core).await.unwrap_err();
    assert_eq!(reason(&refused), "OTHER_FLAVOR");

    // Without a word it is the flavor of the image that the api was given.
    let plain = api.ensure("plain", Flavor::Unspecified).await.unwrap();
    assert_eq!(plain.flavor(), Flavor::Core);
    let get = GetBoxRequest {
        box_id: plain.id,
        ..GetBoxRequest::default()
    };
    let got = api.boxes().await.get(api.asked(get)).await.unwrap();
    let desktop = got.into_inner().desktop.unwrap();
    assert_eq!(desktop.state(), desktop::State::None);
    api.server.stop().await;
}
