//! What a box's disk has of its logs, asked of the box.

use std::collections::HashMap;

use cocoonbox_events::{ChainHash, LogId, ReadError, Store};
use cocoonbox_proto::agent::v1::{
    LinkRequest, StandingRequest, StandingResponse, box_log_client::BoxLogClient,
};
use tonic::transport::Channel;

use super::{ReleaseError, lineage::Lineage, verdict::Compared};
use crate::channel::BoxChannel;

/// The logs that a box says it has.
pub(super) struct Standing {
    /// Where each of them ends.
    pub(super) tails: HashMap<LogId, u64>,
    /// What was left for logs with events that are not known here.
    left: Vec<LogId>,
    is_being_restored: bool,
}

impl Standing {
    pub(super) async fn ask(
        store: &dyn Store,
        channel: &BoxChannel,
        log: LogId,
    ) -> Result<Self, ReleaseError> {
        let mut client = BoxLogClient::new(channel.transport.clone());
        let answer = client.standing(channel.sign(StandingRequest {})).await;
        let answer = answer.map_err(ReleaseError::Box)?.into_inner();
        let known = ancestors(store, log).map_err(ReleaseError::Read)?;
        Self::read(answer, &known).ok_or(ReleaseError::Unreadable)
    }

    fn read(answer: StandingResponse, known: &[LogId]) -> Option<Self> {
        let mut standing = Self {
            tails: HashMap::new(),
            left: Vec::new(),
            is_being_restored: answer.restoring,
        };
        for log in answer.logs {
            let (branch, tail) = (log.branch?, log.tail?);
            let id = LogId::from_slice(&branch.log_id)?;
            if !known.contains(&id) && tail.pos > branch.parent_pos {
                standing.left.extend(LogId::from_slice(&branch.parent_log));
            }
            standing.tails.insert(id, tail.pos);
        }
        Some(standing)
    }

    /// Compares the box's disk with the history that is here.
    pub(super) async fn compare(
        &self,
        store: &dyn Store,
        channel: &BoxChannel,
        lineage: &Lineage,
        is_untouched: bool,
    ) -> Result<Compared, ReleaseError> {
        let stretches = lineage.stretches();
        let (tail, base) = stretches
            .last()
            .map_or((0, 0), |stretch| (stretch.end, stretch.base()));
        let held = stretches.iter().rev().find_map(|stretch| {
            let own = *self.tails.get(&stretch.log)?;
            Some((stretch.log, own.min(stretch.end)))
        });
        let nothing = self.tails.values().all(|pos| *pos == 0);
        let mut compared = Compared {
            common: 0,
            reach: 0,
            is_foreign: false,
            is_lost: nothing || self.is_being_restored,
            tail,
            base,
            is_untouched,
        };
        if compared.is_lost {
            return Ok(compared);
        }
        if let Some((log, reach)) = held {
            let links = Links {
                store,
                client: BoxLogClient::new(channel.transport.clone()),
                channel,
                log,
            };
            // What it once left and was told to leave again does not count.
            let is_current = stretches.last().is_some_and(|last| last.log == log);
            compared.is_foreign = is_current && self.left.contains(&log);
            compared.reach = reach;
            compared.common = links.common(reach).await?;
        }
        Ok(compared)
    }
}

/// The links of one log, here and in the box.
struct Links<'a> {
    store: &'a dyn Store,
    client: BoxLogClient<Channel>,
    channel: &'a BoxChannel,
    log: LogId,
}

impl Links<'_> {
    /// The last position up to `reach` at which both have the same link.
    async fn common(mut self, reach: u64) -> Result<u64, ReleaseError> {
        if self.are_equal(reach).await? {
            return Ok(reach);
        }
        // Equal at `low` (at 0 there is nothing to differ in), different at `high`.
        let (mut low, mut high) = (0, reach);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.are_equal(middle).await? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    async fn are_equal(&mut self, pos: u64) -> Result<bool, ReleaseError> {
        let log_id = self.log.as_bytes().to_vec();
        let asked = self.channel.sign(LinkRequest { log_id, pos });
        let theirs = self.client.link(asked).await.map_err(ReleaseError::Box)?;
        let ours = self.store.chain_at(self.log, pos).await;
        let ours = ours.map_err(ReleaseError::Read)?;
        let theirs = ChainHash::from_slice(&theirs.into_inner().chain);
        Ok(theirs.ok_or(ReleaseError::Unreadable)? == ours)
    }
}

/// A log and everything that it branches off.
fn ancestors(store: &dyn Store, log: LogId) -> Result<Vec<LogId>, ReadError> {
    let mut at = store.info(log)?;
    let mut found = vec![at.id];
    while let Some(parent) = at.parent {
        at = store.info(parent.log)?;
        found.push(at.id);
    }
    Ok(found)
}
