//! The key of a user's capsule, given to the user.

use cocoonbox_commands::capsule::Command;
use cocoonbox_proto::control::v1::{CapsuleKey, ExportKeyRequest};
use tonic::{Code, Status};

use super::{Capsules, failure, service::digest, storage::rejected};
use crate::{auth::Caller, status, users::asked};

impl Capsules {
    /// Answers the key once the log says who has it.
    pub(super) async fn key(
        &self,
        caller: &Caller,
        is_browser: bool,
        request: &ExportKeyRequest,
    ) -> Result<CapsuleKey, Status> {
        let (user, account) = self.account(caller)?;
        if is_browser {
            return Err(status::status(
                Code::PermissionDenied,
                "NOT_IN_A_BROWSER",
                "a page in a browser is not given the key; ask with a device token: cocoonbox capsule export-key FILE",
            ));
        }
        let Caller::User { token_id, .. } = caller else {
            return Err(status::status(
                Code::Unauthenticated,
                "TOKEN_REQUIRED",
                "this call needs a user's token, also on the host",
            ));
        };
        let asked = asked(&request.command_id, &*self.ids)?;
        let command = Command::ExportKey {
            token_id: token_id.clone(),
        };
        let digest = digest(&format!("{command:?}"));
        let mut fold = self.of_user(user, account).await?;
        let of = (asked.command, digest);
        let done = self.execute(&mut fold, caller, of, &command).await;
        let done = done.map_err(|error| status::from_execute(error, rejected))?;
        let key = self.place.key(user);
        let key = key.map_err(|error| failure::answer(error.into()))?;
        Ok(CapsuleKey {
            key: key.to_text(),
            folder: user.to_owned(),
            offset_key: done.key.to_string(),
        })
    }
}
