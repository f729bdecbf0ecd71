//! Bad input gets a typed error, and takes nobody down.

use std::time::Duration;

use bytes::Bytes;
use cocoonbox_e2e::{
    Chance, Installation, Setup, Shared, TheBox, User, exec::start, outcome::assert_refused,
    raw::Call, reason, run, until::soon,
};
use cocoonbox_proto::{
    agent::v1::{
        CreateAgentRequest, ExecRequest, ExecStart, RespondRequest, SendRequest, SignalExecRequest,
        TranscriptRequest, exec_request,
    },
    control::v1::{
        AuditRequest, BoxRef, CreateUserRequest, EnsureRequest, GetBoxRequest, IssueTokenRequest,
        RevokeTokenRequest, WatchRequest, WhoAmIRequest,
    },
    log::v1::{ModelChoice, exec_exited::Reason},
};
use http_body_util::BodyExt as _;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{Code, Status};
use tower::ServiceExt as _;

static SHARED: Shared = Shared::new(|| {
    Setup::scripted(FILES).expect_error("no test of this module expects an error line")
});

/// Tools with arguments that a model should not send. The model goes on whatever the answer is.
const FILES: &str = r#"
[[conversation]]
when = "odd"
[[conversation.step]]
tools = [
  { name = "write", args = { path = "/workspace/../../etc/passwd-made", content = "x" } },
  { name = "read", args = { path = "/etc/shadow" } },
  { name = "read", args = { path = "/workspace/link-out" } },
  { name = "write", args = { path = "/workspace/link-out", content = "x" } },
  { name = "read", args = { path = "" } },
  { name = "read", args = { path = "nul\u0000nul" } },
  { name = "read", args = { path = "/workspace/ünïcödé\n✓" } },
  { name = "edit", args = { path = "/no/such/file", old = "a", new = "b" } },
  { name = "grep", args = { pattern = "(((", path = "/workspace" } },
  { name = "ls", args = { path = "/proc/1/root" } },
  { name = "shell", args = { command = "exit 1" } },
  { name = "shell", args = { } },
  { name = "read", raw_args = "{\"path\": " },
  { name = "read", raw_args = "[1,2" },
  { name = "read", raw_args = "{\"path\": 5}" },
]
[[conversation.step]]
text = "Still here."
[[conversation]]
[[conversation.step]]
text = "Hello."
"#;

const ODD_TEXTS: [&str; 10] = [
    "ünïcödé ✓ 日本語 \u{202e}rtl",
    "line\nbreak\r\n",
    "nul\0nul",
    "../../../etc/passwd",
    "/absolute/path",
    ".",
    "'; DROP TABLE event; --",
    "%00%2e%2e%2f",
    " ",
    "\u{feff}\u{200b}\u{7f}\u{1b}[31m",
];

/// Fails unless the api answers, and is the same process as before.
async fn alive(installation: &Installation, user: &User, pid: i32) {
    user.users()
        .who_am_i(WhoAmIRequest {})
        .await
        .expect("the api answers");
    assert_eq!(installation.pid(), pid);
}

/// A refusal has to be typed; an answer is fine where the text is allowed.
fn typed<T>(what: &str, outcome: Result<T, Status>) -> Option<T> {
    match outcome {
        Ok(answer) => Some(answer),
        Err(status) => {
            let codes = [
                Code::InvalidArgument,
                Code::NotFound,
                Code::FailedPrecondition,
                Code::AlreadyExists,
                Code::OutOfRange,
                Code::ResourceExhausted,
                Code::PermissionDenied,
            ];
            assert_refused(what, &status, &codes);
            None
        }
    }
}

