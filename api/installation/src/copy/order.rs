//! The order in which logs can be opened: each after the one that it branched off.

use std::collections::HashMap;

use cocoonbox_events::{LogId, LogInfo};

/// Sorts logs so that parents come first, and of the branches of one log the one that closed it last: a closed log
/// takes no more branches. A log whose parent is not here counts as one without.
pub(super) fn parents_first(mut logs: Vec<LogInfo>) -> Vec<LogInfo> {
    let by_id: HashMap<LogId, LogInfo> = logs.iter().map(|log| (log.id, log.clone())).collect();
    let closes = |log: &LogInfo| {
        let parent = log.parent.and_then(|parent| by_id.get(&parent.log));
        parent.is_some_and(|parent| parent.moved_to == Some(log.id))
    };
    let depth = |log: &LogInfo| {
        let (mut depth, mut at) = (0, log);
        // A line is as long as there are logs, unless it is a ring, which no store makes.
        while let Some(parent) = at.parent.and_then(|parent| by_id.get(&parent.log)) {
            (depth, at) = (depth + 1, parent);
            if depth > by_id.len() {
                break;
            }
        }
        depth
    };
    logs.sort_by_key(|log| (depth(log), closes(log), log.id));
    logs
}

#[cfg(test)]
mod tests {
    use cocoonbox_events::{ChainHash, LogKind, Tail, store::Parent};
    use uuid::Uuid;

    use super::*;

    fn log(id: u128, parent: Option<u128>, moved_to: Option<u128>) -> LogInfo {
        let id = LogId(Uuid::from_u128(id));
        let chain = ChainHash([0; 32]);
        LogInfo {
            id,
            kind: LogKind::Box,
            owner: "ada".into(),
            parent: parent.map(|parent| Parent {
                log: LogId(Uuid::from_u128(parent)),
                pos: 1,
                chain,
            }),
            moved_to: moved_to.map(|to| LogId(Uuid::from_u128(to))),
            tail: Tail {
                log: id,
                pos: 1,
                chain,
            },
        }
    }

    #[test]
    fn branches_follow_their_logs_and_what_closes_one_is_last() {
        // 9 was forked to 1 and 7, then rewound to 3, and 3 to 2.
        let logs = vec![
            log(1, Some(9), None),
            log(2, Some(3), None),
            log(3, Some(9), Some(2)),
            log(7, Some(9), None),
            log(9, None, Some(3)),
        ];
        let order: Vec<u128> = parents_first(logs)
            .iter()
            .map(|log| log.id.0.as_u128())
            .collect();
        assert_eq!(order, [9, 1, 7, 3, 2]);
    }
}
