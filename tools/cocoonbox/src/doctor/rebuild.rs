//! Building a view again under a running api.

use std::path::Path;

use cocoonbox_proto::control::v1::{
    RebuildViewRequest, RebuiltView, operator_client::OperatorClient,
};
use serde_json::json;
use tonic::Request;

use crate::{
    client::{Address, Client},
    context::Context,
    exit::Exit,
    failure::Failure,
};

pub(super) async fn rebuild(ctx: &mut Context, data: &Path, view: String) -> Result<Exit, Failure> {
    let socket = Address::unix(&data.join("run/api.sock"));
    let client = Client::connect(&socket, None).await?;
    let progress = ctx.out.progress(format!("building view `{view}`"));
    let call = RebuildViewRequest { name: view.clone() };
    // Without a deadline: it takes what it takes.
    let mut told = OperatorClient::new(client.channel())
        .rebuild_view(Request::new(call))
        .await?
        .into_inner();
    let mut last = 0;
    while let Some(message) = told.message().await? {
        if let Some(rebuilt) = message.rebuilt {
            drop(progress);
            return answer(ctx, &view, &rebuilt);
        }
        if let Some(building) = message.building {
            if let Some(stop) = building.blocked {
                drop(progress);
                let message = format!(
                    "view `{view}` stopped at event {} of log {}: {}",
                    stop.pos, stop.log_id, stop.error
                );
                return Err(Failure::new(Exit::Failure, message).advise(
                    "its old rows answer; a build that reads the event goes on from there",
                ));
            }
            let percent = building.done.saturating_mul(100).checked_div(building.of);
            let percent = percent.unwrap_or(100);
            if building.comparing {
                progress.step(&mut ctx.out, format!("comparing view `{view}`"));
            } else if percent >= last + 10 || ctx.out.stderr_is_terminal {
                last = percent;
                progress.step(&mut ctx.out, format!("building view `{view}`: {percent} %"));
            }
        }
    }
    Err(Failure::new(
        Exit::StreamBroke,
        "the api ended before the view was built; it goes on when it runs again",
    ))
}

fn answer(ctx: &mut Context, view: &str, rebuilt: &RebuiltView) -> Result<Exit, Failure> {
    let rows = |one: &cocoonbox_proto::control::v1::RowDifference| json!({"view": one.view, "key": one.key, "what": one.what});
    let differences: Vec<_> = rebuilt.differences.iter().map(rows).collect();
    let value = json!({
        "view": view, "compared": rebuilt.compared, "rows": rebuilt.rows,
        "differing": rebuilt.differing, "differences": differences,
    });
    let mut lines: Vec<String> = rebuilt
        .differences
        .iter()
        .map(|one| format!("{} {}: {}", one.view, one.key, one.what))
        .collect();
    lines.push(match (rebuilt.compared, rebuilt.differing) {
        (false, _) => format!("view `{view}` is built; there was nothing to compare with"),
        (true, 0) => format!(
            "view `{view}` is built: {} rows, all as before",
            rebuilt.rows
        ),
        (true, count) => format!(
            "view `{view}` is built: {count} of {} rows DIFFERED and are right now",
            rebuilt.rows
        ),
    });
    ctx.out.answer(&value, lines.join("\n"))?;
    Ok(if rebuilt.differing == 0 {
        Exit::Ok
    } else {
        Exit::Failure
    })
}
