//! One person's token is worth one person: every method there is, tried with somebody else's ids.

mod attacks;

use base64::prelude::{
    BASE64_STANDARD_NO_PAD as STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD,
    Engine as _,
};
use bytes::Bytes;
use cocoonbox_e2e::{
    Events, Installation, Setup, Shared, TheBox, User, events::payload_if, exec::start,
    outcome::assert_refused, raw::Call, reason, run, until::until,
};
use cocoonbox_events::{Clock as _, KeyStore, SystemClock};
use cocoonbox_proto::{
    agent::v1 as agent,
    control::v1::{self as control, RevokeTokenRequest},
    log::v1::BoxRunning,
};
use ed25519_dalek::{Signer as _, SigningKey};
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::{Code, Status};

use self::attacks::{Must, attack, plan};

static SHARED: Shared = Shared::new(Setup::plain);

/// What ada has and bob tries to reach.
struct Victim {
    user: User,
    the_box: TheBox,
    operation_id: String,
    exec_id: String,
    routine_id: String,
    account_key: String,
    box_key: String,
    prompt: &'static str,
}

/// All methods of the services that clients can reach, as `/package.Service/Method`.
fn methods() -> Vec<String> {
    let set = FileDescriptorSet::decode(cocoonbox_proto::DESCRIPTORS).expect("valid descriptors");
    let mut methods = Vec::new();
    for file in &set.file {
        // Spoken inside the box only; the api does not route it.
        if file.package() == "cocoonbox.toolhost.v1" {
            continue;
        }
        for service in &file.service {
            for method in &service.method {
                methods.push(format!(
                    "/{}.{}/{}",
                    file.package(),
                    service.name(),
                    method.name()
                ));
            }
        }
    }
    assert!(methods.len() >= 28, "{methods:?}");
    methods
}

impl Victim {
    async fn of(installation: &Installation, name: &str) -> Self {
        let user = installation.user(name).await;
        let request = control::EnsureRequest::default();
        let (_, ended) = user.ensure_as(request).await.expect("a box can be ensured");
        let the_box = TheBox::up(installation, &user, "main").await;
        the_box
            .sh("echo hidden-in-a-file > /workspace/secret")
            .await;
        let ran = the_box.exec(start(&["true"])).await.expect("it is run");
        let routine = control::CreateRoutineRequest {
            box_id: the_box.id.clone(),
            plan: Some(plan("hidden-in-a-name")),
            ..Default::default()
        };
        let routine = user.routines().create(routine).await;
        let prompt = "hidden-in-a-prompt";
        the_box.send(prompt).await.assert_done();
        let account = cocoonbox_e2e::Events::of_account(&user, "", &[]);
        let account = account.all().await.expect("readable");
        let events = the_box.events_with(&ran.keys[0], &[]).await;
        Self {
            operation_id: ended.expect("an operation").operation_id,
            exec_id: ran.exec_id,
            routine_id: routine.expect("a routine").into_inner().id,
            account_key: account.last().expect("events").offset_key.clone(),
            box_key: events.last().expect("events").offset_key.clone(),
            user,
            the_box,
            prompt,
        }
    }

    /// What must not be in any answer to somebody else.
    fn marks(&self) -> Vec<String> {
        let log = |key: &str| key.split('.').next().expect("a log id").to_owned();
        vec![
            self.user.id.clone(),
            self.user.name.clone(),
            self.user.token_id.clone(),
            self.user.token.clone(),
            self.the_box.id.clone(),
            self.operation_id.clone(),
            self.exec_id.clone(),
            self.routine_id.clone(),
            "hidden-in-a-name".to_owned(),
            self.prompt.to_owned(),
            "hidden-in-a-file".to_owned(),
            log(&self.account_key),
            log(&self.box_key),
        ]
    }

    fn check(&self, method: &str, answers: &[Bytes]) {
        for mark in self.marks() {
            let found = answers.iter().any(|answer| {
                answer
                    .windows(mark.len())
                    .any(|window| window == mark.as_bytes())
            });
            assert!(!found, "{method} shows somebody else's `{mark}`");
        }
    }
}

