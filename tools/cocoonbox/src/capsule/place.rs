//! Opening a capsule: a store and a key file.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use cocoonbox_capsule::{Capsule, Error, Folder, Store, UserKey};
use cocoonbox_capsule_s3::{Address, Credentials, S3};
use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    cli::capsule::Where,
    context::Context,
    exit::Exit,
    failure::{Failure, chain},
};

/// More than a key and a line break is no key.
const KEY_MAX: u64 = 1024;

/// Makes a capsule, and a key if there is none.
pub(super) fn init(ctx: &mut Context, place: &Where) -> Result<Exit, Failure> {
    let store = store(place)?;
    let (key, is_new) = if place.key_file.exists() {
        (read_key(&place.key_file)?, false)
    } else {
        (make_key(&place.key_file)?, true)
    };
    let capsule = Capsule::init(store, &key).map_err(failure)?;
    if is_new {
        let file = place.key_file.display();
        ctx.out.note(format!(
            "made the key `{file}`; keep a copy elsewhere: nothing can be read without it"
        ));
    }
    let id = capsule.id().to_string();
    ctx.out.answer(
        &json!({"capsule": id, "key_made": is_new}),
        format!("made capsule {id}"),
    )?;
    Ok(Exit::Ok)
}

/// Opens the capsule.
pub(super) fn open(place: &Where) -> Result<Capsule, Failure> {
    let key = read_key(&place.key_file)?;
    Capsule::open(store(place)?, &key).map_err(failure)
}

fn store(place: &Where) -> Result<Box<dyn Store>, Failure> {
    let path = match place.store.split_once("://") {
        None => PathBuf::from(&place.store),
        Some(("file", path)) if path.starts_with('/') => PathBuf::from(path),
        Some(("s3", _)) => return in_s3(place),
        Some((scheme, _)) => {
            let message = format!(
                "there is no store of the kind `{scheme}`: give a folder or s3://BUCKET/PREFIX"
            );
            return Err(Failure::usage(message));
        }
    };
    if path.as_os_str().is_empty() {
        return Err(Failure::usage("the store has no name"));
    }
    let store = Folder::open(path).map_err(|error| failure(error.into()))?;
    Ok(Box::new(store))
}

fn in_s3(place: &Where) -> Result<Box<dyn Store>, Failure> {
    let address = Address::parse(&place.store);
    let address = address.map_err(|error| Failure::usage(error.to_string()))?;
    let file = place.credentials_file.as_ref().ok_or_else(|| {
        Failure::usage("a store in S3 needs keys").advise("name their file with --credentials-file")
    })?;
    let refused = |error: &dyn std::error::Error| Failure::new(Exit::Refused, chain(error));
    let credentials = Credentials::read(file).map_err(|error| refused(&error))?;
    let store = S3::open(address, &credentials).map_err(|error| refused(&error))?;
    Ok(Box::new(store))
}

fn read_key(path: &Path) -> Result<UserKey, Failure> {
    let local = |error| Failure::local(format!("reading the key `{}`", path.display()), &error);
    let file = File::open(path).map_err(local)?;
    let meta = file.metadata().map_err(local)?;
    if meta.mode() & 0o077 != 0 {
        let message = format!("others may read the key `{}`", path.display());
        let advice = format!("chmod 600 '{}'", path.display());
        return Err(Failure::new(Exit::Refused, message).advise(advice));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(KEY_MAX)
        .read_to_string(&mut text)
        .map_err(local)?;
    UserKey::from_text(&text).ok_or_else(|| {
        let message = format!("`{}` holds no key: 64 hexadecimal digits", path.display());
        Failure::new(Exit::Refused, message)
    })
}

fn make_key(path: &Path) -> Result<UserKey, Failure> {
    let key = UserKey::random().map_err(failure)?;
    let file = KeyFile::make(path)?;
    file.write(&Zeroizing::new(key.to_text()))?;
    Ok(key)
}

/// A file for a key, which is not there before; gone again if nothing is written.
pub(super) struct KeyFile<'p> {
    path: &'p Path,
    file: File,
    is_written: bool,
}

impl<'p> KeyFile<'p> {
    pub(super) fn make(path: &'p Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| local(path, &error))?;
        Ok(Self {
            path,
            file,
            is_written: false,
        })
    }

    pub(super) fn write(mut self, key: &str) -> Result<(), Failure> {
        let written = self.file.write_all(key.as_bytes());
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        let written = written.and_then(|()| self.file.sync_all());
        written.map_err(|error| local(self.path, &error))?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for KeyFile<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            std::fs::remove_file(self.path).ok();
        }
    }
}

fn local(path: &Path, error: &std::io::Error) -> Failure {
    Failure::local(format!("writing the key `{}`", path.display()), error)
}

/// What a library's error means to whoever called the program.
pub(super) fn failure(error: Error) -> Failure {
    let exit = match &error {
        Error::NoCapsule
        | Error::SnapshotNotFound(_)
        | Error::PathNotFound { .. }
        | Error::SnapshotAmbiguous { .. } => Exit::NotFound,
        Error::CapsuleExists | Error::WrongKey | Error::WrongKind { .. } => Exit::Refused,
        _ => Exit::Failure,
    };
    let failure = Failure::new(exit, chain(&error));
    match error {
        Error::NoCapsule => failure.advise("make one: cocoonbox capsule init"),
        Error::Damaged { .. } | Error::ChunkMissing { .. } => {
            failure.advise("see what it touches: cocoonbox capsule check")
        }
        _ => failure,
    }
}
