//! Reads token counts out of an answer that passes by. It may fail to; it never holds anything up.

use serde::Deserialize;

use super::outbound::BYTES_PER_TOKEN;
use super::scan::Members;
use super::wire::Wire;

/// The longest line of an event stream that is kept. Those that count are short; a longer one is content,
/// or the last event of a Responses stream, which is searched as it passes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What ends a Responses stream; the kind stands at the beginning of an event.
const RESPONSES_END: [&[u8]; 3] = [
    b"response.completed",
    b"response.incomplete",
    b"response.failed",
];
const KIND_BYTES_MAX: usize = 256;

/// Tokens as both vendors mean them: the four do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

/// What an answer said of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metered {
    pub(crate) tokens: Tokens,
    /// The answer came to its own end.
    pub(crate) complete: bool,
    /// The vendor said what it read.
    pub(crate) is_input_known: bool,
    /// The vendor said all that was used.
    pub(crate) is_final: bool,
    /// The vendor said in a good answer that it failed, before it had written anything.
    pub(crate) is_failure: bool,
    /// What was written, by what passed.
    pub(crate) output_estimate: u64,
}

#[derive(Debug)]
pub(crate) struct Meter {
    wire: Wire,
    form: Form,
    tokens: Tokens,
    ended: bool,
    is_input_known: bool,
    is_final: bool,
    is_failure: bool,
    passed: Passed,
}

#[derive(Debug)]
enum Form {
    Events { line: Vec<u8>, long: Option<Long> },
    Json(Members),
}

/// A line that is too long to be kept.
#[derive(Debug)]
struct Long {
    members: Members,
    /// It is the last event of a Responses stream.
    is_end: bool,
}

/// Sizes of what passed, for want of anything better.
#[derive(Debug, Default)]
struct Passed {
    lines: u64,
    bytes: u64,
    /// The shortest line that may carry content: so much is wrapping.
    shortest: Option<u64>,
}

/// Either vendor's usage object. Absent fields leave what was known.
#[derive(Debug, Default, Deserialize)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<InputDetails>,
    input_tokens_details: Option<InputDetails>,
}

#[derive(Debug, Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    usage: Option<Usage>,
    message: Option<Inner>,
    response: Option<Inner>,
    error: Option<serde::de::IgnoredAny>,
}

/// The object in an event that carries the usage.
#[derive(Debug, Deserialize)]
struct Inner {
    usage: Option<Usage>,
}

impl Passed {
    fn take(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.lines = self.lines.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.shortest = Some(self.shortest.map_or(bytes, |least| least.min(bytes)));
    }

    /// A token a line, and more where lines are longer than the shortest.
    fn tokens(&self) -> u64 {
        let wrapping = self.shortest.unwrap_or(0).saturating_mul(self.lines);
        let content = self.bytes.saturating_sub(wrapping);
        self.lines.saturating_add(content.div_ceil(BYTES_PER_TOKEN))
    }
}

impl Meter {
    pub(crate) fn of_events(wire: Wire) -> Self {
        let line = Vec::new();
        Self::new(wire, Form::Events { line, long: None })
    }

    pub(crate) fn of_json(wire: Wire) -> Self {
        Self::new(wire, Form::Json(Members::new(&["usage", "error"])))
    }

    fn new(wire: Wire, form: Form) -> Self {
        Self {
            wire,
            form,
            tokens: Tokens::default(),
            ended: false,
            is_input_known: false,
            is_final: false,
            is_failure: false,
            passed: Passed::default(),
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        match &mut self.form {
            Form::Json(members) => {
                members.feed(bytes);
                self.passed.bytes = self.passed.bytes.saturating_add(bytes.len() as u64);
            }
            Form::Events { .. } => {
                for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                    self.piece(piece);
                }
            }
        }
    }

    /// Takes a piece of a line.
    fn piece(&mut self, piece: &[u8]) {
        let Form::Events { line, long } = &mut self.form else {
            return;
        };
        match long {
            Some(long) => {
                long.members.feed(piece);
                self.passed.bytes = self.passed.bytes.saturating_add(piece.len() as u64);
            }
            None => {
                line.extend_from_slice(piece);
                if line.len() > LINE_BYTES_MAX {
                    let kept = std::mem::take(line);
                    let mut members = Members::inner(&["usage"]);
                    members.feed(kept.strip_prefix(b"data:").unwrap_or(&kept));
                    let start = &kept[..KIND_BYTES_MAX];
                    let is_end = RESPONSES_END.iter().any(|kind| has(start, kind));
                    self.passed.take(kept.len());
                    *long = Some(Long { members, is_end });
                }
            }
        }
        if piece.ends_with(b"\n") {
            let whole = std::mem::take(line);
            match long.take() {
                Some(long) => self.long_line(&long),
                None => self.line(&whole),
            }
        }
    }

