use serde_json::json;

use super::*;

fn of(status: u16, word: &str, body: &[u8]) -> Failure {
    Failure::of_answer(&Answer {
        status,
        word,
        body,
        retry_after_ms: 7,
    })
}

fn said(status: u16, error: &Value) -> Reason {
    let body = json!({ "error": error }).to_string();
    of(status, "", body.as_bytes()).reason
}

#[test]
fn statuses_become_reasons() {
    let cases = [
        (400, Reason::Rejected, false),
        (401, Reason::NotConfigured, false),
        (402, Reason::NotConfigured, false),
        (403, Reason::NotConfigured, false),
        (404, Reason::Rejected, false),
        (408, Reason::ServerError, true),
        (409, Reason::ServerError, true),
        (413, Reason::TooLong, false),
        (422, Reason::Rejected, false),
        (429, Reason::RateLimited, true),
        (500, Reason::ServerError, true),
        (502, Reason::ServerError, true),
        (503, Reason::Overloaded, true),
        (529, Reason::Overloaded, true),
    ];
    for (status, reason, retryable) in cases {
        let failure = of(status, "", b"{\"error\":{\"message\":\"no\"}}");
        assert_eq!(
            (failure.reason, failure.retryable),
            (reason, retryable),
            "{status}"
        );
        assert_eq!(
            (failure.detail, failure.retry_after_ms),
            (format!("{status}: no"), 7)
        );
    }
}

#[test]
fn the_gateway_says_what_the_vendor_cannot() {
    let cases = [
        (503, "MODEL_NOT_CONFIGURED", Reason::NotConfigured),
        (502, "MODEL_UNREACHABLE", Reason::Unreachable),
        (413, "MODEL_BODY_TOO_LARGE", Reason::TooLong),
        (403, "GATEWAY_FORM", Reason::Rejected),
    ];
    for (status, word, reason) in cases {
        assert_eq!(of(status, word, b"no\n").reason, reason, "{word}");
    }
    let broke = of(
        402,
        "budget",
        b"{\"error\":{\"message\":\"the day's budget is used up\"}}",
    );
    assert_eq!((broke.reason, broke.retry_after_ms), (Reason::Budget, 7));
    assert_eq!(broke.detail, "402: the day's budget is used up");
}

#[test]
fn every_way_to_say_too_long_is_understood() {
    let cases = [
        (
            400,
            json!({"type": "invalid_request_error", "message": "prompt is too long: 208310 tokens > 200000 maximum"}),
        ),
        (
            400,
            json!({"type": "invalid_request_error", "message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"}),
        ),
        (
            413,
            json!({"type": "request_too_large", "message": "Request exceeds the maximum size"}),
        ),
        (
            400,
            json!({"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded", "message": "This model's maximum context length is 128000 tokens."}),
        ),
        (
            400,
            json!({"code": 400, "type": "exceed_context_size_error", "message": "the request exceeds the available context size, try increasing it", "n_ctx": 4096}),
        ),
        (
            400,
            json!({"object": "error", "type": "BadRequestError", "code": 400, "message": "The decoder prompt (length 9000) is longer than the maximum model length of 8192."}),
        ),
        (
            400,
            json!({"code": 400, "message": "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."}),
        ),
        (
            500,
            json!({"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}),
        ),
    ];
    for (status, error) in cases {
        assert_eq!(said(status, &error), Reason::TooLong, "{error}");
        assert_eq!(
            Failure::of_error(&json!({ "error": error })).reason,
            Reason::TooLong
        );
    }
    // Not the conversation is too long here, but the minute.
    let error = json!({"type": "tokens", "code": "rate_limit_exceeded", "message": "Request too large for m on tokens per min (TPM): Limit 30000, Requested 60000. The input or output tokens must be reduced."});
    assert_eq!(said(429, &error), Reason::RateLimited);
}

#[test]
fn an_account_without_money_is_not_tried_again() {
    let cases = [
        (
            429,
            json!({"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your current quota"}),
        ),
        (
            400,
            json!({"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}),
        ),
        (402, json!({"message": "Insufficient Balance"})),
    ];
    for (status, error) in cases {
        assert_eq!(said(status, &error), Reason::NotConfigured, "{error}");
    }
}

#[test]
fn an_error_with_a_good_status_is_an_error() {
    let cases = [
        (
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
            Reason::Overloaded,
        ),
        (
            json!({"error": {"code": 429, "message": "slow"}}),
            Reason::RateLimited,
        ),
        (
            json!({"error": {"code": "server_error", "message": "oops"}}),
            Reason::ServerError,
        ),
        (json!({"error": "model is loading"}), Reason::ServerError),
        (json!({"detail": "Not Found"}), Reason::ServerError),
        (
            json!({"object": "error", "type": "BadRequestError", "code": 400, "message": "no"}),
            Reason::Rejected,
        ),
        (
            json!({"error": {"type": "gateway_error", "message": "[4004] daily tokens used up"}}),
            Reason::RateLimited,
        ),
        (
            json!({"error": {"type": "gateway_error", "message": "[3002] no such model"}}),
            Reason::Rejected,
        ),
    ];
    for (body, reason) in cases {
        assert_eq!(
            of(200, "", body.to_string().as_bytes()).reason,
            reason,
            "{body}"
        );
        assert_eq!(Failure::of_error(&body).reason, reason, "{body}");
    }
    for body in ["<html>", "", "{}", "[1]", "null"] {
        assert_eq!(
            of(200, "", body.as_bytes()).reason,
            Reason::Garbled,
            "{body}"
        );
    }
}

#[test]
fn a_wait_may_be_in_the_sentence_only() {
    let waits = [
        ("Please try again in 11.054s.", 11_054),
        ("Try again in 320ms", 320),
        ("try again in 2 minutes", 120_000),
        ("try again in a while", 0),
        ("try again in 99999999999999999999999999s", 0),
        ("no", 0),
    ];
    for (message, wait_ms) in waits {
        let error = json!({"type": "requests", "code": "rate_limit_exceeded", "message": message});
        let body = json!({ "error": error }).to_string();
        let answer = Answer {
            status: 429,
            word: "",
            body: body.as_bytes(),
            retry_after_ms: 0,
        };
        assert_eq!(
            Failure::of_answer(&answer).retry_after_ms,
            wait_ms,
            "{message}"
        );
        let in_stream = Failure::of_error(&json!({ "error": error }));
        assert_eq!(in_stream.retry_after_ms, wait_ms, "{message}");
    }
}
