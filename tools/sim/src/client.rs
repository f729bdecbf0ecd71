//! A person's device: asks, repeats what was not answered, and reads streams from keys that it kept.

use std::{collections::BTreeMap, sync::Arc};

use cocoonbox_events::{BoxEvent, CommandId, Ids, LogId, OffsetKey, Payload, Recorded};

use crate::{
    api::{Api, ApiError, Item, Operation},
    broken::Broken,
    law::Law,
    ledger::short,
    net::{Lost, Place},
    world::World,
};

/// Attempts at one thing while the network is bad.
const TRIES_MAX: u32 = 6;
/// Keys that are kept of one history.
const KEYS_MAX: usize = 24;

pub struct Client {
    world: Arc<World>,
    place: Place,
    number: usize,
    user: String,
    /// Keys by the log that a history began with.
    keys: BTreeMap<LogId, Vec<OffsetKey>>,
    /// Boxes that this device asked for, and the logs of those that it saw.
    boxes: Vec<String>,
    prompts: u64,
}

impl Client {
    pub fn start(world: &Arc<World>, number: usize, user: &str) {
        let life = world.sim.new_life();
        let place = Place::Client(number);
        world.net.set_life(place, Some(life));
        let account = world.users[user];
        let client = Self {
            world: Arc::clone(world),
            place,
            number,
            user: user.to_owned(),
            keys: BTreeMap::from([(account, Vec::new())]),
            boxes: Vec::new(),
            prompts: 0,
        };
        world.sim.spawn(life, client.run());
    }

    async fn run(mut self) {
        while !self.world.is_calm() {
            match self.world.sim.draw(|chance| chance.below(100)) {
                0..14 => self.ensure().await,
                14..44 => self.prompt().await,
                44..48 => self.hibernate().await,
                48..49 => self.delete().await,
                49..52 => self.cancel().await,
                52..56 => self.token().await,
                56..62 => self.ask_badly().await,
                _ => self.watch().await,
            }
            let pause = self.world.sim.draw(|chance| chance.between(30, 500));
            self.world.sim.sleep_ms(pause).await;
        }
        // Everything that was ever kept is asked by again once the network is whole.
        let histories: Vec<(LogId, Vec<OffsetKey>)> = self.keys.clone().into_iter().collect();
        self.world.wait_for_rest().await;
        for (root, keys) in histories {
            for key in keys {
                self.watch_from(root, Some(key), true).await;
            }
        }
        self.world.has_left();
    }

    fn name(&self) -> String {
        self.place.to_string()
    }

    async fn call<R, F>(
        &self,
        work: impl Fn(Arc<Api>) -> F + Clone + Send + Sync + 'static,
    ) -> Result<R, ApiError>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, ApiError>> + Send + 'static,
    {
        let world = Arc::clone(&self.world);
        let number = world.sim.draw(|chance| chance.index(world.apis_count()));
        let to = Place::Api(number);
        let done = self.world.net.call(self.place, to, move || {
            let (api, work) = (world.api(number), work.clone());
            async move {
                match api {
                    Some(api) => work(api).await,
                    None => Err(ApiError::Unavailable),
                }
            }
        });
        done.await.unwrap_or_else(|Lost| Err(ApiError::Unavailable))
    }

    fn fresh(&self) -> CommandId {
        CommandId(self.world.ids.draw())
    }

    /// Asks until there is an answer, under one command id.
    async fn operate(&self, operation: Operation) -> Result<String, ApiError> {
        let user = self.user.clone();
        let command = self.fresh();
        let mut last = ApiError::Unavailable;
        for _ in 0..TRIES_MAX {
            let (user, operation) = (user.clone(), operation.clone());
            let done = self
                .call(move |api| api.operate(user.clone(), command, operation.clone()))
                .await;
            match done {
                Ok((box_id, _)) => return Ok(box_id),
                Err(error) if error.is_retryable() => last = error,
                Err(error) => return Err(error),
            }
            self.pause().await;
        }
        Err(last)
    }

    async fn pause(&self) {
        let pause = self.world.sim.draw(|chance| chance.between(50, 1_500));
        self.world.sim.sleep_ms(pause).await;
    }

    async fn ensure(&mut self) {
        let which = self.world.sim.draw(|chance| chance.below(2));
        let name = format!("c{}-{which}", self.number);
        if let Ok(box_id) = self.operate(Operation::Ensure { name }).await
            && !self.boxes.contains(&box_id)
        {
            self.boxes.push(box_id);
        }
    }

    async fn hibernate(&self) {
        if let Some(box_id) = self.some_box() {
            drop(self.operate(Operation::Hibernate { box_id }).await);
        }
    }

    async fn delete(&mut self) {
        if let Some(box_id) = self.some_box() {
            let deleted = self.operate(Operation::Delete {
                box_id: box_id.clone(),
            });
            if deleted.await.is_ok() {
                self.boxes.retain(|known| *known != box_id);
            }
        }
    }

