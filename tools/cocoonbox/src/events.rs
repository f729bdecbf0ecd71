//! Events as lines and as JSON.

use cocoonbox_events::{ExecEvent, Kind, Payload};
use cocoonbox_proto::{
    agent::v1::EventsRequest,
    control::v1::AccountEventsRequest,
    json,
    log::v1::{
        Event, EventOrHeartbeat, OutputSummary, event_or_heartbeat::Item, exec_exited::Reason,
    },
};
use serde_json::Value;
use tonic::Request;

use crate::{
    cli::talk::Events,
    client::Client,
    context::Context,
    exit::Exit,
    failure::Failure,
    follow::{Ending, Follow, Open},
    target, text, turn,
};

/// What a line says of a payload.
const SHORT: usize = 100;

pub async fn events(ctx: &mut Context, args: Events) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let open = if args.account {
        of_account(client, args.stream, args.no_follow)
    } else {
        let found = target::find(&client, &args.target.box_name).await?;
        of_box(&client, &found.id, args.stream, args.no_follow)?
    };
    let ending = if args.no_follow {
        Ending::AtTail
    } else {
        Ending::Never
    };
    let events = Follow::new(open, args.from, ending, ctx.global.retry_for);
    let mut events = events.past_rewinds();
    loop {
        let item = events.next().await?;
        if let Some(words) = events.rewound() {
            ctx.out.warn(words);
        }
        let Some(item) = item else { break };
        // Heartbeats only move the place where we would resume.
        let Some(Item::Event(event)) = item.item else {
            continue;
        };
        ctx.out.answer(&to_json(&event), line(&event))?;
    }
    Ok(Exit::Ok)
}

/// Opens the log of a box.
pub fn of_box(
    client: &Client,
    box_id: &str,
    streams: Vec<String>,
    no_follow: bool,
) -> Result<Open<EventOrHeartbeat>, Failure> {
    let session = client.session(box_id)?;
    Ok(Box::new(move |from_offset| {
        let (mut session, streams) = (session.clone(), streams.clone());
        let call = Request::new(EventsRequest {
            from_offset,
            streams,
            no_follow,
        });
        Box::pin(async move { session.events(call).await })
    }))
}

fn of_account(client: Client, streams: Vec<String>, no_follow: bool) -> Open<EventOrHeartbeat> {
    Box::new(move |from_offset| {
        let (mut users, streams) = (client.users(), streams.clone());
        let call = Request::new(AccountEventsRequest {
            from_offset,
            streams,
            no_follow,
        });
        Box::pin(async move { users.events(call).await })
    })
}

/// The event with its payload decoded in place of its bytes.
pub fn to_json(event: &Event) -> Value {
    let bare = Event {
        payload: Vec::new(),
        ..event.clone()
    };
    let mut value = json::render_message("cocoonbox.log.v1.Event", &bare).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert("payload".to_owned(), payload(event));
    }
    value
}

pub fn line(event: &Event) -> String {
    let words = if event.erased {
        "(erased)".to_owned()
    } else {
        words(event)
    };
    let line = format!(
        "{}  {}  {}  {}  {}",
        event.offset_key,
        text::moment(event.at_ms),
        event.stream,
        event.kind,
        text::short(&words, SHORT),
    );
    line.trim_end().to_owned()
}

/// What a person wants to know of a payload: what was printed as text, and of an end only how.
fn words(event: &Event) -> String {
    match turn::decode(event) {
        Some(Payload::Exec(ExecEvent::OutputStreamed(chunk))) => {
            let source = chunk.source().as_str_name().to_ascii_lowercase();
            format!("{source}: {}", String::from_utf8_lossy(&chunk.data))
        }
        Some(Payload::Exec(ExecEvent::Exited(exited))) => {
            let bytes = |summary: &Option<OutputSummary>| {
                summary.as_ref().map_or(0, |summary| summary.total_bytes)
            };
            let (stdout, stderr) = (bytes(&exited.stdout), bytes(&exited.stderr));
            let how = match exited.reason() {
                Reason::Exited => format!("code {}", exited.code),
                Reason::Signalled => format!("signal {}", exited.signal),
                other => other.as_str_name().to_ascii_lowercase(),
            };
            format!("{how} {} ({stdout} + {stderr} bytes)", exited.detail)
        }
        _ => text::fields(&payload(event)),
    }
}

/// Null where it was erased, or where this build does not know the kind.
fn payload(event: &Event) -> Value {
    if event.erased {
        return Value::Null;
    }
    Kind::from_name(&event.kind)
        .and_then(|kind| json::render(kind.message(), &event.payload))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use cocoonbox_proto::log::v1::{
        AgentPromptReceived, AgentToolFinished, ExecExited, ExecOutputStreamed,
        exec_output_streamed::Source,
    };
    use prost::Message;

    use super::*;

    fn event(kind: &str, payload: Vec<u8>) -> Event {
        Event {
            offset_key: "0a.0000000000000007.deadbeef".into(),
            stream: "agent/a1".into(),
            seq: 3,
            kind: kind.into(),
            version: 1,
            at_ms: 1_700_000_000_123,
            payload,
            ..Event::default()
        }
    }

    #[test]
    fn an_event_is_a_line() {
        let prompt = AgentPromptReceived {
            prompt_id: "p1".into(),
            text: "fix\nthe \x1b[2Jtest".into(),
            ..AgentPromptReceived::default()
        };
        insta::assert_snapshot!(
            line(&event("agent.prompt_received", prompt.encode_to_vec())),
            @"0a.0000000000000007.deadbeef  2023-11-14 22:13:20.123Z  agent/a1  agent.prompt_received  prompt_id=p1 text=fix the �[2Jtest"
        );
        let mut gone = event("agent.prompt_received", Vec::new());
        gone.erased = true;
        assert!(line(&gone).ends_with("(erased)"));
        assert!(line(&event("agent.dreamt", vec![1])).ends_with("agent.dreamt  null"));
    }

    #[test]
    fn what_a_command_printed_is_text() {
        let chunk = ExecOutputStreamed {
            source: Source::Stderr.into(),
            data: b"tick 1\ntick\xff".to_vec(),
            ..ExecOutputStreamed::default()
        };
        let shown = line(&event("exec.output_streamed", chunk.encode_to_vec()));
        assert!(
            shown.ends_with("exec.output_streamed  stderr: tick 1 tick\u{fffd}"),
            "{shown}"
        );
        let exited = ExecExited {
            reason: Reason::TimedOut.into(),
            stdout: Some(OutputSummary {
                total_bytes: 7,
                ..OutputSummary::default()
            }),
            ..ExecExited::default()
        };
        let shown = line(&event("exec.exited", exited.encode_to_vec()));
        assert!(
            shown.ends_with("exec.exited  timed_out (7 + 0 bytes)"),
            "{shown}"
        );
    }

    #[test]
    fn json_has_the_payload_decoded() {
        let finished = AgentToolFinished {
            tool_call_id: "u1".into(),
            outcome: 1,
            content: "ok".into(),
            exec_id: String::new(),
            ..AgentToolFinished::default()
        };
        insta::assert_snapshot!(
            to_json(&event("agent.tool_finished", finished.encode_to_vec())),
            @r#"{"offset_key":"0a.0000000000000007.deadbeef","stream":"agent/a1","seq":3,"kind":"agent.tool_finished","version":1,"at_ms":1700000000123,"payload":{"tool_call_id":"u1","outcome":"OK","content":"ok"}}"#
        );
    }
}
