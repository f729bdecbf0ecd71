//! Boxes as callers are told of them: rows of the views, with what the installation knows beyond them.

use std::sync::Arc;

use cocoonbox_commands::models::inherited;
use cocoonbox_events::{OffsetKey, Store};
use cocoonbox_machines::machine;
use cocoonbox_projections::{BoxRow, Views};
use cocoonbox_proto::{
    control::v1::{Box as BoxMessage, Desktop, Flavor, ListBoxesResponse, Promises, State},
    log::v1::ModelRoles,
};
use tonic::Status;

use super::{log_of, view};
use crate::{accounts::Accounts, images::Images, status};

/// Reads the list of boxes for watchers.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) accounts: Arc<Accounts>,
    pub(super) store: Arc<dyn Store>,
    pub(super) views: Views,
    pub(super) promises: machine::Promises,
    pub(super) images: Images,
    pub(super) models: ModelRoles,
}

impl Reader {
    /// The list, with the position up to which it is sure to have seen the account log.
    pub(super) async fn snapshot(&self, user: &str) -> Result<(ListBoxesResponse, u64), Status> {
        let log = log_of(&self.accounts, user)?;
        let pos = self
            .views
            .checkpoint("boxes", log)
            .await
            .map_err(view)?
            .map_or(0, |checkpoint| checkpoint.pos);
        let chain = self
            .store
            .chain_at(log, pos)
            .await
            .map_err(status::from_read)?;
        let rows = self.views.boxes(user).await.map_err(view)?;
        let mut boxes = Vec::with_capacity(rows.len());
        for row in rows {
            boxes.push(self.complete(row).await);
        }
        let list = ListBoxesResponse {
            boxes,
            offset_key: OffsetKey::new(log, pos, chain).to_string(),
        };
        Ok((list, pos))
    }

    /// Adds what the installation knows of a box beyond its row.
    pub(super) async fn complete(&self, row: BoxRow) -> BoxMessage {
        let newest = self.images.version(flavor_of(&row));
        let image_update_available =
            !row.image.is_empty() && !newest.is_empty() && row.image != newest;
        let desktop = self.desktop(&row).await;
        let (spoke_at_ms, agents_waiting) = self.attention(&row).await;
        let told = BoxMessage::from(row);
        let own = told.models.clone().unwrap_or_default();
        BoxMessage {
            image_update_available,
            promises: Some(promised(self.promises)),
            models_in_use: Some(inherited(&own, &self.models)),
            desktop: Some(desktop),
            spoke_at_ms,
            agents_waiting,
            ..told
        }
    }

    /// What agents of the box want of a person. While the view is being built nothing is known.
    async fn attention(&self, row: &BoxRow) -> (i64, u32) {
        let Ok(log) = row.box_log.parse() else {
            return (0, 0);
        };
        self.views.attention(log).await.unwrap_or_default()
    }

    /// How far the desktop of a box is. What belongs to an earlier wake says nothing of this one but what was seen last.
    async fn desktop(&self, row: &BoxRow) -> Desktop {
        let Ok(log) = row.box_log.parse() else {
            return Desktop::default();
        };
        // While the view is being built nothing is known, and the list is wanted all the same.
        let Some(found) = self.views.desktop(log).await.ok().flatten() else {
            return Desktop::default();
        };
        let is_now = row.state() == State::Running && found.wake_id == row.wake_id;
        let told = Desktop::from(found);
        if is_now {
            return told;
        }
        Desktop {
            last_picture: told.last_picture,
            ..Desktop::default()
        }
    }
}

fn promised(promises: machine::Promises) -> Promises {
    Promises {
        memory_kept_on_hibernate: promises.memory_kept_on_hibernate,
        survives_host_restart: promises.survives_host_restart,
        isolation: match promises.isolation {
            machine::Isolation::Container => "container".into(),
            machine::Isolation::MicroVm => "microvm".into(),
        },
    }
}

pub(super) fn flavor_of(row: &BoxRow) -> Flavor {
    Flavor::try_from(row.flavor).unwrap_or_default()
}