#[test]
fn odd_texts_in_every_field_of_the_control_plane() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("odd-control").await;
        let admin = installation.admin();
        let pid = installation.pid();
        let long = "x".repeat(1 << 20);
        for text in ODD_TEXTS.iter().copied().chain([long.as_str()]) {
            let what: String = text.chars().take(30).collect();
            let odd = || text.to_owned();
            let get = GetBoxRequest {
                box_id: odd(),
                ..Default::default()
            };
            assert!(typed(&what, user.boxes().get(get).await).is_none());
            let get = GetBoxRequest {
                box_id: "b1".into(),
                at_least: odd(),
            };
            assert!(typed(&what, user.boxes().get(get).await).is_none());
            let ensure = EnsureRequest {
                box_id: odd(),
                ..Default::default()
            };
            assert!(typed(&what, user.boxes().ensure(ensure).await).is_none());
            let ensure = EnsureRequest {
                command_id: odd(),
                ..Default::default()
            };
            assert!(typed(&what, user.boxes().ensure(ensure).await).is_none());
            let of = BoxRef {
                box_id: odd(),
                command_id: String::new(),
            };
            assert!(typed(&what, user.boxes().hibernate(of.clone()).await).is_none());
            assert!(typed(&what, user.boxes().delete(of).await).is_none());
            let watch = WatchRequest {
                operation_id: odd(),
                ..Default::default()
            };
            assert!(typed(&what, user.boxes().watch_operation(watch).await).is_none());
            let revoke = RevokeTokenRequest { token_id: odd() };
            assert!(typed(&what, user.users().revoke_token(revoke).await).is_none());
            typed(
                &what,
                user.users()
                    .issue_token(IssueTokenRequest {
                        label: odd(),
                        sign_in: false,
                    })
                    .await,
            );
            let audit = AuditRequest {
                page_token: odd(),
                page_size: u32::MAX,
                newest_first: true,
            };
            typed(&what, user.users().audit(audit).await);
            let create = CreateUserRequest {
                name: odd(),
                ..Default::default()
            };
            typed(&what, admin.users().create(create).await);
            alive(&installation, &user, pid).await;
        }
        let flavor = EnsureRequest {
            flavor: 77,
            ..Default::default()
        };
        assert!(typed("an unknown flavor", user.boxes().ensure(flavor).await).is_none());
        assert!(user.box_ids().await.is_empty());
    });
}

#[test]
fn odd_names_of_boxes_are_names_or_refused() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("odd-names").await;
        let pid = installation.pid();
        let long = "x".repeat(1 << 20);
        for text in ODD_TEXTS.iter().copied().chain([long.as_str()]) {
            let what: String = text.chars().take(30).collect();
            let ensure = EnsureRequest {
                name: text.to_owned(),
                ..Default::default()
            };
            // A name that is taken has to work all the way to a box that is gone again.
            if let Some(found) = typed(&what, user.boxes().ensure(ensure).await) {
                let found = found.into_inner();
                assert_eq!(found.name, text);
                user.watch(&found.operation_id).await.expect("it ends");
                user.delete(&found.id).await;
            }
        }
        alive(&installation, &user, pid).await;
    });
}

