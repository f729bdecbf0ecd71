//! Forks: a new box with the files and the history of another, as they are or as they were at a moment.

use cocoonbox_commands::boxes::{self, Command, Origin, Phase};
use cocoonbox_events::{CommandId, Fold, LogId, OffsetKey, Parent, StreamName};
use cocoonbox_proto::control::v1::{Box as BoxMessage, ForkRequest, Moment, moment};
use tonic::{Code, Status};

use super::{Boxes, not_now, operation_id, view};
use crate::{auth::Caller, capsules::Finder, edge::no_such_box, status, users::asked};

impl Boxes {
    pub(super) async fn fork_box(
        &self,
        caller: &Caller,
        user: &str,
        request: ForkRequest,
    ) -> Result<BoxMessage, Status> {
        if request.name.is_empty() {
            return Err(status::bad_field("name", "name the new box"));
        }
        let asked = asked(&request.command_id, &*self.ids)?;
        let command = asked.command;
        let lock = self.ensuring.of(user);
        let _one_at_a_time = lock.lock().await;
        let section = if self.owners.are_shared() {
            let section = self.owners.section(&format!("ensure/{user}")).await;
            Some(section.map_err(|error| not_now(&error))?)
        } else {
            None
        };
        let log = self.log(user)?;
        self.catch_up(log).await?;
        let seed = [log.as_bytes().as_slice(), command.as_bytes()].concat();
        let derived = |step| CommandId::derive(&seed, step);
        let box_id = format!("b{}", &derived("box id").to_string()[16..]);
        let rows = self.views.boxes(user).await.map_err(view)?;
        // Asked again: it is there.
        let is_made = rows.iter().any(|row| row.id == box_id);
        if !is_made && rows.iter().any(|row| row.name == request.name) {
            return Err(status::status(
                Code::AlreadyExists,
                "BOX_NAME_TAKEN",
                "you have a box of this name",
            ));
        }
        if !is_made {
            self.check_room(rows.len())?;
        }
        // Of what was asked: a moment may be another place in the log when it is asked for again.
        let digest = *blake3::hash(format!("{request:?}").as_bytes()).as_bytes();
        let stream = StreamName::new(format!("box/{box_id}"))
            .map_err(|error| status::bad_field("command_id", error.to_string()))?;
        let mut made = Fold::<boxes::State>::new(log, stream);
        let refreshed = made.refresh(&*self.store).await;
        refreshed.map_err(|error| status::internal(&error))?;
        let (state, origin) = match made.state.origin.clone() {
            // Asked again; what it was made from may be gone by now.
            Some(origin) => (made.state, origin),
            None => self.source(log, user, &request).await?,
        };
        let fork = Command::Fork {
            box_id: box_id.clone(),
            flavor: state.flavor,
            name: request.name,
            box_log: LogId(derived("box log").0),
            user_id: user.to_owned(),
            origin: Box::new(origin),
            models: state.models,
            operation_id: operation_id(command),
        };
        let key = self
            .execute_as(log, &box_id, &fork, digest, asked, caller)
            .await?;
        if let Some(section) = section {
            section.leave().await;
        }
        self.open_replica(log, &box_id).await?;
        self.answer(user, &box_id, key).await
    }

    /// The box to be forked, and where in its life.
    async fn source(
        &self,
        account: LogId,
        user: &str,
        request: &ForkRequest,
    ) -> Result<(boxes::State, Origin), Status> {
        let source = &request.box_id;
        let stream = StreamName::new(format!("box/{source}"))
            .map_err(|error| status::bad_field("box_id", error.to_string()))?;
        let mut fold = Fold::<boxes::State>::new(account, stream);
        let refreshed = fold.refresh(&*self.store).await;
        refreshed.map_err(|error| status::internal(&error))?;
        let state = fold.state;
        let log = match (&state.phase, state.box_log) {
            (_, None) | (Phase::Deleting { .. } | Phase::Deleted, _) => {
                return Err(no_such_box(source));
            }
            (_, Some(log)) => log,
        };
        let tail = self.store.tail(log).map_err(status::from_read)?;
        let present = Parent {
            log,
            pos: tail.pos,
            chain: tail.chain,
        };
        let origin = |at, snapshot_id| Origin {
            box_id: source.clone(),
            at,
            snapshot_id,
        };
        let sleeps = state.phase == Phase::Hibernated;
        let Some(moment) = moment(request)? else {
            if !sleeps {
                return Err(status::with(
                    Code::FailedPrecondition,
                    "BOX_NOT_HIBERNATED",
                    "the present of a box can be forked while it sleeps; hibernate it first, or name a moment",
                    &[("box_id", source)],
                ));
            }
            return Ok((state, origin(present, None)));
        };
        // All that it has is better than the part of it that a snapshot has.
        if sleeps && moment.moment == Some(moment::Moment::OffsetKey(key(&present))) {
            return Ok((state, origin(present, None)));
        }
        let finder = Finder {
            store: &*self.store,
            views: &self.views,
            account,
            user,
            box_id: source,
        };
        let found = finder.moment(&moment, log).await?;
        let chain = self.store.chain_at(log, found.pos).await;
        let at = Parent {
            log,
            pos: found.pos,
            chain: chain.map_err(status::from_read)?,
        };
        Ok((state, origin(at, Some(found.snapshot_id))))
    }
}

/// The moment that is asked for; `None` is the present.
fn moment(request: &ForkRequest) -> Result<Option<Moment>, Status> {
    match (&request.moment, request.at.as_str()) {
        (None, "") => Ok(None),
        (Some(moment), "") => Ok(Some(moment.clone())),
        (None, at) => Ok(Some(Moment {
            moment: Some(moment::Moment::OffsetKey(at.to_owned())),
        })),
        (Some(_), _) => Err(status::bad_field("at", "say `at` or `moment`, not both")),
    }
}

fn key(at: &Parent) -> String {
    OffsetKey::new(at.log, at.pos, at.chain).to_string()
}
