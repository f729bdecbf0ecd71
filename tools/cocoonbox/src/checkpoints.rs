//! Signed checkpoints as the api hands them out, and the keys that sign them.

use std::{
    fs::{DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use cocoonbox_proto::control::v1::{
    CheckpointKey, ListCheckpointsRequest, ListKeysRequest, RotateKeyRequest, SignedCheckpoint,
};
use serde_json::{Value, json};

use crate::{
    cli::proof::{Checkpoints, Keys},
    client::{Address, Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    text,
};

const PAGE: u32 = 500;

/// Prints the checkpoints of the caller's logs, or puts each into a file of its own.
pub async fn checkpoints(ctx: &mut Context, options: Checkpoints) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let mut page_token = String::new();
    loop {
        let call = ListCheckpointsRequest {
            log_id: options.log.clone().unwrap_or_default(),
            after_size: options.since,
            page_size: PAGE,
            page_token,
        };
        let page = repeat(|| {
            let (mut client, call) = (client.checkpoints(), call.clone());
            async move { client.list(request(call)).await }
        })
        .await?;
        for one in &page.checkpoints {
            match &options.save {
                Some(folder) => save(ctx, folder, one)?,
                None => ctx.out.answer(&checkpoint_json(one), one.note.trim_end())?,
            }
        }
        if page.next_page_token.is_empty() {
            return Ok(Exit::Ok);
        }
        page_token = page.next_page_token;
    }
}

/// Keeps a checkpoint. A file that is there is what was kept before, and stays.
fn save(ctx: &mut Context, folder: &Path, one: &SignedCheckpoint) -> Result<(), Failure> {
    // Names come from the api, which is not trusted with paths.
    let is_id = one.log_id.len() == 32 && one.log_id.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_id {
        return Err(Failure::new(
            Exit::Failure,
            "the api named a log that is none",
        ));
    }
    let folder = folder.join(&one.log_id);
    let path = folder.join(format!("{:016}", one.size));
    let failed = |error: io::Error| Failure::local(format!("writing `{}`", path.display()), &error);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(failed)?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    match file {
        Ok(mut file) => {
            file.write_all(one.note.as_bytes())
                .and_then(|()| file.sync_all())
                .map_err(failed)?;
            let value = json!({"log": one.log_id, "size": one.size, "file": path});
            ctx.out.answer(&value, path.display().to_string())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = std::fs::read(&path).map_err(failed)?;
            if there == one.note.as_bytes() {
                return Ok(());
            }
            let what = format!("`{}` holds another checkpoint of this size", path.display());
            Err(Failure::new(Exit::Failure, what).advise(
                "the log was written anew, or another installation's is kept there: compare the two",
            ))
        }
        Err(error) => Err(failed(error)),
    }
}

pub async fn keys(ctx: &mut Context, command: Keys) -> Result<Exit, Failure> {
    match command {
        Keys::List => {
            let client = ctx.client().await?;
            let answer = repeat(|| {
                let mut client = client.checkpoints();
                async move { client.list_keys(request(ListKeysRequest {})).await }
            })
            .await?;
            for key in &answer.keys {
                show(ctx, key)?;
            }
        }
        Keys::Rotate => {
            let socket = std::path::absolute(ctx.data_dir().join("run/api.sock"))
                .map_err(|error| Failure::local("data directory", &error))?;
            let client = Client::connect(&Address::unix(&socket), None).await?;
            let mut checkpoints = client.checkpoints();
            let answer = checkpoints.rotate_key(request(RotateKeyRequest {}));
            let key = answer.await?.into_inner().key.unwrap_or_default();
            show(ctx, &key)?;
        }
    }
    Ok(Exit::Ok)
}

fn show(ctx: &mut Context, key: &CheckpointKey) -> Result<(), Failure> {
    let value = json!({
        "key": key.verifier_key,
        "issued_at_ms": key.issued_at_ms,
        "retired_at_ms": key.retired_at_ms,
    });
    let until = match key.retired_at_ms {
        0 => "signs".to_owned(),
        retired => format!("retired {}", text::moment(retired)),
    };
    let issued = text::moment(key.issued_at_ms);
    ctx.out.answer(
        &value,
        format!("{}\tissued {issued}\t{until}", key.verifier_key),
    )
}

fn checkpoint_json(one: &SignedCheckpoint) -> Value {
    json!({"log": one.log_id, "size": one.size, "note": one.note})
}
