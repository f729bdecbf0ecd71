//! What a request says, whatever its wire, and the step that it asks for.

use std::collections::HashMap;

use crate::script::{Script, Step};

/// A request, read from either wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// OpenAI only: the stream ends with a usage chunk.
    pub(crate) include_usage: bool,
    /// OpenAI only: deltas carry padding that hides their length.
    pub(crate) include_obfuscation: bool,
    /// The names of the tools that the request offers.
    pub(crate) offered: Vec<String>,
    /// OpenAI Responses only: the namespace of a tool that is offered in one.
    pub(crate) namespaces: HashMap<String, String>,
    /// Pictures that came since the model's last turn.
    pub(crate) images: usize,
    pub(crate) turns: Vec<Turn>,
}

/// One message of a conversation, reduced to what a script can depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The user said something, and answered no tool call with it.
    Prompt(String),
    /// The model said something.
    Reply,
    /// Tools answered.
    Results(Vec<String>),
}

/// Which step of which conversation block was played, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub conversation: usize,
    pub step: usize,
}

impl Conversation {
    /// Returns the last plain prompt, or an empty string before the first.
    pub(crate) fn prompt(&self) -> &str {
        self.turns
            .iter()
            .rev()
            .find_map(|turn| match turn {
                Turn::Prompt(text) => Some(text.as_str()),
                Turn::Reply | Turn::Results(_) => None,
            })
            .unwrap_or_default()
    }

    /// Returns how many turns the model took since the last plain prompt.
    pub(crate) fn replies(&self) -> usize {
        let since = self
            .turns
            .iter()
            .rev()
            .take_while(|turn| !matches!(turn, Turn::Prompt(_)));
        since.filter(|turn| matches!(turn, Turn::Reply)).count()
    }

    /// Returns what the tools answered to the model's last turn, a result per line.
    pub(crate) fn last(&self) -> String {
        let mut results = Vec::new();
        for turn in self.turns.iter().rev() {
            match turn {
                Turn::Results(texts) => results.extend(texts.iter().rev().map(String::as_str)),
                Turn::Reply | Turn::Prompt(_) => break,
            }
        }
        results.reverse();
        results.join("\n")
    }

    /// Returns the step to play, after branches and checks.
    ///
    /// What the script did not foresee becomes a step that says so, with no position: a demo that
    /// drifts has to show it.
    pub(crate) fn find(&self, script: &Script) -> (Option<Position>, Step) {
        let prompt = self.prompt().to_lowercase();
        let found = script.conversations.iter().enumerate().find(|(_, block)| {
            let when = block.when.as_ref();
            let model = block.model.as_ref();
            when.is_none_or(|when| prompt.contains(&when.to_lowercase()))
                && model.is_none_or(|model| *model == self.model)
        });
        let Some((conversation, block)) = found else {
            return (
                None,
                Step::say("The script has no conversation for this prompt."),
            );
        };
        let position = Position {
            conversation,
            step: self.replies(),
        };
        let Some(step) = block.steps.get(position.step) else {
            let count = block.steps.len();
            let text = format!("The script is over: it has {count} steps for this prompt.");
            return (None, Step::say(text));
        };
        let last = self.last();
        let step = choose(step, &last);
        match self.drift(step, &last) {
            Some(text) => (None, Step::say(text)),
            None => (Some(position), step.clone()),
        }
    }

    /// Returns what to say when the step does not fit the conversation.
    fn drift(&self, step: &Step, last: &str) -> Option<String> {
        if let Some(expect) = step
            .expect
            .as_ref()
            .filter(|expect| !last.contains(expect.as_str()))
        {
            return Some(format!(
                "The script expected `{expect}` in the last tool result, but this came:\n{last}"
            ));
        }
        if let Some(expected) = step.expect_images.filter(|count| *count != self.images) {
            return Some(format!(
                "The script expected {expected} pictures since the last turn, but {} came.",
                self.images
            ));
        }
        let missing = step
            .tools
            .iter()
            .find(|tool| !self.offered.contains(&tool.name))?;
        let offered = match self.offered.as_slice() {
            [] => "none".to_owned(),
            names => format!("`{}`", names.join("`, `")),
        };
        Some(format!(
            "The script wants the tool `{}`, but the request offers {offered}.",
            missing.name
        ))
    }
}

/// Follows branches to the step that fits the last tool result.
fn choose<'a>(step: &'a Step, last: &str) -> &'a Step {
    let fits = |branch: &&Step| {
        branch
            .when_last
            .as_ref()
            .is_some_and(|when| last.contains(when))
    };
    match step.branch.iter().find(fits) {
        Some(branch) => choose(branch, last),
        None => step,
    }
}

/// Fills `{last}` and `{last_exit}` in one pass: what a tool printed is never filled again.
pub(crate) fn fill(template: &str, last: &str) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{last") {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        if let Some(after) = from.strip_prefix("{last}") {
            filled.push_str(last);
            rest = after;
        } else if let Some(after) = from.strip_prefix("{last_exit}") {
            filled.push_str(exit_of(last).unwrap_or("unknown"));
            rest = after;
        } else {
            let (brace, after) = from.split_at(1);
            filled.push_str(brace);
            rest = after;
        }
    }
    filled.push_str(rest);
    filled
}