    fn some_box(&self) -> Option<String> {
        self.world.sim.draw(|c| c.pick(&self.boxes).cloned())
    }

    async fn prompt(&mut self) {
        let Some(box_id) = self.some_box() else {
            return self.ensure().await;
        };
        self.prompts += 1;
        let text = format!("prompt {} of {}", self.prompts, self.name());
        let mut prompt_id = self.fresh().to_string();
        self.world.ledger.prompted(text.clone());
        for _ in 0..TRIES_MAX {
            let (user, box_id, id, text) = (
                self.user.clone(),
                box_id.clone(),
                prompt_id.clone(),
                text.clone(),
            );
            let done = self
                .call(move |api| api.prompt(user.clone(), box_id.clone(), id.clone(), text.clone()))
                .await;
            match done {
                Err(error) if error.is_retryable() => {}
                _ => return,
            }
            if self.world.broken == Broken::FreshRetryId {
                prompt_id = self.fresh().to_string();
            }
            self.pause().await;
        }
    }

    async fn cancel(&self) {
        let Some(box_id) = self.some_box() else {
            return;
        };
        let (user, command) = (self.user.clone(), self.fresh());
        drop(
            self.call(move |api| api.cancel(user.clone(), box_id.clone(), command))
                .await,
        );
    }

    async fn token(&self) {
        let (user, command) = (self.user.clone(), self.fresh());
        for _ in 0..TRIES_MAX {
            let user = user.clone();
            let done = self
                .call(move |api| api.issue_token(user.clone(), command, "device".to_owned()))
                .await;
            match done {
                Err(error) if error.is_retryable() => self.pause().await,
                Ok(_) => return,
                Err(error) => {
                    let full = ApiError::Rejected(String::new());
                    if std::mem::discriminant(&error) != std::mem::discriminant(&full) {
                        let what = format!("a token was answered with {error:?}");
                        self.world.sim.fail(Law::Once, &self.name(), what);
                    }
                    return;
                }
            }
        }
    }

    /// Asks for what one must not get, or what is none.
    async fn ask_badly(&self) {
        let others: Vec<LogId> = self
            .world
            .users
            .iter()
            .filter(|(user, _)| **user != self.user)
            .map(|(_, log)| *log)
            .collect();
        let Some(other) = self.world.sim.draw(|c| c.pick(&others).copied()) else {
            return;
        };
        let (user, place, own) = (self.user.clone(), self.place, self.world.users[&self.user]);
        let which = self.world.sim.draw(|chance| chance.below(5));
        let (law, got) = match which {
            0 => {
                let asked = self
                    .call(move |api| api.open_stream(user.clone(), other, String::new(), place));
                (Law::Isolation, asked.await.map(drop))
            }
            1 => {
                let key = format!("{own}.00x0000000000001.00000000");
                let asked =
                    self.call(move |api| api.open_stream(user.clone(), own, key.clone(), place));
                (Law::BadInput, asked.await.map(drop))
            }
            2 => {
                let key = format!("{other}.0000000000000001.00000000");
                let asked =
                    self.call(move |api| api.open_stream(user.clone(), own, key.clone(), place));
                (Law::BadInput, asked.await.map(drop))
            }
            3 => {
                let label = "x".repeat(3_000);
                let command = self.fresh();
                let asked =
                    self.call(move |api| api.issue_token(user.clone(), command, label.clone()));
                (Law::BadInput, asked.await.map(drop))
            }
            _ => {
                let foreign = self.world.host.list().into_iter();
                let mut foreign = foreign.filter(|(_, s)| s.owner != self.user);
                let Some((box_id, _)) = foreign.next() else {
                    return;
                };
                let id = self.fresh().to_string();
                let asked = self.call(move |api| {
                    let text = "not mine".to_owned();
                    api.prompt(user.clone(), box_id.clone(), id.clone(), text)
                });
                (Law::Isolation, asked.await.map(drop))
            }
        };
        if got.is_ok() {
            let what = format!("bad question {which} got an answer");
            self.world.sim.fail(law, &self.name(), what);
        }
    }

    async fn watch(&mut self) {
        let roots: Vec<LogId> = self.keys.keys().copied().collect();
        let Some(root) = self.world.sim.draw(|c| c.pick(&roots).copied()) else {
            return;
        };
        let key = {
            let kept = &self.keys[&root];
            self.world.sim.draw(|chance| {
                if chance.happens(250) {
                    None
                } else if chance.happens(500) {
                    kept.last().copied()
                } else {
                    chance.pick(kept).copied()
                }
            })
        };
        self.watch_from(root, key, false).await;
    }

