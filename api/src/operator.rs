//! `cocoonbox.control.v1.Operator`: how the process does, for whoever runs it.

use std::{pin::Pin, sync::Arc, time::Duration};

use cocoonbox_events::{Clock, LogInfo, Store};
use cocoonbox_projections::{Views, ViewsError, conditions, views::Owners};
use cocoonbox_proto::control::v1::{
    ConditionRequest, ConditionResponse, LogTotals, RebuildViewRequest, RebuildViewResponse,
    ReplicaFault, operator_server,
};
use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status};

use crate::{auth::Caller, channel::Channels, metrics, status, vitals::Vitals};

/// Faults that are told; more boxes than that have one cause.
const FAULTS_MAX: usize = 100;
/// How often a rebuild says how far it is.
const TELL: Duration = Duration::from_millis(200);

/// Serves the operator.
#[derive(Clone)]
pub struct Operator {
    pub store: Arc<dyn Store>,
    pub views: Views,
    pub channels: Channels,
    pub vitals: Vitals,
    pub clock: Arc<dyn Clock>,
    pub started_us: i64,
    pub stop: CancellationToken,
}

type Rebuilding = Pin<Box<dyn Stream<Item = Result<RebuildViewResponse, Status>> + Send>>;

#[tonic::async_trait]
impl operator_server::Operator for Operator {
    async fn condition(
        &self,
        request: Request<ConditionRequest>,
    ) -> Result<Response<ConditionResponse>, Status> {
        Caller::of(request.extensions()).host()?;
        let now_us = self.clock.now_us();
        let logs = self.store.logs();
        let owners = Owners::of(&logs);
        let views = conditions(&self.views, &*self.store, now_us).await;
        let channels = self.channels.all();
        let faults = channels.iter().filter_map(|channel| {
            let cause = channel.fault.borrow().clone();
            let box_id = channel.box_id.clone();
            (!cause.is_empty()).then_some(ReplicaFault { box_id, cause })
        });
        let looked_ago = self.views.looked_ago();
        Ok(Response::new(ConditionResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_ms: self.started_us / 1_000,
            now_ms: now_us / 1_000,
            views: views.iter().map(|one| one.report(&owners)).collect(),
            logs: self.totals(&logs).await,
            replica_faults: faults.take(FAULTS_MAX).collect(),
            boxes_attached: u32::try_from(channels.len()).unwrap_or(u32::MAX),
            views_looked_ago_ms: looked_ago
                .map_or(-1, |ago| i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)),
            checkpoints: Some(self.vitals.checkpoints()),
            database: self.vitals.database(),
            leases: self.vitals.leases(),
        }))
    }

    type RebuildViewStream = Rebuilding;

    async fn rebuild_view(
        &self,
        request: Request<RebuildViewRequest>,
    ) -> Result<Response<Rebuilding>, Status> {
        Caller::of(request.extensions()).host()?;
        let name = request.into_inner().name;
        let edition = self
            .views
            .rebuild(&name)
            .await
            .map_err(|error| match error {
                ViewsError::NoSuchProjection { .. } => {
                    status::status(Code::NotFound, "NO_SUCH_VIEW", error.to_string())
                }
                error => status::internal(&error),
            })?;
        let of = self.clone();
        let told = futures::stream::unfold(Some((of, name)), move |state| async move {
            let (of, name) = state?;
            if let Some(rebuilt) = of.views.rebuilt(&name).filter(|r| r.edition == edition) {
                let rebuilt = Some(rebuilt.report());
                let building = None;
                return Some((Ok(RebuildViewResponse { building, rebuilt }), None));
            }
            tokio::select! {
                () = of.stop.cancelled() => return Some((Err(stopping()), None)),
                () = tokio::time::sleep(TELL) => {}
            }
            let owners = Owners::of(&of.store.logs());
            let building = of
                .views
                .building()
                .into_iter()
                .find(|b| b.edition == edition);
            let building = building.map(|one| one.report(&owners));
            let rebuilt = None;
            Some((
                Ok(RebuildViewResponse { building, rebuilt }),
                Some((of, name)),
            ))
        });
        Ok(Response::new(Box::pin(told)))
    }
}

impl Operator {
    async fn totals(&self, logs: &[LogInfo]) -> Vec<LogTotals> {
        let mut totals: Vec<LogTotals> = Vec::new();
        for log in logs {
            let kind = metrics::log_kind(log.kind);
            let index = totals.iter().position(|one| one.kind == kind);
            let index = index.unwrap_or_else(|| {
                totals.push(LogTotals {
                    kind: kind.to_owned(),
                    ..LogTotals::default()
                });
                totals.len() - 1
            });
            totals[index].logs += 1;
            totals[index].events += log.tail.pos - log.parent.map_or(0, |parent| parent.pos);
        }
        // Whoever compares it with the clock sees a clock that went back: no log's times do.
        for total in &mut totals {
            let newest = logs
                .iter()
                .filter(|log| metrics::log_kind(log.kind) == total.kind && log.tail.pos > 0)
                .max_by_key(|log| log.tail.pos);
            if let Some(log) = newest
                && let Ok(page) = self.store.read(log.id, log.tail.pos - 1, 1).await
            {
                total.newest_at_ms = page.events.last().map_or(0, |e| e.recorded_us / 1_000);
            }
        }
        totals
    }
}

fn stopping() -> Status {
    status::status(
        Code::Unavailable,
        "STOPPING",
        "the api is stopping; the rebuild goes on when it runs again",
    )
}