#[test]
fn no_method_reaches_somebody_elses_box_log_or_stream() {
    run(async {
        let installation = SHARED.get().await;
        let ada = Victim::of(&installation, "ada-the-owner").await;
        let bob = installation.user("bob-the-other").await;
        for method in methods() {
            let (message, must) = attack(&method, &ada);
            let mut call = Call::new(&method, message).token(&bob.token);
            call.answers_max = 1;
            let outcome = call
                .with("box_id", &ada.the_box.id)
                .make(installation.channel())
                .await;
            match (must, outcome) {
                (Must::ShowNothing, Ok(answers)) => ada.check(&method, &answers),
                (Must::ShowNothing, Err(status)) => panic!("{method}: {status:?}"),
                (Must::BeRefused, Err(status)) => {
                    let alike = [Code::NotFound, Code::PermissionDenied];
                    // A key of another log is bad input, whoever's log it is.
                    let foreign_key = [Code::InvalidArgument];
                    let has_key = method.ends_with("Users/Events");
                    let codes = if has_key {
                        &foreign_key[..]
                    } else {
                        &alike[..]
                    };
                    assert_refused(&method, &status, codes);
                }
                (Must::BeRefusedToAll, Err(status)) => {
                    assert_refused(&method, &status, &[Code::PermissionDenied, Code::NotFound]);
                }
                (_, Ok(answers)) => panic!("{method} answered: {answers:?}"),
            }
        }
        // Keys of foreign logs open nothing.
        let bobs = TheBox::up(&installation, &bob, "main").await;
        bobs.sh("true").await;
        for key in [&ada.box_key, &ada.account_key] {
            let status = bobs
                .events(key, &[])
                .all()
                .await
                .expect_err("a foreign key");
            assert_refused(
                "a foreign key",
                &status,
                &[Code::InvalidArgument, Code::NotFound],
            );
        }
        // Nothing of this has touched ada.
        assert_eq!(
            ada.the_box.sh("cat /workspace/secret").await,
            "hidden-in-a-file\n"
        );
        let transcript = ada.the_box.transcript().await;
        assert!(transcript.iter().all(|item| item.text != "hi"));
        let admin = installation.admin();
        let list = admin
            .users()
            .list(control::ListUsersRequest {})
            .await
            .expect("admins may");
        assert!(
            list.into_inner()
                .users
                .iter()
                .all(|user| user.name != "eve")
        );
    });
}

#[test]
fn somebody_elses_box_and_no_box_are_answered_alike() {
    run(async {
        let installation = SHARED.get().await;
        let ada = Victim::of(&installation, "ada-alike").await;
        let bob = installation.user("bob-alike").await;
        for method in [
            "/cocoonbox.agent.v1.Session/Hello",
            "/cocoonbox.agent.v1.Agents/List",
        ] {
            let mut statuses = Vec::new();
            for id in [ada.the_box.id.as_str(), "b0123456789abcdef"] {
                let call = Call::new(method, Bytes::new())
                    .token(&bob.token)
                    .with("box_id", id);
                let status = call
                    .make(installation.channel())
                    .await
                    .expect_err("refused");
                statuses.push((
                    status.code(),
                    reason(&status),
                    status.message().replace(id, "ID"),
                ));
            }
            assert_eq!(statuses[0], statuses[1]);
        }
    });
}

#[test]
fn a_command_id_of_somebody_else_makes_a_box_of_ones_own() {
    run(async {
        let installation = SHARED.get().await;
        let ada = installation.user("ada-command").await;
        let bob = installation.user("bob-command").await;
        let request = || control::EnsureRequest {
            name: "same".into(),
            command_id: "00000000-0000-4000-8000-000000000001".into(),
            ..Default::default()
        };
        let of_ada = ada
            .boxes()
            .ensure(request())
            .await
            .expect("ada's")
            .into_inner();
        let of_bob = bob
            .boxes()
            .ensure(request())
            .await
            .expect("bob's")
            .into_inner();
        assert_ne!(of_ada.id, of_bob.id);
        assert_ne!(of_ada.log_id, of_bob.log_id);
        let again = ada
            .boxes()
            .ensure(request())
            .await
            .expect("the same again")
            .into_inner();
        assert_eq!(of_ada.id, again.id);
    });
}

