//! A sweep's work in a user's store. All of it blocks.

use std::sync::mpsc;

use cocoonbox_capsule::{Error, SnapshotId, snapshot as record, sweep};
use cocoonbox_proto::log::v1::CapsuleSweepPlanned;
use tokio::sync::oneshot;

use super::Kept;
use crate::capsules::{Place, PlaceError};

/// What a sweep would do that kept no more than this.
pub(in super::super) fn look(
    place: &Place,
    user: &str,
    kept: Kept,
) -> Result<sweep::Swept, PlaceError> {
    let options = sweep::Options {
        // What would be dropped is there yet, and must not count.
        kept: Some(kept.ids),
        counts_new: false,
        ..sweep::Options::default()
    };
    let capsule = match place.open(user) {
        Err(PlaceError::Capsule(Error::NoCapsule)) => return Ok(sweep::Swept::default()),
        opened => opened?,
    };
    let plan = sweep::plan(&capsule, &options)?;
    Ok(plan.numbers().clone())
}

pub(super) fn options(kept: &Kept) -> sweep::Options {
    sweep::Options {
        kept: (!kept.is_saving).then(|| kept.ids.clone()),
        ..sweep::Options::default()
    }
}

pub(super) struct Done {
    pub(super) swept: sweep::Swept,
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

/// Sweeps, once somebody has written down what is about to be done.
pub(super) fn carry_out(
    (place, user): (&Place, &str),
    dropped: &[SnapshotId],
    options: &sweep::Options,
    told: oneshot::Sender<sweep::Swept>,
    go: &mpsc::Receiver<()>,
) -> Result<Done, PlaceError> {
    let capsule = place.open(user)?;
    for id in dropped {
        let object = record::object(*id);
        capsule.store().delete(&object).map_err(Error::from)?;
    }
    let plan = sweep::plan(&capsule, options)?;
    let is_told = told.send(plan.numbers().clone()).is_ok();
    if !is_told || go.recv().is_err() {
        return Err(Error::Cancelled.into());
    }
    let swept = plan.carry_out(options)?;
    let (objects, bytes) = capsule.usage()?;
    Ok(Done {
        swept,
        objects,
        bytes,
    })
}

pub(super) fn written(sweep_id: &str, plan: &sweep::Swept) -> CapsuleSweepPlanned {
    CapsuleSweepPlanned {
        sweep_id: sweep_id.to_owned(),
        generation: plan.generation,
        snapshots: plan.snapshots,
        chunks_needed: plan.chunks_needed,
        chunks_dead: plan.chunks_dead,
        packs_given_up: plan.packs_given_up,
        packs_rewritten: plan.packs_rewritten,
        packs_deleted: plan.packs_deleted,
        packs_waiting: plan.packs_waiting,
    }
}
