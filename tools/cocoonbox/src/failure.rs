//! What went wrong, as a person and a script are told.

use std::{fmt, io, time::Duration};

use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::exit::Exit;

/// An error with the exit code it means and, where known, what to do about it.
#[derive(Clone, Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
    /// `google.rpc.ErrorInfo.reason`, upper case with underscores.
    pub reason: Option<String>,
    pub advice: Option<String>,
    pub retry_after: Option<Duration>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            reason: None,
            advice: None,
            retry_after: None,
        }
    }

    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// A mistake in how the program was called.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something on this host went wrong while we were `doing`.
    pub fn local(doing: impl fmt::Display, source: &dyn std::error::Error) -> Self {
        Self::new(Exit::Failure, format!("{doing}: {}", chain(source)))
    }

    /// Output whose reader is gone is not worth a message.
    pub fn is_silent(&self) -> bool {
        matches!(self.exit, Exit::OutputClosed)
    }

    pub fn to_json(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "reason": self.reason,
            "advice": self.advice,
            "retry_after_ms": self.retry_after.map(millis),
            "exit_code": self.exit.code(),
        }})
    }
}

/// Several lines: the message, then what to do.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(reason) = &self.reason {
            write!(f, " [{reason}]")?;
        }
        if let Some(wait) = self.retry_after {
            write!(f, "\n  try again in {:.1} s", wait.as_secs_f64())?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "\n  {advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let reason = details.error_info().map(|info| info.reason.clone());
        let retry_after = details.retry_info().and_then(|retry| retry.retry_delay);
        let mut message = match status.message() {
            "" => words(status.code()).to_owned(),
            text => text.to_owned(),
        };
        for violation in details
            .bad_request()
            .map(|b| &b.field_violations)
            .into_iter()
            .flatten()
        {
            if !message.contains(&violation.description) {
                let line = format!("\n  `{}`: {}", violation.field, violation.description);
                message.push_str(&line);
            }
        }
        let advice = reason
            .as_deref()
            .and_then(by_reason)
            .or_else(|| by_code(status.code()));
        Self {
            exit: exit(status.code()),
            message,
            reason,
            advice: advice.map(str::to_owned),
            retry_after,
        }
    }
}

/// For output: a closed pipe is how `head` says that it has enough.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::new(Exit::OutputClosed, "the output was closed")
        } else {
            Self::local("output", &error)
        }
    }
}

/// Joins an error and its sources.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn exit(code: Code) -> Exit {
    match code {
        Code::Ok => Exit::Ok,
        Code::NotFound => Exit::NotFound,
        Code::PermissionDenied | Code::Unauthenticated => Exit::Refused,
        Code::Unavailable | Code::DeadlineExceeded => Exit::Unavailable,
        Code::InvalidArgument => Exit::Usage,
        Code::Cancelled
        | Code::Unknown
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss => Exit::Failure,
    }
}

fn words(code: Code) -> &'static str {
    match code {
        Code::Unavailable => "the api or the box is not reachable",
        Code::DeadlineExceeded => "no answer in time",
        Code::Unauthenticated => "not logged in",
        Code::PermissionDenied => "not allowed",
        Code::NotFound => "there is no such thing",
        Code::Unimplemented => "the api does not know this call",
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::DataLoss => code.description(),
    }
}

