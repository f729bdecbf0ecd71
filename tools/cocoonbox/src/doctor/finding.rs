//! One thing that a person should know.

use std::fmt;

use serde_json::{Value, json};

/// How bad it is; what is wrong comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Wrong,
    Note,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// Upper case, for scripts; does not change.
    pub(super) code: &'static str,
    pub(super) what: String,
    pub(super) why: Option<String>,
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn wrong(code: &'static str, what: impl Into<String>) -> Self {
        Self {
            severity: Severity::Wrong,
            code,
            what: what.into(),
            why: None,
            advice: None,
        }
    }

    pub(super) fn note(code: &'static str, what: impl Into<String>) -> Self {
        Self {
            severity: Severity::Note,
            ..Self::wrong(code, what)
        }
    }

    pub(super) fn because(self, why: impl Into<String>) -> Self {
        Self {
            why: Some(why.into()),
            ..self
        }
    }

    pub(super) fn advise(self, advice: impl Into<String>) -> Self {
        Self {
            advice: Some(advice.into()),
            ..self
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "severity": self.severity.word(),
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "advice": self.advice,
        })
    }
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<5}  {}", self.severity.word(), self.what)?;
        if let Some(why) = &self.why {
            write!(f, "\n         why: {why}")?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "\n         do:  {advice}")?;
        }
        Ok(())
    }
}
