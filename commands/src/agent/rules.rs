//! What is asked about.

use std::cmp::Reverse;

use cocoonbox_events::approval;
use cocoonbox_proto::log::v1::{ApprovalPolicy, ApprovalRules, Effect, Risk, RiskRule, Verdict};

/// How long an approval waits where nobody said otherwise.
const TTL_DEFAULT_S: u32 = 3_600;

/// When a tool call waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Counts where there are no rules.
    pub(super) policy: ApprovalPolicy,
    pub(super) rules: Option<ApprovalRules>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            policy: ApprovalPolicy::AskBeforeEffects,
            rules: None,
        }
    }
}

impl Rules {
    /// Says what is done about a tool call.
    pub fn verdict(&self, risk: Risk, effect: Effect) -> Verdict {
        let Some(rules) = &self.rules else {
            return match (self.policy, effect) {
                (ApprovalPolicy::ApproveAll, _) | (_, Effect::ReadOnly) => Verdict::Allow,
                (ApprovalPolicy::AskBeforeEffects, _) => Verdict::Ask,
            };
        };
        let named = rules.rules.iter().filter(|rule| rule.risk() == risk);
        // Where two contradict each other, the stricter one counts, and what this build does not know is
        // asked about.
        let strictest = named
            .map(|rule| match rule.verdict() {
                Verdict::Unspecified => Verdict::Ask,
                verdict => verdict,
            })
            .min_by_key(|verdict| Reverse(i32::from(*verdict)));
        strictest.unwrap_or(match risk {
            Risk::Read => Verdict::Allow,
            _ => Verdict::Ask,
        })
    }

    /// Returns until when an approval waits that is asked for now; 0 = for ever, where no time is known.
    pub fn expires_at_us(&self, now_us: i64) -> i64 {
        if now_us == 0 {
            return 0;
        }
        now_us.saturating_add(self.ttl_us())
    }

    /// Returns how long an approval waits.
    pub fn ttl_us(&self) -> i64 {
        let ttl_s = self.rules.as_ref().map_or(0, |rules| rules.ttl_s);
        let ttl_s = if ttl_s == 0 { TTL_DEFAULT_S } else { ttl_s };
        i64::from(ttl_s) * 1_000_000
    }

    /// Says it in short.
    pub fn text(&self) -> String {
        let Some(rules) = &self.rules else {
            return self.policy.as_str_name().to_owned();
        };
        let rule = |rule: &RiskRule| {
            let (risk, verdict) = (rule.risk().as_str_name(), rule.verdict().as_str_name());
            format!("{risk}: {verdict}")
        };
        rules.rules.iter().map(rule).collect::<Vec<_>>().join(", ")
    }

    /// Returns the long form, for whoever shows or changes it.
    pub fn long(&self) -> ApprovalRules {
        let rules = self.rules.clone();
        rules.unwrap_or_else(|| approval::spelled_out(self.policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_form_decides_as_the_short_one() {
        for policy in [ApprovalPolicy::ApproveAll, ApprovalPolicy::AskBeforeEffects] {
            let short = Rules {
                policy,
                rules: None,
            };
            let long = Rules {
                policy: ApprovalPolicy::AskBeforeEffects,
                rules: Some(short.long()),
            };
            for (risk, effect) in [
                (Risk::Read, Effect::ReadOnly),
                (Risk::WriteWorkspace, Effect::SideEffect),
                (Risk::WriteOutside, Effect::SideEffect),
                (Risk::NetworkWrite, Effect::SideEffect),
                (Risk::Destructive, Effect::SideEffect),
                (Risk::Money, Effect::SideEffect),
            ] {
                assert_eq!(short.verdict(risk, effect), long.verdict(risk, effect));
            }
        }
    }
}
