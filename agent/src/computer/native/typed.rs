//! What a person writes into the fields of programs.
//!
//! A field is read when its text has changed while it has the focus, and when the focus comes or goes; never one for
//! passwords. What programs do by themselves in a field that has the focus is not told apart.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        backend::{Token, Typed, Typing},
        refusal::Fault,
    },
    bus::Bus,
    element::{Dialect, Facts},
};

/// Fields that are told of. Those that were written into longest ago are forgotten.
const FIELDS_MAX: usize = 32;
/// Elements that wait to be read. What comes on top of them is not.
const WAITING_MAX: usize = 64;
/// From a change until it is read: a word comes letter by letter.
const PAUSE: Duration = Duration::from_millis(150);

/// A field that had the focus.
struct Field {
    token: Token,
    role: String,
    name: String,
    /// When it got the focus, where that was seen.
    before: Option<String>,
    now: String,
}

/// Begins to watch. It is watched when this returns.
pub(super) async fn begin() -> Result<Typing, Fault> {
    let bus = Bus::connect().await?;
    let focused = bus.events("StateChanged", Some("focused")).await?;
    let changed = bus.events("TextChanged", None).await?;
    bus.wants("object:state-changed:focused").await?;
    bus.wants("object:text-changed").await?;
    // Focus first: the field is known as it was before.
    let focused = focused.map(|token| (token, true));
    let changed = changed.map(|token| (token, false));
    let events = futures::stream::select(focused, changed);
    Ok(Typing::new(|until| watch(bus, events, until)))
}

async fn watch(
    bus: Bus,
    events: impl Stream<Item = (Token, bool)> + Send,
    until: CancellationToken,
) -> Vec<Typed> {
    let mut events = std::pin::pin!(events);
    let mut fields = VecDeque::new();
    let mut waiting = HashSet::new();
    let mut due = None;
    loop {
        let pause = due.unwrap_or_else(Instant::now);
        tokio::select! {
            biased;
            () = until.cancelled() => break,
            event = events.next() => match event {
                Some((token, true)) => look(&bus, &token, true, &mut fields).await,
                Some((token, false)) if waiting.len() < WAITING_MAX => {
                    waiting.insert(token);
                    due.get_or_insert_with(|| Instant::now() + PAUSE);
                }
                Some(_) => {}
                // The bus is gone, and with it all that could be asked.
                None => break,
            },
            () = sleep_until(pause), if due.is_some() => {
                due = None;
                for token in waiting.drain() {
                    look(&bus, &token, false, &mut fields).await;
                }
            }
        }
    }
    for token in waiting {
        look(&bus, &token, false, &mut fields).await;
    }
    let is_other = |field: &Field| field.before.as_ref() != Some(&field.now);
    let typed = fields.into_iter().filter(is_other);
    typed
        .map(|field| Typed {
            role: field.role,
            name: field.name,
            text: field.now,
        })
        .collect()
}

/// Reads a field. One that is gone stays known as it was.
async fn look(bus: &Bus, token: &Token, is_untouched: bool, fields: &mut VecDeque<Field>) {
    let Ok(facts) = Facts::read(bus, token, Dialect::USUAL).await else {
        return;
    };
    let known = fields.iter_mut().find(|field| field.token == *token);
    if !facts.is_field() || (known.is_none() && !facts.is_focused()) {
        return;
    }
    let (role, name) = (facts.role.clone(), facts.name.clone());
    let Some(now) = facts.value(bus, token).await else {
        return;
    };
    match known {
        Some(field) => field.now = now,
        None => {
            if fields.len() == FIELDS_MAX {
                fields.pop_front();
            }
            fields.push_back(Field {
                token: token.clone(),
                role,
                name,
                before: is_untouched.then(|| now.clone()),
                now,
            });
        }
    }
}
