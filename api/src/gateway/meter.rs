//! Reads token counts out of an answer that passes by. It may fail to; it never holds anything up.

use serde::Deserialize;

use super::scan::Member;
use super::wire::Wire;

/// The longest line of an event stream that is looked at. Those that count are short; a longer one is
/// content.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Tokens as both vendors mean them: the four do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

#[derive(Debug)]
pub(crate) struct Meter {
    wire: Wire,
    form: Form,
    tokens: Tokens,
    ended: bool,
}

#[derive(Debug)]
enum Form {
    Events { line: Vec<u8>, too_long: bool },
    Json(Member),
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
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    usage: Option<Usage>,
    message: Option<Message>,
}

#[derive(Debug, Deserialize)]
struct Message {
    usage: Option<Usage>,
}

impl Meter {
    pub(crate) fn of_events(wire: Wire) -> Self {
        Self::new(
            wire,
            Form::Events {
                line: Vec::new(),
                too_long: false,
            },
        )
    }

    pub(crate) fn of_json(wire: Wire) -> Self {
        Self::new(wire, Form::Json(Member::new("usage")))
    }

    fn new(wire: Wire, form: Form) -> Self {
        Self {
            wire,
            form,
            tokens: Tokens::default(),
            ended: false,
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        match &mut self.form {
            Form::Json(member) => member.feed(bytes),
            Form::Events { line, too_long } => {
                let mut lines = Vec::new();
                for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                    let ends = piece.ends_with(b"\n");
                    if line.len() + piece.len() > LINE_BYTES_MAX {
                        *too_long = true;
                        line.clear();
                    }
                    if !*too_long {
                        line.extend_from_slice(piece);
                    }
                    if ends {
                        if !std::mem::take(too_long) && matters(line) {
                            lines.push(line.clone());
                        }
                        line.clear();
                    }
                }
                for line in lines {
                    self.line(&line);
                }
            }
        }
    }

    /// Returns the tokens, and whether the answer came to its own end. `whole` says that the body did.
    pub(crate) fn finish(&mut self, whole: bool) -> (Tokens, bool) {
        let complete = match &self.form {
            Form::Events { .. } => self.ended,
            Form::Json(member) => {
                let usage = member
                    .value()
                    .and_then(|value| serde_json::from_slice(value).ok());
                self.tokens.merge(usage.unwrap_or_default());
                whole
            }
        };
        (self.tokens, complete)
    }

    fn line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else {
            return;
        };
        if data == b"[DONE]" {
            self.ended |= self.wire == Wire::OpenAi;
            return;
        }
        let Ok(event) = serde_json::from_slice::<Event>(data) else {
            return;
        };
        let usages = [event.message.and_then(|message| message.usage), event.usage];
        for usage in usages.into_iter().flatten() {
            self.tokens.merge(usage);
        }
        let stop = event.kind.as_deref() == Some("message_stop");
        self.ended |= self.wire == Wire::Anthropic && stop;
    }
}

/// Returns whether a line is worth parsing: nearly all are deltas without any of these.
fn matters(line: &[u8]) -> bool {
    let has = |word: &[u8]| line.windows(word.len()).any(|window| window == word);
    line.starts_with(b"data:") && (has(b"\"usage\"") || has(b"message_stop") || has(b"[DONE]"))
}

impl Tokens {
    fn merge(&mut self, usage: Usage) {
        let set = |known: &mut u64, value: Option<u64>| *known = value.unwrap_or(*known);
        set(&mut self.input, usage.input_tokens);
        set(
            &mut self.output,
            usage.output_tokens.or(usage.completion_tokens),
        );
        set(&mut self.cache_read, usage.cache_read_input_tokens);
        set(&mut self.cache_write, usage.cache_creation_input_tokens);
        if let Some(prompt) = usage.prompt_tokens {
            // This vendor counts cached tokens among the prompt's.
            let cached = usage
                .prompt_tokens_details
                .and_then(|details| details.cached_tokens);
            self.cache_read = cached.unwrap_or(0);
            self.input = prompt.saturating_sub(self.cache_read);
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

    fn run(mut meter: Meter, text: &str, cut: usize) -> (Tokens, bool) {
        text.as_bytes()
            .chunks(cut)
            .for_each(|chunk| meter.feed(chunk));
        meter.finish(true)
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
        assert_eq!(meter.finish(false).0, tokens(7, 42, 2, 3));
    }
}
