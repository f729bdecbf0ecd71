//! Saves of a box's files, as its owner asks for them.

use cocoonbox_proto::control::v1::{
    ListSnapshotsRequest, Moment, RestorePathsRequest, RestoreProgress, SaveRequest, Snapshot,
    UndoRestoreRequest,
    restore_progress::{Restored, Step as RestoreStep},
    save_progress::{Saved, Step},
};
use tonic::{Status, Streaming};

use crate::{TheBox, User, until::soon};

impl User {
    /// Saves a box and returns what came of it.
    pub async fn save(&self, request: SaveRequest) -> Result<Saved, Status> {
        let mut steps = self.capsule().save(request).await?.into_inner();
        while let Some(message) = steps.message().await? {
            assert!(!message.offset_key.is_empty());
            if let Some(Step::Saved(saved)) = message.step {
                return Ok(saved);
            }
        }
        Err(Status::unavailable("cut off"))
    }
}

impl TheBox {
    /// Saves its files. What was saved before is returned where nothing has changed.
    pub async fn try_save(&self) -> Result<Snapshot, Status> {
        let request = SaveRequest {
            box_id: self.id.clone(),
            ..SaveRequest::default()
        };
        let saved = soon("a save", self.user.save(request)).await?;
        Ok(saved.snapshot.expect("a save has a snapshot"))
    }

    pub async fn save(&self) -> Snapshot {
        self.try_save().await.expect("a box can be saved")
    }

    /// Its snapshots, as they are listed.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, Status> {
        let request = ListSnapshotsRequest {
            box_id: self.id.clone(),
            ..ListSnapshotsRequest::default()
        };
        let answer = self.user.capsule().list_snapshots(request).await?;
        Ok(answer.into_inner().snapshots)
    }

    /// Gives files of a moment back, of the last one if none is said.
    pub async fn restore(
        &self,
        at: Option<Moment>,
        paths: &[&str],
        in_place: bool,
    ) -> Result<Restored, Status> {
        let request = RestorePathsRequest {
            box_id: self.id.clone(),
            at,
            paths: paths.iter().map(|path| path.as_bytes().to_vec()).collect(),
            in_place,
            command_id: String::new(),
        };
        let steps = self.user.capsule().restore_paths(request).await?;
        restored(steps.into_inner()).await
    }

    /// Takes a restore in place back, the last one if none is named.
    pub async fn undo(&self, request: UndoRestoreRequest) -> Result<Restored, Status> {
        let request = UndoRestoreRequest {
            box_id: self.id.clone(),
            ..request
        };
        let steps = self.user.capsule().undo_restore(request).await?;
        restored(steps.into_inner()).await
    }
}

async fn restored(mut steps: Streaming<RestoreProgress>) -> Result<Restored, Status> {
    while let Some(message) = steps.message().await? {
        if let Some(RestoreStep::Restored(done)) = message.step {
            return Ok(done);
        }
    }
    Err(Status::unavailable("cut off"))
}
