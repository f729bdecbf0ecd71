//! One transaction on one log: what is known while it is written, ahead of what is durable.

use std::collections::HashMap;

use cocoonbox_events::{
    ChainHash, CommandId, Happened, LogId, Recorded, StreamName, replica::End, sealing::Sealed,
    store::Range,
};
use sqlx::{PgConnection, Postgres, Row, postgres::PgArguments, query::Query};
use uuid::Uuid;

use super::{
    directory::Log,
    rows::{self, signed, unsigned},
};

/// Where an event goes.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) pos: u64,
    pub(crate) seq: u64,
    pub(crate) recorded_us: i64,
    pub(crate) chain: ChainHash,
}

#[derive(Clone, Copy, Default)]
struct Head {
    /// `None` until the stream has its first event in this log.
    id: Option<i64>,
    seq: u64,
    is_dirty: bool,
}

struct Known {
    happened: Happened,
    /// Written by this batch; or grown by it.
    is_new: bool,
    is_grown: bool,
}

/// Stream heads kept while a log is written without a pause. Past it they are read anew: a head costs a
/// look-up to get back, and about 150 bytes to keep.
const HEADS_MAX: usize = 4_096;

/// What a batch asks about before it decides.
#[derive(Default)]
pub(crate) struct Questions {
    pub(crate) streams: Vec<String>,
    pub(crate) commands: Vec<Uuid>,
}

/// Stream heads as they were when the log had a certain end. As long as it still has when its head is
/// locked, nobody else has written, and they need not be read again.
#[derive(Default)]
pub(crate) struct Heads {
    at: Option<End>,
    /// How many streams the log has.
    count: i64,
    streams: HashMap<StreamName, Head>,
}

/// What is decided together. The log's head is locked as long as the transaction lasts, or it is a guess
/// ([`Batch::guess`]).
pub(crate) struct Batch<'a> {
    pub(crate) log: &'a Log,
    pub(crate) end: End,
    pub(crate) moved_to: Option<LogId>,
    pub(crate) now_us: i64,
    streams: i64,
    heads: HashMap<StreamName, Head>,
    commands: HashMap<CommandId, Known>,
    columns: Columns,
}

/// Events to be inserted, a vector for each column.
#[derive(Default)]
struct Columns {
    pos: Vec<i64>,
    stream: Vec<i64>,
    seq: Vec<i64>,
    kind: Vec<i64>,
    version: Vec<i64>,
    recorded_us: Vec<i64>,
    header: Vec<Vec<u8>>,
    body: Vec<Option<Vec<u8>>>,
    payload_hash: Vec<Vec<u8>>,
    chain: Vec<Vec<u8>>,
}