#[test]
fn odd_texts_in_every_field_of_a_box() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("odd-box").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let pid = installation.pid();
        let long = "x".repeat(1 << 20);
        for text in ODD_TEXTS.iter().copied().chain([long.as_str()]) {
            let what: String = text.chars().take(30).collect();
            let odd = || text.to_owned();
            // As an argument it arrives as it is, or is refused where no program could be given it.
            let outcome = the_box.exec(start(&["printf", "%s", text])).await;
            if let Some(ran) = typed(&format!("argument: {what}"), outcome)
                && ran.exited.reason() == Reason::Exited
            {
                assert_eq!((ran.out().as_str(), ran.code()), (text, 0), "{what}");
            }
            let argv = start(&["pwd"]);
            let outcome = the_box
                .exec(ExecStart {
                    cwd: odd(),
                    ..argv.clone()
                })
                .await;
            typed(&format!("cwd: {what}"), outcome);
            let env = [(odd(), odd())].into();
            typed(
                &format!("env: {what}"),
                the_box
                    .exec(ExecStart {
                        env,
                        ..argv.clone()
                    })
                    .await,
            );
            typed(
                &format!("exec id: {what}"),
                the_box
                    .exec(ExecStart {
                        exec_id: odd(),
                        ..argv
                    })
                    .await,
            );
            let signal = SignalExecRequest {
                exec_id: odd(),
                signal: 9,
            };
            let mut session = user.session(&the_box.id);
            assert!(
                typed(
                    &format!("signal: {what}"),
                    session.signal_exec(signal).await
                )
                .is_none()
            );
            let mut agents = user.agents(&the_box.id);
            let send = SendRequest {
                agent_id: odd(),
                prompt: "hi".into(),
                ..Default::default()
            };
            typed(&format!("agent id: {what}"), agents.send(send).await);
            let respond = RespondRequest {
                approval_id: odd(),
                ..Default::default()
            };
            assert!(typed(&format!("approval: {what}"), agents.respond(respond).await).is_none());
            let transcript = TranscriptRequest {
                page_token: odd(),
                newest_first: true,
                ..Default::default()
            };
            typed(
                &format!("page token: {what}"),
                agents.transcript(transcript).await,
            );
            let transcript = TranscriptRequest {
                agent_id: odd(),
                ..Default::default()
            };
            typed(
                &format!("agent of transcript: {what}"),
                agents.transcript(transcript).await,
            );
            let model = ModelChoice {
                wire: 99,
                model: odd(),
                output_tokens_max: u32::MAX,
                ..Default::default()
            };
            let create = CreateAgentRequest {
                name: odd(),
                model: Some(model),
                ..Default::default()
            };
            typed(
                &format!("agent's name: {what}"),
                agents.create(create).await,
            );
            assert_eq!(the_box.sh("echo alive").await, "alive\n");
            alive(&installation, &user, pid).await;
        }
        let empty = the_box.exec(ExecStart::default()).await;
        assert_refused(
            "no program",
            &empty.expect_err("no program"),
            &[Code::InvalidArgument],
        );
        let signal = SignalExecRequest {
            exec_id: "none".into(),
            signal: -5,
        };
        let refused = user
            .session(&the_box.id)
            .signal_exec(signal)
            .await
            .expect_err("signal");
        assert_refused(
            "no such exec",
            &refused,
            &[Code::NotFound, Code::InvalidArgument],
        );
        let huge = SendRequest {
            prompt: "p".repeat(300 << 10),
            ..Default::default()
        };
        let refused = user
            .agents(&the_box.id)
            .send(huge)
            .await
            .expect_err("a huge prompt");
        assert_refused(
            "a huge prompt",
            &refused,
            &[Code::InvalidArgument, Code::ResourceExhausted],
        );
        let odd = ODD_TEXTS.join("|");
        the_box.send(&odd).await.assert_done();
        let transcript = the_box.transcript().await;
        assert_eq!(transcript[0].text, odd);
    });
}

#[test]
fn an_exec_without_a_start_is_refused() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("no-start").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let stdin = ExecRequest {
            frame: Some(exec_request::Frame::Stdin(b"x".to_vec())),
        };
        for frames in [vec![], vec![ExecRequest { frame: None }], vec![stdin]] {
            let mut session = user.session(&the_box.id);
            let outcome = session.exec(tokio_stream::iter(frames)).await;
            let outcome = match outcome {
                Ok(answer) => soon("it is refused", answer.into_inner().message())
                    .await
                    .map(drop),
                Err(status) => Err(status),
            };
            assert_refused(
                "no start",
                &outcome.expect_err("no start"),
                &[Code::InvalidArgument],
            );
        }
        assert_eq!(the_box.sh("echo alive").await, "alive\n");
    });
}

#[test]
fn odd_arguments_of_tools_are_told_to_the_model() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("odd-tools").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.sh("ln -s /etc/shadow /workspace/link-out").await;
        let turn = the_box.send("Something odd").await;
        turn.assert_done();
        assert_eq!(turn.text(), "Still here.");
        let (called, finished) = (turn.tools_called(), turn.tools_finished());
        assert_eq!(called.len(), 15);
        assert_eq!(finished.len(), 15);
        assert!(
            finished.iter().all(|tool| !tool.content.is_empty()),
            "{finished:?}"
        );
        assert!(
            finished.iter().all(|tool| !tool.content.contains("root:")),
            "{finished:?}"
        );
        let made = the_box.sh("ls /etc/passwd-made 2>/dev/null || true").await;
        assert_eq!(made, "");
        assert_eq!(the_box.sh("ls -l /etc/shadow | cut -c1-3").await, "-rw\n");
    });
}