/// What to do about the reasons that a person can do something about.
fn by_reason(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "NO_SUCH_BOX" => "`cocoonbox boxes` lists them, `cocoonbox ensure NAME` makes one",
        "BOX_NOT_RUNNING" | "BOX_STOPPING" => "`cocoonbox ensure` wakes the box",
        "BOX_UNREACHABLE" | "AGENT_NOT_READY" | "MACHINE_FAILED" => {
            "`cocoonbox boxes` says how the box is; `cocoonbox ensure` starts it again"
        }
        "HISTORY_REWOUND" => {
            "what was done after that is undone; `cocoonbox transcript` shows what is left"
        }
        "BOX_NOT_HIBERNATED" => "`cocoonbox hibernate` puts it to sleep",
        "CONTROL_HELD" => "`--steal` takes it, `cocoonbox control release` gives it to the agents",
        "NO_SCREEN" => "boxes with a desktop have one, some seconds after they have started",
        "BOX_DELETED" => "`cocoonbox ensure NAME` makes another box of that name",
        "TOO_MANY_BOXES" => "`cocoonbox delete` makes room",
        "HOST_INCOMPLETE" => "the api's host lacks something that boxes need; its log says what",
        "AGENT_NOT_FOUND" => "`cocoonbox agent list` lists the agents of a box",
        "AGENT_CLOSED" => "`cocoonbox agent create` makes another",
        "QUEUE_FULL" => "wait until the agent has worked off what it has, or `cocoonbox cancel`",
        "EXEC_NOT_RUNNING" => "it has ended; `cocoonbox attach EXEC_ID` shows how",
        "NO_SUCH_OPERATION" => "`cocoonbox boxes` shows how the boxes are",
        "APPROVAL_NOT_FOUND" | "APPROVAL_DECIDED" => {
            "`cocoonbox events --stream agent/` shows what was asked and answered"
        }
        "DIVERGED" => "the key belongs to another branch of this log; start without `--from`",
        "AHEAD_OF_TAIL" => "the key is from another installation, or the log lost its end",
        "NO_SUCH_LOG" | "OTHER_LOG" => "the key is of another box or another installation",
        "TOKEN_INVALID" | "TOKEN_REQUIRED" | "TOKEN_REVOKED" => {
            "`cocoonbox login` stores a token; on the api's host `cocoonbox up` makes one"
        }
        "NO_SUCH_SHARE" | "SHARE_ENDED" => {
            "`cocoonbox share list --ended` shows your shares, `cocoonbox share create` makes one"
        }
        "TOO_MANY_SHARES" => "`cocoonbox share revoke` makes room",
        "NO_SUCH_TOKEN" => "`cocoonbox token list` shows your tokens",
        "NAME_TAKEN" => "`cocoonbox user list` shows the names that are taken",
        "HOST_ONLY" => "this works only on the api's own host, as the user that runs the api",
        "MODEL_NOT_CONFIGURED" => "start the api with a model key in its environment",
        "OUTCOME_UNKNOWN" => "look whether it happened before you try again",
        "NO_SUCH_SNAPSHOT" => "`cocoonbox snapshots` lists them, `cocoonbox save` makes one",
        "NO_SUCH_FILE" => "`cocoonbox files ls` shows what was saved",
        "TOO_MANY_SAVES" => "wait until those that are under way have ended",
        "DISK_FULL" => "make room on the api's host",
        _ => return None,
    })
}

fn by_code(code: Code) -> Option<&'static str> {
    match code {
        Code::Unauthenticated => {
            Some("`cocoonbox login` stores a token; on the api's host `cocoonbox up` makes one")
        }
        Code::Unimplemented => Some("the api may be older than this program"),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => None,
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_status_with_details_says_reason_and_what_to_do() {
        let mut details = ErrorDetails::with_error_info(
            "BOX_NOT_RUNNING",
            "cocoonbox",
            std::iter::empty::<(String, String)>().collect::<std::collections::HashMap<_, _>>(),
        );
        details.set_retry_info(Some(Duration::from_millis(1500)));
        let status = Status::with_error_details(Code::Unavailable, "box `b1` sleeps", details);
        let failure = Failure::from(status);
        assert_eq!(failure.exit, Exit::Unavailable);
        insta::assert_snapshot!(failure, @"
        error: box `b1` sleeps [BOX_NOT_RUNNING]
          try again in 1.5 s
          `cocoonbox ensure` wakes the box
        ");
        insta::assert_snapshot!(failure.to_json(), @r#"{"error":{"message":"box `b1` sleeps","reason":"BOX_NOT_RUNNING","advice":"`cocoonbox ensure` wakes the box","retry_after_ms":1500,"exit_code":5}}"#);
    }

    #[test]
    fn field_violations_are_lines() {
        let details = ErrorDetails::with_bad_request_violation("prompt", "longer than 200 KiB");
        let failure = Failure::from(Status::with_error_details(
            Code::InvalidArgument,
            "the request does not fit",
            details,
        ));
        assert_eq!(failure.exit, Exit::Usage);
        insta::assert_snapshot!(failure, @"
        error: the request does not fit
          `prompt`: longer than 200 KiB
        ");
    }

    #[test]
    fn a_bare_status_is_words() {
        insta::assert_snapshot!(Failure::from(Status::unauthenticated("")), @"
        error: not logged in
          `cocoonbox login` stores a token; on the api's host `cocoonbox up` makes one
        ");
    }
}
