//! Pages of events: what a page has no room for is not sent.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use cocoonbox_events::{
    Keyring, Page, ReadError, Recorded, StreamName, limits::PAGE_BYTES_MAX, sealing::open_body,
};
use sqlx::{Row, postgres::PgRow};

use super::{
    directory::Log,
    rows::{self, io, signed, unsigned},
    sealing::sealing,
    shelf::Shelf,
};

/// A longer page asks for the names of its streams by themselves, each once.
const NAMED_MAX: u64 = 64;

/// Reads pages of logs and of streams.
pub(crate) struct Pages {
    shelf: Arc<Shelf>,
    keys: Arc<dyn Keyring>,
}

/// A row with its body still to be opened.
struct Found {
    event: Recorded,
    body: Option<Vec<u8>>,
}

impl Pages {
    pub(crate) fn new(shelf: Arc<Shelf>, keys: Arc<dyn Keyring>) -> Self {
        Self { shelf, keys }
    }

    /// Reads a log's own events behind `after` up to `to`.
    pub(crate) async fn read(
        &self,
        log: &Arc<Log>,
        after: u64,
        to: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let is_short = limit as u64 <= NAMED_MAX || log.end().pos <= after + NAMED_MAX;
        let select = if is_short {
            rows::SELECT_AFTER_NAMED
        } else {
            rows::SELECT_AFTER
        };
        let ask = || {
            sqlx::query(select)
                .bind(log.id().0)
                .bind(signed(after))
                .bind(signed(to))
                .bind(signed(limit as u64))
        };
        let found = self.shelf.read(ask).await?;
        let names = if is_short {
            HashMap::new()
        } else {
            self.names(log, &found).await?
        };
        self.page(log, &found, &names).await
    }

    /// Reads the events of one stream in a log behind sequence number `after`, up to position `to`.
    pub(crate) async fn read_stream(
        &self,
        log: &Arc<Log>,
        stream: &StreamName,
        after: u64,
        to: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let ask = || {
            sqlx::query(rows::SELECT_STREAM)
                .bind(log.id().0)
                .bind(signed(after))
                .bind(signed(to))
                .bind(signed(limit as u64))
                .bind(stream.as_str())
        };
        let found = self.shelf.read(ask).await?;
        self.page(log, &found, &HashMap::new()).await
    }

    async fn names(
        &self,
        log: &Log,
        found: &[PgRow],
    ) -> Result<HashMap<i64, StreamName>, ReadError> {
        let ids: BTreeSet<i64> = found
            .iter()
            .map(rows::stream_id)
            .collect::<Result<_, _>>()?;
        let ids: Vec<i64> = ids.into_iter().collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ask = || sqlx::query(rows::SELECT_NAMES).bind(log.id().0).bind(&ids);
        let mut names = HashMap::new();
        for row in self.shelf.read(ask).await? {
            let name: &str = row.try_get(1).map_err(io)?;
            // One that is none is found missing by the event that needs it.
            if let Ok(name) = StreamName::new(name) {
                names.insert(row.try_get(0).map_err(io)?, name);
            }
        }
        Ok(names)
    }

    async fn page(
        &self,
        log: &Arc<Log>,
        rows: &[PgRow],
        names: &HashMap<i64, StreamName>,
    ) -> Result<Page, ReadError> {
        let (mut found, mut left_out) = (Vec::with_capacity(rows.len()), Vec::new());
        let mut bytes = 0;
        for row in rows {
            let event = rows::event(log.id(), row, names)?;
            let body_bytes = rows::body_bytes(row)?;
            bytes += event.bytes() + body_bytes.unwrap_or(0);
            if bytes > PAGE_BYTES_MAX && !found.is_empty() {
                break;
            }
            let body = rows::body(row)?;
            if body.is_none() && body_bytes.is_some() {
                left_out.push(signed(event.pos));
            }
            found.push(Found { event, body });
        }
        if !left_out.is_empty() {
            self.fetch(log, &mut found, &left_out).await?;
        }
        let sealing = sealing(&self.keys, log).await;
        let events = found.into_iter().map(|Found { mut event, body }| {
            event.body = open_body(&sealing, &event, body)?;
            Ok(event)
        });
        let events = events.collect::<Result<_, ReadError>>()?;
        Ok(Page { events })
    }

    /// Gets the long bodies. One that was erased meanwhile is gone here as well.
    async fn fetch(
        &self,
        log: &Log,
        found: &mut [Found],
        positions: &[i64],
    ) -> Result<(), ReadError> {
        let ask = || {
            sqlx::query(rows::SELECT_BODIES)
                .bind(log.id().0)
                .bind(positions)
        };
        let mut bodies = HashMap::new();
        for row in self.shelf.read(ask).await? {
            let body: Option<Vec<u8>> = row.try_get(1).map_err(io)?;
            bodies.insert(unsigned(row.try_get(0).map_err(io)?), body);
        }
        for Found { event, body } in found {
            if let Some(long) = bodies.remove(&event.pos) {
                *body = long;
            }
        }
        Ok(())
    }
}