#[test]
fn malformed_messages_to_every_method() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("malformed").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let pid = installation.pid();
        let mut chance = Chance::seeded("malformed");
        let set = FileDescriptorSet::decode(cocoonbox_proto::DESCRIPTORS).expect("descriptors");
        let mut tried = 0;
        for file in set
            .file
            .iter()
            .filter(|file| file.package() != "cocoonbox.toolhost.v1")
        {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    // A length that goes past the end, a wire type that does not exist, and chance.
                    let noise = chance.bytes(200);
                    for message in [&[0x0a, 0xff, 0xff, 0xff, 0x7f][..], &[0x0f, 0x01], &noise] {
                        let call = Call::new(&path, Bytes::copy_from_slice(message));
                        let call = call.token(&user.token).with("box_id", &the_box.id);
                        let status = call.make(installation.channel()).await;
                        let status = status.expect_err(&path);
                        let unexpected = [Code::Ok, Code::Unavailable, Code::Cancelled];
                        assert!(!unexpected.contains(&status.code()), "{path}: {status:?}");
                        tried += 1;
                    }
                }
            }
        }
        assert!(tried > 80, "{tried}");
        alive(&installation, &user, pid).await;
        assert_eq!(the_box.sh("echo alive").await, "alive\n");
    });
}

#[test]
fn odd_metadata_and_unknown_methods() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("metadata").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let pid = installation.pid();
        let hello = "/cocoonbox.agent.v1.Session/Hello";
        let call = |path: &str| Call::new(path, Bytes::new()).token(&user.token);

        let refused = call(hello)
            .make(installation.channel())
            .await
            .expect_err("no box id");
        assert_refused("no box id", &refused, &[Code::InvalidArgument]);
        for id in ["..", "a/b", "A", "-", "b\u{7e}", " ", &"b".repeat(5_000)] {
            let refused = call(hello)
                .with("box_id", id)
                .make(installation.channel())
                .await;
            let refused = refused.expect_err("an odd box id");
            assert_refused(id, &refused, &[Code::InvalidArgument, Code::NotFound]);
        }
        let unknown = [
            "/cocoonbox.agent.v1.Session/NoSuch",
            "/cocoonbox.agent.v1.NoSuch/Hello",
            "/cocoonbox.control.v1.Boxes/NoSuch",
            "/cocoonbox.control.v9.Boxes/List",
            "/no.such.Service/Method",
            "/",
            "/cocoonbox.agent.v1.Session/../BoxLog/Follow",
        ];
        for path in unknown {
            let outcome = call(path)
                .with("box_id", &the_box.id)
                .make(installation.channel())
                .await;
            let status = outcome.expect_err(path);
            let codes = [Code::Unimplemented, Code::NotFound, Code::PermissionDenied];
            assert!(codes.contains(&status.code()), "{path}: {status:?}");
        }
        // More metadata than is taken ends the call or its connection; others go on.
        let huge = call(hello)
            .with("box_id", &the_box.id)
            .with("x-huge", &"h".repeat(200_000));
        huge.make(installation.channel())
            .await
            .expect_err("huge metadata");
        let mut many = call(hello).with("box_id", &the_box.id);
        for number in 0..2_000 {
            many = many.with(&format!("x-many-{number}"), "value-value-value");
        }
        many.make(installation.channel())
            .await
            .expect_err("many metadata");
        alive(&installation, &user, pid).await;
        call(hello)
            .with("box_id", &the_box.id)
            .make(installation.channel())
            .await
            .expect("answered");
    });
}

