//! A disk that fails: what was not synced is lost at a crash, writes are torn, bits flip, space runs out.

use std::sync::{Arc, Mutex};

use cocoonbox_events::{CommandId, LogId, NewLog, Recorded, store::Checkpoint};
use prost::Message;

use crate::{chance::Chance, scheduler::lock};

/// One transaction as it lies on the disk.
#[derive(Clone, Debug)]
pub enum Frame {
    Open(NewLog),
    Rewind(NewLog),
    /// Encoded [`cocoonbox_proto::log::v1::RecordedBatch`], with the command that wrote it.
    Events {
        log: LogId,
        command: Option<(CommandId, [u8; 32])>,
        batch: Vec<u8>,
    },
    Erase {
        log: LogId,
        positions: Vec<u64>,
    },
    Checkpoint(LogId, Checkpoint),
    /// Which life of the machine this disk was released to last.
    Incarnation(u64),
}

#[derive(Clone, Debug)]
struct Record {
    frame: Frame,
    /// Hash of the batch; says whether a bit has flipped since.
    check: [u8; 32],
    is_torn: bool,
}

#[derive(Clone, Debug, Default)]
struct Platter {
    records: Vec<Record>,
    /// Records that survive anything but the loss of the disk.
    synced: usize,
    fault: Fault,
}

/// What is wrong with the disk at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    Full,
    ReadOnly,
    /// The next sync answers with an error; whether it wrote is not known.
    SyncFails,
}

/// A disk. Clones are handles to the same one; see [`Disk::copy`] for another.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<Platter>>);

/// A synced record is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub record: usize,
}

impl Disk {
    pub fn write(&self, frame: Frame) {
        let check = check(&frame);
        lock(&self.0).records.push(Record {
            frame,
            check,
            is_torn: false,
        });
    }

    pub fn sync(&self) {
        let mut platter = lock(&self.0);
        for index in platter.synced..platter.records.len() {
            platter.settle(index);
        }
        platter.synced = platter.records.len();
    }

    pub fn synced(&self) -> usize {
        lock(&self.0).synced
    }

    pub fn fault(&self) -> Fault {
        lock(&self.0).fault
    }

    pub fn set_fault(&self, fault: Fault) {
        lock(&self.0).fault = fault;
    }

    /// Loses power: of what was not synced a part may be there, and the next record may be half written.
    pub fn crash(&self, chance: &mut Chance) {
        let mut platter = lock(&self.0);
        let unsynced = platter.records.len() - platter.synced;
        let kept = chance.index(unsynced + 1);
        let end = platter.synced + kept;
        let torn = kept < unsynced && chance.happens(500);
        platter.records.truncate(end + usize::from(torn));
        if torn && let Some(last) = platter.records.last_mut() {
            last.is_torn = true;
        }
    }

    /// Reads everything that is whole. What was half written at the end was never acked and goes.
    pub fn load(&self) -> Result<Vec<Frame>, Damaged> {
        let mut platter = lock(&self.0);
        platter.records.retain(|record| !record.is_torn);
        for (index, record) in platter.records.iter().enumerate() {
            if check(&record.frame) != record.check {
                return Err(Damaged { record: index });
            }
        }
        for index in platter.synced..platter.records.len() {
            platter.settle(index);
        }
        platter.synced = platter.records.len();
        Ok(platter.records.iter().map(|r| r.frame.clone()).collect())
    }

    /// Flips a bit of a synced batch; `false` if there is none.
    pub fn flip_a_bit(&self, chance: &mut Chance) -> bool {
        let mut platter = lock(&self.0);
        let synced = platter.synced;
        if synced == 0 {
            return false;
        }
        let from = chance.index(synced);
        for record in &mut platter.records[from..synced] {
            if let Frame::Events { batch, .. } = &mut record.frame
                && !batch.is_empty()
            {
                let at = chance.index(batch.len());
                batch[at] ^= 1 << chance.below(8);
                return true;
            }
        }
        false
    }

    /// Returns another disk with the first `records` synced records of this one.
    pub fn copy(&self, records: usize) -> Self {
        let platter = lock(&self.0);
        let kept = records.min(platter.synced);
        let mut copy = Platter {
            records: platter.records[..kept].to_vec(),
            synced: kept,
            fault: Fault::None,
        };
        for index in 0..kept {
            copy.settle(index);
        }
        Self(Arc::new(Mutex::new(copy)))
    }

    /// Takes over the synced records of another disk up to `records`, but none that is damaged.
    pub fn catch_up(&self, other: &Self, records: usize) {
        let theirs = lock(&other.0);
        let mut ours = lock(&self.0);
        while ours.synced < records.min(theirs.synced) {
            let index = ours.synced;
            let record = theirs.records[index].clone();
            if check(&record.frame) != record.check {
                return;
            }
            ours.records.push(record);
            ours.settle(index);
            ours.synced += 1;
        }
    }

    /// Becomes what another disk is.
    pub fn restore(&self, other: &Self) {
        let platter = lock(&other.0).clone();
        *lock(&self.0) = platter;
    }

    /// Whether these bytes stand anywhere on the disk.
    pub fn holds(&self, needle: &[u8]) -> bool {
        lock(&self.0)
            .records
            .iter()
            .any(|record| match &record.frame {
                Frame::Events { batch, .. } => batch.windows(needle.len()).any(|w| w == needle),
                _ => false,
            })
    }
}

impl Platter {
    /// Does what an erasure that is on the disk asks for: the payloads are taken out of their rows.
    fn settle(&mut self, index: usize) {
        let Frame::Erase { log, positions } = self.records[index].frame.clone() else {
            return;
        };
        for record in &mut self.records[..index] {
            let Frame::Events { log: of, batch, .. } = &mut record.frame else {
                continue;
            };
            if *of != log {
                continue;
            }
            if let Some(erased) = without(batch, &positions) {
                *batch = erased;
                record.check = check(&record.frame);
            }
        }
    }
}

/// Returns a batch without the payloads at these positions; `None` if it has none of them.
fn without(batch: &[u8], positions: &[u64]) -> Option<Vec<u8>> {
    let mut batch = cocoonbox_proto::log::v1::RecordedBatch::decode(batch).ok()?;
    let mut found = false;
    for event in &mut batch.events {
        if positions.contains(&event.pos) && !event.erased {
            event.erased = true;
            event.salt.clear();
            event.payload.clear();
            found = true;
        }
    }
    found.then(|| batch.encode_to_vec())
}

fn check(frame: &Frame) -> [u8; 32] {
    match frame {
        Frame::Events { batch, .. } => *blake3::hash(batch).as_bytes(),
        _ => [0; 32],
    }
}

/// Encodes events as they lie on a disk.
pub fn encode(log: LogId, events: &[Recorded]) -> Vec<u8> {
    cocoonbox_proto::log::v1::RecordedBatch {
        log_id: log.as_bytes().to_vec(),
        events: events.iter().map(Recorded::to_wire).collect(),
    }
    .encode_to_vec()
}

/// Reads what [`encode`] wrote.
pub fn decode(log: LogId, batch: &[u8]) -> Option<Vec<Recorded>> {
    let batch = cocoonbox_proto::log::v1::RecordedBatch::decode(batch).ok()?;
    batch
        .events
        .into_iter()
        .map(|event| Recorded::from_wire(log, event))
        .collect()
}
