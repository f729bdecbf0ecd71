//! Logs that were left for a branch, and rows that say otherwise.

use cocoonbox_events::{ChainHash, LogEvent, LogId, LogKind, NewLog, Parent};
use cocoonbox_proto::log::v1::LogRewound;
use cocoonbox_replay::verify_all;
use rusqlite::params;

use crate::{
    evidence::{Evidence, branch, named},
    world::{World, account, box_log, log},
};

/// Sets what a log's own row says of where it goes on.
fn mark(evidence: &Evidence, of: LogId, to: Option<LogId>) {
    let file = evidence.meddler();
    let to = to.map(|to| to.as_bytes().to_vec());
    let sql = "UPDATE log SET moved_to = ?1 WHERE log_id = ?2";
    let changed = file.execute(sql, params![to, of.as_bytes().as_slice()]);
    assert_eq!(changed.unwrap(), 1);
}

#[tokio::test]
async fn a_mark_that_was_cleared_is_found_where_the_rewind_is_told() {
    let evidence = Evidence::laid_down().await;
    mark(&evidence, box_log(), None);
    let report = evidence.verify(&evidence.trust()).await;
    let told: Vec<_> = report.findings.iter().collect();
    assert_eq!(told.len(), 1, "{report:#?}");
    assert_eq!(told[0].log, account());
    assert!(told[0].pos > 0 && told[0].what.contains(&box_log().to_string()));
    assert!(told[0].what.contains("says nothing of that"), "{told:?}");
    mark(&evidence, box_log(), Some(branch()));
    assert!(evidence.verify(&evidence.trust()).await.is_good());
}

fn off(parent: LogId, pos: u64, chain: ChainHash, id: LogId, kind: LogKind) -> NewLog {
    let parent = Parent {
        log: parent,
        pos,
        chain,
    };
    NewLog {
        id,
        kind,
        owner: "u1".into(),
        parent: Some(parent),
    }
}

#[tokio::test]
async fn a_rewind_that_nobody_told_of_is_found() {
    let mut world = World::whole().await;
    let chain = world.store.chain_at(box_log(), 3).await.unwrap();
    let untold = off(box_log(), 3, chain, log(9), LogKind::Box);
    world.store.rewind(untold).await.unwrap();
    let report = verify_all(&world.store).await.unwrap();
    let found: Vec<_> = report.findings.iter().collect();
    assert_eq!(found.len(), 1, "{report:#?}");
    assert_eq!((found[0].log, found[0].pos), (box_log(), 0));
    assert!(found[0].what.contains("no event tells of that"));

    // The operator's rewind of an account: marked first, told by the branch's first event.
    let mut world_of = async |tells: bool| {
        world = World::whole().await;
        let tail = world.store.tail(account()).unwrap();
        let new = off(account(), tail.pos, tail.chain, log(9), LogKind::Account);
        world.store.rewind(new).await.unwrap();
        let half = verify_all(&world.store).await.unwrap();
        assert!(half.is_good(), "a process ended before it told: {half:#?}");
        let told = LogEvent::Rewound(LogRewound {
            old_log: account().as_bytes().to_vec(),
            common: tail.pos,
            reason: "restored".into(),
        });
        if tells {
            world.forge(log(9), "log/rewinds", told).await;
        }
        let renamed = cocoonbox_proto::log::v1::UserRenamed { name: "eve".into() };
        let renamed = cocoonbox_events::UserEvent::Renamed(renamed);
        world.forge(log(9), "user/u1", renamed).await;
        verify_all(&world.store).await.unwrap()
    };
    let told = world_of(true).await;
    assert!(told.is_good(), "{told:#?}");
    let untold = world_of(false).await;
    assert_eq!(named(&untold, account()), [0].into(), "{untold:#?}");
}
