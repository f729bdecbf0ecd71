//! How things are, at a glance.

use serde_json::json;

use crate::{boxes, context::Context, exit::Exit, failure::Failure, users};

pub async fn status(ctx: &mut Context) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let is_healthy = client.is_healthy().await?;
    let user = users::who(&client).await?;
    let list = boxes::all(&client).await?;
    let api = client.address();
    if ctx.out.json {
        let boxes: Vec<_> = list.boxes.iter().map(boxes::to_json).collect();
        let api = json!({"address": api.to_string(), "healthy": is_healthy});
        ctx.out
            .value(&json!({"api": api, "user": users::user_json(&user), "boxes": boxes}))?;
    } else {
        let health = if is_healthy {
            "serves"
        } else {
            "answers, but does not serve yet"
        };
        let role = if user.admin { " (admin)" } else { "" };
        ctx.out.line(format!("api   {api} {health}"))?;
        ctx.out.line(format!("user  {}{role}", user.name))?;
        if list.boxes.is_empty() {
            ctx.out.line("boxes none; `cocoonbox ensure` makes one")?;
        } else {
            ctx.out.line(format!("\n{}", boxes::table(&list.boxes)))?;
        }
    }
    if is_healthy {
        Ok(Exit::Ok)
    } else {
        Err(Failure::new(
            Exit::Unavailable,
            "the api does not serve yet",
        ))
    }
}
