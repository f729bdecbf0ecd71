//! Opening logs, and closing one in favour of another.

use std::sync::Arc;

use cocoonbox_events::{AppendError, ChainHash, NewLog, ReadError, Tail, replica::End};
use sqlx::{Acquire, PgConnection, Row};
use uuid::Uuid;

use super::{
    PgStore,
    directory::Log,
    rows::{self, signed},
    writers::{Failed, TRIES},
};

/// What became of an attempt that the database did not fail.
enum Opened {
    Yes,
    Refused(AppendError),
}

impl PgStore {
    pub(super) async fn open_log(
        &self,
        new: NewLog,
        key_check: Option<[u8; 8]>,
        is_rewind: bool,
    ) -> Result<Tail, AppendError> {
        let parent = match new.parent {
            Some(parent) => Some(self.shelf.log(parent.log).await.map_err(unread)?),
            None if is_rewind => return Err(AppendError::NoParent),
            None => None,
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let mut conn = self
                .database
                .writers
                .acquire()
                .await
                .map_err(|_| AppendError::Stopped)?;
            let now_us = self.clock.now_us();
            let failed = match open(
                &mut conn,
                &new,
                parent.as_ref(),
                key_check,
                is_rewind,
                now_us,
            )
            .await
            {
                Ok(Opened::Yes) => break,
                Ok(Opened::Refused(refusal)) => return Err(refusal),
                Err(failed) => failed,
            };
            conn.close_on_drop();
            if tries == TRIES || !failed.is_repeatable() {
                return Err(failed.error(new.id));
            }
        }
        // As the database has them by now, which is not later than what is answered here.
        let logs: Vec<Uuid> = [Some(new.id), new.parent.map(|parent| parent.log)]
            .into_iter()
            .flatten()
            .map(|log| log.0)
            .collect();
        self.shelf.refresh(&logs).await.map_err(unread)?;
        let log = self.shelf.known(new.id).map_err(unread)?;
        self.watch.moved(&log, log.end());
        if let Some(parent) = parent.filter(|_| is_rewind) {
            self.watch.moved(
                &parent,
                End {
                    pos: u64::MAX,
                    ..parent.end()
                },
            );
        }
        Ok(log.tail())
    }
}

async fn open(
    conn: &mut PgConnection,
    new: &NewLog,
    parent: Option<&Arc<Log>>,
    key_check: Option<[u8; 8]>,
    is_rewind: bool,
    now_us: i64,
) -> Result<Opened, Failed> {
    let mut tx = conn.begin().await.map_err(Failed::Beginning)?;
    let mut closes = false;
    if let Some(parent) = parent {
        let moved_to = "SELECT moved_to FROM cocoonbox.log WHERE log_id = $1 FOR UPDATE";
        if is_rewind {
            let moved_to: Option<Uuid> = sqlx::query_scalar(moved_to)
                .bind(parent.id().0)
                .fetch_one(&mut *tx)
                .await
                .map_err(Failed::Beginning)?;
            match moved_to {
                Some(to) if to == new.id.0 => {}
                Some(to) => {
                    let (log, to) = (parent.id(), cocoonbox_events::LogId(to));
                    return Ok(Opened::Refused(AppendError::Moved { log, to }));
                }
                None => closes = true,
            }
        }
        if let Some(refusal) = check_parent(&mut tx, new, parent)
            .await
            .map_err(Failed::Beginning)?
        {
            return Ok(Opened::Refused(refusal));
        }
    }
    let end = End::genesis(new.id, new.parent);
    sqlx::query(
        "INSERT INTO cocoonbox.log (log_id, kind, owner, parent_log, parent_pos, parent_chain,
           key_check, format, created_us, tail, chain, recorded_us)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING",
    )
    .bind(new.id.0)
    .bind(rows::kind_number(new.kind))
    .bind(&new.owner)
    .bind(new.parent.map(|parent| parent.log.0))
    .bind(new.parent.map(|parent| signed(parent.pos)))
    .bind(new.parent.map(|parent| parent.chain.0.to_vec()))
    .bind(key_check.map(|check| check.to_vec()))
    .bind(rows::FORMAT)
    .bind(now_us)
    .bind(signed(end.pos))
    .bind(end.chain.0.to_vec())
    .bind(end.recorded_us)
    .execute(&mut *tx)
    .await
    .map_err(Failed::Writing)?;
    // Whoever was first: what it is counts.
    let row = sqlx::query(rows::SELECT_LOG)
        .bind(new.id.0)
        .fetch_one(&mut *tx)
        .await
        .map_err(Failed::Writing)?;
    let is_same = rows::log(&row)
        .map_err(Failed::Writing)?
        .is_some_and(|row| row.opened.is_same(new));
    if !is_same {
        return Ok(Opened::Refused(AppendError::OtherLog { log: new.id }));
    }
    if let Some(parent) = parent.filter(|_| closes) {
        sqlx::query(
            "UPDATE cocoonbox.log SET moved_to = $2, touched_at = clock_timestamp()
             WHERE log_id = $1",
        )
        .bind(parent.id().0)
        .bind(new.id.0)
        .execute(&mut *tx)
        .await
        .map_err(Failed::Writing)?;
    }
    tx.commit().await.map_err(Failed::Committing)?;
    Ok(Opened::Yes)
}

/// Checks that the new log continues what is there.
async fn check_parent(
    conn: &mut PgConnection,
    new: &NewLog,
    log: &Arc<Log>,
) -> Result<Option<AppendError>, sqlx::Error> {
    let Some(parent) = new.parent else {
        return Ok(None);
    };
    if log.opened.kind != new.kind || log.opened.owner != new.owner {
        return Ok(Some(AppendError::OtherLog { log: parent.log }));
    }
    if chain_at(conn, log, parent.pos).await? != Some(parent.chain) {
        let (log, pos) = (parent.log, parent.pos);
        return Ok(Some(AppendError::OtherHistory { log, pos }));
    }
    Ok(None)
}

/// The link at a position of a log's history; `None` if it does not go so far.
pub(super) async fn chain_at(
    conn: &mut PgConnection,
    log: &Arc<Log>,
    pos: u64,
) -> Result<Option<ChainHash>, sqlx::Error> {
    let (holder, _) = log.holder(pos);
    if pos == holder.base() {
        return Ok(Some(holder.genesis));
    }
    let row = sqlx::query(rows::SELECT_CHAIN)
        .bind(holder.id().0)
        .bind(signed(pos))
        .fetch_optional(conn)
        .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(ChainHash::from_slice(row.try_get(0)?))
}

/// A log that cannot be looked up cannot be written to.
pub(super) fn unread(error: ReadError) -> AppendError {
    match error {
        ReadError::NoSuchLog { log } => AppendError::NoSuchLog { log },
        error => {
            tracing::warn!(%error, "log not looked up");
            AppendError::Stopped
        }
    }
}
