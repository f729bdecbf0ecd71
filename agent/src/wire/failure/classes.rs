//! What vendors' statuses, codes and sentences mean.

use std::time::Duration;

use cocoonbox_proto::log::v1::agent_model_failed::Reason;

use super::Told;

/// Sentences in which servers say that a conversation does not fit, in small letters. Most have no code for
/// it. Each was met at a vendor or a server that many run.
const TOO_LONG: [&str; 15] = [
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the context window",
    "context window of this model",
    "context length exceeded",
    "maximum prompt length",
    "maximum model length",
    "available context size",
    "input is too long",
    "input token count",
    "too many tokens",
    "reduce the length of the messages",
    "request_too_large",
    "longer than the model's context length",
];

/// Sentences in which vendors say that the operator's account is empty.
const UNPAID: [&str; 2] = ["credit balance is too low", "exceeded your current quota"];

/// Returns what the door or the gateway means.
pub(super) fn of_word(word: &str) -> Option<Reason> {
    match word.to_ascii_uppercase().as_str() {
        "BUDGET" => Some(Reason::Budget),
        "MODEL_NOT_CONFIGURED" => Some(Reason::NotConfigured),
        "MODEL_UNREACHABLE" | "MODEL_TIMEOUT" | "EGRESS_BUSY" => Some(Reason::Unreachable),
        "MODEL_BODY_TOO_LARGE" => Some(Reason::TooLong),
        _ => None,
    }
}

/// Returns what is said so plainly that the status does not matter.
pub(super) fn of_words(told: &Told) -> Option<Reason> {
    let message = told.message.to_ascii_lowercase();
    let says = |sentences: &[&str]| sentences.iter().any(|sentence| message.contains(sentence));
    for word in [&told.code, &told.kind] {
        match word.as_str() {
            "context_length_exceeded"
            | "exceed_context_size_error"
            | "request_too_large"
            | "string_above_max_length" => return Some(Reason::TooLong),
            "insufficient_quota" | "billing_error" | "billing_hard_limit_reached" => {
                return Some(Reason::NotConfigured);
            }
            // A limit of tokens in a minute is spoken of in much the same words.
            "rate_limit_error" | "rate_limit_exceeded" => return Some(Reason::RateLimited),
            _ => {}
        }
    }
    if says(&UNPAID) {
        return Some(Reason::NotConfigured);
    }
    if says(&TOO_LONG) {
        return Some(Reason::TooLong);
    }
    of_gateway_code(&told.message).filter(|_| told.kind == "gateway_error")
}

pub(super) fn of_status(status: u16, word: &str) -> Reason {
    match (status, word) {
        // A 403 with a word is the door's own no, not the vendor's. A vendor that wants to be paid first is
        // one that the operator has to see to.
        (401 | 402, _) | (403, "") => Reason::NotConfigured,
        (413, _) => Reason::TooLong,
        (429, _) => Reason::RateLimited,
        (503 | 529, _) => Reason::Overloaded,
        (408 | 409 | 500.., _) => Reason::ServerError,
        _ => Reason::Rejected,
    }
}

/// Returns what an error's kind or code means.
pub(super) fn of_kind(kind: &str) -> Option<Reason> {
    Some(match kind {
        "" => return None,
        "overloaded_error" | "overloaded" | "server_is_overloaded" | "slow_down" => {
            Reason::Overloaded
        }
        "tokens" | "requests" => Reason::RateLimited,
        "authentication_error" | "permission_error" | "invalid_api_key" => Reason::NotConfigured,
        "invalid_request_error" | "not_found_error" | "invalid_prompt" | "model_not_found" => {
            Reason::Rejected
        }
        _ => match kind.parse::<u16>() {
            Ok(status @ 400..=599) => of_status(status, ""),
            _ => return None,
        },
    })
}

/// A gateway of ours that stands before the vendor has its codes in the text only: `[4004] …`.
fn of_gateway_code(message: &str) -> Option<Reason> {
    let (code, _) = message.strip_prefix('[')?.split_once(']')?;
    match code {
        "4004" => Some(Reason::RateLimited),
        "1000" | "2006" => Some(Reason::Overloaded),
        "2008" | "3002" => Some(Reason::Rejected),
        "3007" => Some(Reason::NotConfigured),
        _ => None,
    }
}

/// Returns the wait that a sentence asks for, as in `try again in 1.2s`; 0 = none.
pub(super) fn wait_ms(message: &str) -> u64 {
    let message = message.to_ascii_lowercase();
    let Some((_, rest)) = message.split_once("try again in ") else {
        return 0;
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = rest.split_at(digits.unwrap_or(rest.len()));
    let unit = unit.trim_start();
    let scale = if unit.starts_with("ms") || unit.starts_with("milli") {
        0.001
    } else if unit.starts_with('m') {
        60.0
    } else if unit.starts_with('h') {
        3_600.0
    } else {
        1.0
    };
    let seconds = number.trim_end_matches('.').parse::<f64>().ok();
    let wait = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds * scale).ok());
    wait.map_or(0, |wait| {
        u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
    })
}
