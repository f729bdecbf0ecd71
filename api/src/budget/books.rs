//! The folds of users' budgets, and what is written into them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use cocoonbox_commands::budget::{Amount, Command, Rejection, State};
use cocoonbox_events::{
    AppendError, BudgetEvent, Clock, CommandId, Execute, Executed, Fold, Ids, Meta, NewEvent,
    Store, StreamName,
};
use cocoonbox_proto::log::v1::{Actor, BudgetScope, BudgetSettled, UsageModelCalled, actor};
use tokio::sync::OwnedMutexGuard;

use super::{
    prices::{Counts, Price, Prices},
    refusal,
};
use crate::{
    accounts::Accounts,
    door::Channel,
    gateway::{Ask, Hold, Refusal},
};

/// Longer than vendors let a call be. A process that lives settles later calls too; what this bounds is how
/// long a dead one's reservations stand in the list.
const EXPIRES_US: i64 = 3_600_000_000;

/// Other processes append to the same stream; each conflict is one of theirs that got through.
const CONFLICTS_MAX: u32 = 100;

type Book = Arc<tokio::sync::Mutex<Option<Fold<State>>>>;

/// Every user's budgets.
pub struct Books {
    pub accounts: Arc<Accounts>,
    pub store: Arc<dyn Store>,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
    pub prices: Prices,
    by_user: Mutex<HashMap<String, Book>>,
}

