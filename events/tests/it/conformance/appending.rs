use cocoonbox_events::{AppendError, Expect, Happened, LogId, LogKind, NewLog, Parent, ReadError};
use uuid::Uuid;

use crate::support::{
    Fixture, append, committed, expecting, new_log, opened, read_all, replayed, text_of, verified,
};

pub(super) async fn positions_are_gapless(f: Fixture) {
    let log = opened(&*f.store).await;
    let first = committed(
        f.store
            .append(log, append(&[("agent/a", "1"), ("agent/b", "2")]))
            .await,
    );
    let second = committed(f.store.append(log, append(&[("agent/a", "3")])).await);
    assert_eq!((first.first, first.last), (1, 2));
    assert_eq!((second.first, second.last), (3, 3));

    let events = verified(&*f.store, log).await;
    let texts: Vec<_> = events.iter().filter_map(text_of).collect();
    assert_eq!(texts, ["1", "2", "3"]);
    assert_eq!(events[1].chain, first.chain);
    assert_eq!(events[2].chain, second.chain);
    assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 1, 2]);
}

pub(super) async fn opening_is_idempotent(f: Fixture) {
    let new = new_log();
    let tail = f.store.open(new.clone()).await.unwrap();
    assert_eq!(tail.pos, 0);
    committed(f.store.append(new.id, append(&[("agent/a", "1")])).await);
    assert_eq!(f.store.open(new.clone()).await.unwrap().pos, 1);

    let others = [
        NewLog {
            kind: LogKind::System,
            ..new.clone()
        },
        NewLog {
            owner: "eve".into(),
            ..new.clone()
        },
        NewLog {
            parent: Some(Parent {
                log: LogId(Uuid::now_v7()),
                pos: 1,
                chain: tail.chain,
            }),
            ..new.clone()
        },
    ];
    for other in others {
        let refused = f.store.open(other).await;
        assert!(matches!(refused, Err(AppendError::OtherLog { log }) if log == new.id));
    }
    let infos = f.store.logs();
    assert_eq!(infos.len(), 1);
    assert_eq!(
        (infos[0].id, infos[0].kind, infos[0].tail.pos),
        (new.id, LogKind::Box, 1)
    );
    assert_eq!(infos[0].owner, "ada");
}

pub(super) async fn unknown_logs_are_refused(f: Fixture) {
    let log = LogId(Uuid::now_v7());
    let refused = f.store.append(log, append(&[("agent/a", "1")])).await;
    assert!(matches!(refused, Err(AppendError::NoSuchLog { .. })));
    assert!(matches!(
        f.store.erase(log, &[1]).await,
        Err(AppendError::NoSuchLog { .. })
    ));
    assert!(matches!(
        f.store.read(log, 0, 1).await,
        Err(ReadError::NoSuchLog { .. })
    ));
    assert!(matches!(
        f.store.chain_at(log, 0).await,
        Err(ReadError::NoSuchLog { .. })
    ));
    assert!(matches!(
        f.store.tail(log),
        Err(ReadError::NoSuchLog { .. })
    ));
    assert!(matches!(
        f.store.doorbell(log),
        Err(ReadError::NoSuchLog { .. })
    ));
}