impl<'a> Batch<'a> {
    /// Locks the log's head, and only then reads the heads and commands that are asked about: under
    /// READ COMMITTED a statement keeps the snapshot from before its wait for a lock.
    ///
    /// `None` if the log is not there.
    pub(crate) async fn begin(
        conn: &mut PgConnection,
        log: &'a std::sync::Arc<Log>,
        now_us: i64,
        questions: Questions,
        heads: Heads,
    ) -> Result<Option<Batch<'a>>, sqlx::Error> {
        let locked = "SELECT tail, chain, recorded_us, streams, moved_to FROM cocoonbox.log
                      WHERE log_id = $1 FOR UPDATE";
        let row = sqlx::query(locked)
            .bind(log.id().0)
            .fetch_optional(&mut *conn)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let chain: &[u8] = row.try_get(1)?;
        let moved_to: Option<Uuid> = row.try_get(4)?;
        let mut batch = Self {
            log,
            end: End {
                pos: unsigned(row.try_get(0)?),
                chain: ChainHash::from_slice(chain)
                    .ok_or_else(|| sqlx::Error::Decode("a chain hash has 32 bytes".into()))?,
                recorded_us: row.try_get(2)?,
            },
            moved_to: moved_to.map(LogId),
            now_us,
            streams: row.try_get(3)?,
            heads: HashMap::new(),
            commands: HashMap::new(),
            columns: Columns::default(),
        };
        if heads.at == Some(batch.end) && heads.streams.len() <= HEADS_MAX {
            batch.heads = heads.streams;
        }
        batch.read_heads(conn, log, questions.streams).await?;
        batch.read_commands(conn, log, questions.commands).await?;
        Ok(Some(batch))
    }

    /// Decides as if nobody had written the log since `heads` were kept, without a lock:
    /// [`Batch::write_guess`] finds out whether that is so. `None` if it is known not to be.
    ///
    /// Not for a branch, whose commands are its parents' as well.
    pub(crate) fn guess(log: &'a Log, now_us: i64, heads: &mut Heads) -> Option<Batch<'a>> {
        let end = heads.at.filter(|end| *end == log.end())?;
        if log.before.is_some() || heads.streams.len() > HEADS_MAX {
            return None;
        }
        let heads = std::mem::take(heads);
        Some(Self {
            log,
            end,
            moved_to: None,
            now_us,
            streams: heads.count,
            heads: heads.streams,
            commands: HashMap::new(),
            columns: Columns::default(),
        })
    }

    pub(crate) async fn read_heads(
        &mut self,
        conn: &mut PgConnection,
        log: &std::sync::Arc<Log>,
        mut names: Vec<String>,
    ) -> Result<(), sqlx::Error> {
        names.sort_unstable();
        names.dedup();
        self.keep_unknown(&mut names);
        if names.is_empty() {
            return Ok(());
        }
        let found = sqlx::query(rows::SELECT_HEADS)
            .bind(log.id().0)
            .bind(&names)
            .fetch_all(&mut *conn)
            .await?;
        for row in found {
            let head = Head {
                id: Some(row.try_get(1)?),
                seq: unsigned(row.try_get(2)?),
                is_dirty: false,
            };
            self.put_head(row.try_get(0)?, head)?;
        }
        // What this log has not written yet, it may have inherited.
        for (before, to) in log.line().into_iter().skip(1) {
            self.keep_unknown(&mut names);
            if names.is_empty() {
                return Ok(());
            }
            let found = sqlx::query(rows::SELECT_HEADS_AT)
                .bind(before.id().0)
                .bind(&names)
                .bind(signed(to))
                .fetch_all(&mut *conn)
                .await?;
            for row in found {
                let head = Head {
                    seq: unsigned(row.try_get(1)?),
                    ..Head::default()
                };
                self.put_head(row.try_get(0)?, head)?;
            }
        }
        // The rest is not there, which is worth knowing as well.
        self.keep_unknown(&mut names);
        for name in names {
            self.put_head(name, Head::default())?;
        }
        Ok(())
    }

    /// Leaves the names of streams whose heads are not known.
    fn keep_unknown(&self, names: &mut Vec<String>) {
        names.retain(|name| {
            let name = StreamName::new(name.as_str());
            name.is_ok_and(|name| !self.heads.contains_key(&name))
        });
    }

    fn put_head(&mut self, name: String, head: Head) -> Result<(), sqlx::Error> {
        let name = StreamName::new(name).map_err(|bad| sqlx::Error::Decode(Box::new(bad)))?;
        self.heads.insert(name, head);
        Ok(())
    }

    async fn read_commands(
        &mut self,
        conn: &mut PgConnection,
        log: &std::sync::Arc<Log>,
        mut commands: Vec<Uuid>,
    ) -> Result<(), sqlx::Error> {
        for (holder, to) in log.line() {
            if commands.is_empty() {
                break;
            }
            let found = sqlx::query(rows::SELECT_COMMANDS)
                .bind(holder.id().0)
                .bind(&commands)
                .fetch_all(&mut *conn)
                .await?;
            for row in found {
                let (id, happened) = rows::command(&row, &holder)?;
                if let Some(happened) = happened.filter(|happened| happened.range.last <= to) {
                    commands.retain(|command| *command != id);
                    let known = Known {
                        happened,
                        is_new: false,
                        is_grown: false,
                    };
                    self.commands.entry(CommandId(id)).or_insert(known);
                }
            }
        }
        Ok(())
    }

    /// Returns the head of a stream, with what this batch has added to it.
    pub(crate) fn head(&self, stream: &StreamName) -> u64 {
        self.heads.get(stream).map_or(0, |head| head.seq)
    }

    pub(crate) fn happened(&self, command: CommandId) -> Option<Happened> {
        self.commands.get(&command).map(|known| known.happened)
    }

    /// Notes that a command happens now.
    pub(crate) fn claim(&mut self, command: CommandId, digest: Option<[u8; 32]>, range: Range) {
        let happened = Happened { digest, range };
        let known = Known {
            happened,
            is_new: true,
            is_grown: false,
        };
        self.commands.insert(command, known);
    }

    /// Remembers the command of a replicated event; its digest is not known.
    pub(crate) fn remember(&mut self, command: CommandId, event: &Recorded) {
        let (pos, chain) = (event.pos, event.chain);
        let range = Range {
            first: pos,
            last: pos,
            chain,
        };
        let known = self.commands.entry(command).or_insert(Known {
            happened: Happened {
                digest: None,
                range,
            },
            is_new: true,
            is_grown: false,
        });
        let happened = &mut known.happened;
        if happened.digest.is_none() && happened.range.last + 1 == pos {
            (happened.range.last, happened.range.chain) = (pos, chain);
            known.is_grown = !known.is_new;
        }
    }

    /// Puts one event behind the last one.
    pub(crate) fn insert(&mut self, event: &Sealed, place: Place) {
        let head = self.heads.entry(event.stream.clone()).or_default();
        debug_assert_eq!(place.seq, head.seq + 1, "a stream has no gaps");
        debug_assert_eq!(place.pos, self.end.pos + 1, "a log has no gaps");
        let id = *head.id.get_or_insert_with(|| {
            self.streams += 1;
            self.streams
        });
        (head.seq, head.is_dirty) = (place.seq, true);
        let columns = &mut self.columns;
        columns.pos.push(signed(place.pos));
        columns.stream.push(id);
        columns.seq.push(signed(place.seq));
        columns.kind.push(event.kind.into());
        columns.version.push(event.version.into());
        columns.recorded_us.push(place.recorded_us);
        columns.header.push(event.header.to_vec());
        // Kept there as well: a guess that was wrong is decided again.
        columns.body.push(event.body.clone());
        columns.payload_hash.push(event.payload_hash.0.to_vec());
        columns.chain.push(place.chain.0.to_vec());
        self.end = End {
            pos: place.pos,
            chain: place.chain,
            recorded_us: place.recorded_us,
        };
    }

    /// Writes it all. Returns whether the log moved, and the heads for the next batch.
    pub(crate) async fn write(
        mut self,
        conn: &mut PgConnection,
    ) -> Result<(bool, Heads), sqlx::Error> {
        let is_moved = self.is_moved();
        if is_moved || self.commands.values().any(|known| known.is_new) {
            let columns = std::mem::take(&mut self.columns);
            self.write_query(WRITE, columns).execute(conn).await?;
        }
        Ok((is_moved, self.into_heads()))
    }

    /// Writes all of a guess and commits it, in one statement, if the log still ends at `from` and none
    /// of `commands` has happened. Else nothing is written, and the answer is `None`.
    ///
    /// `commands` are all that were asked about, the refused ones as well: what has happened is answered
    /// with what came of it, not with what is in its way by now.
    ///
    /// An error leaves open whether it happened, unless the server says in it why it did not.
    pub(crate) async fn write_guess(
        mut self,
        conn: &mut PgConnection,
        from: End,
        commands: Vec<Uuid>,
    ) -> Result<Option<Heads>, sqlx::Error> {
        let columns = std::mem::take(&mut self.columns);
        let is_written: bool = self
            .write_query(WRITE_GUESS, columns)
            .bind(signed(from.pos))
            .bind(from.chain.0.to_vec())
            .bind(commands)
            .fetch_one(conn)
            .await?
            .try_get(0)?;
        Ok(is_written.then(|| self.into_heads()))
    }

    /// Whether there is anything to write.
    pub(crate) fn is_moved(&self) -> bool {
        !self.columns.pos.is_empty()
    }

    fn into_heads(mut self) -> Heads {
        for head in self.heads.values_mut() {
            head.is_dirty = false;
        }
        Heads {
            at: Some(self.end),
            count: self.streams,
            streams: self.heads,
        }
    }

    fn write_query(
        &self,
        sql: &'static str,
        columns: Columns,
    ) -> Query<'static, Postgres, PgArguments> {
        let (mut stream_ids, mut names, mut seqs) = (Vec::new(), Vec::new(), Vec::new());
        for (name, head) in self.heads.iter().filter(|(_, head)| head.is_dirty) {
            stream_ids.push(head.id.unwrap_or_default());
            names.push(name.as_str().to_owned());
            seqs.push(signed(head.seq));
        }
        let (mut ids, mut digests, mut firsts, mut lasts) = (vec![], vec![], vec![], vec![]);
        for (id, known) in &self.commands {
            if known.is_new || known.is_grown {
                ids.push(id.0);
                digests.push(known.happened.digest.map(|digest| digest.to_vec()));
                firsts.push(signed(known.happened.range.first));
                lasts.push(signed(known.happened.range.last));
            }
        }
        sqlx::query(sql)
            .bind(self.log.id().0)
            .bind(columns.pos)
            .bind(columns.stream)
            .bind(columns.seq)
            .bind(columns.kind)
            .bind(columns.version)
            .bind(columns.recorded_us)
            .bind(columns.header)
            .bind(columns.body)
            .bind(columns.payload_hash)
            .bind(columns.chain)
            .bind(stream_ids)
            .bind(names)
            .bind(seqs)
            .bind(ids)
            .bind(digests)
            .bind(firsts)
            .bind(lasts)
            .bind(signed(self.end.pos))
            .bind(self.end.chain.0.to_vec())
            .bind(self.end.recorded_us)
            .bind(self.streams)
    }
}