    /// Returns what the answer said. `whole` says that its body came to its end.
    pub(crate) fn finish(&mut self, whole: bool) -> Metered {
        let mut complete = self.ended;
        if let Form::Json(members) = &self.form {
            let usage = members
                .value("usage")
                .and_then(|value| serde_json::from_slice(value).ok());
            let error = members.value("error").map(<[u8]>::trim_ascii);
            self.is_failure = error.is_some_and(|error| error != b"null");
            complete = whole;
            if let Some(usage) = usage {
                self.merge(usage, true);
            }
        }
        let output_estimate = match self.form {
            Form::Json(_) => self.passed.bytes.div_ceil(BYTES_PER_TOKEN),
            Form::Events { .. } => self.passed.tokens(),
        };
        Metered {
            tokens: self.tokens,
            complete,
            is_input_known: self.is_input_known,
            is_final: self.is_final,
            is_failure: self.is_failure,
            output_estimate,
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else {
            return;
        };
        if data == b"[DONE]" {
            self.ended |= self.wire == Wire::OpenAi;
            return;
        }
        if !matters(data) {
            self.passed.take(data.len());
            return;
        }
        let Ok(event) = serde_json::from_slice::<Event>(data) else {
            return;
        };
        let kind = event.kind.as_deref().unwrap_or_default();
        self.ended |= match self.wire {
            Wire::Anthropic => kind == "message_stop",
            Wire::OpenAi => false,
            Wire::Responses => is_responses_end(kind),
        };
        let is_error = event.error.is_some() || matches!(kind, "error" | "response.failed");
        self.is_failure |= is_error && self.passed.lines == 0;
        // The first event says what was read and guesses at what will be written.
        let is_start = event.message.is_some();
        let inner = event.message.or(event.response);
        let usages = [inner.and_then(|inner| inner.usage), event.usage];
        for usage in usages.into_iter().flatten() {
            self.merge(usage, !is_start);
        }
    }

    fn long_line(&mut self, long: &Long) {
        if self.wire != Wire::Responses {
            return;
        }
        self.ended |= long.is_end;
        let usage = long.members.value("usage");
        if let Some(usage) = usage.and_then(|value| serde_json::from_slice(value).ok()) {
            self.merge(usage, true);
        }
    }

    fn merge(&mut self, usage: Usage, is_final: bool) {
        self.is_input_known = true;
        self.is_final |= is_final;
        self.tokens.merge(usage, self.wire);
    }
}

fn is_responses_end(kind: &str) -> bool {
    RESPONSES_END.contains(&kind.as_bytes())
}

fn has(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Returns whether an event is worth parsing: nearly all are deltas without any of these.
fn matters(data: &[u8]) -> bool {
    has(data, b"\"usage\"") || has(data, b"message_stop") || has(data, b"\"error\"") || {
        let start = &data[..data.len().min(KIND_BYTES_MAX)];
        RESPONSES_END.iter().any(|kind| has(start, kind))
    }
}

impl Tokens {
    fn merge(&mut self, usage: Usage, wire: Wire) {
        let set = |known: &mut u64, value: Option<u64>| *known = value.unwrap_or(*known);
        set(&mut self.input, usage.input_tokens);
        set(
            &mut self.output,
            usage.output_tokens.or(usage.completion_tokens),
        );
        set(&mut self.cache_read, usage.cache_read_input_tokens);
        set(&mut self.cache_write, usage.cache_creation_input_tokens);
        let (read, details) = match wire {
            Wire::Anthropic => return,
            Wire::OpenAi => (usage.prompt_tokens, usage.prompt_tokens_details),
            Wire::Responses => (usage.input_tokens, usage.input_tokens_details),
        };
        if let Some(read) = read {
            // This vendor counts cached tokens among those that it read.
            let cached = details.and_then(|details| details.cached_tokens);
            self.cache_read = cached.unwrap_or(0);
            self.input = read.saturating_sub(self.cache_read);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANTHROPIC: &str = "event: message_start\r\n\
        data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":7,\
        \"cache_creation_input_tokens\":3,\"cache_read_input_tokens\":2,\"output_tokens\":1}}}\r\n\r\n\
        event: ping\ndata: {\"type\":\"ping\"}\n\n\
        data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\\\"usage\\\" message_stop [DONE]\"}}\n\n\
        data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":42}}\n\n";

    const OPENAI: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"[DONE]\"}}],\"usage\":null}\n\n\
        data:{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\
        \"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\n";

    const RESPONSES: &str = "event: response.created\n\
        data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"usage\":null}}\n\n\
        data: {\"type\":\"response.output_text.delta\",\"delta\":\"response.completed\"}\n\n";

    /// The last event repeats all that was written.
    fn completed(text: &str) -> String {
        format!(
            "event: response.completed\ndata: {{\"type\":\"response.completed\",\"response\":{{\"output\":\
             [{{\"text\":\"{text}\",\"usage\":1}}],\"usage\":{{\"input_tokens\":9,\"output_tokens\":4,\
             \"input_tokens_details\":{{\"cached_tokens\":5}}}}}}}}\n\n"
        )
    }

    fn whole(mut meter: Meter, text: &str, cut: usize) -> Metered {
        text.as_bytes()
            .chunks(cut)
            .for_each(|chunk| meter.feed(chunk));
        meter.finish(true)
    }

    fn run(meter: Meter, text: &str, cut: usize) -> (Tokens, bool) {
        let metered = whole(meter, text, cut);
        (metered.tokens, metered.complete)
    }

    fn tokens(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Tokens {
        Tokens {
            input,
            output,
            cache_read,
            cache_write,
        }
    }

    proptest! {
        #[test]
        fn streams_are_read_however_they_are_cut(cut in 1_usize..200) {
            let meter = || Meter::of_events(Wire::Anthropic);
            prop_assert_eq!(run(meter(), ANTHROPIC, cut), (tokens(7, 42, 2, 3), false));
            let whole = format!("{ANTHROPIC}event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n");
            prop_assert_eq!(run(meter(), &whole, cut), (tokens(7, 42, 2, 3), true));
            let meter = || Meter::of_events(Wire::OpenAi);
            prop_assert_eq!(run(meter(), OPENAI, cut), (tokens(4, 4, 5, 0), false));
            prop_assert_eq!(run(meter(), &format!("{OPENAI}data: [DONE]\n\n"), cut), (tokens(4, 4, 5, 0), true));
            let meter = || Meter::of_events(Wire::Responses);
            prop_assert_eq!(run(meter(), RESPONSES, cut), (tokens(0, 0, 0, 0), false));
            let whole = format!("{RESPONSES}{}", completed("x"));
            prop_assert_eq!(run(meter(), &whole, cut), (tokens(4, 4, 5, 0), true));
        }

        #[test]
        fn garbage_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for mut meter in [Meter::of_events(Wire::OpenAi), Meter::of_json(Wire::Anthropic)] {
                meter.feed(&bytes);
                meter.finish(false);
            }
        }
    }

    #[test]
    fn whole_bodies_are_read() {
        let body = r#"{"content":[{"text":"x"}],"usage":{"input_tokens":3,"output_tokens":5}}"#;
        assert_eq!(
            run(Meter::of_json(Wire::Anthropic), body, 4),
            (tokens(3, 5, 0, 0), true)
        );
        let body = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}}"#;
        assert_eq!(
            run(Meter::of_json(Wire::OpenAi), body, 4),
            (tokens(3, 5, 0, 0), true)
        );
    }

