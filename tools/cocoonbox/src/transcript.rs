//! What was said and done, to read.

use cocoonbox_proto::{
    agent::v1::{TranscriptItem, TranscriptRequest, transcript_item::Kind},
    json,
};

use crate::{
    cli::talk::OneAgent,
    client::{repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    target, text, turn,
};

/// Large enough for few round trips, small enough to show something at once.
const PAGE: u32 = 200;
/// Lines of a tool's result; the whole is in `--json`.
const RESULT_LINES: usize = 6;
const LINE: usize = 110;

pub async fn transcript(ctx: &mut Context, args: OneAgent) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.target.box_name).await?;
    let agent_id = target::agent_id(&client, &found.id, &args.agent).await?;
    if !found.notice.is_empty() {
        ctx.out.note(&found.notice);
    }
    let agents = client.agents(&found.id)?;
    let mut page_token = String::new();
    loop {
        let call = TranscriptRequest {
            agent_id: agent_id.clone(),
            page_token: std::mem::take(&mut page_token),
            page_size: PAGE,
            ..TranscriptRequest::default()
        };
        let page = repeat(|| {
            let (mut agents, call) = (agents.clone(), request(call.clone()));
            async move { agents.transcript(call).await }
        })
        .await?;
        for item in &page.items {
            if ctx.out.json {
                let value = json::render_message("cocoonbox.agent.v1.TranscriptItem", item);
                ctx.out.value(&value.unwrap_or_default())?;
            } else if let Some(shown) = render(item) {
                ctx.out.line(shown)?;
            }
        }
        if page.next_page_token.is_empty() {
            return Ok(Exit::Ok);
        }
        page_token = page.next_page_token;
    }
}

/// Lines for an item; `None` for one that says nothing to a reader.
pub fn render(item: &TranscriptItem) -> Option<String> {
    if item.erased && item.kind() != Kind::Prompt {
        return Some("  [erased]".to_owned());
    }
    let shown = match item.kind() {
        Kind::Prompt => {
            let said = if item.erased { "[erased]" } else { &item.text };
            let quoted: Vec<String> = said.lines().map(|line| format!("> {line}")).collect();
            format!("\n{}\n{}\n", text::moment(item.at_ms), quoted.join("\n"))
        }
        Kind::Reply if item.partial => format!("{} …", item.text.trim_end()),
        Kind::Reply | Kind::Todo => item.text.trim_end().to_owned(),
        Kind::Thinking if item.text.is_empty() => return None,
        Kind::Thinking => format!("  ({})", text::short(&item.text, LINE)),
        Kind::ToolCall => format!("▸ {}", turn::call_line(&item.tool_name, &item.text)),
        Kind::ToolResult => result(item),
        Kind::Approval if is_pending(item) => format!("▪ waits for approval: {}", item.text),
        Kind::Question if is_pending(item) => format!("? {}", item.text),
        Kind::TurnEnded if item.outcome.eq_ignore_ascii_case("done") => return None,
        Kind::Approval | Kind::TurnEnded | Kind::Question => {
            format!("▪ {} {}", item.outcome, item.text)
                .trim_end()
                .to_owned()
        }
        Kind::ModelFailed => format!("▪ model call failed: {} {}", item.outcome, item.text)
            .trim_end()
            .to_owned(),
        Kind::Compacted => "▪ summed up what was said before".to_owned(),
        Kind::Branched => format!("▪ branch {}", item.branch_id).trim_end().to_owned(),
        Kind::Unspecified => return None,
    };
    (!shown.is_empty()).then_some(shown)
}

/// Whether a person has not answered yet.
fn is_pending(item: &TranscriptItem) -> bool {
    item.outcome.is_empty() || item.outcome == "pending"
}

fn result(item: &TranscriptItem) -> String {
    let mut lines = Vec::new();
    if !item.outcome.is_empty() && !item.outcome.eq_ignore_ascii_case("ok") {
        lines.push(format!("  ✗ {}", item.outcome));
    }
    let mut rest = item.text.lines();
    lines.extend(
        rest.by_ref()
            .take(RESULT_LINES)
            .map(|line| format!("  {}", text::short(line, LINE))),
    );
    match rest.count() {
        0 => {}
        1 => lines.push("  … 1 more line".to_owned()),
        more => lines.push(format!("  … {more} more lines")),
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_reads_like_a_conversation() {
        let item = |kind: Kind, text: &str, tool_name: &str, outcome: &str| TranscriptItem {
            at_ms: 1_700_000_000_123,
            kind: kind.into(),
            text: text.into(),
            tool_name: tool_name.into(),
            outcome: outcome.into(),
            ..TranscriptItem::default()
        };
        let items = [
            item(Kind::Prompt, "fix the test\nplease", "", ""),
            item(Kind::Thinking, "where\nis it", "", ""),
            item(Kind::Reply, "Looking.\n", "", ""),
            item(Kind::ToolCall, r#"{"path":"/workspace/t.py"}"#, "read", ""),
            item(Kind::ToolResult, "1\n2\n3\n4\n5\n6\n7\n8", "read", "OK"),
            item(Kind::ToolResult, "no such file", "read", "ERROR"),
            item(Kind::Reply, "Done.", "", ""),
            item(Kind::TurnEnded, "", "", "DONE"),
            item(Kind::TurnEnded, "no key", "", "FAILED"),
        ];
        let shown: Vec<String> = items.iter().filter_map(render).collect();
        insta::assert_snapshot!(shown.join("\n"), @"

        2023-11-14 22:13:20.123Z
        > fix the test
        > please

          (where is it)
        Looking.
        ▸ read /workspace/t.py
          1
          2
          3
          4
          5
          6
          … 2 more lines
          ✗ ERROR
          no such file
        Done.
        ▪ FAILED no key
        ");
    }

    #[test]
    fn what_was_erased_is_said_where_it_stood() {
        let erased = |kind: Kind| TranscriptItem {
            at_ms: 1_700_000_000_123,
            kind: kind.into(),
            outcome: "erased".into(),
            erased: true,
            ..TranscriptItem::default()
        };
        let kinds = [
            Kind::Prompt,
            Kind::Thinking,
            Kind::Reply,
            Kind::ToolCall,
            Kind::ToolResult,
            Kind::Question,
        ];
        let shown: Vec<String> = kinds.map(erased).iter().filter_map(render).collect();
        insta::assert_snapshot!(shown.join("\n"), @r"

        2023-11-14 22:13:20.123Z
        > [erased]

          [erased]
          [erased]
          [erased]
          [erased]
          [erased]
        ");
    }
}
