//! `capsule export-key`.

use std::path::Path;

use cocoonbox_proto::control::v1::ExportKeyRequest;
use serde_json::json;
use zeroize::Zeroizing;

use super::place::KeyFile;
use crate::{
    client::{repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
};

/// Gets the key of the caller's capsule into a file. The file comes first: nobody is given a key that has no place.
pub(super) async fn export(ctx: &mut Context, path: &Path) -> Result<Exit, Failure> {
    let file = KeyFile::make(path)?;
    let client = ctx.client().await?;
    let call = ExportKeyRequest {
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let mut answer = repeat(|| {
        let (mut capsule, call) = (client.capsule(), request(call.clone()));
        async move { capsule.export_key(call).await }
    })
    .await?;
    let key = Zeroizing::new(std::mem::take(&mut answer.key));
    file.write(&key)?;
    let shown = path.display().to_string();
    let words = format!("wrote the key to {shown}");
    let value = json!({
        "file": shown,
        "folder": answer.folder,
        "offset_key": answer.offset_key,
    });
    ctx.out.answer(&value, words)?;
    ctx.out.note(format!(
        "what it opens is the folder `{}` where the installation keeps capsules; whoever has a copy of that and this file \
         can read everything",
        answer.folder
    ));
    Ok(Exit::Ok)
}
