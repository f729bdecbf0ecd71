//! Who is answered.

use cocoonbox_proto::agent::v1::{HelloRequest, session_client::SessionClient};
use ed25519_dalek::SigningKey;
use tonic::{Code, transport::Endpoint};
use tonic_types::StatusExt;

use crate::{
    execs::NO_MODEL,
    world::{Signed, World, sign},
};

async fn hello(world: &World, credential: &str) -> Result<(), (Code, String)> {
    let channel = Endpoint::from_shared(format!("http://{}", world.addr))
        .expect("an address")
        .connect_lazy();
    let mut client = SessionClient::with_interceptor(channel, Signed(credential.to_owned()));
    match client.hello(HelloRequest {}).await {
        Ok(_) => Ok(()),
        Err(status) => {
            let info = status.get_details_error_info().expect("a reason");
            assert_eq!(info.domain, "cocoonbox");
            Err((status.code(), info.reason))
        }
    }
}

#[tokio::test]
async fn only_this_box_this_wake_and_the_edges_signature() {
    let world = World::new("anthropic", NO_MODEL).await;
    let refused = |reason: &str| Err((Code::Unauthenticated, reason.to_owned()));
    assert_eq!(
        hello(&world, &world.credential("box1", "wake1", 600)).await,
        Ok(())
    );
    let cases = [
        (world.credential("box2", "wake1", 600), "OTHER_BOX"),
        (world.credential("box1", "wake0", 600), "OLD_WAKE"),
        (world.credential("box1", "wake1", -600), "EXPIRED"),
        (
            sign(
                &SigningKey::from_bytes(&[99; 32]),
                "key1|box1|wake1|9999999999",
            ),
            "BAD_SIGNATURE",
        ),
        ("nonsense".to_owned(), "CREDENTIAL_MALFORMED"),
    ];
    for (credential, reason) in cases {
        assert_eq!(hello(&world, &credential).await, refused(reason));
    }
    let channel = Endpoint::from_shared(format!("http://{}", world.addr))
        .expect("an address")
        .connect_lazy();
    let missing = SessionClient::new(channel)
        .hello(HelloRequest {})
        .await
        .expect_err("refused");
    assert_eq!(
        missing.get_details_error_info().expect("a reason").reason,
        "CREDENTIAL_MISSING"
    );
}

#[tokio::test]
async fn a_rewritten_identity_counts_at_once() {
    let world = World::new("anthropic", NO_MODEL).await;
    let path = world.path("identity");
    let identity = crate::world::read(&path).replace("wake1", "wake2");
    std::fs::write(&path, identity).expect("a write");
    assert_eq!(
        hello(&world, &world.credential("box1", "wake2", 600)).await,
        Ok(())
    );
    let old = hello(&world, &world.credential("box1", "wake1", 600)).await;
    assert_eq!(old, Err((Code::Unauthenticated, "OLD_WAKE".to_owned())));
}

#[tokio::test]
async fn health_and_reflection_answer_the_edge_only() {
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let world = World::new("anthropic", NO_MODEL).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", world.addr)).expect("an address");
    let service = "cocoonbox.agent.v1.Session".to_owned();
    let request = HealthCheckRequest { service };
    let mut stranger = HealthClient::new(endpoint.connect_lazy());
    let refused = stranger.check(request.clone()).await.expect_err("refused");
    assert_eq!(refused.code(), Code::Unauthenticated);
    let signed = Signed(world.credential("box1", "wake1", 600));
    let mut edge = HealthClient::with_interceptor(endpoint.connect_lazy(), signed.clone());
    assert_eq!(
        edge.check(request)
            .await
            .expect("an answer")
            .into_inner()
            .status,
        1
    );

    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut edge = ServerReflectionClient::with_interceptor(endpoint.connect_lazy(), signed);
    let asked = edge.server_reflection_info(tokio_stream::iter([ask])).await;
    let answer = asked
        .expect("a stream")
        .into_inner()
        .message()
        .await
        .expect("an answer");
    let Some(MessageResponse::ListServicesResponse(list)) =
        answer.expect("an answer").message_response
    else {
        panic!("another answer")
    };
    assert!(
        list.service
            .iter()
            .any(|service| service.name == "cocoonbox.agent.v1.Agents")
    );
}
