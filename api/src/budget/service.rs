//! `cocoonbox.control.v1.Budgets`.

use std::sync::Arc;

use cocoonbox_commands::budget::{self, Command, Key, Limit, Rejection, State};
use cocoonbox_events::{Clock, Execute};
use cocoonbox_proto::control::v1::{
    Budget, BudgetId, ClearBudgetRequest, ClearBudgetResponse, SetBudgetRequest,
    ShowBudgetsRequest, ShowBudgetsResponse, budgets_server,
};
use tonic::{Code, Request, Response, Status};

use super::books::{BookError, Books};
use crate::{
    accounts::{AccountError, Accounts},
    auth::Caller,
    status,
};

const ID_BYTES_MAX: usize = 64;

/// Serves budgets.
pub struct Budgets {
    pub books: Arc<Books>,
    pub accounts: Arc<Accounts>,
    pub clock: Arc<dyn Clock>,
}

#[tonic::async_trait]
impl budgets_server::Budgets for Budgets {
    async fn set(&self, request: Request<SetBudgetRequest>) -> Result<Response<Budget>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let (user_id, key) = self
            .key(&caller, request.budget.unwrap_or_default())
            .await?;
        let limit = Limit {
            tokens: request.tokens_max,
            micros: request.micros_max,
        };
        let command = Command::Set {
            key: key.clone(),
            limit,
        };
        let executed = self.books.execute(&user_id, &command, caller.actor()).await;
        let (_, state) = executed.map_err(refused)?;
        let budget = state.find(&key).cloned().unwrap_or_default();
        Ok(Response::new(self.shown(&state, &budget, &user_id)))
    }

    async fn clear(
        &self,
        request: Request<ClearBudgetRequest>,
    ) -> Result<Response<ClearBudgetResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let (user_id, key) = self
            .key(&caller, request.budget.unwrap_or_default())
            .await?;
        let command = Command::Clear { key };
        let executed = self.books.execute(&user_id, &command, caller.actor()).await;
        let (executed, _) = executed.map_err(refused)?;
        Ok(Response::new(ClearBudgetResponse {
            offset_key: executed.key.to_string(),
        }))
    }

    async fn show(
        &self,
        request: Request<ShowBudgetsRequest>,
    ) -> Result<Response<ShowBudgetsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let (user_id, _) = self.user(&caller, &request.get_ref().user_id).await?;
        let state = self.books.state(&user_id).await.map_err(refused)?;
        let budgets = state.budgets.values();
        Ok(Response::new(ShowBudgetsResponse {
            budgets: budgets
                .map(|budget| self.shown(&state, budget, &user_id))
                .collect(),
        }))
    }
}

impl Budgets {
    /// Returns whose budgets are meant, and whether they are somebody else's.
    async fn user(&self, caller: &Caller, asked: &str) -> Result<(String, bool), Status> {
        let own = match caller {
            Caller::User { user_id, .. } => Some(user_id.as_str()),
            _ => None,
        };
        if own.is_some() && (asked.is_empty() || own == Some(asked)) {
            return Ok((own.unwrap_or_default().to_owned(), false));
        }
        caller.admin()?;
        if asked.is_empty() {
            return Err(status::bad_field("user_id", "is empty"));
        }
        match self.accounts.account(asked).await {
            Ok(account) => Ok((account.user_id, true)),
            Err(AccountError::NoSuchUser(_)) => Err(no_such_user()),
            Err(error) => Err(status::internal(&error)),
        }
    }

    async fn key(&self, caller: &Caller, id: BudgetId) -> Result<(String, Key), Status> {
        for (field, value) in [
            ("budget.box_id", &id.box_id),
            ("budget.agent_id", &id.agent_id),
        ] {
            if value.len() > ID_BYTES_MAX || value.contains(char::is_control) {
                return Err(status::bad_field(field, "is not an id"));
            }
        }
        let (user_id, imposed) = self.user(caller, &id.user_id).await?;
        let key = Key {
            imposed,
            box_id: id.box_id,
            agent_id: id.agent_id,
            per_day: id.per_day,
        };
        Ok((user_id, key))
    }

    fn shown(&self, state: &State, budget: &budget::Budget, user_id: &str) -> Budget {
        let (today, ends_us) = cocoonbox_events::day(self.clock.now_us());
        let (used, reserved) = (state.used(budget, &today), state.reserved(budget, &today));
        Budget {
            budget: Some(BudgetId {
                user_id: user_id.to_owned(),
                box_id: budget.key.box_id.clone(),
                agent_id: budget.key.agent_id.clone(),
                per_day: budget.key.per_day,
            }),
            imposed: budget.key.imposed,
            tokens_max: budget.limit.tokens,
            micros_max: budget.limit.micros,
            tokens_used: used.tokens,
            micros_used: used.micros,
            tokens_reserved: reserved.tokens,
            micros_reserved: reserved.micros,
            exceeded: budget
                .exceeded
                .as_ref()
                .is_some_and(|day| !budget.key.per_day || *day >= today),
            resets_at_ms: if budget.key.per_day {
                ends_us / 1_000
            } else {
                0
            },
        }
    }
}

fn no_such_user() -> Status {
    status::status(Code::NotFound, "NO_SUCH_USER", "there is no such user")
}

fn refused(error: BookError) -> Status {
    let (code, reason) = match &error {
        BookError::Execute(Execute::Rejected(rejection)) => match rejection {
            Rejection::NoLimit | Rejection::NoBox => (Code::InvalidArgument, "BAD_BUDGET"),
            Rejection::TooMany => (Code::ResourceExhausted, "TOO_MANY_BUDGETS"),
            Rejection::NotFound => (Code::NotFound, "NO_SUCH_BUDGET"),
            Rejection::Exceeded { .. } | Rejection::NoPrice { .. } | Rejection::Busy => {
                (Code::FailedPrecondition, "BUDGET_EXCEEDED")
            }
        },
        BookError::Account(AccountError::NoSuchUser(_)) => return no_such_user(),
        _ => return status::internal(&error),
    };
    status::status(code, reason, error.to_string())
}
