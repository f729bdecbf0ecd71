//! From commands to events, over a real store.

use std::sync::Arc;

use cocoonbox_events::{
    AgentEvent, Aggregate, AppendError, CommandId, Execute, Fold, IllegalTransition, Meta, Payload,
    Store,
};
use cocoonbox_proto::log::v1::{Actor, AgentClosed, AgentCreated, AgentRenamed};

use crate::support::{command, memory, opened, read_all, sqlite, stream, verified};

/// An agent that may be created once, renamed while it is there, and closed.
#[derive(Clone, Default, Debug, PartialEq)]
pub(crate) enum Agent {
    #[default]
    Absent,
    Named(String),
    Closed,
}

pub(crate) enum Ask {
    Create,
    Append(char),
    Close,
}

#[derive(Debug, thiserror::Error, PartialEq)]
#[error("not in this state")]
pub(crate) struct Refused;

impl Aggregate for Agent {
    type Command = Ask;
    type Event = AgentEvent;
    type Rejection = Refused;

    fn decide(&self, command: &Ask) -> Result<Vec<AgentEvent>, Refused> {
        match (self, command) {
            (Self::Absent, Ask::Create) => Ok(vec![AgentEvent::Created(AgentCreated::default())]),
            (Self::Named(name), Ask::Append(letter)) => {
                let name = format!("{name}{letter}");
                Ok(vec![AgentEvent::Renamed(AgentRenamed { name })])
            }
            (Self::Named(_), Ask::Close) => Ok(vec![AgentEvent::Closed(AgentClosed {})]),
            (Self::Closed, Ask::Close) => Ok(Vec::new()),
            _ => Err(Refused),
        }
    }

    fn evolve(self, event: &AgentEvent) -> Result<Self, IllegalTransition> {
        match (self, event) {
            (Self::Absent, AgentEvent::Created(_)) => Ok(Self::Named(String::new())),
            (Self::Named(_), AgentEvent::Renamed(renamed)) => Ok(Self::Named(renamed.name.clone())),
            (Self::Named(_), AgentEvent::Closed(_)) => Ok(Self::Closed),
            (state, event) => {
                let (state, event) = (format!("{state:?}"), event.kind().name());
                Err(IllegalTransition { state, event })
            }
        }
    }

    fn pick(payload: Payload) -> Option<AgentEvent> {
        AgentEvent::pick(payload)
    }
}

fn meta(command: CommandId) -> Meta {
    Meta {
        command,
        actor: Actor::default(),
        cause: None,
    }
}

#[tokio::test]
async fn a_repeated_command_answers_as_it_did() {
    for f in [memory(), sqlite()] {
        let log = opened(&*f.store).await;
        let once = meta(command());
        let mut fold = Fold::<Agent>::new(log, stream("agent/a"));
        let first = fold
            .execute(&*f.store, &Ask::Create, &once, [1; 32])
            .await
            .unwrap();
        assert_eq!(
            (first.events.len(), first.replayed, fold.seq),
            (1, false, 1)
        );
        // Its own event rules it out by now, and still it is the same command.
        let again = fold
            .execute(&*f.store, &Ask::Create, &once, [1; 32])
            .await
            .unwrap();
        assert_eq!(
            (again.events.len(), again.replayed, again.key),
            (0, true, first.key)
        );
        let other = fold.execute(&*f.store, &Ask::Create, &once, [2; 32]).await;
        assert!(matches!(
            other,
            Err(Execute::Append(AppendError::CommandReused))
        ));
        let another = fold
            .execute(&*f.store, &Ask::Create, &meta(command()), [1; 32])
            .await;
        assert!(matches!(another, Err(Execute::Rejected(Refused))));

        fold.execute(&*f.store, &Ask::Close, &meta(command()), [1; 32])
            .await
            .unwrap();
        let nothing = fold
            .execute(&*f.store, &Ask::Close, &meta(command()), [1; 32])
            .await
            .unwrap();
        assert!(nothing.events.is_empty() && !nothing.replayed);
        assert_eq!(nothing.key.pos, 2);
        assert_eq!(verified(&*f.store, log).await.len(), 2);
    }
}

