//! What is erased is nowhere: not in a view, an answer, a file, nor in a backup with the keys of now.

mod branches;

use std::{fs, path::Path, process::Command, sync::Arc, time::Duration};

use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine as _};
use cocoonbox_e2e::{
    Events, Installation, Setup, TheBox, User,
    exec::start,
    history::{History, check_views},
    outcome::assert_refused,
    reason, run, until,
};
use cocoonbox_events::{KeyStore, LogKind, SqliteStore, Store, limits::PAGE_EVENTS_MAX};
use cocoonbox_proto::{
    agent::v1::{CreateAgentRequest, ListAgentsRequest, transcript_item::Kind},
    control::v1::{
        AuditRequest, DeleteUserRequest, EraseRequest, IssueTokenRequest, ListTokensRequest,
        ListUsersRequest, WhoAmIRequest, erase_request::What,
    },
    log::v1::Event,
};
use tonic::Code;

/// Wherever words of a user go.
const PLANTED: [&str; 10] = [
    "zebra-name",
    "zebra-label",
    "zebra-box",
    "zebra-agent",
    "zebra-prompt",
    "zebra-reply",
    "zebra-args",
    "zebra-output",
    "zebra-argv",
    "zebra-printed",
];
const SCRIPT: &str = r#"
[[conversation]]
[[conversation.step]]
text = "zebra-reply is what I say."
tools = [{ name = "shell", args = { command = "mkdir zebra-args; echo zebra-$(echo output)" } }]
[[conversation.step]]
text = "Done."
"#;
const KILLS: [u64; 5] = [5, 60, 150, 400, 900];

struct Victim {
    user: User,
    the_box: TheBox,
}

impl Victim {
    /// Not one of the installation's own users: they are all there at its end.
    async fn of(installation: &Installation) -> Self {
        let user = installation
            .admin()
            .create("zebra-name", installation.channel())
            .await;
        let label = "zebra-label".to_owned();
        let issued = user
            .users()
            .issue_token(IssueTokenRequest {
                label,
                sign_in: false,
            })
            .await;
        issued.expect("a token is issued");
        let the_box = TheBox::up(installation, &user, "zebra-box").await;
        let agent = CreateAgentRequest {
            name: "zebra-agent".into(),
            ..Default::default()
        };
        let created = user.agents(&the_box.id).create(agent).await;
        created.expect("an agent is made");
        the_box.send("Remember zebra-prompt.").await.assert_done();
        let line = ": zebra-argv; echo zebra-$(echo printed)";
        let ran = the_box
            .exec(start(&["sh", "-c", line]))
            .await
            .expect("it is run");
        assert_eq!(ran.out(), "zebra-printed\n");
        the_box
            .events_with(ran.keys.last().expect("a key"), &[])
            .await;
        Self { user, the_box }
    }

    async fn events(&self) -> Vec<Event> {
        self.the_box.events("", &[]).all().await.expect("readable")
    }

    /// The first event of a kind that holds a word.
    async fn key_of(&self, kind: &str, word: &str) -> String {
        let events = self.events().await;
        let found = events
            .iter()
            .find(|event| event.kind == kind && holds(&event.payload, word).is_some());
        found
            .unwrap_or_else(|| panic!("no {kind} with {word}"))
            .offset_key
            .clone()
    }

    async fn delete(&self) -> Result<bool, tonic::Status> {
        let request = DeleteUserRequest {
            user_id: self.user.id.clone(),
            confirm_name: self.user.name.clone(),
            force: false,
        };
        Ok(self
            .user
            .users()
            .delete(request)
            .await?
            .into_inner()
            .deleted)
    }

