use cocoonbox_proto::agent::v1::{
    SaveSetting,
    save_answer::{self, NotSaved, Saved},
};

use super::*;

fn told(answer: save_answer::Answer) -> SaveAnswer {
    SaveAnswer {
        answer: Some(answer),
    }
}

fn saved(ask_id: &str) -> SaveAnswer {
    told(save_answer::Answer::Saved(Saved {
        ask_id: ask_id.into(),
        snapshot_id: "s".into(),
    }))
}

fn first() -> Saves {
    let saves = Saves::default();
    saves.set(true);
    saves
}

fn ask(saves: &Saves, id: &str) -> tokio::task::JoinHandle<Answer> {
    let (saves, id) = (saves.clone(), id.to_owned());
    tokio::spawn(async move { saves.ask(id.clone(), format!("call {id}")).await })
}

async fn asked(saves: &Saves, stream: u64) -> Vec<String> {
    let asks = saves.next(stream).await.unwrap();
    asks.into_iter().map(|ask| ask.ask_id).collect()
}

#[tokio::test]
async fn nothing_is_asked_where_nothing_waits_for_saves() {
    let saves = Saves::default();
    assert_eq!(saves.ask("a".into(), "c".into()).await, Answer::NotNeeded);
}

#[tokio::test]
async fn what_is_not_answered_is_asked_again_on_the_next_stream() {
    let saves = first();
    let waits = ask(&saves, "a");
    let one = saves.begin();
    assert_eq!(asked(&saves, one).await, ["a"]);
    let two = saves.begin();
    assert_eq!(asked(&saves, two).await, ["a"]);
    assert_eq!(saves.next(one).await, None, "another one has begun");
    saves.take(one, saved("a"));
    assert!(!waits.is_finished(), "the word of a stream that was left");
    saves.take(two, saved("b"));
    saves.take(two, saved("a"));
    assert_eq!(waits.await.unwrap(), Answer::Saved);
}

#[tokio::test]
async fn a_failure_is_told_and_an_impossible_save_is_not_waited_for() {
    let saves = first();
    let stream = saves.begin();
    let not = |ask_id: &str, is_impossible| {
        told(save_answer::Answer::NotSaved(NotSaved {
            ask_id: ask_id.into(),
            reason: "DISK_FULL".into(),
            detail: "no room".into(),
            is_impossible,
        }))
    };
    let one = ask(&saves, "a");
    assert_eq!(asked(&saves, stream).await, ["a"]);
    saves.take(stream, not("a", false));
    let failed = Answer::Failed {
        reason: "DISK_FULL".into(),
        detail: "no room".into(),
    };
    assert_eq!(one.await.unwrap(), failed);
    let two = ask(&saves, "b");
    assert_eq!(asked(&saves, stream).await, ["b"]);
    saves.take(stream, not("b", true));
    assert_eq!(two.await.unwrap(), Answer::NotNeeded);
}

#[tokio::test]
async fn who_waits_goes_on_when_nothing_waits_for_saves_any_more() {
    let saves = first();
    let stream = saves.begin();
    let waits = ask(&saves, "a");
    assert_eq!(asked(&saves, stream).await, ["a"]);
    let setting = SaveSetting { saves_first: false };
    saves.take(stream, told(save_answer::Answer::Setting(setting)));
    assert_eq!(waits.await.unwrap(), Answer::NotNeeded);
}

#[tokio::test]
async fn who_is_gone_is_not_asked_for() {
    let saves = first();
    let gone = ask(&saves, "a");
    let stream = saves.begin();
    assert_eq!(asked(&saves, stream).await, ["a"]);
    gone.abort();
    assert!(gone.await.is_err());
    let _waits = ask(&saves, "b");
    let next = saves.begin();
    assert_eq!(asked(&saves, next).await, ["b"]);
}