/// Why a book cannot be opened or written to.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    #[error(transparent)]
    Account(#[from] crate::accounts::AccountError),
    #[error(transparent)]
    Load(#[from] cocoonbox_events::LoadError),
    #[error(transparent)]
    Execute(#[from] Execute<Rejection>),
    #[error("the name of a stream")]
    Stream(#[from] cocoonbox_events::id::BadStreamName),
}

impl Books {
    pub fn new(
        accounts: Arc<Accounts>,
        store: Arc<dyn Store>,
        ids: Arc<dyn Ids>,
        clock: Arc<dyn Clock>,
        prices: Prices,
    ) -> Self {
        Self {
            accounts,
            store,
            ids,
            clock,
            prices,
            by_user: Mutex::default(),
        }
    }

    /// Returns a user's budgets as they stand.
    pub async fn state(&self, user_id: &str) -> Result<State, BookError> {
        let (book, _) = self.open(user_id).await?;
        Ok(book
            .as_ref()
            .map(|fold| fold.state.clone())
            .unwrap_or_default())
    }

    /// Changes a user's budgets.
    pub async fn execute(
        &self,
        user_id: &str,
        command: &Command,
        actor: Actor,
    ) -> Result<(Executed<BudgetEvent>, State), BookError> {
        let (mut book, fold) = self.open(user_id).await?;
        let mut fold = fold;
        let meta = Meta {
            command: CommandId(self.ids.draw()),
            actor,
            cause: None,
        };
        let digest = *blake3::hash(format!("{command:?}").as_bytes()).as_bytes();
        let mut conflicts = 0;
        loop {
            match fold.execute(&*self.store, command, &meta, digest).await {
                Err(Execute::Append(AppendError::Conflict { .. })) if conflicts < CONFLICTS_MAX => {
                    conflicts += 1;
                }
                executed => {
                    let state = fold.state.clone();
                    *book = Some(fold);
                    return Ok((executed?, state));
                }
            }
        }
    }

    pub(crate) async fn admits(&self, by: &BudgetScope, channel: &Channel) -> Result<(), Refusal> {
        let state = match self.state(&channel.user_id).await {
            Ok(state) => state,
            Err(error) => return self.unread(&error, by, channel).await,
        };
        let now_us = self.clock.now_us();
        let Some(budget) = state.spent(by, now_us) else {
            return Ok(());
        };
        let asked = Amount::default();
        self.refuse(budget.number, by, "", asked, channel).await;
        Err(refusal::of_spent(&state, budget, now_us))
    }

    pub(crate) async fn reserve(
        &self,
        ask: Ask,
        channel: &Channel,
    ) -> Result<Option<Hold>, Refusal> {
        match self.state(&channel.user_id).await {
            Ok(state) if !state.speaks_of(&ask.by) => return Ok(None),
            Ok(_) => {}
            Err(error) => {
                self.unread(&error, &ask.by, channel).await?;
                return Ok(None);
            }
        }
        let (input, output) = (ask.estimate.input_tokens, ask.estimate.output_tokens);
        let price = self.prices.of(&ask.model);
        let now_us = self.clock.now_us();
        let id = self.ids.draw().simple().to_string();
        let command = Command::Reserve {
            reservation_id: id.clone(),
            by: ask.by.clone(),
            model: ask.model.clone(),
            tokens: input.saturating_add(output),
            micros: price.map(|price| price.bound(input, output)),
            now_us,
            expires_us: now_us.saturating_add(EXPIRES_US),
        };
        let executed = self
            .execute(&channel.user_id, &command, of_box(channel))
            .await;
        match executed {
            Ok((_, state)) => {
                let reservation = state.reservations.get(&id).cloned();
                Ok(reservation.map(|reservation| Hold { id, reservation }))
            }
            Err(BookError::Execute(Execute::Rejected(rejection))) => {
                if let Rejection::Exceeded { budget, asked, .. } = &rejection {
                    self.refuse(budget.number, &ask.by, &ask.model, *asked, channel)
                        .await;
                }
                Err(refusal::of_rejection(&rejection, now_us))
            }
            Err(error) => {
                tracing::error!(%error, box_id = channel.box_id, "a budget cannot be written to");
                Err(refusal::unknown())
            }
        }
    }

    /// Returns the price of a call's model and what the call cost by it.
    pub(crate) fn cost(&self, usage: &UsageModelCalled) -> Option<u64> {
        let counts = Counts {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_tokens,
            cache_write: usage.cache_write_tokens,
        };
        let price: Price = self.prices.of(&usage.model)?;
        Some(price.cost(counts))
    }

    /// Returns the event that settles a call.
    pub(crate) fn settlement(
        hold: &Hold,
        usage: &UsageModelCalled,
        user_id: &str,
    ) -> Option<NewEvent> {
        let parts = [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        ];
        let used = Amount {
            tokens: parts.into_iter().fold(0, u64::saturating_add),
            micros: usage.cost_micros.unwrap_or(0),
        };
        // An answer that is whole and does not say what it took was asked not to say it: that must not be
        // cheaper than the truth.
        let used = if usage.estimated && usage.complete {
            hold.reservation.amount
        } else {
            used
        };
        Some(NewEvent {
            stream: stream(user_id).ok()?,
            payload: BudgetEvent::Settled(BudgetSettled {
                reservation_id: hold.id.clone(),
                reserved: Some(hold.reservation.amount.into()),
                numbers: hold.reservation.numbers.clone(),
                day: hold.reservation.day.clone(),
                used: Some(used.into()),
            })
            .into(),
        })
    }

    /// Tells a refusal once. That it cannot be told does not make a call go through.
    async fn refuse(
        &self,
        number: u32,
        by: &BudgetScope,
        model: &str,
        asked: Amount,
        channel: &Channel,
    ) {
        let command = Command::Refuse {
            number,
            by: by.clone(),
            model: model.to_owned(),
            asked,
            now_us: self.clock.now_us(),
        };
        let told = self
            .execute(&channel.user_id, &command, of_box(channel))
            .await;
        if let Err(error) = told {
            tracing::error!(%error, box_id = channel.box_id, "a refused call is not in the log");
        }
    }

    /// A log that cannot be read says nothing of budgets: only who had none a moment ago goes on.
    async fn unread(
        &self,
        error: &BookError,
        by: &BudgetScope,
        channel: &Channel,
    ) -> Result<(), Refusal> {
        tracing::error!(%error, box_id = channel.box_id, "a user's budgets cannot be read");
        let book = self.book(&channel.user_id);
        let book = book.lock().await;
        match &*book {
            Some(fold) if !fold.state.speaks_of(by) => Ok(()),
            Some(_) | None => Err(refusal::unknown()),
        }
    }

    fn book(&self, user_id: &str) -> Book {
        let mut books = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(books.entry(user_id.to_owned()).or_default())
    }

    /// Opens a user's book, brought up to date. Its lock is held while it is written to: one process's calls
    /// would otherwise only get in each other's way.
    async fn open(
        &self,
        user_id: &str,
    ) -> Result<(OwnedMutexGuard<Option<Fold<State>>>, Fold<State>), BookError> {
        let mut book = self.book(user_id).lock_owned().await;
        let log = self.accounts.log_of(user_id)?;
        let known = book.as_ref().filter(|fold| fold.log == log).cloned();
        let mut fold = match known {
            Some(fold) => fold,
            None => Fold::new(log, stream(user_id)?),
        };
        fold.refresh(&*self.store).await?;
        *book = Some(fold.clone());
        Ok((book, fold))
    }
}

pub(crate) fn of_box(channel: &Channel) -> Actor {
    Actor {
        kind: actor::Kind::Box.into(),
        id: channel.box_id.clone(),
    }
}

fn stream(user_id: &str) -> Result<StreamName, cocoonbox_events::id::BadStreamName> {
    StreamName::new(format!("budget/{user_id}"))
}
