//! What a box sees of budgets, and what a vendor sees of calls that have none.

use std::net::SocketAddr;
use std::sync::Arc;

use cocoonbox_api::door::{self, DoorServices, WebPolicy};
use cocoonbox_api::gateway::{Gateway, GatewayConfig, Secret, Vendor};
use cocoonbox_commands::budget::{Key, Limit};
use cocoonbox_events::{Payload, UsageEvent};
use cocoonbox_proto::log::v1::UsageModelCalled;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::processes::{Process, Shared};
use super::{everything, tokens};
use crate::door::{channel, origin, read_all, read_until, within};

const WIRES: [&str; 3] = [
    "/anthropic/v1/messages",
    "/openai/v1/chat/completions",
    "/openai/v1/responses",
];

/// A box's door into a gateway with real budgets.
struct Door {
    shared: Shared,
    process: Process,
    gateway: Arc<Gateway>,
    address: SocketAddr,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Door {
    async fn to(vendor: SocketAddr) -> Self {
        let shared = Shared::new().await;
        let process = shared.process();
        let vendor = || Vendor {
            base_url: format!("http://{vendor}"),
            key: Secret::new("sk-operator".into()),
        };
        let config = GatewayConfig {
            anthropic: Some(vendor()),
            openai: Some(vendor()),
        };
        let gateway = Arc::new(Gateway::new(config, process.ledger.clone()).unwrap());
        let web = WebPolicy::default();
        let services = Arc::new(DoorServices::new(gateway.clone(), web, Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(door::serve(listener, channel(), services, stop.clone()));
        Self {
            shared,
            process,
            gateway,
            address,
            stop,
            serving,
        }
    }

    async fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self, path: &str, body: &str) -> String {
        let mut stream = self.send(&post(path, body)).await;
        within(read_all(&mut stream)).await
    }

    /// Ends everything and returns what the log says of calls, and of the budget: used and reserved.
    async fn end(self) -> (Vec<UsageModelCalled>, (u64, u64)) {
        self.stop.cancel();
        within(self.serving).await.unwrap();
        within(self.gateway.drained()).await;
        let counted = self.process.counted().await;
        let events = self.process.read("usage/2026-11-30").await;
        let calls = events.into_iter().filter_map(|payload| match payload {
            Payload::Usage(UsageEvent::ModelCalled(call)) => Some(call),
            _ => None,
        });
        drop(self.shared);
        (calls.collect(), counted)
    }
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST http://gateway.cocoonbox{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         x-cocoonbox-agent: agent-1\r\nx-cocoonbox-role: main\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn call(model: &str, output: u64) -> String {
    json!({ "model": model, "max_tokens": output, "messages": [] }).to_string()
}

/// A vendor that gives every request this answer, and tells what it got.
async fn vendor(answer: &'static str) -> (SocketAddr, mpsc::Receiver<String>) {
    let (seen, requests) = mpsc::channel(64);
    let address = origin(move |mut stream| {
        let seen = seen.clone();
        async move {
            let body = read_body(&mut stream).await;
            if let Some(body) = body {
                seen.send(body).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    (address, requests)
}

/// Returns nothing of a request that does not come to its end.
async fn read_body(stream: &mut TcpStream) -> Option<String> {
    let head = read_until(stream, "\r\n\r\n").await.to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length?.parse().ok()?];
    within(stream.read_exact(&mut body)).await.ok()?;
    String::from_utf8(body).ok()
}

fn json_of(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[tokio::test]
async fn a_call_without_room_is_refused_in_its_wires_own_words_and_never_sent() {
    for path in WIRES {
        let (address, mut requests) =
            vendor("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
        let door = Door::to(address).await;
        door.process.set(everything(true), tokens(500)).await;
        let answer = door.ask(path, &call("m", 1_000)).await;
        assert!(answer.starts_with("HTTP/1.1 402 "), "{answer}");
        assert!(
            answer.contains("x-cocoonbox-reason: budget\r\n"),
            "{answer}"
        );
        assert!(answer.contains("retry-after: 300\r\n"), "{answer}");
        let body = json_of(&answer);
        let message = body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("the budget of 500 tokens a day for all boxes"),
            "{message}"
        );
        assert!(message.contains("0 tokens used"), "{message}");
        if path.starts_with("/anthropic") {
            assert_eq!(body["type"], "error");
            assert_eq!(body["error"]["type"], "billing_error");
        } else {
            assert_eq!(body["error"]["code"], "insufficient_quota");
        }
        let (calls, counted) = door.end().await;
        assert_eq!((calls, counted), (Vec::new(), (0, 0)));
        assert!(
            requests.try_recv().is_err(),
            "the vendor got the whole request"
        );
    }
}

#[tokio::test]
async fn an_agents_budget_holds_for_its_name_and_a_boxs_for_the_channel() {
    let (address, _requests) = vendor("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    let door = Door::to(address).await;
    let of = |box_id: &str, agent_id: &str| Key {
        box_id: box_id.into(),
        agent_id: agent_id.into(),
        ..Key::default()
    };
    door.process.set(of("box-1", "agent-1"), tokens(1)).await;
    door.process.set(of("box-2", ""), tokens(1)).await;
    let refused = door.ask(WIRES[0], &call("m", 10)).await;
    assert!(refused.contains("for this agent"), "{refused}");
    // Another name passes, as the README says; what a header says of the box does not count.
    let other =
        post(WIRES[0], &call("m", 10)).replace("agent-1", "agent-2\r\nx-cocoonbox-box: box-2");
    let answer = read_all(&mut door.send(&other).await).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    door.process.set(of("box-1", ""), tokens(1)).await;
    let answer = read_all(&mut door.send(&other).await).await;
    assert!(answer.contains("for this box"), "{answer}");
    door.end().await;
}

const RESPONSES: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n\
    event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\
    \"usage\":{\"input_tokens\":30,\"input_tokens_details\":{\"cached_tokens\":20},\"output_tokens\":5,\
    \"output_tokens_details\":{\"reasoning_tokens\":2},\"total_tokens\":35}}}\n\n";

#[tokio::test]
async fn a_responses_call_is_metered_priced_and_settled() {
    let (address, mut requests) = vendor(RESPONSES).await;
    let door = Door::to(address).await;
    door.process.set(everything(true), tokens(20_000)).await;
    let odd =
        " {\"input\" :[],\r\n\"model\":\"gpt-5\",\"stream\":true, \"max_output_tokens\":100}\n";
    let answer = door.ask(WIRES[2], odd).await;
    assert!(answer.contains("response.completed"), "{answer}");
    assert_eq!(within(requests.recv()).await.unwrap(), odd, "byte for byte");
    let (calls, counted) = door.end().await;
    assert_eq!(counted, (35, 0));
    let call = &calls[0];
    assert_eq!(
        (call.vendor.as_str(), call.model.as_str()),
        ("openai", "gpt-5")
    );
    assert_eq!(
        (call.agent_id.as_str(), call.role.as_str()),
        ("agent-1", "main")
    );
    assert_eq!(
        (
            call.input_tokens,
            call.cache_read_tokens,
            call.output_tokens
        ),
        (10, 20, 5)
    );
    assert!(call.complete && !call.estimated && !call.reservation_id.is_empty());
    // 10 at 1.25, 20 at 0.13, 5 at 10 millionths, rounded up.
    assert_eq!(call.cost_micros, Some(66));
}

const SILENT: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n";

const FAILED: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"error\":{\"message\":\"[3002] unknown model\",\"type\":\"gateway_error\"}}\n\ndata: [DONE]\n\n";

/// A compatible gateway behind ours: usage in the last chunk with the finish reason, no role chunk.
const COMPATIBLE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n\
    data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\
    \"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12,\"total_tokens\":21}}\n\ndata: [DONE]\n\n";

const LIMITED: &str = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: 84\r\n\r\n\
    {\"error\":{\"message\":\"[4004] daily tokens\",\"type\":\"gateway_error\",\"code\":\"4004\"}}    ";

const UNREADABLE: &str = "HTTP/1.1 422 Unprocessable Entity\r\ncontent-type: text/plain\r\ncontent-length: 13\r\n\r\nmissing field";

#[tokio::test]
async fn what_a_vendor_does_not_say_costs_what_was_reserved_and_failures_cost_nothing() {
    let asked = call("m", 100);
    let reserved = 100 + (asked.len() as u64).div_ceil(3);
    for (answer, costs, estimated) in [
        (SILENT, reserved, true),
        (COMPATIBLE, 21, false),
        (FAILED, 0, false),
        (LIMITED, 0, false),
        (UNREADABLE, 0, false),
    ] {
        let (address, _requests) = vendor(answer).await;
        let door = Door::to(address).await;
        door.process.set(everything(false), tokens(1_000)).await;
        let passed = door.ask(WIRES[1], &asked).await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        // Chunked or not, every line of it is there.
        for line in body.lines().filter(|line| !line.trim().is_empty()) {
            assert!(passed.contains(line.trim()), "{line}: {passed}");
        }
        let (calls, counted) = door.end().await;
        assert_eq!(counted, (costs, 0), "{answer}");
        assert_eq!(calls[0].estimated, estimated, "{answer}");
    }
}

#[tokio::test]
async fn with_a_budget_too_the_first_event_arrives_before_the_second_is_said() {
    let (go, gate) = oneshot::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(Some(gate)));
    let address = origin(move |mut stream| {
        let gate = gate.lock().unwrap().take().unwrap();
        async move {
            read_body(&mut stream).await.unwrap();
            let (head, rest) =
                RESPONSES.split_at(RESPONSES.find("event: response.completed").unwrap());
            stream.write_all(head.as_bytes()).await.unwrap();
            gate.await.unwrap();
            stream.write_all(rest.as_bytes()).await.unwrap();
        }
    })
    .await;
    let door = Door::to(address).await;
    door.process
        .set(
            everything(true),
            Limit {
                tokens: Some(50_000),
                micros: Some(5_000_000),
            },
        )
        .await;
    let mut stream = door.send(&post(WIRES[2], &call("gpt-5", 10))).await;
    let first = within(read_until(&mut stream, "\"usage\":null}}\n\n")).await;
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    let (used, reserved) = door.process.counted().await;
    assert!(used == 0 && reserved > 10, "it is under way");
    go.send(()).unwrap();
    assert!(read_all(&mut stream).await.contains("response.completed"));
    assert_eq!(door.end().await.1, (35, 0));
}

#[tokio::test]
async fn who_leaves_before_the_end_leaves_no_reservation_behind() {
    let (address, mut asked) = {
        let (seen, requests) = mpsc::channel(1);
        let address = origin(move |mut stream| {
            let seen = seen.clone();
            async move {
                let body = read_body(&mut stream).await;
                seen.send(body).await.unwrap();
                let _closed = stream.read_to_end(&mut Vec::new()).await;
            }
        });
        (address.await, requests)
    };
    let door = Door::to(address).await;
    door.process.set(everything(true), tokens(5_000)).await;
    let body = call("m", 1_000);
    let stream = door.send(&post(WIRES[0], &body)).await;
    assert!(within(asked.recv()).await.unwrap().is_some());
    drop(stream);
    let (calls, counted) = door.end().await;
    // The vendor had all of it: what it read is estimated, what it wrote is nothing that anybody saw.
    let read = (body.len() as u64).div_ceil(3);
    assert_eq!(counted, (read, 0));
    assert!(calls[0].estimated && calls[0].status == 0, "{calls:?}");
}

#[tokio::test]
async fn a_vendor_that_cannot_be_reached_is_named_and_costs_nothing() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let hangs_up = origin(|mut stream| async move {
        read_body(&mut stream).await.unwrap();
    })
    .await;
    for (address, says) in [
        (
            closed,
            "the model vendor `openai` cannot be reached from cocoonbox-api: it refuses connections",
        ),
        (hangs_up, "it closed the connection before it answered"),
    ] {
        let door = Door::to(address).await;
        door.process.set(everything(true), tokens(5_000)).await;
        let answer = door.ask(WIRES[2], &call("m", 1_000)).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains(says), "{answer}");
        assert!(!answer.contains(&address.port().to_string()), "{answer}");
        assert_eq!(door.end().await.1, (0, 0));
    }
}
