//! Sign-in links: issued like tokens, and good for one exchange.

use cocoonbox_commands::user;
use cocoonbox_events::Execute;

use super::{AccountError, Accounts, Issued};
use crate::auth::Caller;

impl Accounts {
    /// Issues a sign-in link to a user: what it reveals opens nothing, and is exchanged once.
    pub async fn issue_link(
        &self,
        user_id: &str,
        label: &str,
        caller: &Caller,
    ) -> Result<Issued, AccountError> {
        let token_id = self.draw_token_id();
        self.issue_as(user_id, token_id, label, true, caller).await
    }

    /// Exchanges a sign-in link that is not older than `issued_after_us` for a token.
    pub async fn exchange(
        &self,
        link: &str,
        label: &str,
        issued_after_us: i64,
    ) -> Result<Issued, AccountError> {
        let refused = || AccountError::User(Execute::Rejected(user::Rejection::NoSuchLink));
        let owner = self.vault.owner(link).await?.ok_or_else(refused)?;
        let account = self.account(&owner.user_id).await?;
        let issued_us = account.issued_us.get(&owner.token_id).copied();
        if issued_us.is_none_or(|at| at < issued_after_us) {
            return Err(refused());
        }
        let token_id = self.draw_token_id();
        let token = self.vault.issue(&token_id, &owner.user_id).await?;
        let command = user::Command::Exchange {
            link_id: owner.token_id.clone(),
            token_id: token_id.clone(),
            label: label.to_owned(),
        };
        let caller = Caller::User {
            user_id: owner.user_id.clone(),
            token_id: owner.token_id.clone(),
            admin: account.state.admin,
        };
        let executed = self.execute(&owner.user_id, &command, &caller).await;
        let executed = match executed {
            Ok(executed) => executed,
            Err(error) => {
                self.vault.forget(&token_id).await?;
                return Err(error);
            }
        };
        self.vault.forget(&owner.token_id).await?;
        Ok(Issued {
            account: self.account(&owner.user_id).await?,
            token_id,
            token,
            key: executed.key,
        })
    }
}