    /// Reads a history from a key for a while.
    async fn watch_from(&mut self, root: LogId, key: Option<OffsetKey>, is_last: bool) {
        let (user, place) = (self.user.clone(), self.place);
        let text = key.map(|key| key.to_string()).unwrap_or_default();
        let tries = if is_last { 20 } else { 2 };
        for _ in 0..tries {
            let (user, from) = (user.clone(), text.clone());
            let opened = self
                .call(move |api| api.open_stream(user.clone(), root, from.clone(), place))
                .await;
            match opened {
                Ok((log, items)) => return self.read(root, log, key, items, is_last).await,
                Err(ApiError::Moved { common, .. }) => {
                    self.keys
                        .entry(root)
                        .or_default()
                        .retain(|kept| Some(*kept) != key);
                    self.world.sim.note(&self.name(), || {
                        format!("history of {} was rewound to {common}", short(root))
                    });
                    return;
                }
                Err(error) if error.is_retryable() => self.pause().await,
                // The log was given up before anybody else had heard of it.
                Err(ApiError::NoSuchLog) if self.world.ledger.is_given_up(root, 1) => return,
                // A box is named before its copy is opened, and no key of the copy is out yet.
                Err(ApiError::NoSuchLog) if key.is_none() && !is_last => return,
                // The branch that the key is of went with a promotion.
                Err(ApiError::OtherLog)
                    if key.is_some_and(|key| self.world.ledger.is_given_up(key.log, key.pos)) =>
                {
                    return;
                }
                Err(error) => {
                    let what = format!("key `{text}` of log {} got {error:?}", short(root));
                    self.world.sim.fail(Law::Resume, &self.name(), what);
                    return;
                }
            }
        }
        if is_last {
            self.unanswered(root, key);
        }
    }

    /// A key that nobody could answer in the end.
    fn unanswered(&self, root: LogId, key: Option<OffsetKey>) {
        let given_up = key.is_some_and(|key| self.world.ledger.is_given_up(key.log, key.pos));
        if given_up || self.world.has_lost_logs() {
            return;
        }
        let key = key.map(|key| key.to_string()).unwrap_or_default();
        let what = format!("key `{key}` of log {} is never answered", short(root));
        self.world.sim.fail(Law::Resume, &self.name(), what);
    }

    async fn read(
        &mut self,
        root: LogId,
        log: LogId,
        key: Option<OffsetKey>,
        items: crate::net::Receiver<Item>,
        is_last: bool,
    ) {
        if let Some(key) = key {
            self.check_key(log, &key);
        }
        let mut next = key.map_or(0, |key| key.pos) + 1;
        let (mut count, patience) = if is_last {
            (400, 1_000)
        } else {
            self.world.sim.draw(|c| (c.between(5, 120), 700))
        };
        while count > 0 {
            count -= 1;
            let item = self.world.sim.timeout_ms(patience, items.next()).await;
            let Some(Some(Item::Event(event))) = item else {
                return;
            };
            if !self.check(log, next, &event) {
                return;
            }
            next += 1;
            self.learn(root, &event);
        }
    }

    /// Reading must not go on in a history that the key is not of.
    fn check_key(&self, log: LogId, key: &OffsetKey) {
        let due = self.world.ledger.due(log, key);
        if due != crate::ledger::Due::On {
            let what = format!(
                "reading of {} goes on behind key {}.{}, but due is {due:?}",
                short(log),
                short(key.log),
                key.pos
            );
            self.world.sim.fail(Law::Resume, &self.name(), what);
        }
    }

    fn check(&self, log: LogId, next: u64, event: &Recorded) -> bool {
        let (ledger, sim, name) = (&self.world.ledger, &self.world.sim, self.name());
        if event.pos != next {
            let what = format!("event {} of {} where {next} is next", event.pos, short(log));
            sim.fail(Law::Resume, &name, what);
            return false;
        }
        let holder = ledger.holder(log, next);
        if event.log != holder {
            let (found, due) = (short(event.log), short(holder));
            let what = format!("event {next} of {} is of {found}, not {due}", short(log));
            sim.fail(Law::Resume, &name, what);
        }
        if ledger.owner(event.log).is_some_and(|o| o != self.user) {
            let what = format!("shown an event of log {}, another's", short(event.log));
            sim.fail(Law::Isolation, &name, what);
        }
        ledger.saw(&name, event);
        true
    }

    fn learn(&mut self, root: LogId, event: &Recorded) {
        if let Ok(Some(Payload::Box(BoxEvent::Created(created)))) = event.payload()
            && let Some(log) = LogId::from_slice(&created.box_log)
        {
            self.keys.entry(log).or_default();
        }
        let keep = self.world.sim.draw(|chance| chance.happens(150));
        let kept = self.keys.entry(root).or_default();
        if keep && kept.len() < KEYS_MAX {
            kept.push(event.offset_key());
        }
    }
}
