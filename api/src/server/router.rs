//! Every service, and what goes on into boxes.

use std::sync::Arc;

use axum::{Router, middleware};
use cocoonbox_proto::{
    agent::v1::{agents_server::AgentsServer, session_server::SessionServer},
    control::v1::{
        boxes_server::BoxesServer, budgets_server::BudgetsServer, capsule_server::CapsuleServer,
        checkpoints_server::CheckpointsServer, erasure_server::ErasureServer,
        history_server::HistoryServer, operator_server::OperatorServer,
        routines_server::RoutinesServer, shares_server::SharesServer, users_server::UsersServer,
    },
};

use super::{StartError, listen};
use crate::{
    auth,
    boxes::Boxes,
    budget::Budgets,
    capsules::Capsules,
    checkpoints,
    edge::{self, Edge},
    erase::{self, Eraser},
    history::History,
    operator::Operator,
    routines::Routines,
    session::{Replica, SERVED_HERE},
    shares,
    users::Users,
};

#[expect(clippy::too_many_arguments, reason = "one for each service")]
pub(super) async fn router(
    known: auth::Known,
    users: Users,
    boxes: Boxes,
    budgets: Budgets,
    capsules: Capsules,
    history: History,
    routines: Routines,
    checkpoints: checkpoints::Rpc,
    replica: Replica,
    edge: Arc<Edge>,
    eraser: Eraser,
    operator: Operator,
) -> Result<Router, StartError> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<BoxesServer<Boxes>>().await;
    reporter.set_serving::<UsersServer<Users>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(cocoonbox_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(StartError::Reflection)?;
    let services = tonic::service::Routes::new(UsersServer::new(users))
        .add_service(BoxesServer::new(boxes))
        .add_service(BudgetsServer::new(budgets))
        .add_service(CapsuleServer::new(capsules))
        .add_service(CheckpointsServer::new(checkpoints))
        .add_service(ErasureServer::new(erase::Service(eraser)))
        .add_service(HistoryServer::new(history))
        .add_service(OperatorServer::new(operator))
        .add_service(RoutinesServer::new(routines))
        .add_service(SharesServer::new(shares::Service {
            shares: known.shares.clone(),
            edge: edge.clone(),
        }))
        .add_service(health)
        .add_service(reflection)
        .into_axum_router();
    let [events, list, transcript, read_blob] = SERVED_HERE;
    let routed = services
        .route_service(events, SessionServer::new(replica.clone()))
        .route_service(list, AgentsServer::new(replica.clone()))
        .route_service(transcript, AgentsServer::new(replica.clone()))
        .route_service(read_blob, AgentsServer::new(replica))
        .fallback_service(axum::routing::any(edge::forward).with_state(edge));
    Ok(routed
        .layer(middleware::from_fn_with_state(known, auth::identify))
        .layer(middleware::from_fn(listen::only_grpc)))
}