    #[test]
    fn the_last_event_of_a_responses_stream_may_be_long() {
        let text = format!("{RESPONSES}{}", completed(&"x".repeat(3 * LINE_BYTES_MAX)));
        for cut in [1_000, 4_099, text.len()] {
            let metered = whole(Meter::of_events(Wire::Responses), &text, cut);
            assert_eq!(metered.tokens, tokens(4, 4, 5, 0));
            assert!(metered.complete && metered.is_final && !metered.is_failure);
        }
    }

    #[test]
    fn what_is_not_said_is_known_to_be_unknown() {
        let cut_off = whole(Meter::of_events(Wire::Anthropic), &ANTHROPIC[..300], 7);
        assert!(cut_off.is_input_known && !cut_off.is_final && !cut_off.complete);
        let said = whole(Meter::of_events(Wire::Anthropic), ANTHROPIC, 7);
        assert!(said.is_final && !said.is_failure);

        let chunk = |text: &str| {
            format!(
                "data: {{\"id\":\"c\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
            )
        };
        let silent = format!(
            "{}{}{}data: [DONE]\n\n",
            chunk("a"),
            chunk("b"),
            chunk(&"word ".repeat(100))
        );
        let silent = whole(Meter::of_events(Wire::OpenAi), &silent, 50);
        assert!(silent.complete && !silent.is_final && !silent.is_input_known);
        assert!((100..250).contains(&silent.output_estimate), "{silent:?}");

        let failed = "data: {\"error\":{\"message\":\"[3002] no such model\",\"type\":\"gateway_error\"}}\n\ndata: [DONE]\n\n";
        let failed = whole(Meter::of_events(Wire::OpenAi), failed, 9);
        assert!(
            failed.is_failure && failed.output_estimate == 0,
            "{failed:?}"
        );
        let failed = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"no\"}}\n\n";
        assert!(whole(Meter::of_events(Wire::Anthropic), failed, 9).is_failure);
        assert!(
            whole(
                Meter::of_json(Wire::OpenAi),
                "{\"error\":{\"message\":\"no\"}}",
                9
            )
            .is_failure
        );
        assert!(!whole(Meter::of_json(Wire::Responses), "{\"error\":null}", 9).is_failure);
    }

    #[test]
    fn a_long_line_is_skipped_and_the_next_is_read() {
        let mut meter = Meter::of_events(Wire::Anthropic);
        meter.feed(b"data: {\"usage\":{\"output_tokens\":1},\"x\":\"");
        for _ in 0..1000 {
            meter.feed(&[b'x'; 1000]);
        }
        let Form::Events { line, .. } = &meter.form else {
            unreachable!("made of events")
        };
        assert!(line.capacity() <= 2 * LINE_BYTES_MAX);
        meter.feed(b"\"}\n\n");
        meter.feed(ANTHROPIC.as_bytes());
        assert_eq!(meter.finish(false).tokens, tokens(7, 42, 2, 3));
    }
}