    /// What every answer says that shows words, as one text.
    async fn answers(&self) -> String {
        let mut users = self.user.users();
        let audit = AuditRequest {
            page_size: 1_000,
            ..Default::default()
        };
        format!(
            "{:?} {:?} {:?} {:?} {:?} {}",
            users.who_am_i(WhoAmIRequest {}).await.expect("readable"),
            users
                .list_tokens(ListTokensRequest {})
                .await
                .expect("readable"),
            users.audit(audit).await.expect("readable"),
            self.the_box.transcript().await,
            self.user
                .agents(&self.the_box.id)
                .list(ListAgentsRequest {})
                .await,
            self.events()
                .await
                .iter()
                .map(|event| String::from_utf8_lossy(&event.payload).into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        )
    }
}

fn erase(key: &str) -> EraseRequest {
    EraseRequest {
        what: Some(What::Item(key.to_owned())),
        reason: "a slip".into(),
        ..Default::default()
    }
}

/// The forms in which a word may lie somewhere: itself, in hex, and within base64 at each alignment.
fn forms(word: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![word.as_bytes().to_vec(), hex::encode(word).into_bytes()];
    for shift in 0..3 {
        let text = BASE64_STANDARD_NO_PAD.encode([&vec![b'.'; shift], word.as_bytes()].concat());
        // Letters at both ends depend on what is beside the word.
        forms.push(text.as_bytes()[shift + 1..text.len() - 2].to_vec());
    }
    forms
}

fn holds(bytes: &[u8], word: &str) -> Option<Vec<u8>> {
    forms(word)
        .into_iter()
        .find(|form| bytes.windows(form.len()).any(|window| window == form))
}

/// Where any of these words lies below a folder: `grep`, since the files are large and this is a test build.
fn found(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for word in words {
        let mut grep = Command::new("grep");
        grep.args(["-r", "-l", "-a", "-F", "-D", "skip"]);
        for form in forms(word) {
            let form = String::from_utf8(form).expect("letters and digits");
            grep.arg("-e").arg(form);
        }
        let output = grep.arg(folder).output().expect("grep runs");
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        found.extend(names.lines().map(|path| format!("{word} in {path}")));
    }
    found
}

/// Words that a log file gives away together with the keys of now, by the kind of log.
async fn readable(
    log_db: &Path,
    keys: &Path,
    words: &[&'static str],
) -> Vec<(LogKind, &'static str)> {
    let keys = KeyStore::open_read_only(keys).expect("the keys can be opened");
    let store = SqliteStore::open_read_only(log_db, Arc::new(keys)).expect("a log");
    let mut found = Vec::new();
    for info in store.logs() {
        let mut after = 0;
        loop {
            let page = store
                .read(info.id, after, PAGE_EVENTS_MAX)
                .await
                .expect("a page");
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.pos;
            for body in page.events.iter().filter_map(|event| event.body.as_ref()) {
                let words = words
                    .iter()
                    .filter(|word| holds(&body.payload, word).is_some());
                found.extend(words.map(|word| (info.kind, *word)));
            }
        }
    }
    store.close().await;
    found
}

/// A copy of the log as a backup takes it.
fn backed_up(data: &Path) -> tempfile::TempDir {
    let backup = tempfile::tempdir().expect("a folder");
    for name in ["log.db", "log.db-wal"] {
        let from = data.join(name);
        if from.exists() {
            fs::copy(from, backup.path().join(name)).expect("a copy");
        }
    }
    backup
}

#[test]
fn what_is_erased_or_deleted_is_nowhere() {
    run(async {
        let installation = Setup::scripted(SCRIPT).start().await;
        let data = installation.data().to_owned();
        let other = installation.user("heron-stays").await;
        let victim = Victim::of(&installation).await;
        let before = victim.answers().await;
        for word in PLANTED.iter().filter(|word| **word != "zebra-box") {
            assert!(before.contains(word), "`{word}` was not planted");
        }
        assert!(!found(&data, &["zebra-reply"]).is_empty());

        one_item(&victim, &data).await;
        structure_stays(&victim).await;

        let backup = backed_up(&data);
        let gives_away = readable(&backup.path().join("log.db"), &data, &PLANTED).await;
        assert!(
            gives_away.contains(&(LogKind::Box, "zebra-reply")),
            "{gives_away:?}"
        );
        assert!(gives_away.contains(&(LogKind::Account, "zebra-label")));

        let mut live = Events::of_account(&victim.user, "", &[]);
        live.item().await.expect("an open stream");
        assert!(victim.delete().await.expect("deleted"), "not done in time");
        while live.item().await.is_ok() {}
        let refused = victim.user.users().who_am_i(WhoAmIRequest {}).await;
        assert_refused(
            "a token of nobody",
            &refused.expect_err("deleted"),
            &[Code::Unauthenticated],
        );
        is_nowhere(&installation, &other).await;
        let gives_away = readable(&backup.path().join("log.db"), &data, &PLANTED).await;
        // The name in the directory is no user's: a backup of the system log keeps it.
        assert!(
            gives_away
                .iter()
                .all(|found| *found == (LogKind::System, "zebra-name")),
            "a backup with the keys of now: {gives_away:?}"
        );

        let again = installation.user("zebra-name").await;
        assert_ne!(again.id, victim.user.id);
        installation.stop();
        History::verified(&data).await;
        check_views(&data).await;
        installation.restart().await;
    });
}

async fn one_item(victim: &Victim, data: &Path) {
    victim.the_box.hibernate().await;
    let key = victim.key_of("agent.prompt_received", "zebra-prompt").await;
    let dry = EraseRequest {
        dry_run: true,
        ..erase(&key)
    };
    let plan = victim
        .user
        .erasure()
        .erase(dry)
        .await
        .expect("a plan")
        .into_inner();
    assert_eq!((plan.erased.len(), plan.kept.len()), (1, 0), "{plan:?}");
    victim.key_of("agent.prompt_received", "zebra-prompt").await;

    let done = victim
        .user
        .erasure()
        .erase(erase(&key))
        .await
        .expect("erased")
        .into_inner();
    assert!(!done.complete, "the box sleeps and holds its own copy");
    let answers = victim.answers().await;
    assert!(!answers.contains("zebra-prompt"), "{answers}");
    assert!(
        answers.contains("zebra-reply"),
        "more was erased than asked for"
    );
    let transcript = victim.the_box.transcript().await;
    let gone: Vec<_> = transcript.iter().filter(|item| item.erased).collect();
    assert!(
        gone.len() == 1 && gone[0].kind() == Kind::Prompt && gone[0].offset_key == key,
        "a reader is told that it was erased: {transcript:?}"
    );
    let outside: Vec<_> = found(data, &["zebra-prompt"])
        .into_iter()
        .filter(|place| !place.contains("/boxes/"))
        .collect();
    assert!(outside.is_empty(), "{outside:#?}");
    assert!(
        !found(data, &["zebra-prompt"]).is_empty(),
        "the sleeping box lost its log"
    );

    victim.the_box.wake().await;
    Events::of_account(&victim.user, "", &["erasure/"])
        .next_of("erasure.box_erased")
        .await;
    victim
        .the_box
        .events("", &["log/"])
        .next_of("log.erasure_done")
        .await;
    victim.the_box.hibernate().await;
    let left = found(data, &["zebra-prompt"]);
    assert!(left.is_empty(), "{left:#?}");
}

async fn structure_stays(victim: &Victim) {
    let events = victim.events().await;
    let started = events
        .iter()
        .find(|event| event.kind == "agent.turn_started");
    let key = &started.expect("a turn").offset_key;
    let refused = victim
        .user
        .erasure()
        .erase(erase(key))
        .await
        .expect_err("structure");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "STRUCTURE")
    );
    let wrong = DeleteUserRequest {
        user_id: victim.user.id.clone(),
        confirm_name: "somebody".into(),
        force: false,
    };
    let refused = victim
        .user
        .users()
        .delete(wrong)
        .await
        .expect_err("not confirmed");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

/// Checks that nothing of the victim is left, and all of the others.
async fn is_nowhere(installation: &Installation, other: &User) {
    let data = installation.data();
    let list = installation.admin().users().list(ListUsersRequest {}).await;
    let names: Vec<_> = list
        .expect("readable")
        .into_inner()
        .users
        .into_iter()
        .map(|user| user.name)
        .collect();
    assert_eq!(names, ["admin", "heron-stays"]);
    let me = other
        .users()
        .who_am_i(WhoAmIRequest {})
        .await
        .expect("untouched");
    assert_eq!(me.into_inner().name, "heron-stays");
    let gives_away = readable(&data.join("log.db"), data, &PLANTED).await;
    assert!(gives_away.is_empty(), "{gives_away:?}");
    let left = found(data, &PLANTED);
    assert!(left.is_empty(), "{left:#?}");
    let log = installation.api_log();
    for word in PLANTED {
        assert!(!log.contains(word), "the api has logged `{word}`");
    }
    History::verified(data).await;
}

#[test]
fn a_deletion_that_is_killed_is_finished() {
    run(async {
        let installation = Setup::scripted(SCRIPT).start().await;
        let other = installation.user("heron-stays").await;
        let victim = Victim::of(&installation).await;
        for kill_after in KILLS {
            let call = victim.delete();
            let cut = tokio::time::timeout(Duration::from_millis(kill_after), call).await;
            installation.kill9();
            installation.restart().await;
            if matches!(cut, Ok(Ok(true))) {
                break;
            }
        }
        // Nobody asks any more: what is owed is paid all the same.
        until("the user is gone", || async {
            let list = installation.admin().users().list(ListUsersRequest {}).await;
            let gone = list.is_ok_and(|list| list.into_inner().users.len() == 2);
            let data = installation.data();
            (gone && found(data, &PLANTED).is_empty()).then_some(())
        })
        .await;
        is_nowhere(&installation, &other).await;
        let again = installation.user("zebra-name").await;
        assert_ne!(again.id, victim.user.id);
    });
}
