//! Fetching bytes that an event names.

use std::{fs::File, io::Write};

use cocoonbox_proto::agent::v1::ReadBlobRequest;
use serde_json::json;

use crate::{cli::agent::Blob, context::Context, exit::Exit, failure::Failure, target};

pub(super) async fn blob(ctx: &mut Context, args: Blob) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.target.box_name).await?;
    let call = ReadBlobRequest {
        name: args.name.clone(),
        offset: 0,
    };
    let mut parts = client
        .agents(&found.id)?
        .read_blob(call)
        .await?
        .into_inner();
    let mut file = match &args.output {
        Some(path) => Some(
            File::create(path)
                .map_err(|error| Failure::local(format!("making {}", path.display()), &error))?,
        ),
        None => None,
    };
    let (mut bytes, mut size_bytes) = (0, 0);
    let mut media_type = String::new();
    while let Some(part) = parts.message().await? {
        bytes += part.data.len() as u64;
        (size_bytes, media_type) = (part.size_bytes, part.media_type);
        match &mut file {
            Some(file) => file.write_all(&part.data)?,
            None => ctx.out.bytes(&part.data)?,
        }
    }
    if bytes < size_bytes {
        let message = format!("only {bytes} of {size_bytes} bytes came");
        return Err(Failure::new(Exit::StreamBroke, message));
    }
    if let Some(path) = &args.output {
        let path = path.display().to_string();
        let value = json!({"path": path, "bytes": bytes, "media_type": media_type});
        ctx.out
            .answer(&value, format!("{path}: {bytes} bytes, {media_type}"))?;
    }
    Ok(Exit::Ok)
}
