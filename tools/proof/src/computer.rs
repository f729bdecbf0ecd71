//! A holder of a display behind lines of JSON.

use std::{io::Write as _, path::PathBuf};

use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use cocoonbox_proto::toolhost::v1::{ComputerActRequest, computer_client::ComputerClient};
use serde_json::{Value, json};
use tonic::transport::Endpoint;

/// A picture, and room for its text.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The holder's socket.
    #[arg(long)]
    socket: PathBuf,
}

/// Reads `{"look": false, "args": {"action": …}}`, one a line, and answers each with
/// `{"ok": …, "text": …, "picture": …}`, the picture in base64.
pub(crate) async fn pass_on(args: Args) -> Result<()> {
    let address = format!("unix://{}", args.socket.display());
    let channel = Endpoint::from_shared(address)?.connect().await?;
    let mut client = ComputerClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    // One question after the other: nothing else waits meanwhile.
    for line in std::io::stdin().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let request = ComputerActRequest {
            agent_id: "proof".to_owned(),
            args_json: asked["args"].to_string(),
            look: asked["look"].as_bool().unwrap_or_default(),
        };
        let done = client.act(request).await?.into_inner();
        let picture = BASE64_STANDARD.encode(&done.picture);
        let told = json!({ "ok": done.ok, "text": done.text, "picture": picture });
        let mut out = std::io::stdout().lock();
        writeln!(out, "{told}")?;
        out.flush()?;
    }
    Ok(())
}
