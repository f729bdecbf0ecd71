//! Erasures in box logs: the replica at once, the box when it can be reached.

use cocoonbox_commands::{
    boxes,
    erasure::boxed::{Command, Request, State},
};
use cocoonbox_events::{
    BoxEvent, Fold, LogId, Meta, Payload, StreamName, erasure, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_projections::forget;
use cocoonbox_proto::agent::v1::{EraseRequest, box_log_client::BoxLogClient};

use super::{EraseError, Eraser, report};

/// Stream of the account log in which erasures of one box log are.
pub(super) fn stream(box_log: LogId) -> StreamName {
    StreamName::new(format!("erasure/{box_log}")).expect("the text of an id fits a stream's name")
}

impl Eraser {
    /// Writes down what is to go from a box log.
    pub(super) async fn ask_boxed(
        &self,
        account: LogId,
        box_log: LogId,
        command: &Command,
        meta: &Meta,
    ) -> Result<(), EraseError> {
        let mut fold = Fold::<State>::new(account, stream(box_log));
        let digest = *blake3::hash(format!("{command:?}").as_bytes()).as_bytes();
        fold.execute(&*self.store, command, meta, digest).await?;
        Ok(())
    }

    /// Pays what can be paid of a box log's erasures. Returns whether nothing is owed any more.
    pub(super) async fn pay_boxed(
        &self,
        owner: &str,
        account: LogId,
        box_log: LogId,
    ) -> Result<bool, EraseError> {
        let mut fold = Fold::<State>::new(account, stream(box_log));
        fold.refresh(&*self.store).await?;
        let owed: Vec<Request> = fold.state.owed().cloned().collect();
        let in_replica: Vec<&Request> = owed.iter().filter(|request| !request.in_replica).collect();
        for request in &in_replica {
            erasure::rows(&*self.store, box_log, &request.positions).await?;
        }
        if !in_replica.is_empty() {
            forget(&self.store, &self.views, owner).await?;
        }
        for request in in_replica {
            let request_id = request.request_id.clone();
            self.report_boxed(&mut fold, Command::ReplicaErased { request_id })
                .await?;
        }
        for request in owed.iter().filter(|request| !request.in_box) {
            let request_id = request.request_id.clone();
            let command = if self.is_gone(account, request).await? {
                Command::BoxGone { request_id }
            } else if self.erase_in_box(request).await? {
                Command::BoxErased { request_id }
            } else {
                continue;
            };
            self.report_boxed(&mut fold, command).await?;
        }
        Ok(fold.state.owed().next().is_none())
    }

    async fn report_boxed(
        &self,
        fold: &mut Fold<State>,
        command: Command,
    ) -> Result<(), EraseError> {
        let (meta, digest) = report(fold, &format!("{command:?}"));
        fold.execute(&*self.store, &command, &meta, digest).await?;
        Ok(())
    }

    /// Whether the box was deleted: its disks went with everything on them.
    async fn is_gone(&self, account: LogId, request: &Request) -> Result<bool, EraseError> {
        let stream = StreamName::new(format!("box/{}", request.box_id))?;
        let mut fold = Fold::<boxes::State>::new(account, stream);
        fold.refresh(&*self.store).await?;
        Ok(matches!(
            fold.state.phase,
            boxes::Phase::Deleted | boxes::Phase::Absent
        ))
    }

    /// Asks a box that runs to erase. `false`: it does not run, or does not answer now.
    async fn erase_in_box(&self, request: &Request) -> Result<bool, EraseError> {
        let Some(channel) = self.channels.get(&request.box_id) else {
            return Ok(false);
        };
        let Some(common) = self.store.common(channel.log(), request.box_log)? else {
            return Ok(false);
        };
        // The box may have left that log since, and what its log did not go on from: that lies on its disk,
        // if it ever did, and nothing is said of it there.
        let (own, left): (Vec<u64>, Vec<u64>) =
            (request.positions.iter()).partition(|pos| **pos <= common);
        let mut client = BoxLogClient::new(channel.transport.clone());
        for (log, positions) in [(channel.log(), own), (request.box_log, left)] {
            if positions.is_empty() {
                continue;
            }
            let asked = client.erase(channel.sign(EraseRequest {
                positions,
                reason: request.reason.clone(),
                log_id: log.as_bytes().to_vec(),
            }));
            match asked.await {
                Ok(_) => {}
                Err(status) if status.code() == tonic::Code::Unavailable => return Ok(false),
                Err(status) => return Err(EraseError::BoxRefuses(Box::new(status))),
            }
        }
        Ok(true)
    }

    /// Finds the box whose log this is, deleted ones among them; empty if no event names it.
    pub(super) async fn box_of(
        &self,
        account: LogId,
        box_log: LogId,
    ) -> Result<String, EraseError> {
        let mut after = 0;
        loop {
            let page = self.store.read(account, after, PAGE_EVENTS_MAX).await?;
            let Some(last) = page.events.last() else {
                return Ok(String::new());
            };
            after = last.pos;
            for event in &page.events {
                let Ok(Some(Payload::Box(event_of))) = event.payload() else {
                    continue;
                };
                let log = match &event_of {
                    BoxEvent::Created(created) => &created.box_log,
                    BoxEvent::LogRewound(rewound) => &rewound.new_log,
                    _ => continue,
                };
                if LogId::from_slice(log) == Some(box_log) {
                    return Ok(event.stream.id().to_owned());
                }
            }
        }
    }
}