#[tokio::test]
async fn a_command_that_led_to_nothing_leads_to_nothing_later() {
    for f in [memory(), sqlite()] {
        let log = opened(&*f.store).await;
        let mut fold = Fold::<Agent>::new(log, stream("agent/a"));
        let store = &*f.store;
        let (create, close) = (meta(command()), meta(command()));
        fold.execute(store, &Ask::Create, &create, [1; 32])
            .await
            .unwrap();
        fold.execute(store, &Ask::Close, &close, [1; 32])
            .await
            .unwrap();
        let asked = meta(command());
        let nothing = fold.execute_remembered(store, &Ask::Close, &asked, [1; 32]);
        let nothing = nothing.await.unwrap();
        assert!(nothing.events.is_empty() && !nothing.replayed);
        assert_eq!(nothing.key.pos, 2);

        // Repeated late, on another agent that it would close.
        let mut other = Fold::<Agent>::new(log, stream("agent/b"));
        other
            .execute(store, &Ask::Create, &meta(command()), [1; 32])
            .await
            .unwrap();
        let late = other.execute_remembered(store, &Ask::Close, &asked, [1; 32]);
        let late = late.await.unwrap();
        assert!(late.events.is_empty() && late.replayed);
        assert_eq!(late.key, nothing.key);
        assert_eq!(other.state, Agent::Named(String::new()));
        assert_eq!(read_all(store, log, 0).await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_fold_decides_again() {
    let f = sqlite();
    let log = opened(&*f.store).await;
    let mut first = Fold::<Agent>::new(log, stream("agent/a"));
    first
        .execute(&*f.store, &Ask::Create, &meta(command()), [1; 32])
        .await
        .unwrap();
    let tasks: Vec<_> = ('a'..='d')
        .map(|letter| {
            let (store, mut fold): (Arc<dyn Store>, _) = (f.store.clone(), first.clone());
            tokio::spawn(async move {
                // Losing three times in a row is an answer too; the caller tries again then.
                loop {
                    let asked = meta(command());
                    match fold
                        .execute(&*store, &Ask::Append(letter), &asked, [1; 32])
                        .await
                    {
                        Ok(_) => return,
                        Err(Execute::Append(AppendError::Conflict { .. })) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    first.refresh(&*f.store).await.unwrap();
    let Agent::Named(name) = &first.state else {
        panic!("{:?}", first.state)
    };
    let mut letters: Vec<_> = name.chars().collect();
    letters.sort_unstable();
    assert_eq!(letters, ['a', 'b', 'c', 'd']);
    assert_eq!(first.seq, 5);
}

/// What is taken in without being read, and what is not read because nothing came, leaves no fold behind the log.
#[tokio::test]
async fn folds_that_take_turns_are_what_a_reader_finds() {
    for f in [memory(), sqlite()] {
        let store = &*f.store;
        let log = opened(store).await;
        let names = [stream("agent/a"), stream("agent/b")];
        // Two over each stream.
        let mut folds: Vec<_> = [0, 1, 0, 1]
            .map(|of| Fold::<Agent>::new(log, names[of].clone()))
            .into();
        for fold in &mut folds[..2] {
            let asked = meta(command());
            let created = fold.execute(store, &Ask::Create, &asked, [1; 32]);
            created.await.unwrap();
        }
        let mut random = 7_u32;
        for _ in 0..200 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let turn = (random >> 16) as usize % 4;
            let fold = &mut folds[turn];
            if random & 0x0100_0000 == 0 {
                fold.refresh(store).await.unwrap();
            } else {
                let asked = meta(command());
                let append = fold.execute(store, &Ask::Append('x'), &asked, [1; 32]);
                assert_eq!(append.await.unwrap().events.len(), 1);
            }
            let mut anew = Fold::<Agent>::new(log, fold.stream.clone());
            anew.refresh(store).await.unwrap();
            let seen = |fold: &Fold<Agent>| (fold.state.clone(), fold.seq, fold.last);
            assert_eq!(seen(fold), seen(&anew));
        }
        verified(store, log).await;
    }
}
