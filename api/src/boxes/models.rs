//! Which models a box's agents use that have none of their own.

use cocoonbox_commands::boxes::Command;
use cocoonbox_proto::control::v1::{Box as BoxMessage, SetBoxModelsRequest};
use tonic::Status;

use super::{Boxes, view};
use crate::{auth::Caller, config, edge::no_such_box, status, users::asked};

impl Boxes {
    pub(super) async fn set_box_models(
        &self,
        caller: &Caller,
        user: &str,
        request: SetBoxModelsRequest,
    ) -> Result<BoxMessage, Status> {
        let box_id = request.box_id;
        let asked = asked(&request.command_id, &*self.ids)?;
        let log = self.log(user)?;
        self.catch_up(log).await?;
        let row = self.views.box_(user, &box_id).await.map_err(view)?;
        if row.is_none() {
            return Err(no_such_box(&box_id));
        }
        let models = config::settled(request.models.unwrap_or_default(), &self.gateway);
        let models = models.map_err(|error| status::bad_field("models", error.to_string()))?;
        let set = Command::SetModels { models };
        let key = self.execute(log, &box_id, &set, asked, caller).await?;
        self.answer(user, &box_id, key).await
    }
}
