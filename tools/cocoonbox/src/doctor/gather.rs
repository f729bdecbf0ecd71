//! What can be seen: from the api if it runs, else from its files.

use std::path::Path;

use cocoonbox_events::{Clock, LogKind, Store, SystemClock};
use cocoonbox_projections::{Views, conditions, database::OpenError, views::Owners};
use cocoonbox_proto::control::v1::{
    ConditionRequest, ConditionResponse, LogTotals, operator_client::OperatorClient,
};
use tonic::Code;

use super::finding::Finding;
use crate::{
    client::{Address, Client, request},
    context::Context,
    failure::chain,
    replay,
};

/// Everything that was seen.
pub(super) struct Seen {
    is_up: bool,
    pub(super) condition: Option<ConditionResponse>,
    pub(super) findings: Vec<Finding>,
}

impl Seen {
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }
}

pub(super) async fn gather(ctx: &Context, data: &Path) -> Seen {
    let mut seen = Seen {
        is_up: false,
        condition: None,
        findings: Vec::new(),
    };
    let socket = Address::unix(&data.join("run/api.sock"));
    match Client::connect(&socket, None).await {
        Ok(client) => {
            seen.is_up = true;
            ask(&client, &mut seen).await;
        }
        Err(_) => look(ctx, data, &mut seen).await,
    }
    seen
}

async fn ask(client: &Client, seen: &mut Seen) {
    let mut operator = OperatorClient::new(client.channel());
    match operator.condition(request(ConditionRequest {})).await {
        Ok(answer) => seen.condition = Some(answer.into_inner()),
        Err(status) if status.code() == Code::Unimplemented => seen.findings.push(
            Finding::wrong(
                "VERSIONS",
                "the api that runs here is older than this program",
            )
            .advise("`cocoonbox down`, then `cocoonbox up` starts the installed one"),
        ),
        Err(status) => seen.findings.push(
            Finding::wrong("API", "the api that runs here does not say how it is")
                .because(status.message())
                .advise("its log is `run/api.log` in the data directory"),
        ),
    }
}

async fn look(ctx: &Context, data: &Path, seen: &mut Seen) {
    let is_elsewhere = matches!(ctx.store_address(), Ok(Some(_)));
    if !is_elsewhere && !data.join("log.db").exists() && !data.join("run").exists() {
        seen.findings.push(
            Finding::wrong(
                "NO_DATA",
                format!("there is no installation in `{}`", data.display()),
            )
            .advise("`cocoonbox up` makes one; --data-dir names another directory"),
        );
        return;
    }
    seen.findings.push(
        Finding::wrong("API", "no api runs on this data directory")
            .advise("`cocoonbox up` starts it; why it ended is at the end of `run/api.log`"),
    );
    let source = match replay::open_own(ctx).await {
        Ok(source) => source,
        Err(failure) => {
            let advice = failure.advice.unwrap_or_else(|| {
                "a store that is no file is named by COCOONBOX_STORE; a damaged file is restored from a copy".to_owned()
            });
            seen.findings.push(
                Finding::wrong("LOG", "the logs cannot be opened")
                    .because(failure.message)
                    .advise(advice),
            );
            return;
        }
    };
    match Views::open_read_only(&data.join("views.db")) {
        Ok(views) => {
            seen.condition = Some(condition(&views, &*source.store).await);
        }
        Err(OpenError::Format { .. }) => seen.findings.push(
            Finding::note("VIEWS", "the views are of another build")
                .advise("an api of this build makes its own when it starts"),
        ),
        Err(error) => seen.findings.push(
            Finding::note("VIEWS", "there are no views that can be read")
                .because(chain(&error))
                .advise("an api builds them from the logs when it starts"),
        ),
    }
}

async fn condition(views: &Views, store: &dyn Store) -> ConditionResponse {
    let now_us = SystemClock.now_us();
    let logs = store.logs();
    let owners = Owners::of(&logs);
    let found = conditions(views, store, now_us).await;
    let mut totals = Vec::new();
    for (kind, name) in [
        (LogKind::System, "system"),
        (LogKind::Account, "account"),
        (LogKind::Box, "box"),
    ] {
        let of_kind: Vec<_> = logs.iter().filter(|log| log.kind == kind).collect();
        let own = |log: &&cocoonbox_events::LogInfo| {
            log.tail.pos - log.parent.map_or(0, |parent| parent.pos)
        };
        let longest = of_kind.iter().max_by_key(|log| log.tail.pos);
        let mut newest_at_ms = 0;
        if let Some(log) = longest.filter(|log| log.tail.pos > 0)
            && let Ok(page) = store.read(log.id, log.tail.pos - 1, 1).await
        {
            newest_at_ms = page.events.last().map_or(0, |e| e.recorded_us / 1_000);
        }
        totals.push(LogTotals {
            kind: name.to_owned(),
            logs: of_kind.len() as u64,
            events: of_kind.iter().map(own).sum(),
            newest_at_ms,
        });
    }
    ConditionResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now_ms: now_us / 1_000,
        views: found.iter().map(|one| one.report(&owners)).collect(),
        logs: totals,
        ..ConditionResponse::default()
    }
}
