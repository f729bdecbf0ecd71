//! A model that makes the same call with the same result again and again.

use cocoonbox_events::erasure::{ERASED, ERASED_ARGS};
use cocoonbox_proto::log::v1::{Image, block};

use super::{
    entry::{Entry, ToolResult},
    history::History,
    turn::{ToolUse, UseState},
};

/// From so many on, the model is told.
pub(super) const TOLD_AT: usize = 3;
/// From so many on, the turn is ended.
pub(super) const LOOP_AT: usize = 6;
/// The same for a call whose results differ: it looks at something that changes, and may have to do so for
/// a while. What takes longer than this is waited for, not looked at.
const CALLS_TOLD_AT: usize = 20;
pub(super) const CALLS_LOOP_AT: usize = 50;

/// What the notes begin with. Results are compared without them.
const NOTE: &str = "\n\n[note: this call has had this result ";
const CALLS_NOTE: &str = "\n\n[note: this call has been made ";

/// A call with its result.
#[derive(Clone, Copy)]
struct Had<'a> {
    name: &'a str,
    args_json: &'a str,
    /// Without a note.
    content: &'a str,
    images: &'a [Image],
}

/// How often the last call was made in a row, up to where it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) calls: usize,
    /// How often in a row with the same result.
    pub(super) results: usize,
}

/// Returns a result with a note, where the model goes in circles.
pub(super) fn noted(
    history: &History,
    uses: &[ToolUse],
    tool: &ToolUse,
    content: String,
    images: &[Image],
) -> String {
    let index = uses
        .iter()
        .position(|other| other.tool_call_id == tool.tool_call_id)
        .unwrap_or(0);
    let before: Vec<Had<'_>> = uses[..index]
        .iter()
        .rev()
        .map_while(|other| match &other.state {
            UseState::Finished {
                content, images, ..
            } => Some(had(&other.name, &other.args_json, content, images)),
            _ => None,
        })
        .collect();
    let all_done = before.len() == index;
    let this = had(&tool.name, &tool.args_json, &content, images);
    let earlier = all_done.then(|| results(history)).into_iter().flatten();
    let Row { calls, results } = row(this, before.into_iter().chain(earlier));
    let plain = this.content;
    if results >= TOLD_AT {
        return format!(
            "{plain}{NOTE}{results} times in a row. Doing it again will not help: try another way, or say \
             what is in the way.]"
        );
    }
    if calls >= CALLS_TOLD_AT {
        return format!(
            "{plain}{CALLS_NOTE}{calls} times in a row. Wait longer between two looks, or do something \
             else meanwhile: the turn is ended at {CALLS_LOOP_AT}.]"
        );
    }
    content
}

/// Returns how often the last call was made.
pub(super) fn at_end(history: &History) -> Row {
    let mut had = results(history);
    match had.next() {
        Some(last) => row(last, had),
        None => Row {
            calls: 0,
            results: 0,
        },
    }
}

fn row<'a>(this: Had<'a>, before: impl Iterator<Item = Had<'a>>) -> Row {
    let mut row = Row {
        calls: 1,
        results: 1,
    };
    let mut is_same = true;
    let before = before.take_while(|one| one.is_call(&this));
    for one in before.take(CALLS_LOOP_AT) {
        row.calls += 1;
        is_same = is_same && one.is_result(&this);
        if is_same && row.results <= LOOP_AT {
            row.results += 1;
        }
    }
    row
}

/// Returns the calls since somebody spoke last, the latest first.
fn results(history: &History) -> impl Iterator<Item = Had<'_>> {
    let mut results: Option<&[ToolResult]> = None;
    let entries = history.kept().rev().map(|entry| &**entry);
    let entries = entries.take_while(|entry| !matches!(entry, Entry::User { .. }));
    entries.flat_map(move |entry| {
        let mut calls = Vec::new();
        match entry {
            Entry::ToolResults(all) => results = Some(all),
            Entry::Assistant { blocks } => {
                let uses = blocks.iter().filter_map(|block| match &block.block {
                    Some(block::Block::ToolUse(tool)) => Some(tool),
                    _ => None,
                });
                let told = results.take().unwrap_or_default();
                calls.extend(uses.zip(told).map(|(tool, result)| {
                    had(&tool.name, &tool.args_json, &result.content, &result.images)
                }));
                calls.reverse();
            }
            Entry::User { .. } => {}
        }
        calls
    })
}

/// Whether a result is the one that was told, with or without a note.
pub(super) fn same_but_note(told: &str, content: &str) -> bool {
    told == content || plain(told) == plain(content)
}

fn had<'a>(name: &'a str, args_json: &'a str, content: &'a str, images: &'a [Image]) -> Had<'a> {
    Had {
        name,
        args_json,
        content: plain(content),
        images,
    }
}

fn plain(content: &str) -> &str {
    let note = content.rfind(NOTE).or_else(|| content.rfind(CALLS_NOTE));
    note.map_or(content, |at| &content[..at])
}

impl Had<'_> {
    /// What is erased is not known to be the same.
    fn is_call(&self, other: &Self) -> bool {
        self.name == other.name
            && self.args_json == other.args_json
            && self.args_json != ERASED_ARGS
    }

    fn is_result(&self, other: &Self) -> bool {
        self.content == other.content && self.images == other.images && self.content != ERASED
    }
}
