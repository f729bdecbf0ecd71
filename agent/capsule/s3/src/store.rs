//! The store.

use std::{
    fmt, io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use aws_credential_types::Credentials as Keys;
use aws_sdk_s3::{
    Client,
    config::{
        BehaviorVersion, Region, RequestChecksumCalculation, ResponseChecksumValidation,
        SharedCredentialsProvider, retry::RetryConfig, timeout::TimeoutConfig,
    },
    primitives::{ByteStream, DateTime},
    types::ServerSideEncryption,
};
use aws_smithy_http_client::{Builder, tls};
use cocoonbox_capsule::store::{Created, Error, Store, Stored};
use tokio::runtime::Runtime;

use crate::{
    address::{Address, Encryption},
    credentials::Credentials,
    problem::{self, is_open, is_passing, other, status},
};

/// Requests of all stores of a process run here: the callers block.
const WORKERS: usize = 2;
/// Attempts of a request that may be repeated, and of one that only looks as if it failed.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(10);
/// Without a byte of the answer.
const READ: Duration = Duration::from_mins(1);
/// A pack over a slow line.
const ATTEMPT: Duration = Duration::from_mins(10);
/// Objects above are sent in parts of this size: what is lost on the way is sent again, not all of it.
pub(crate) const PART_BYTES: usize = 8 << 20;
pub(crate) const WHOLE_BYTES_MAX: usize = 24 << 20;

/// Objects in a bucket, below a prefix. Cheap to clone; safe to use from several threads.
#[derive(Clone)]
pub struct S3 {
    pub(crate) client: Client,
    pub(crate) address: Arc<Address>,
    /// Whether the server was seen to refuse what is there already.
    is_probed: Arc<Mutex<bool>>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("threads for requests cannot be started")]
    Threads(#[source] io::Error),
}

impl S3 {
    /// Prepares requests. None is made: that the server is one that can be relied on is seen before the first object is
    /// made.
    pub fn open(address: Address, credentials: &Credentials) -> Result<Self, OpenError> {
        runtime()?;
        let keys = Keys::new(
            credentials.access_key_id.clone(),
            credentials.secret_access_key.to_string(),
            credentials
                .session_token
                .as_ref()
                .map(|token| token.to_string()),
            None,
            "file",
        );
        let http = Builder::new()
            .tls_provider(tls::Provider::Rustls(
                tls::rustls_provider::CryptoMode::Ring,
            ))
            .build_https();
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .read_timeout(READ)
            .operation_attempt_timeout(ATTEMPT)
            .build();
        let mut config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(address.region.clone()))
            .credentials_provider(SharedCredentialsProvider::new(keys))
            .http_client(http)
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            // In both directions: what arrives is what was sent.
            .request_checksum_calculation(RequestChecksumCalculation::WhenSupported)
            .response_checksum_validation(ResponseChecksumValidation::WhenSupported)
            .force_path_style(address.is_path_style);
        if let Some(endpoint) = &address.endpoint {
            config = config.endpoint_url(endpoint);
        }
        Ok(Self {
            client: Client::from_conf(config.build()),
            address: Arc::new(address),
            is_probed: Arc::default(),
        })
    }

    /// The same store below a further part of the prefix. What was found out about the server is known there too.
    #[must_use]
    pub fn below(&self, part: &str) -> Self {
        Self {
            client: self.client.clone(),
            address: Arc::new(self.address.below(part)),
            is_probed: self.is_probed.clone(),
        }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Sees whether the server refuses to make what is there already, as all that is safe here rests on. Servers that
    /// accept the condition and ignore it are refused.
    pub fn probe(&self) -> Result<(), Error> {
        let mut is_probed = self
            .is_probed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *is_probed {
            return Ok(());
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| other("", "probed", io::Error::other(error.to_string())))?;
        let name = format!("probe/{}", hex::encode(random));
        let first = self.make(&name, b"first")?;
        let second = self.make(&name, b"second");
        let found = self.get(&name);
        self.delete(&name)?;
        let is_sound = first == Created::Made
            && second.is_ok_and(|made| made == Created::Existed)
            && found.is_ok_and(|found| found == b"first");
        if !is_sound {
            let words = "the server accepts `If-None-Match` and overwrites what is there all the same: two saves at \
                         once would destroy each other; use another server";
            let source = io::Error::new(io::ErrorKind::Unsupported, words);
            return Err(other(&name, "made only once", source));
        }
        *is_probed = true;
        Ok(())
    }

    /// Removes all that is below the prefix. Fine if there is nothing.
    pub fn remove_all(&self) -> Result<(), Error> {
        let below = match self.address.prefix.as_str() {
            // A whole bucket may hold more than capsules.
            "" => return Err(Error::Name(String::new())),
            prefix => format!("{prefix}/"),
        };
        loop {
            let request = self
                .client
                .list_objects_v2()
                .bucket(&self.address.bucket)
                .prefix(&below);
            let page = wait(request.send());
            let page = page.map_err(|error| problem::error(&below, "listed", error))?;
            let keys: Vec<_> = page.contents().iter().filter_map(|one| one.key()).collect();
            if keys.is_empty() {
                break;
            }
            for key in keys {
                self.remove(key, key)?;
            }
        }
        self.abort_parts(i64::MAX).map(drop)
    }

    /// Fine if there is nothing.
    fn remove(&self, key: &str, name: &str) -> Result<(), Error> {
        let request = self
            .client
            .delete_object()
            .bucket(&self.address.bucket)
            .key(key);
        match wait(request.send()).map_err(|error| problem::error(name, "deleted", error)) {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn key(&self, name: &str) -> Result<String, Error> {
        if !cocoonbox_capsule::store::is_name(name) {
            return Err(Error::Name(name.to_owned()));
        }
        Ok(match self.address.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        })
    }

    /// How the server is asked to encrypt, and with which key.
    pub(crate) fn encryption(&self) -> (Option<ServerSideEncryption>, Option<String>) {
        match &self.address.encryption {
            None => (None, None),
            Some(Encryption::Server) => (Some(ServerSideEncryption::Aes256), None),
            Some(Encryption::Key(key)) => (Some(ServerSideEncryption::AwsKms), key.clone()),
        }
    }

    /// Makes an object unless there is one of that name.
    ///
    /// An attempt whose answer got lost may have made it. Then "it is there" is no answer yet: what is there is looked
    /// at. Names are drawn at random or hold what is sealed with a random nonce, so equal bytes are ours.
    fn make(&self, name: &str, bytes: &[u8]) -> Result<Created, Error> {
        let key = self.key(name)?;
        let mut is_unclear = false;
        let mut pause = PAUSE;
        for attempt in 1.. {
            let made = if bytes.len() > WHOLE_BYTES_MAX {
                self.make_in_parts(&key, name, bytes)
            } else {
                self.make_whole(&key, name, bytes)
            };
            match made {
                Ok(Created::Existed) if is_unclear => {
                    let is_ours = self.get(name)? == bytes;
                    return Ok(if is_ours {
                        Created::Made
                    } else {
                        Created::Existed
                    });
                }
                Ok(made) => return Ok(made),
                Err(failed) if failed.is_passing && attempt < ATTEMPTS => {
                    is_unclear |= failed.is_open;
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(failed) => return Err(failed.error),
            }
        }
        unreachable!("the loop returns")
    }

    fn make_whole(&self, key: &str, name: &str, bytes: &[u8]) -> Result<Created, Failed> {
        let (encryption, with) = self.encryption();
        let request = self
            .client
            .put_object()
            .bucket(&self.address.bucket)
            .key(key)
            .if_none_match("*")
            .set_server_side_encryption(encryption)
            .set_ssekms_key_id(with)
            .body(ByteStream::from(bytes.to_vec()))
            // Repeated above, where it is known what a repetition means.
            .customize()
            .config_override(once());
        match wait(request.send()) {
            Ok(_) => Ok(Created::Made),
            Err(error) if status(&error) == Some(412) => Ok(Created::Existed),
            Err(error) => Err(Failed {
                is_passing: is_passing(&error),
                is_open: is_open(&error),
                error: problem::error(name, "made", error),
            }),
        }
    }
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("S3").field(&self.address).finish()
    }
}

/// An attempt that did not end well.
pub(crate) struct Failed {
    pub(crate) is_passing: bool,
    /// The server may have done it.
    pub(crate) is_open: bool,
    pub(crate) error: Error,
}

impl Store for S3 {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, Error> {
        self.key(name)?;
        self.probe()?;
        self.make(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        let key = self.key(name)?;
        let request = self
            .client
            .get_object()
            .bucket(&self.address.bucket)
            .key(key);
        let answer = wait(async {
            let answer = request.send().await;
            let answer = answer.map_err(|error| problem::error(name, "read", error))?;
            let length = answer.content_length();
            Ok((body(name, answer.body).await?, length))
        })?;
        whole(name, answer)
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let key = self.key(name)?;
        if length == 0 {
            return self.stat(name).map(|_| Vec::new());
        }
        let past = || Error::OutOfRange {
            name: name.to_owned(),
            offset,
            end: offset.saturating_add(length as u64),
        };
        let last = offset.checked_add(length as u64 - 1).ok_or_else(past)?;
        let request = self
            .client
            .get_object()
            .bucket(&self.address.bucket)
            .key(key)
            .range(format!("bytes={offset}-{last}"));
        let (bytes, range) = wait(async {
            let answer = request.send().await;
            let answer = answer.map_err(|error| match status(&error) {
                Some(416) => past(),
                _ => problem::error(name, "read", error),
            })?;
            let range = answer.content_range().map(str::to_owned);
            Ok((body(name, answer.body).await?, range))
        })?;
        // A server that ignores ranges sends all of it.
        let is_asked = range.is_some_and(|range| range.starts_with(&format!("bytes {offset}-")));
        match bytes.len() {
            _ if !is_asked => {
                let source =
                    io::Error::new(io::ErrorKind::Unsupported, "the server knows no ranges");
                Err(other(name, "read in part", source))
            }
            found if found == length => Ok(bytes),
            _ => Err(past()),
        }
    }

    fn stat(&self, name: &str) -> Result<Stored, Error> {
        let key = self.key(name)?;
        let request = self
            .client
            .head_object()
            .bucket(&self.address.bucket)
            .key(key);
        let found = wait(request.send()).map_err(|error| problem::error(name, "found", error))?;
        Ok(Stored {
            name: name.to_owned(),
            bytes: size(found.content_length()),
            written_ns: written_ns(found.last_modified()),
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<Stored>, Error> {
        let below = format!("{}/", self.key(prefix)?);
        let own = below.len() - prefix.len() - 1;
        let mut pages = self
            .client
            .list_objects_v2()
            .bucket(&self.address.bucket)
            .prefix(below)
            .into_paginator()
            .send();
        let mut found = wait(async {
            let mut found = Vec::new();
            while let Some(page) = pages.next().await {
                let page = page.map_err(|error| problem::error(prefix, "listed", error))?;
                for object in page.contents() {
                    let name = object.key().and_then(|key| key.get(own..));
                    let Some(name) = name.filter(|name| cocoonbox_capsule::store::is_name(name))
                    else {
                        continue;
                    };
                    found.push(Stored {
                        name: name.to_owned(),
                        bytes: size(object.size()),
                        written_ns: written_ns(object.last_modified()),
                    });
                }
            }
            Ok::<_, Error>(found)
        })?;
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        self.remove(&self.key(name)?, name)
    }

    fn tidy(&self, now_ns: i64, age_ns: i64) -> Result<usize, Error> {
        self.abort_parts(now_ns.saturating_sub(age_ns))
    }
}

/// Without the client's own repetitions.
pub(crate) fn once() -> aws_sdk_s3::config::Builder {
    aws_sdk_s3::Config::builder().retry_config(RetryConfig::disabled())
}

/// All of a body, or an error where it ends early.
async fn body(name: &str, body: ByteStream) -> Result<Vec<u8>, Error> {
    let all = body.collect().await;
    let all = all.map_err(|error| {
        let text = problem::words(&error);
        other(
            name,
            "read to its end",
            io::Error::new(io::ErrorKind::UnexpectedEof, text),
        )
    })?;
    Ok(all.to_vec())
}

fn whole(name: &str, (bytes, length): (Vec<u8>, Option<i64>)) -> Result<Vec<u8>, Error> {
    if length.is_none_or(|length| size(Some(length)) == bytes.len() as u64) {
        return Ok(bytes);
    }
    let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is short");
    Err(other(name, "read to its end", source))
}

fn size(bytes: Option<i64>) -> u64 {
    bytes
        .and_then(|bytes| u64::try_from(bytes).ok())
        .unwrap_or(0)
}

pub(crate) fn written_ns(at: Option<&DateTime>) -> i64 {
    let at = at.map_or(0, DateTime::as_nanos);
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// Runs a request to its end. Callers are on threads that may block.
pub(crate) fn wait<F: Future>(request: F) -> F::Output {
    let runtime = RUNTIME.get().expect("opened with the first store");
    runtime.block_on(request)
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// One for the process: the connections of all stores are in it.
fn runtime() -> Result<&'static Runtime, OpenError> {
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("s3")
        .enable_all()
        .build()
        .map_err(OpenError::Threads)?;
    Ok(RUNTIME.get_or_init(|| made))
}