/// Bytes on the port that are not gRPC. Each gets an answer or a closed connection, soon.
#[test]
fn garbage_on_the_port() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("garbage").await;
        let pid = installation.pid();
        let mut chance = Chance::seeded("garbage");
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut broken = preface.clone();
        broken.extend(chance.bytes(4_096));
        let mut huge_frame = preface;
        huge_frame.extend([0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01]);
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("HTTP/1 get", b"GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec()),
            ("HTTP/1 grpc", b"POST /cocoonbox.control.v1.Users/WhoAmI HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc\r\ncontent-length: 5\r\nconnection: close\r\n\r\n\0\0\0\0\0".to_vec()),
            ("a wrong content type", b"POST /cocoonbox.control.v1.Users/WhoAmI HTTP/1.1\r\nhost: x\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi".to_vec()),
            ("two lengths", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello".to_vec()),
            ("a bad request line", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec()),
            ("noise", chance.bytes(10_000)),
            ("noise after the preface", broken),
            ("a frame that is too large", huge_frame),
            ("half a line", b"GET / HT".to_vec()),
        ];
        for (what, bytes) in cases {
            let mut stream = TcpStream::connect(installation.address())
                .await
                .expect("open");
            // It may be closed while we write; that is an answer too.
            let _closed = stream.write_all(&bytes).await;
            let _closed = stream.shutdown().await;
            let mut answer = Vec::new();
            soon(what, async {
                let _reset = stream.read_to_end(&mut answer).await;
            })
            .await;
            let text = String::from_utf8_lossy(&answer);
            assert!(
                !text.contains("200 OK") || text.contains("grpc-status"),
                "{what}: {text}"
            );
            alive(&installation, &user, pid).await;
        }
        // Connections that say nothing hold nobody up.
        let mut idle = Vec::new();
        for _ in 0..300 {
            idle.push(
                TcpStream::connect(installation.address())
                    .await
                    .expect("open"),
            );
        }
        let answered = tokio::time::timeout(Duration::from_secs(10), async {
            alive(&installation, &user.over(installation.channel()), pid).await;
        });
        answered.await.expect("answered beside idle connections");
        drop(idle);
    });
}

/// Over HTTP/2, with a token: only the form is wrong.
#[test]
fn calls_that_are_not_grpc() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("form").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let pid = installation.pid();
        let whoami = "/cocoonbox.control.v1.Users/WhoAmI";
        let hello = "/cocoonbox.agent.v1.Session/Hello";
        let grpc = "application/grpc";
        let cases = [
            ("POST", "text/html"),
            ("POST", "application/json"),
            ("POST", ""),
            ("GET", grpc),
            ("DELETE", grpc),
        ];
        for path in [whoami, hello] {
            // An empty frame is a right call: the others are refused for their form alone.
            let (status, code) = call_as(&installation, &user, &the_box, path, "POST", grpc).await;
            assert_eq!((status, code.as_deref()), (200, Some("0")), "{path}");
            for (method, content_type) in cases {
                let what = format!("{method} {path} as `{content_type}`");
                let (status, code) =
                    call_as(&installation, &user, &the_box, path, method, content_type).await;
                assert!(
                    (400..500).contains(&status) || code.is_some_and(|c| c != "0"),
                    "{what}: {status}"
                );
                alive(&installation, &user, pid).await;
            }
        }
        assert_eq!(the_box.sh("echo alive").await, "alive\n");
    });
}

/// Makes a call with an empty message and returns the HTTP status and the gRPC status.
async fn call_as(
    installation: &Installation,
    user: &User,
    the_box: &TheBox,
    path: &str,
    method: &str,
    content_type: &str,
) -> (u16, Option<String>) {
    let body = http_body_util::Full::new(Bytes::from_static(&[0; 5]));
    let request = http::Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", installation.address()))
        .header("authorization", format!("Bearer {}", user.token))
        .header("box_id", &the_box.id)
        .header("content-type", content_type)
        .header("te", "trailers")
        .body(tonic::body::Body::new(body))
        .expect("a request");
    let answer = soon("an answer", installation.channel().oneshot(request)).await;
    let (head, body) = answer.expect("answered").into_parts();
    let in_head = head.headers.get("grpc-status").cloned();
    let body = soon("its body", body.collect()).await;
    let in_trailers = body
        .ok()
        .and_then(|body| body.trailers()?.get("grpc-status").cloned());
    let code = in_head.or(in_trailers);
    let code = code.map(|code| code.to_str().expect("digits").to_owned());
    (head.status.as_u16(), code)
}

#[test]
fn a_message_that_is_too_large_is_refused() {
    run(async {
        let installation = SHARED.get().await;
        let user = installation.user("large").await;
        let pid = installation.pid();
        let huge = GetBoxRequest {
            box_id: "b".repeat(8 << 20),
            ..Default::default()
        };
        let status = user.boxes().get(huge).await.expect_err("8 MiB of box id");
        let codes = [
            Code::OutOfRange,
            Code::ResourceExhausted,
            Code::InvalidArgument,
            Code::NotFound,
        ];
        assert!(
            codes.contains(&status.code()),
            "{status:?} {}",
            reason(&status)
        );
        alive(&installation, &user, pid).await;
    });
}
