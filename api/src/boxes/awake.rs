//! Keeping a box awake.

use cocoonbox_commands::boxes::Command;
use cocoonbox_proto::control::v1::{Box as BoxMessage, KeepAwakeRequest};
use tonic::Status;

use super::{Boxes, view};
use crate::{auth::Caller, edge::no_such_box, status, users::asked};

/// A box that is to stay for good is one that was forgotten; whoever wants it says so again.
const AWAKE_MAX_MS: i64 = 7 * 24 * 3_600 * 1_000;

impl Boxes {
    pub(super) async fn keep_box_awake(
        &self,
        caller: &Caller,
        user: &str,
        request: KeepAwakeRequest,
    ) -> Result<BoxMessage, Status> {
        let box_id = request.box_id;
        let asked = asked(&request.command_id, &*self.ids)?;
        let log = self.log(user)?;
        self.catch_up(log).await?;
        let row = self.views.box_(user, &box_id).await.map_err(view)?;
        if row.is_none() {
            return Err(no_such_box(&box_id));
        }
        let until_ms = request.until_ms;
        if until_ms > self.clock.now_us() / 1_000 + AWAKE_MAX_MS {
            let problem = "is more than seven days from now";
            return Err(status::bad_field("until_ms", problem));
        }
        let keep = Command::KeepAwake { until_ms };
        let key = self.execute(log, &box_id, &keep, asked, caller).await?;
        self.answer(user, &box_id, key).await
    }
}
