//! The keys that sign, and what the system log tells of them.

use std::{collections::HashSet, sync::Arc};

use cocoonbox_events::{
    Append, AppendError, Clock, CommandId, LogEvent, LogId, NewEvent, Payload, ReadError,
    SigningKeys, Store, StreamName,
    checkpoint::{KeyName, Signer, VerifierKey},
    id::BadStreamName,
    keys::{IssuedKey, SigningError},
    limits::PAGE_EVENTS_MAX,
};
use cocoonbox_proto::log::v1::{Actor, LogCheckpointKeyIssued, LogCheckpointKeyRetired, actor};

const STREAM: &str = "log/checkpoint-keys";

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the signing keys")]
    Keys(#[from] SigningError),
    #[error("the thread that reads the signing keys")]
    Thread(#[from] tokio::task::JoinError),
    #[error("reading the system log")]
    Read(#[from] ReadError),
    #[error("writing to the system log")]
    Append(#[from] AppendError),
    #[error("the stream of the keys")]
    Stream(#[from] BadStreamName),
}

/// The signing keys of an installation, in step with its system log.
#[derive(Clone)]
pub(super) struct KeyBook {
    pub(super) keys: Arc<dyn SigningKeys>,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) host: KeyName,
    pub(super) system: LogId,
}

impl KeyBook {
    /// Returns the keys that sign, newest first, making one when there is none of the host's name. Ask
    /// after reading the tail that is to be signed: a key that the tail calls retired is not alone then.
    pub(super) async fn signers(&self) -> Result<Vec<Signer>, KeyError> {
        let signers = self.with(|keys, _| keys.signers()).await?;
        if signers
            .first()
            .is_some_and(|key| *key.verifier().name() == self.host)
        {
            return Ok(signers);
        }
        self.rotate().await?;
        self.with(|keys, _| keys.signers()).await
    }

    pub(super) async fn rotate(&self) -> Result<VerifierKey, KeyError> {
        let host = self.host.clone();
        self.with(move |keys, now_us| keys.rotate(&host, now_us))
            .await
    }

    pub(super) async fn all(&self) -> Result<Vec<IssuedKey>, KeyError> {
        self.with(|keys, _| keys.all()).await
    }

    /// Destroys the secret halves of all keys but the newest.
    pub(super) async fn retire_old(&self) -> Result<(), KeyError> {
        self.with(|keys, now_us| {
            let old = keys.signers()?.into_iter().skip(1);
            old.map(|key| key.verifier())
                .try_for_each(|key| keys.retire(&key, now_us))
        })
        .await
    }

    /// Writes into the system log what it does not tell so far: each key that was issued, and that all
    /// but the newest are retired. The commands follow from the keys: done twice, it happens once.
    pub(super) async fn announce(&self) -> Result<(), KeyError> {
        let told = self.told().await?;
        let all = self.all().await?;
        let newest = all.last().map(|issued| issued.key.clone());
        for IssuedKey { key, .. } in &all {
            let (name, public_key) = (key.name().to_string(), key.public().to_vec());
            if !told.issued.contains(&public_key) {
                let event = LogCheckpointKeyIssued { name, public_key };
                let event = LogEvent::CheckpointKeyIssued(event);
                self.append(key, "issued", event).await?;
            }
        }
        for IssuedKey { key, .. } in &all {
            let (name, public_key) = (key.name().to_string(), key.public().to_vec());
            if newest.as_ref() != Some(key) && !told.retired.contains(&public_key) {
                let event = LogCheckpointKeyRetired { name, public_key };
                let event = LogEvent::CheckpointKeyRetired(event);
                self.append(key, "retired", event).await?;
            }
        }
        Ok(())
    }

    async fn append(&self, key: &VerifierKey, step: &str, event: LogEvent) -> Result<(), KeyError> {
        let command = CommandId::derive(key.public(), &format!("checkpoint key {step}"));
        let append = Append {
            command,
            digest: *blake3::hash(key.to_string().as_bytes()).as_bytes(),
            expect: Vec::new(),
            events: vec![NewEvent {
                stream: StreamName::new(STREAM)?,
                payload: event.into(),
            }],
            actor: Actor {
                kind: actor::Kind::System.into(),
                id: "checkpoints".into(),
            },
            cause: None,
        };
        self.store.append(self.system, append).await?;
        Ok(())
    }

    async fn told(&self) -> Result<Told, KeyError> {
        let stream = StreamName::new(STREAM)?;
        let (mut told, mut seq) = (Told::default(), 0);
        loop {
            let page = self
                .store
                .read_stream(self.system, &stream, seq, PAGE_EVENTS_MAX)
                .await?;
            let Some(last) = page.events.last() else {
                return Ok(told);
            };
            seq = last.seq;
            for event in &page.events {
                match event.payload() {
                    Ok(Some(Payload::Log(LogEvent::CheckpointKeyIssued(event)))) => {
                        told.issued.insert(event.public_key);
                    }
                    Ok(Some(Payload::Log(LogEvent::CheckpointKeyRetired(event)))) => {
                        told.retired.insert(event.public_key);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Asks the keys on a thread that may wait.
    async fn with<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn SigningKeys, i64) -> Result<T, SigningError> + Send + 'static,
    ) -> Result<T, KeyError> {
        let (keys, now_us) = (self.keys.clone(), self.clock.now_us());
        let asked = tokio::task::spawn_blocking(move || ask(&*keys, now_us));
        Ok(asked.await??)
    }
}

/// Public halves that the system log names.
#[derive(Default)]
struct Told {
    issued: HashSet<Vec<u8>>,
    retired: HashSet<Vec<u8>>,
}