#[test]
fn a_revoked_token_ends_its_streams() {
    run(async {
        let installation = SHARED.get().await;
        let ada = installation.user("ada-revoked").await;
        let label = control::IssueTokenRequest {
            label: "thief".into(),
            ..Default::default()
        };
        let issued = ada
            .users()
            .issue_token(label)
            .await
            .expect("issued")
            .into_inner();
        let token_id = issued.token_id.clone();
        let thief = User::new(issued, installation.channel());
        let mut stolen = Events::of_account(&thief, "", &[]);
        stolen.next_of("user.token_issued").await;
        let mut raw = thief
            .users()
            .events(control::AccountEventsRequest::default())
            .await
            .expect("opened")
            .into_inner();
        raw.message().await.expect("read").expect("an event");
        ada.users()
            .revoke_token(RevokeTokenRequest { token_id })
            .await
            .expect("revoked");
        let broke = async {
            while let Some(_event) = raw.message().await? {}
            Ok::<_, Status>(())
        };
        let ended = tokio::time::timeout(std::time::Duration::from_secs(20), broke).await;
        let ended = ended.expect("the stream goes on");
        assert!(ended.is_err(), "the stream ended as if it were whole");
    });
}

#[test]
fn every_method_wants_a_token_that_lives() {
    run(async {
        let installation = SHARED.get().await;
        let ada = Victim::of(&installation, "ada-token").await;
        let label = control::IssueTokenRequest {
            label: "old".into(),
            ..Default::default()
        };
        let issued = ada
            .user
            .users()
            .issue_token(label)
            .await
            .expect("issued")
            .into_inner();
        let revoked = issued.token.clone();
        let whoami = "/cocoonbox.control.v1.Users/WhoAmI";
        let call = Call::new(whoami, Bytes::new()).token(&revoked);
        call.make(installation.channel()).await.expect("it lives");
        let request = RevokeTokenRequest {
            token_id: issued.token_id,
        };
        ada.user
            .users()
            .revoke_token(request)
            .await
            .expect("revoked");

        let mut cut = ada.user.token.clone();
        cut.pop();
        let tokens: [(&str, Option<&str>); 6] = [
            ("no token", None),
            (
                "a made-up token",
                Some("cbx_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            ),
            ("a cut token", Some(&cut)),
            ("not a token", Some("hello")),
            ("an empty token", Some("")),
            ("a revoked token", Some(&revoked)),
        ];
        for method in methods() {
            let (message, must) = attack(&method, &ada);
            for (what, token) in tokens {
                let what = format!("{method} with {what}");
                let call = Call::new(&method, message.clone()).with("box_id", &ada.the_box.id);
                let call = match token {
                    Some(token) => call.token(token),
                    None => call,
                };
                let status = call.make(installation.channel()).await.expect_err(&what);
                let codes: &[Code] = if must == Must::BeRefusedToAll {
                    &[Code::Unauthenticated, Code::PermissionDenied]
                } else {
                    &[Code::Unauthenticated]
                };
                assert_refused(&what, &status, codes);
            }
        }
    });
}

#[test]
fn what_is_between_api_and_box_is_refused_to_everyone() {
    run(async {
        let installation = SHARED.get().await;
        let ada = Victim::of(&installation, "ada-api-only").await;
        for token in [&ada.user.token, &installation.admin().token] {
            for method in ["Follow", "Quiesce"] {
                let path = format!("/cocoonbox.agent.v1.BoxLog/{method}");
                let call = Call::new(&path, Bytes::new()).token(token);
                let call = call.with("box_id", &ada.the_box.id);
                let status = call.make(installation.channel()).await.expect_err(method);
                assert_refused(method, &status, &[Code::PermissionDenied, Code::NotFound]);
            }
            let call =
                Call::new("/cocoonbox.control.v1.Users/Bootstrap", Bytes::new()).token(token);
            let status = call
                .make(installation.channel())
                .await
                .expect_err("bootstrap over TCP");
            assert_refused("bootstrap over TCP", &status, &[Code::PermissionDenied]);
            let toolhost = ["Run", "Read", "Write", "Edit", "Ls", "Grep"];
            let toolhost = toolhost.map(|method| format!("Toolhost/{method}"));
            for method in toolhost.into_iter().chain(["Desktop/Watch".to_owned()]) {
                let path = format!("/cocoonbox.toolhost.v1.{method}");
                let call = Call::new(&path, Bytes::new()).token(token);
                let call = call.with("box_id", &ada.the_box.id);
                let status = call.make(installation.channel()).await.expect_err(&method);
                assert_refused(
                    &method,
                    &status,
                    &[Code::Unimplemented, Code::PermissionDenied],
                );
            }
        }
        // An admin is no owner.
        let call = Call::new("/cocoonbox.agent.v1.Session/Hello", Bytes::new());
        let call = call
            .token(&installation.admin().token)
            .with("box_id", &ada.the_box.id);
        let status = call
            .make(installation.channel())
            .await
            .expect_err("an admin's Hello");
        assert_refused("an admin's Hello", &status, &[Code::NotFound]);
    });
}

/// The agent takes a call only with the edge's word for it, so: what a client sends in its place is not
/// what arrives, or this call would fail; and without the edge's word it does fail.
#[test]
fn the_edge_and_only_the_edge_speaks_to_the_agent() {
    run(async {
        let installation = SHARED.get().await;
        let ada = Victim::of(&installation, "ada-credential").await;
        for forged in ["v1.AAAA.BBBB", "", "garbage"] {
            let call = Call::new("/cocoonbox.agent.v1.Session/Hello", Bytes::new());
            let call = call.token(&ada.user.token).with("box_id", &ada.the_box.id);
            let call = call.with("x-cocoonbox-credential", forged);
            let answers = call.make(installation.channel()).await.expect("answered");
            let hello = agent::HelloResponse::decode(answers[0].clone()).expect("a Hello");
            assert_eq!(hello.box_id, ada.the_box.id);
        }
        // Nor does the box see its owner's token: everything it can read is looked through.
        let needle = &ada.user.token;
        let (head, tail) = needle.split_at(8);
        let search = format!(
            "a={head}; grep -rIl --devices=skip \"${{a}}{tail}\" /run /tmp /var /etc 2>/dev/null; true"
        );
        assert_eq!(ada.the_box.sh(&search).await, "");
    });
}

/// Makes a call from inside the box, past the edge, and returns the gRPC status and the reason.
async fn hello_from_inside(the_box: &TheBox, credential: Option<&str>) -> (String, String) {
    let header = credential.map(|text| format!("-H 'x-cocoonbox-credential: {text}'"));
    // The refusal may come before the body has been sent, which curl takes for an error.
    let line = format!(
        "printf '\\0\\0\\0\\0\\0' | curl -sS -D /tmp/headers -o /dev/null --http2-prior-knowledge --noproxy '*' --max-time 10 \
         -H 'content-type: application/grpc' -H 'te: trailers' {} --data-binary @- \
         http://127.0.0.1:7443/cocoonbox.agent.v1.Session/Hello; cat /tmp/headers",
        header.unwrap_or_default()
    );
    until("the agent answers in the box", || async {
        let answer = the_box
            .exec(start(&["bash", "-c", &line]))
            .await
            .expect("it is run")
            .out();
        let field = |name: &str| {
            let found = answer.lines().find_map(|line| line.strip_prefix(name));
            found.map(|value| value.trim().to_owned())
        };
        let details = field("grpc-status-details-bin: ").unwrap_or_default();
        let details = STANDARD_NO_PAD
            .decode(details.trim_end_matches('='))
            .expect("base64");
        let code = field("grpc-status: ")?;
        let status = Status::with_details(Code::Unknown, "", details.into());
        Some((code, reason(&status)))
    })
    .await
}

#[test]
fn credentials_for_other_boxes_wakes_and_times_are_refused() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("ada-forged").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let other = TheBox::up(&installation, &user, "other").await;
        the_box.hibernate().await;
        the_box.wake().await;
        let wakes = |of: &TheBox| {
            let events = Events::of_account(&user, "", &[&format!("box/{}", of.id)]);
            async move {
                let events = events.all().await.expect("readable");
                let running = events
                    .iter()
                    .filter_map(|e| payload_if::<BoxRunning>(e, "box.running"));
                running.map(|event| event.wake_id).collect::<Vec<_>>()
            }
        };
        let (ours, theirs) = (wakes(&the_box).await, wakes(&other).await);
        assert_eq!((ours.len(), theirs.len()), (2, 1));
        let (id, wake) = (&the_box.id, &ours[1]);

        let keys = KeyStore::open_read_only(installation.data()).expect("the installation's keys");
        let key = SigningKey::from_bytes(&keys.derive("edge signing key"));
        let stranger = SigningKey::from_bytes(&[7; 32]);
        let now = SystemClock.now_us() / 1_000_000;
        // What the edge itself would send is taken: the others fail for what is wrong with them.
        let good = credential(&key, id, wake, now + 60);
        assert_eq!(hello_from_inside(&the_box, Some(&good)).await.0, "0");
        let mut broken = good.clone();
        broken.replace_range(
            10..11,
            if broken[10..].starts_with('A') {
                "B"
            } else {
                "A"
            },
        );
        let cases = [
            (
                "another box",
                credential(&key, &other.id, &theirs[0], now + 60),
                "OTHER_BOX",
            ),
            (
                "an old wake",
                credential(&key, id, &ours[0], now + 60),
                "OLD_WAKE",
            ),
            (
                "expired",
                credential(&key, id, wake, now - 3_600),
                "EXPIRED",
            ),
            (
                "another signer",
                credential(&stranger, id, wake, now + 60),
                "BAD_SIGNATURE",
            ),
            ("changed", broken, "BAD_SIGNATURE"),
            ("not one", "v1.AAAA.BBBB".to_owned(), "CREDENTIAL_MALFORMED"),
        ];
        for (what, text, reason) in cases {
            let answer = hello_from_inside(&the_box, Some(&text)).await;
            assert_eq!(answer, ("16".to_owned(), reason.to_owned()), "{what}");
        }
        let answer = hello_from_inside(&the_box, None).await;
        assert_eq!(answer, ("16".to_owned(), "CREDENTIAL_MISSING".to_owned()));
    });
}

