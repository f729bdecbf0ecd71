//! All that was said, in every branch of it.
//!
//! Entries are kept once, whatever branches they are in; a branch is a line of places. A summary stands for
//! the beginning of its line and takes nothing away, so that a branch may begin before it.

use std::{collections::BTreeMap, sync::Arc};

use cocoonbox_events::erasure::ERASED;
use cocoonbox_proto::log::v1::TokenUsage;

use super::{entry::Entry, state::Prompt};

/// What a summary begins with, for the model that reads it.
const SUMMARY_INTRO: &str = "[The conversation up to here was long. This is a summary of it; what \
                             follows comes after it.]";

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    /// Every entry of every branch, in the order in which they came. Shared: a decider takes a copy of the state to see
    /// what comes of a command.
    entries: Vec<Arc<Entry>>,
    /// The branch that goes on. The first one has the empty id.
    branch_id: String,
    line: Line,
    left: BTreeMap<String, Line>,
}

/// One branch from its beginning.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    /// Places in the entries.
    places: Vec<usize>,
    /// The prompts that it has taken up, and where.
    prompts: Vec<(String, usize)>,
    summaries: Vec<Summary>,
    measured: Option<Measured>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Summary {
    /// Entries of the line that it stands for.
    until: usize,
    text: String,
}

/// What a vendor counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    tokens: u64,
    /// Entries of the line that are in it.
    until: usize,
}

impl History {
    pub(super) fn push(&mut self, entry: Entry) {
        self.line.places.push(self.entries.len());
        self.entries.push(Arc::new(entry));
    }

    pub(super) fn take_up(&mut self, prompt: Prompt) {
        let at = self.line.places.len();
        self.line.prompts.push((prompt.prompt_id, at));
        let (text, images) = (prompt.text, prompt.images);
        self.push(Entry::User { text, images });
    }

    /// Takes in what a vendor counted for a call and its reply, which is the entry that comes next.
    pub(super) fn measure(&mut self, usage: &TokenUsage) {
        let until = self.line.places.len() + 1;
        let tokens = total(usage);
        self.line.measured = (tokens > 0).then_some(Measured { tokens, until });
    }

    /// Lets a summary stand for so many entries of what is told at the moment.
    pub(super) fn compact(&mut self, entries: usize, text: String) -> Option<()> {
        let line = &mut self.line;
        // The summary before is one entry of what is told.
        let (start, before) = line.start().map_or((0, 0), |start| (start, 1));
        let until = start + entries.checked_sub(before)?;
        if entries == 0 || until > line.places.len() {
            return None;
        }
        line.summaries.push(Summary { until, text });
        line.measured = None;
        Some(())
    }

    /// Goes on from before a prompt, in a branch of its own.
    pub(super) fn branch(&mut self, branch_id: &str, before_prompt_id: &str) -> Option<()> {
        if self.has_branch(branch_id) {
            return None;
        }
        let line = self.line.before(before_prompt_id)?;
        self.go_to(branch_id, line);
        Some(())
    }

    pub(super) fn select(&mut self, branch_id: &str) -> Option<()> {
        let line = self.left.remove(branch_id)?;
        self.go_to(branch_id, line);
        Some(())
    }

    fn go_to(&mut self, branch_id: &str, line: Line) {
        let left = std::mem::replace(&mut self.line, line);
        let left_id = std::mem::replace(&mut self.branch_id, branch_id.to_owned());
        self.left.insert(left_id, left);
    }

    pub(super) fn branch_id(&self) -> &str {
        &self.branch_id
    }

    /// Returns the ids of all branches, in their order.
    pub(super) fn branch_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.left.keys().cloned().collect();
        ids.push(self.branch_id.clone());
        ids.sort_unstable();
        ids
    }

    pub(super) fn has_branch(&self, branch_id: &str) -> bool {
        self.branch_id == branch_id || self.left.contains_key(branch_id)
    }

    /// Whether the branch that goes on has taken this prompt up.
    pub(super) fn has_taken_up(&self, prompt_id: &str) -> bool {
        self.line.takes_up(prompt_id)
    }

    /// Whether any branch has.
    pub(super) fn has_ever_taken_up(&self, prompt_id: &str) -> bool {
        self.has_taken_up(prompt_id) || self.left.values().any(|line| line.takes_up(prompt_id))
    }

    /// Returns what a model is told: the last summary, and what comes after it.
    pub(super) fn told(&self) -> impl DoubleEndedIterator<Item = Arc<Entry>> + '_ {
        let summary = self.summary().map(Arc::new);
        summary.into_iter().chain(self.kept().cloned())
    }

    pub(super) fn told_len(&self) -> usize {
        let start = self.line.start();
        self.line.places.len() - start.unwrap_or(0) + usize::from(start.is_some())
    }

    fn summary(&self) -> Option<Entry> {
        let text = &self.line.summaries.last()?.text;
        Some(Entry::User {
            text: format!("{SUMMARY_INTRO}\n\n{text}"),
            images: Vec::new(),
        })
    }

    pub(super) fn has_summary(&self) -> bool {
        !self.line.summaries.is_empty()
    }

    /// Returns the entries that no summary stands for.
    pub(super) fn kept(
        &self,
    ) -> impl DoubleEndedIterator<Item = &Arc<Entry>> + ExactSizeIterator + '_ {
        let start = self.line.start().unwrap_or(0);
        self.line.places[start..]
            .iter()
            .map(|place| &self.entries[*place])
    }

    /// Returns about how many tokens a model reads what it is told as.
    pub(super) fn tokens(&self) -> u64 {
        match self.line.measured {
            Some(measured) => {
                let later = self.line.places.iter().skip(measured.until);
                let later = later.map(|place| self.entries[*place].tokens());
                measured.tokens.saturating_add(later.sum())
            }
            None => self.told().map(|entry| entry.tokens()).sum(),
        }
    }

    pub(super) fn blank(&mut self) {
        for entry in &mut self.entries {
            Arc::make_mut(entry).blank();
        }
        for line in self.left.values_mut().chain([&mut self.line]) {
            for summary in &mut line.summaries {
                ERASED.clone_into(&mut summary.text);
            }
        }
    }
}

impl Line {
    /// Entries that the last summary stands for.
    fn start(&self) -> Option<usize> {
        self.summaries.last().map(|summary| summary.until)
    }

    fn takes_up(&self, prompt_id: &str) -> bool {
        self.prompts.iter().any(|(taken, _)| taken == prompt_id)
    }

    fn before(&self, prompt_id: &str) -> Option<Self> {
        let index = self.prompts.iter().position(|(id, _)| id == prompt_id)?;
        let end = self.prompts[index].1;
        let summaries = self.summaries.iter().filter(|one| one.until <= end);
        Some(Self {
            places: self.places[..end].to_vec(),
            prompts: self.prompts[..index].to_vec(),
            summaries: summaries.cloned().collect(),
            // A count is of one stretch between two summaries.
            measured: self.measured.filter(|measured| {
                measured.until <= end && self.start().is_none_or(|start| start <= end)
            }),
        })
    }
}

/// Returns the tokens of a call and its reply.
pub(super) fn total(usage: &TokenUsage) -> u64 {
    [
        usage.input,
        usage.cache_read,
        usage.cache_write,
        usage.output,
    ]
    .into_iter()
    .fold(0, u64::saturating_add)
}
