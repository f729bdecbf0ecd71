//! Sending a prompt and watching the turn that answers it.

mod watch;

use std::{fs, io::Read, path::Path};

use cocoonbox_proto::agent::v1::{NewImage, SendRequest};

use crate::{
    cli::talk::Send,
    client::{repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    target,
};

pub use watch::{Watched, watch};

/// What the contract takes.
const PROMPT_BYTES_MAX: u64 = 200 * 1024;
const IMAGE_BYTES_MAX: u64 = 4 * 1024 * 1024;
const IMAGES_MAX: usize = 8;

pub async fn send(ctx: &mut Context, args: Send) -> Result<Exit, Failure> {
    let prompt = read_prompt(&args.prompt)?;
    if args.image.len() > IMAGES_MAX {
        return Err(Failure::usage("a prompt has at most 8 pictures"));
    }
    let images = args.image.iter().map(|path| read_image(path));
    let images = images.collect::<Result<Vec<_>, _>>()?;
    let client = ctx.client().await?;
    let found = target::awake(ctx, &client, &args.to.target.box_name).await?;
    let agent_id = target::agent_id(&client, &found.id, &args.to.agent).await?;
    let call = SendRequest {
        agent_id,
        prompt,
        client_nonce: uuid::Uuid::new_v4().to_string(),
        steer: args.steer,
        images,
    };
    let agents = client.agents(&found.id)?;
    let accepted = repeat(|| {
        let (mut agents, call) = (agents.clone(), request(call.clone()));
        async move { agents.send(call).await }
    })
    .await?;
    let watched = Watched {
        box_id: found.id,
        box_name: found.name,
        verbose: args.verbose,
        no_follow: args.no_follow,
    };
    watch(ctx, &client, watched, &accepted).await
}

fn read_image(path: &Path) -> Result<NewImage, Failure> {
    let local =
        |error: &std::io::Error| Failure::local(format!("reading {}", path.display()), error);
    let size = fs::metadata(path).map_err(|error| local(&error))?.len();
    if size > IMAGE_BYTES_MAX {
        let message = format!(
            "{} has {size} bytes; a picture is at most 4 MiB",
            path.display()
        );
        return Err(Failure::usage(message));
    }
    Ok(NewImage {
        data: fs::read(path).map_err(|error| local(&error))?,
        // The box looks at the bytes.
        media_type: String::new(),
    })
}

/// Reads a prompt from the arguments, or from standard input where they are `-`.
pub fn read_prompt(words: &[String]) -> Result<String, Failure> {
    let prompt = if words == ["-"] {
        let mut text = String::new();
        std::io::stdin()
            .lock()
            .take(PROMPT_BYTES_MAX + 1)
            .read_to_string(&mut text)?;
        text
    } else {
        words.join(" ")
    };
    if prompt.len() as u64 > PROMPT_BYTES_MAX {
        return Err(Failure::usage("a prompt is at most 200 KiB")
            .advise("put the rest into a file in the box and name it"));
    }
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty"));
    }
    Ok(prompt)
}
