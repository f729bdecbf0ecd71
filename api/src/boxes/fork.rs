//! Forks: a new box with the disks and the history of one that sleeps.

use cocoonbox_commands::boxes::{self, Command, Origin, Phase};
use cocoonbox_events::{CommandId, Fold, LogId, OffsetKey, Parent, StreamName};
use cocoonbox_proto::control::v1::{Box as BoxMessage, ForkRequest};
use tonic::{Code, Status};

use super::{Boxes, not_now, operation_id, view};
use crate::{auth::Caller, edge::no_such_box, status, stream, users::asked};

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
        let lock = self.ensure_lock(user);
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
        let (state, at) = self.source(log, &request).await?;
        let fork = Command::Fork {
            box_id: box_id.clone(),
            flavor: state.flavor,
            name: request.name,
            box_log: LogId(derived("box log").0),
            user_id: user.to_owned(),
            origin: Origin {
                box_id: request.box_id,
                at,
            },
            models: state.models,
            operation_id: operation_id(command),
        };
        let key = self.execute(log, &box_id, &fork, asked, caller).await?;
        if let Some(section) = section {
            section.leave().await;
        }
        self.open_replica(log, &box_id).await?;
        self.answer(user, &box_id, key).await
    }

    /// The box to be forked, and where its log is: its end, as long as the box sleeps.
    async fn source(
        &self,
        account: LogId,
        request: &ForkRequest,
    ) -> Result<(boxes::State, Parent), Status> {
        let source = &request.box_id;
        let stream = StreamName::new(format!("box/{source}"))
            .map_err(|error| status::bad_field("box_id", error.to_string()))?;
        let mut fold = Fold::<boxes::State>::new(account, stream);
        let refreshed = fold.refresh(&*self.store).await;
        refreshed.map_err(|error| status::internal(&error))?;
        let state = fold.state;
        let log = match (&state.phase, state.box_log) {
            (_, None) | (Phase::Deleted, _) => return Err(no_such_box(source)),
            (Phase::Hibernated, Some(log)) => log,
            _ => {
                return Err(status::with(
                    Code::FailedPrecondition,
                    "BOX_NOT_HIBERNATED",
                    "only a box that sleeps can be forked; hibernate it first",
                    &[("box_id", source)],
                ));
            }
        };
        let tail = self.store.tail(log).map_err(status::from_read)?;
        if !request.at.is_empty() {
            let at = stream::position(&*self.store, log, &request.at).await?;
            if at != tail.pos {
                let present = OffsetKey::new(log, tail.pos, tail.chain).to_string();
                return Err(status::with(
                    Code::Unimplemented,
                    "FORK_OF_PAST",
                    "files of an older moment are not kept; only the present can be forked",
                    &[("present", &present)],
                ));
            }
        }
        let at = Parent {
            log,
            pos: tail.pos,
            chain: tail.chain,
        };
        Ok((state, at))
    }
}