/// Signs as the edge does; see `api/src/credential.rs`.
fn credential(key: &SigningKey, box_id: &str, wake_id: &str, expires_s: i64) -> String {
    let key_id = hex::encode(&blake3::hash(key.verifying_key().as_bytes()).as_bytes()[..4]);
    let claims = URL_SAFE_NO_PAD.encode(format!("{key_id}|{box_id}|{wake_id}|{expires_s}"));
    let signed = format!("v1.{claims}");
    let signature = key.sign(signed.as_bytes()).to_bytes();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn a_box_reaches_neither_host_nor_neighbour() {
    run(async {
        let installation = SHARED.get().await;
        let ada = Victim::of(&installation, "ada-net").await;
        // No interface but loopback, and the door leads to no private address: neither the api nor the model.
        let links = ada.the_box.sh("ls /sys/class/net").await;
        assert_eq!(links.split_whitespace().collect::<Vec<_>>(), ["lo"]);
        let targets = [
            format!("http://{}/", installation.address()),
            installation.model().url(),
        ];
        for target in targets {
            let line = format!(
                "curl -sS --max-time 10 -o /dev/null -w '%{{http_code}}' {target} 2>&1 || true"
            );
            let answer = ada.the_box.sh(&line).await;
            assert!(!answer.ends_with("200"), "{target}: {answer}");
        }
        until("the box is well", || async {
            (ada.the_box.sh("echo ok").await == "ok\n").then_some(())
        })
        .await;
    });
}
