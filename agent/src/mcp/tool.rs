//! A server's tool in the table, and the one that says how the servers are.

use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::Duration};

use async_trait::async_trait;
use cocoonbox_proto::log::v1::Risk;
use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest,
        ServerResult,
    },
    service::PeerRequestOptions,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    catalogue::Offer,
    config, result,
    server::{Offered, Server},
};
use crate::{
    tool::{Context, Finished, Tool},
    wire::ToolSpec,
};

/// A tool that shows no progress for so long is given up, and one that shows it for so long as well.
const SILENCE_MAX: Duration = Duration::from_mins(2);
const CALL_MAX: Duration = Duration::from_mins(30);
/// For telling a server that nobody waits any more.
const CANCEL_MAX: Duration = Duration::from_millis(500);

/// A tool of a server.
pub(super) struct McpTool {
    server: Arc<Server>,
    offer: Arc<Offer>,
}

impl McpTool {
    pub(super) fn new(server: Arc<Server>, offer: Arc<Offer>) -> Self {
        Self { server, offer }
    }

    async fn call(
        &self,
        peer: &Peer<RoleClient>,
        args: Value,
        cancel: &CancellationToken,
    ) -> Finished {
        let mut params = CallToolRequestParams::new(self.offer.tool.clone());
        params.arguments = args.as_object().cloned();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::with_timeout(SILENCE_MAX)
            .reset_timeout_on_progress()
            .with_max_total_timeout(CALL_MAX);
        let asked = match peer.send_cancellable_request(request, options).await {
            Ok(asked) => asked,
            Err(error) => return self.lost(&error).await,
        };
        let request_id = asked.id.clone();
        tokio::select! {
            biased;
            answer = asked.await_response() => match answer {
                Ok(ServerResult::CallToolResult(answer)) => result::finished(answer),
                Ok(ServerResult::InputRequiredResult(_)) => Finished::error(
                    "this tool asks its user for more, which cannot be answered here",
                ),
                Ok(_) => Finished::error("the server's answer is not the result of a tool"),
                Err(ServiceError::McpError(error)) => {
                    Finished::error(format!("the server refused the call: {}", error.message))
                }
                Err(error) => self.lost(&error).await,
            },
            () = cancel.cancelled() => {
                let reason = Some("the user cancelled it".to_owned());
                let told = CancelledNotificationParam::new(Some(request_id), reason);
                timeout(CANCEL_MAX, peer.notify_cancelled(told)).await.ok();
                Finished::cancelled()
            }
        }
    }

    /// It may have done its work.
    async fn lost(&self, error: &ServiceError) -> Finished {
        let why = match error {
            ServiceError::Timeout { timeout } => {
                format!("it did not answer for {} s", timeout.as_secs())
            }
            ServiceError::TransportClosed => {
                let fault = self.server.fault().await;
                fault.unwrap_or_else(|| error.to_string())
            }
            error => error.to_string(),
        };
        Finished::error(format!(
            "the MCP server `{}` was lost during this call ({why}); what the call did is not known",
            self.server.name
        ))
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.offer.spec
    }

    fn risk_at_least(&self) -> Risk {
        self.offer.risk
    }

    fn stops(&self) -> bool {
        true
    }

    async fn run(
        &self,
        _: &Context<'_>,
        args: Value,
        cancel: &CancellationToken,
    ) -> Option<Finished> {
        let peer = tokio::select! {
            peer = self.server.peer() => peer,
            () = cancel.cancelled() => return Some(Finished::cancelled()),
        };
        Some(match peer {
            Ok(peer) => self.call(&peer, args, cancel).await,
            Err(fault) => Finished::error(format!(
                "nothing was run: the MCP server `{}` does not work: {fault}",
                self.server.name
            )),
        })
    }
}

/// Says which servers are set up and what is wrong with those that do not work.
pub(super) struct StatusTool {
    spec: ToolSpec,
    text: String,
}

impl StatusTool {
    pub(super) fn new(
        servers: &[(&Arc<Server>, Offered)],
        faults: &BTreeMap<String, String>,
    ) -> Self {
        let mut text = String::new();
        for (server, offered) in servers {
            let tools = offered.catalogue.offers.len();
            let _ = write!(text, "{}: {tools} tools", server.name);
            if offered.catalogue.left_out > 0 {
                let _ = write!(text, " and {} left out", offered.catalogue.left_out);
            }
            if let Some(fault) = &offered.fault {
                let _ = write!(text, "; does not work: {fault}");
            } else if offered.generation == 0 {
                text.push_str("; is being started");
            }
            text.push('\n');
        }
        for (name, fault) in faults {
            let separator = if name.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "{name}{separator}{fault}");
        }
        let about = format!(
            "Says which MCP servers /workspace/{} sets up and why one of them does not work.",
            config::FILE
        );
        let spec = ToolSpec {
            name: "mcp_servers".into(),
            description: about.into(),
            parameters: json!({ "type": "object", "properties": {}, "additionalProperties": false }),
        };
        Self { spec, text }
    }
}

#[async_trait]
impl Tool for StatusTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, _: &Context<'_>, _: Value, _: &CancellationToken) -> Option<Finished> {
        Some(Finished::ok(self.text.clone()))
    }
}
