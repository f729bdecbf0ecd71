//! Passkeys: added and removed by who is signed in, and signed in with.

use cocoonbox_commands::user;
use cocoonbox_events::{Execute, OffsetKey, UserEvent};

use super::{AccountError, Accounts, Issued};
use crate::{
    auth::Caller,
    passkeys::{Assertion, Challenge, Known, Place, ceremony::Made},
};

/// What a user calls a passkey, and what was made for it.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub made: Made,
}

impl Accounts {
    /// Adds a passkey that was checked, and returns its id.
    pub async fn add_passkey(
        &self,
        user_id: &str,
        named: Named,
        place: &Place,
        challenge: &Challenge,
        caller: &Caller,
    ) -> Result<String, AccountError> {
        let Named { name, made } = named;
        let passkey_id = format!("p{}", &self.ids.draw().simple().to_string()[20..]);
        let command = user::Command::AddPasskey {
            passkey: user::NewPasskey {
                passkey_id: passkey_id.clone(),
                name,
                credential_id: made.credential_id,
                public_key: made.public_key,
                host: place.host.clone(),
                sign_count: made.sign_count,
                may_be_copied: made.may_be_copied,
                is_copied: made.is_copied,
            },
            challenge: challenge.of_log(),
        };
        self.execute(user_id, &command, caller).await?;
        Ok(passkey_id)
    }

    /// Removes a passkey. Sessions that were begun with it go on.
    pub async fn remove_passkey(
        &self,
        user_id: &str,
        passkey_id: &str,
        caller: &Caller,
    ) -> Result<OffsetKey, AccountError> {
        let command = user::Command::RemovePasskey {
            passkey_id: passkey_id.to_owned(),
        };
        Ok(self.execute(user_id, &command, caller).await?.key)
    }

    /// Checks what a passkey has signed, and issues a token for it.
    pub async fn sign_in(
        &self,
        assertion: &Assertion,
        place: &Place,
        challenge: &Challenge,
        label: &str,
    ) -> Result<Issued, AccountError> {
        // Who asks is nobody yet: of a user and of a passkey that there are not the same is said.
        let unknown = || AccountError::UnknownPasskey;
        let user_id = std::str::from_utf8(&assertion.response.user_handle.0);
        let user_id = user_id.map_err(|_| unknown())?;
        let account = self.account_anywhere(user_id).await;
        let account = account.map_err(|error| match error {
            AccountError::NoSuchUser(_) | AccountError::Stream(_) => unknown(),
            error => error,
        })?;
        let found = account.state.passkey_of(&assertion.raw_id.0);
        let (passkey_id, passkey) = found.ok_or_else(unknown)?;
        let known = Known {
            public_key: &passkey.public_key,
            host: &passkey.host,
            may_be_copied: passkey.may_be_copied,
        };
        let signed = assertion.check(challenge, place, known)?;
        let token_id = self.draw_token_id();
        let token = self.vault.issue(&token_id, user_id).await?;
        let command = user::Command::SignIn {
            signed: user::Signed {
                passkey_id: passkey_id.to_owned(),
                sign_count: signed.sign_count,
                is_copied: signed.is_copied,
            },
            challenge: challenge.of_log(),
            token_id: token_id.clone(),
            label: label.to_owned(),
        };
        let caller = Caller::User {
            user_id: user_id.to_owned(),
            token_id: token_id.clone(),
            admin: account.state.admin,
        };
        let executed = self.execute(user_id, &command, &caller).await;
        let executed = match executed {
            Ok(executed) if executed.events.iter().any(is_refusal) => {
                Err(AccountError::CopiedPasskey)
            }
            Ok(executed) => Ok(executed),
            // Removed, or its user deleted, since it was looked up.
            Err(AccountError::User(Execute::Rejected(
                user::Rejection::NoSuchPasskey { .. }
                | user::Rejection::Deleted
                | user::Rejection::NotFound,
            ))) => Err(unknown()),
            Err(error) => Err(error),
        };
        let executed = match executed {
            Ok(executed) => executed,
            Err(error) => {
                self.vault.forget(&token_id).await?;
                return Err(error);
            }
        };
        Ok(Issued {
            account: self.account(user_id).await?,
            token_id,
            token,
            key: executed.key,
        })
    }
}

fn is_refusal(event: &UserEvent) -> bool {
    matches!(event, UserEvent::PasskeyRefused(_))
}