/// Returns the number after the last `exit` in a result, as in `exit code: 1` or `"exit_code":1`.
fn exit_of(result: &str) -> Option<&str> {
    result.rmatch_indices("exit").find_map(|(at, word)| {
        let after = &result[at + word.len()..];
        let digits = after.trim_start_matches(|c: char| {
            c.is_ascii_alphabetic() || matches!(c, ' ' | '_' | ':' | '=' | '"' | '`' | '(')
        });
        let sign = usize::from(digits.starts_with('-'));
        let length = digits[sign..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        (length > 0).then(|| &digits[..sign + length])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(turns: Vec<Turn>) -> Conversation {
        Conversation {
            model: "m".to_owned(),
            stream: true,
            include_usage: false,
            include_obfuscation: false,
            offered: vec!["t".to_owned()],
            namespaces: HashMap::new(),
            images: 1,
            turns,
        }
    }

    fn prompt(text: &str) -> Turn {
        Turn::Prompt(text.to_owned())
    }

    fn results(texts: &[&str]) -> Turn {
        Turn::Results(texts.iter().map(|&text| text.to_owned()).collect())
    }

    fn played(script: &str, turns: Vec<Turn>) -> (Option<Position>, String) {
        let script = Script::parse(script).unwrap();
        let (position, step) = conversation(turns).find(&script);
        (position, step.text.unwrap_or_default())
    }

    const TWO: &str = r#"
        [[conversation]]
        when = "Build"
        step = [
            { text = "b0" },
            { text = "b1", branch = [{ when_last = "red", text = "was red" }] },
            { text = "b2", expect = "green" },
            { text = "b3", tools = [{ name = "absent" }] },
        ]
        [[conversation]]
        step = [{ text = "other" }]
    "#;

    #[test]
    fn a_block_may_be_for_one_model() {
        let script = r#"
            [[conversation]]
            model = "n"
            step = [{ text = "n" }]
            [[conversation]]
            model = "m"
            step = [{ text = "m" }]
        "#;
        assert_eq!(played(script, vec![prompt("hi")]).1, "m");
    }

    #[test]
    fn the_last_prompt_chooses_the_block_and_replies_choose_the_step() {
        let at = |conversation, step| Some(Position { conversation, step });
        assert_eq!(played(TWO, vec![prompt("hi")]), (at(1, 0), "other".into()));
        let turns = vec![prompt("hi"), Turn::Reply, prompt("please BUILD it")];
        assert_eq!(played(TWO, turns.clone()), (at(0, 0), "b0".into()));
        let more = [turns, vec![Turn::Reply, results(&["blue"])]].concat();
        assert_eq!(played(TWO, more), (at(0, 1), "b1".into()));
    }

    #[test]
    fn a_branch_follows_the_last_result() {
        let turns = vec![prompt("build"), Turn::Reply, results(&["red", "x"])];
        assert_eq!(played(TWO, turns).1, "was red");
    }

    #[test]
    fn drift_is_said_aloud() {
        let reply = || vec![Turn::Reply, results(&["red"])];
        let turns = [vec![prompt("build")], reply(), reply()].concat();
        insta::assert_snapshot!(played(TWO, turns).1, @r"
        The script expected `green` in the last tool result, but this came:
        red
        ");
        let turns = [vec![prompt("build")], reply(), reply(), reply()].concat();
        insta::assert_snapshot!(
            played(TWO, turns).1,
            @"The script wants the tool `absent`, but the request offers `t`."
        );
        let turns = [vec![prompt("build")], reply(), reply(), reply(), reply()].concat();
        insta::assert_snapshot!(played(TWO, turns).1, @"The script is over: it has 4 steps for this prompt.");
        insta::assert_snapshot!(
            played("[[conversation]]\nstep = [{ text = 'a', expect_images = 2 }]", vec![prompt("x")]).1,
            @"The script expected 2 pictures since the last turn, but 1 came."
        );
        assert_eq!(
            played("", vec![]).1,
            "The script has no conversation for this prompt."
        );
    }

    #[test]
    fn last_joins_the_results_of_one_turn() {
        let turns = vec![
            results(&["old"]),
            Turn::Reply,
            results(&["a", "b"]),
            results(&["c"]),
        ];
        assert_eq!(conversation(turns).last(), "a\nb\nc");
    }

    #[test]
    fn placeholders_are_filled_once() {
        assert_eq!(
            fill("<{last}> {last_exit}", "{last} exit code: -1"),
            "<{last} exit code: -1> -1"
        );
        assert_eq!(
            fill("{lasting} {last_exit}", "exit early"),
            "{lasting} unknown"
        );
        assert_eq!(fill("{last_exit}", r#"{"exit_code":0,"out":"exit"}"#), "0");
    }
}