impl Heads {
    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }
}

/// Everything that a batch writes, in one round trip.
const WRITE: &str = "
WITH e AS (
  INSERT INTO cocoonbox.event (log_id, pos, stream_id, seq, kind, version, recorded_us, header,
    body, payload_hash, chain)
  SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[])
), s AS (
  INSERT INTO cocoonbox.stream (log_id, stream_id, name, head_seq)
  SELECT $1, * FROM unnest($12::bigint[], $13::text[], $14::bigint[])
  ON CONFLICT (log_id, stream_id) DO UPDATE SET head_seq = excluded.head_seq
), c AS (
  INSERT INTO cocoonbox.command (log_id, command_id, digest, first_pos, last_pos)
  SELECT $1, * FROM unnest($15::uuid[], $16::bytea[], $17::bigint[], $18::bigint[])
  ON CONFLICT (log_id, command_id) DO UPDATE SET last_pos = excluded.last_pos
    WHERE command.digest IS NULL
)
UPDATE cocoonbox.log SET tail = $19, chain = $20, recorded_us = $21, streams = $22,
  touched_at = clock_timestamp() WHERE log_id = $1";

/// The same as a transaction of its own, for a guess: `(.., position, link, commands)`, the end that it
/// builds on and what must not have happened.
/// The row that is updated is the lock, and what is checked of it is checked again once it is held: a
/// head that another transaction moved meanwhile is not the one that was guessed, and nothing is written.
/// If it is, nobody has written since, so the snapshot that commands are looked up in is not behind it.
const WRITE_GUESS: &str = "
WITH l AS (
  UPDATE cocoonbox.log SET tail = $19, chain = $20, recorded_us = $21, streams = $22,
    touched_at = clock_timestamp()
  WHERE log_id = $1 AND tail = $23 AND chain = $24 AND moved_to IS NULL AND NOT EXISTS (
    SELECT FROM unnest($25::uuid[]) AS asked(id) CROSS JOIN LATERAL (
      SELECT FROM cocoonbox.command WHERE log_id = $1 AND command_id = asked.id LIMIT 1) c)
  RETURNING 1
), e AS (
  INSERT INTO cocoonbox.event (log_id, pos, stream_id, seq, kind, version, recorded_us, header,
    body, payload_hash, chain)
  SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[])
  WHERE EXISTS (SELECT FROM l)
), s AS (
  INSERT INTO cocoonbox.stream (log_id, stream_id, name, head_seq)
  SELECT $1, * FROM unnest($12::bigint[], $13::text[], $14::bigint[])
  WHERE EXISTS (SELECT FROM l)
  ON CONFLICT (log_id, stream_id) DO UPDATE SET head_seq = excluded.head_seq
), c AS (
  INSERT INTO cocoonbox.command (log_id, command_id, digest, first_pos, last_pos)
  SELECT $1, * FROM unnest($15::uuid[], $16::bytea[], $17::bigint[], $18::bigint[])
  WHERE EXISTS (SELECT FROM l)
)
SELECT EXISTS (SELECT FROM l)";
