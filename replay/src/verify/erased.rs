//! Erased payloads: an erasure is an event, or it is damage.

use std::{collections::HashSet, sync::Arc};

use cocoonbox_events::{
    ErasureEvent, LogEvent, LogInfo, LogKind, Payload, Store, StreamName, limits::PAGE_EVENTS_MAX,
};

use super::answered;
use crate::error::Error;

/// Positions without a payload, and positions that events name.
#[derive(Default)]
pub(super) struct Erased {
    gone: Vec<u64>,
    named: HashSet<u64>,
}

impl Erased {
    pub(super) fn gone(&mut self, pos: u64) {
        self.gone.push(pos);
    }

    pub(super) fn take(&mut self, payload: &Payload) {
        if let Payload::Log(LogEvent::ErasureRequested(asked)) = payload {
            self.named.extend(&asked.positions);
        }
    }

    /// Returns the positions that no event accounts for.
    pub(super) async fn unaccounted(
        mut self,
        store: &Arc<dyn Store>,
        info: &LogInfo,
    ) -> Result<Vec<u64>, Error> {
        self.forgive();
        if self.gone.is_empty() {
            return Ok(self.gone);
        }
        // A branch may name what it inherited, and an account what its boxes' replicas erased.
        let logs = store.logs();
        for log in logs.iter().filter(|log| log.owner == info.owner) {
            let Ok(Some(common)) = answered(store.common(log.id, info.id), log.id)? else {
                continue;
            };
            if log.id != info.id {
                self.read(store, log, "log/erasure".to_owned(), common)
                    .await?;
            }
            for account in logs.iter().filter(|one| one.kind == LogKind::Account) {
                if account.owner == info.owner {
                    let stream = format!("erasure/{}", log.id);
                    self.read(store, account, stream, common).await?;
                }
            }
        }
        self.forgive();
        Ok(self.gone)
    }

    /// Takes in what a stream names of the history up to `common`.
    async fn read(
        &mut self,
        store: &Arc<dyn Store>,
        log: &LogInfo,
        stream: String,
        common: u64,
    ) -> Result<(), Error> {
        let Ok(stream) = StreamName::new(stream) else {
            return Ok(());
        };
        let mut seq = 0;
        loop {
            let page = store
                .read_stream(log.id, &stream, seq, PAGE_EVENTS_MAX)
                .await;
            // What is damaged there is reported there, and excuses nothing here.
            let Ok(page) = answered(page, log.id)? else {
                return Ok(());
            };
            let Some(last) = page.events.last() else {
                return Ok(());
            };
            seq = last.seq;
            for event in &page.events {
                let positions = match event.payload() {
                    Ok(Some(Payload::Erasure(ErasureEvent::Requested(asked)))) => asked.positions,
                    Ok(Some(Payload::Log(LogEvent::ErasureRequested(asked)))) => asked.positions,
                    _ => continue,
                };
                self.named
                    .extend(positions.iter().filter(|pos| **pos <= common));
            }
        }
    }

    fn forgive(&mut self) {
        let named = &self.named;
        self.gone.retain(|pos| !named.contains(pos));
    }
}