pub(super) async fn expectations_hold_or_conflict(f: Fixture) {
    let log = opened(&*f.store).await;
    let one = || append(&[("agent/a", "x")]);
    committed(
        f.store
            .append(log, expecting(one(), &[("agent/a", Expect::Absent)]))
            .await,
    );
    committed(
        f.store
            .append(log, expecting(one(), &[("agent/a", Expect::Exactly(1))]))
            .await,
    );
    committed(
        f.store
            .append(log, expecting(one(), &[("agent/a", Expect::Any)]))
            .await,
    );
    committed(
        f.store
            .append(log, expecting(one(), &[("agent/b", Expect::Exactly(0))]))
            .await,
    );

    for expected in [
        Expect::Absent,
        Expect::Exactly(0),
        Expect::Exactly(2),
        Expect::Exactly(9),
    ] {
        let refused = f
            .store
            .append(log, expecting(one(), &[("agent/a", expected)]))
            .await;
        match refused {
            Err(AppendError::Conflict {
                stream,
                expected: told,
                actual,
            }) => {
                assert_eq!((stream.as_str(), told, actual), ("agent/a", expected, 4));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(verified(&*f.store, log).await.len(), 4);
}

pub(super) async fn several_streams_are_expected(f: Fixture) {
    let log = opened(&*f.store).await;
    committed(f.store.append(log, append(&[("name/x", "taken")])).await);
    let both = |name| {
        let events = append(&[("box/1", "named"), (name, "taken")]);
        expecting(events, &[("box/1", Expect::Absent), (name, Expect::Absent)])
    };
    let refused = f.store.append(log, both("name/x")).await;
    assert!(matches!(
        refused,
        Err(AppendError::Conflict { actual: 1, .. })
    ));
    // Nothing of it was written, not even for the stream whose expectation held.
    assert_eq!(f.store.tail(log).unwrap().pos, 1);
    committed(f.store.append(log, both("name/y")).await);
    assert_eq!(verified(&*f.store, log).await.len(), 3);
}

pub(super) async fn one_of_many_rivals_wins(f: Fixture) {
    let log = opened(&*f.store).await;
    for round in 0..8 {
        let rivals = (0..32).map(|_| {
            let (store, rival) = (f.store.clone(), append(&[("agent/a", "mine")]));
            let rival = expecting(rival, &[("agent/a", Expect::Exactly(round))]);
            tokio::spawn(async move { store.append(log, rival).await })
        });
        let (mut won, mut lost) = (0, 0);
        for rival in rivals.collect::<Vec<_>>() {
            match rival.await.unwrap() {
                Ok(_) => won += 1,
                Err(AppendError::Conflict { actual, .. }) => {
                    assert_eq!(actual, round + 1);
                    lost += 1;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!((won, lost), (1, 31));
    }
    assert_eq!(verified(&*f.store, log).await.len(), 8);
}

pub(super) async fn a_command_happens_once(f: Fixture) {
    let log = opened(&*f.store).await;
    let once = append(&[("agent/a", "1"), ("agent/a", "2")]);
    let range = committed(f.store.append(log, once.clone()).await);
    committed(f.store.append(log, append(&[("agent/a", "3")])).await);
    assert_eq!(replayed(f.store.append(log, once.clone()).await), range);

    let mut other = once.clone();
    other.digest = [2; 32];
    let reused = f.store.append(log, other).await;
    assert!(matches!(reused, Err(AppendError::CommandReused)));
    assert_eq!(verified(&*f.store, log).await.len(), 3);
    let happened = f.store.happened(log, once.command).await.unwrap();
    assert_eq!(
        happened,
        Some(Happened {
            digest: Some([1; 32]),
            range
        })
    );
    assert_eq!(
        f.store
            .happened(log, crate::support::command())
            .await
            .unwrap(),
        None
    );
}

pub(super) async fn concurrent_duplicates_happen_once(f: Fixture) {
    let log = opened(&*f.store).await;
    let once = append(&[("agent/a", "once")]);
    let tries = (0..32).map(|_| {
        let (store, once) = (f.store.clone(), once.clone());
        tokio::spawn(async move { store.append(log, once).await.unwrap() })
    });
    let mut answers = Vec::new();
    for one in tries.collect::<Vec<_>>() {
        answers.push(one.await.unwrap());
    }
    let is_committed = |a: &&_| matches!(a, cocoonbox_events::Appended::Committed(..));
    assert_eq!(answers.iter().filter(is_committed).count(), 1);
    assert!(
        answers
            .iter()
            .all(|answer| answer.range() == answers[0].range())
    );
    assert_eq!(verified(&*f.store, log).await.len(), 1);
}

pub(super) async fn a_replay_outlives_its_expectation(f: Fixture) {
    let log = opened(&*f.store).await;
    let create = expecting(
        append(&[("agent/a", "created")]),
        &[("agent/a", Expect::Absent)],
    );
    let range = committed(f.store.append(log, create.clone()).await);
    // The stream is there by now, by this very command: that is no conflict.
    assert_eq!(replayed(f.store.append(log, create.clone()).await), range);
    let mut other = create;
    other.digest = [9; 32];
    assert!(matches!(
        f.store.append(log, other).await,
        Err(AppendError::CommandReused)
    ));
}

pub(super) async fn a_command_without_events_is_remembered(f: Fixture) {
    let log = opened(&*f.store).await;
    let (early, late) = (append(&[]), append(&[]));
    let in_empty_log = committed(f.store.append(log, early.clone()).await);
    assert_eq!((in_empty_log.first, in_empty_log.last), (1, 0));
    assert_eq!(in_empty_log.chain, f.store.tail(log).unwrap().chain);

    let one = committed(f.store.append(log, append(&[("agent/a", "1")])).await);
    let behind_it = committed(f.store.append(log, late.clone()).await);
    assert_eq!((behind_it.first, behind_it.last), (2, 1));
    assert_eq!(behind_it.chain, one.chain);
    committed(f.store.append(log, append(&[("agent/a", "2")])).await);

    // Whatever it would lead to by now: it was fulfilled then.
    for (asked, then) in [(early, in_empty_log), (late, behind_it)] {
        let happened = f.store.happened(log, asked.command).await.unwrap();
        let (digest, range) = (None, then);
        assert_eq!(happened, Some(Happened { digest, range }));
        let mut again = append(&[("agent/a", "late")]);
        again.command = asked.command;
        assert_eq!(replayed(f.store.append(log, asked).await), then);
        assert_eq!(replayed(f.store.append(log, again).await), then);
    }
    assert_eq!(verified(&*f.store, log).await.len(), 2);
}

pub(super) async fn a_command_without_events_is_decided_on_what_is_there(f: Fixture) {
    let log = opened(&*f.store).await;
    committed(f.store.append(log, append(&[("agent/a", "1")])).await);
    let refused = expecting(append(&[]), &[("agent/a", Expect::Absent)]);
    let conflict = f.store.append(log, refused.clone()).await;
    assert!(matches!(conflict, Err(AppendError::Conflict { .. })));
    let happened = f.store.happened(log, refused.command).await.unwrap();
    assert_eq!(happened, None);
}

pub(super) async fn limits_are_typed_errors(f: Fixture) {
    let log = opened(&*f.store).await;
    let full: Vec<_> = (0..256).map(|_| ("agent/a", "x")).collect();
    committed(f.store.append(log, append(&full)).await);
    let over: Vec<_> = (0..257).map(|_| ("agent/a", "x")).collect();
    let refused = f.store.append(log, append(&over)).await;
    assert!(matches!(refused, Err(AppendError::TooMany { events: 257 })));

    // Two or three bytes of every payload are the message around the text.
    let large = "x".repeat(256 * 1024 - 4);
    committed(f.store.append(log, append(&[("agent/a", &large)])).await);
    let too_large = "x".repeat(256 * 1024);
    let refused = f
        .store
        .append(log, append(&[("agent/a", &too_large)]))
        .await;
    assert!(
        matches!(refused, Err(AppendError::TooLarge { kind: "agent.renamed", bytes }) if bytes > 256 * 1024)
    );

    let together = vec![("agent/a", large.as_str()); 5];
    let refused = f.store.append(log, append(&together)).await;
    assert!(matches!(refused, Err(AppendError::TooLarge { .. })));

    let mut wordy = append(&[("agent/a", "x")]);
    wordy.actor.id = "x".repeat(4 * 1024);
    let refused = f.store.append(log, wordy).await;
    assert!(matches!(refused, Err(AppendError::TooLarge { .. })));

    let mut doubtful = append(&[("agent/a", "x")]);
    doubtful.expect = vec![(crate::support::stream("agent/a"), Expect::Any); 257];
    let refused = f.store.append(log, doubtful).await;
    assert!(matches!(refused, Err(AppendError::TooMany { events: 257 })));

    assert_eq!(verified(&*f.store, log).await.len(), 257);
}

pub(super) async fn time_never_goes_back(f: Fixture) {
    let log = opened(&*f.store).await;
    for now_us in [5_000, 4_000, 6_000] {
        f.clock.set(now_us);
        committed(f.store.append(log, append(&[("agent/a", "x")])).await);
    }
    let times: Vec<_> = verified(&*f.store, log)
        .await
        .iter()
        .map(|e| e.recorded_us)
        .collect();
    assert_eq!(times, [5_000, 5_000, 6_000]);
}

pub(super) async fn logs_are_apart(f: Fixture) {
    let (a, b) = (opened(&*f.store).await, opened(&*f.store).await);
    let same = append(&[("agent/a", "1")]);
    committed(f.store.append(a, same.clone()).await);
    // Neither the stream nor the command id of one log means anything in another.
    let same = expecting(same, &[("agent/a", Expect::Absent)]);
    assert_eq!(committed(f.store.append(b, same).await).first, 1);
    committed(f.store.append(a, append(&[("agent/a", "2")])).await);
    assert_eq!(verified(&*f.store, a).await.len(), 2);
    assert_eq!(verified(&*f.store, b).await.len(), 1);
    f.store.erase(b, &[1, 2]).await.unwrap();
    assert!(
        read_all(&*f.store, a, 0)
            .await
            .iter()
            .all(|event| event.body.is_some())
    );
}
