//! What the short form of approval rules stands for. Deciders and views say it alike.

use cocoonbox_proto::log::v1::{ApprovalPolicy, ApprovalRules, Risk, RiskRule, Verdict};

/// Reads a policy of an event. One that this build does not know is the stricter one.
pub fn policy(number: i32) -> ApprovalPolicy {
    ApprovalPolicy::try_from(number).unwrap_or(ApprovalPolicy::AskBeforeEffects)
}

/// Returns the rules that a policy stands for, every risk named: a rule is changed without the others.
pub fn spelled_out(policy: ApprovalPolicy) -> ApprovalRules {
    let others = match policy {
        ApprovalPolicy::ApproveAll => Verdict::Allow,
        ApprovalPolicy::AskBeforeEffects => Verdict::Ask,
    };
    let rule = |(risk, verdict): (Risk, Verdict)| RiskRule {
        risk: risk.into(),
        verdict: verdict.into(),
    };
    let rules = [
        (Risk::Read, Verdict::Allow),
        (Risk::WriteWorkspace, others),
        (Risk::WriteOutside, others),
        (Risk::NetworkWrite, others),
        (Risk::Destructive, others),
        (Risk::Money, others),
    ];
    ApprovalRules {
        rules: rules.map(rule).to_vec(),
        ttl_s: 0,
    }
}
