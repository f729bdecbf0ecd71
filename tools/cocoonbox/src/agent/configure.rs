//! Which models an agent uses, and what it has to ask about.

use cocoonbox_proto::{
    agent::v1::ConfigureRequest,
    log::v1::{ApprovalRules, ModelRoles, Risk, RiskRule, Verdict},
};

use crate::{
    cli::agent::{Configure, Setup},
    client::{repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    models, target,
};

pub(super) async fn configure(ctx: &mut Context, args: Configure) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::awake(ctx, &client, &args.to.target.box_name).await?;
    let (_, agent) = super::one(&client, &args.to).await?;
    let there = agent.models.clone().unwrap_or_else(|| ModelRoles {
        main: agent.model.clone(),
        ..ModelRoles::default()
    });
    let models = models::changed(&args.setup.models, there).map_err(Failure::usage)?;
    let rules =
        rules(&args.setup, agent.rules.clone().unwrap_or_default()).map_err(Failure::usage)?;
    let models_of_box = models.as_ref().is_some_and(|roles| roles.main.is_none());
    if models.is_none() && rules.is_none() {
        return Err(Failure::usage("say what to change")
            .advise("`cocoonbox help agent configure` lists it"));
    }
    let call = ConfigureRequest {
        agent_id: agent.id.clone(),
        models: models.filter(|_| !models_of_box),
        rules,
        models_of_box,
    };
    let agents = client.agents(&found.id)?;
    let changed = repeat(|| {
        let (mut agents, call) = (agents.clone(), request(call.clone()));
        async move { agents.configure(call).await }
    })
    .await?;
    let line = super::show::setup(&changed).join("\n");
    ctx.out.answer(&super::list::to_json(&changed), line)?;
    Ok(Exit::Ok)
}

const RISKS: [(&str, Risk); 6] = [
    ("read", Risk::Read),
    ("write", Risk::WriteWorkspace),
    ("outside", Risk::WriteOutside),
    ("network", Risk::NetworkWrite),
    ("destructive", Risk::Destructive),
    ("money", Risk::Money),
];

const VERDICTS: [(&str, Verdict); 3] = [
    ("allow", Verdict::Allow),
    ("ask", Verdict::Ask),
    ("deny", Verdict::Deny),
];

/// The word for a risk.
pub(super) fn risk_word(risk: Risk) -> &'static str {
    let found = RISKS.iter().find(|(_, known)| *known == risk);
    found.map_or("unknown", |(word, _)| word)
}

/// The word for a verdict.
pub(super) fn verdict_word(verdict: Verdict) -> &'static str {
    let found = VERDICTS.iter().find(|(_, known)| *known == verdict);
    found.map_or("ask", |(word, _)| word)
}

/// The rules with the changes in them; `None` if there are none.
pub(super) fn rules(
    args: &Setup,
    mut rules: ApprovalRules,
) -> Result<Option<ApprovalRules>, String> {
    let mut is_changed = args.never_ask || args.always_ask;
    let all = |verdict| {
        let rule = |(_, risk): &(&str, Risk)| rule(*risk, verdict);
        RISKS.iter().skip(1).map(rule).collect()
    };
    if args.never_ask {
        rules.rules = all(Verdict::Allow);
    }
    if args.always_ask {
        rules.rules = all(Verdict::Ask);
    }
    for text in &args.rule {
        let bad = |why: &str| format!("`{text}`: {why}");
        let (risk, verdict) = text
            .split_once('=')
            .ok_or_else(|| bad("a rule is RISK=VERDICT"))?;
        let risk = RISKS.iter().find(|(word, _)| *word == risk);
        let (_, risk) = risk.ok_or_else(|| {
            bad("the risks are read, write, outside, network, destructive and money")
        })?;
        let verdict = VERDICTS.iter().find(|(word, _)| *word == verdict);
        let (_, verdict) = verdict.ok_or_else(|| bad("the verdicts are allow, ask and deny"))?;
        rules.rules.retain(|rule| rule.risk() != *risk);
        rules.rules.push(rule(*risk, *verdict));
        is_changed = true;
    }
    if let Some(ttl) = args.approval_ttl {
        rules.ttl_s = u32::try_from(ttl.as_secs().max(1)).unwrap_or(u32::MAX);
        is_changed = true;
    }
    Ok(is_changed.then_some(rules))
}

fn rule(risk: Risk, verdict: Verdict) -> RiskRule {
    RiskRule {
        risk: risk.into(),
        verdict: verdict.into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Setup,
    }

    fn args(words: &[&str]) -> Setup {
        Line::parse_from(std::iter::once(&"x").chain(words)).args
    }

    #[test]
    fn rules_are_changed_one_by_one() {
        let there = ApprovalRules {
            rules: vec![rule(Risk::Money, Verdict::Deny)],
            ttl_s: 60,
        };
        let words = ["--rule", "write=allow", "--rule", "money=ask"];
        let found = rules(&args(&words), there.clone()).expect("rules");
        let found = found.expect("a change");
        assert_eq!(found.ttl_s, 60);
        assert_eq!(
            found.rules,
            [
                rule(Risk::WriteWorkspace, Verdict::Allow),
                rule(Risk::Money, Verdict::Ask)
            ]
        );
        let never = rules(&args(&["--never-ask"]), there.clone()).expect("rules");
        assert_eq!(never.expect("a change").rules.len(), 5);
        assert_eq!(rules(&args(&[]), there.clone()), Ok(None));
        for bad in ["x=ask", "read", "read=x"] {
            rules(&args(&["--rule", bad]), there.clone()).expect_err(bad);
        }
    }
}
