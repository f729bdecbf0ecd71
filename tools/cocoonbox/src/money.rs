//! What is used of the models, and what may be.

use cocoonbox_proto::{
    control::v1::{
        AwakeRow, Budget, BudgetId, ClearBudgetRequest, ListUsersRequest, SetBudgetRequest,
        ShowBudgetsRequest, UsageDimension, UsageRequest, UsageRow,
    },
    json,
};

use crate::{
    cli::money as cli,
    client::{Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    target, text,
};

pub async fn usage(ctx: &mut Context, args: cli::Usage) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let call = UsageRequest {
        group_by: args.by.iter().map(|by| dimension(*by).into()).collect(),
        from_day: args.from,
        to_day: args.to,
        user_id: user_id(&client, args.user.as_deref()).await?,
        everybody: args.everybody,
    };
    let answer = repeat(|| {
        let (mut users, call) = (client.users(), request(call.clone()));
        async move { users.usage(call).await }
    })
    .await?;
    let mut head: Vec<&str> = args.by.iter().map(|by| heading(*by)).collect();
    head.extend([
        "CALLS",
        "FAILED",
        "INPUT",
        "OUTPUT",
        "CACHE READ",
        "CACHE WRITE",
        "COST",
    ]);
    let rows: Vec<Vec<String>> = answer.rows.iter().map(|row| cells(row, &args.by)).collect();
    let value = json::render_message("cocoonbox.control.v1.UsageResponse", &answer);
    let mut table = text::table(&head, &rows);
    if !answer.awake.is_empty() {
        let rows: Vec<Vec<String>> = answer.awake.iter().map(awake).collect();
        table = format!(
            "{table}\n\n{}",
            text::table(&["DAY", "BOX", "AWAKE"], &rows)
        );
    }
    ctx.out.answer(&value.unwrap_or_default(), table)?;
    let unpriced: u64 = answer.rows.iter().map(|row| row.unpriced_calls).sum();
    if unpriced > 0 {
        ctx.out.note(format!(
            "{unpriced} calls are without a price, and not in the cost"
        ));
    }
    Ok(Exit::Ok)
}

pub async fn budget(ctx: &mut Context, command: cli::Budget) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    match command {
        cli::Budget::Set {
            of,
            tokens,
            dollars,
        } => {
            let call = SetBudgetRequest {
                budget: Some(budget_id(&client, of).await?),
                tokens_max: tokens,
                micros_max: dollars,
            };
            let set = repeat(|| {
                let (mut budgets, call) = (client.budgets(), request(call.clone()));
                async move { budgets.set(call).await }
            })
            .await?;
            let value = json::render_message("cocoonbox.control.v1.Budget", &set);
            ctx.out.answer(
                &value.unwrap_or_default(),
                table(std::slice::from_ref(&set)),
            )?;
        }
        cli::Budget::Show { user } => {
            let call = ShowBudgetsRequest {
                user_id: user_id(&client, user.as_deref()).await?,
            };
            let shown = repeat(|| {
                let (mut budgets, call) = (client.budgets(), request(call.clone()));
                async move { budgets.show(call).await }
            })
            .await?;
            let value = json::render_message("cocoonbox.control.v1.ShowBudgetsResponse", &shown);
            ctx.out
                .answer(&value.unwrap_or_default(), table(&shown.budgets))?;
            if shown.budgets.is_empty() {
                ctx.out
                    .note("no budgets: boxes may use as much as the vendors let them");
            }
        }
        cli::Budget::Clear { of } => {
            let call = ClearBudgetRequest {
                budget: Some(budget_id(&client, of).await?),
            };
            let cleared = client.budgets().clear(request(call)).await?.into_inner();
            let value = json::render_message("cocoonbox.control.v1.ClearBudgetResponse", &cleared);
            ctx.out
                .answer(&value.unwrap_or_default(), "the budget is gone")?;
        }
    }
    Ok(Exit::Ok)
}

async fn budget_id(client: &Client, of: cli::BudgetOf) -> Result<BudgetId, Failure> {
    let user_id = user_id(client, of.user.as_deref()).await?;
    let (mut box_id, mut agent_id) = (String::new(), String::new());
    if let Some(name) = &of.box_name {
        // Another user's boxes are not seen from here: they go by id.
        box_id = if user_id.is_empty() {
            target::find(client, name).await?.id
        } else {
            name.clone()
        };
    }
    if let Some(name) = &of.agent {
        agent_id = if user_id.is_empty() {
            target::agent_id(client, &box_id, name).await?
        } else {
            name.clone()
        };
        if agent_id.is_empty() {
            return Err(Failure::new(
                Exit::NotFound,
                format!("there is no agent `{name}` in this box"),
            ));
        }
    }
    Ok(BudgetId {
        user_id,
        box_id,
        agent_id,
        per_day: of.per_day,
    })
}

/// Finds a user by name or id; nobody is oneself.
async fn user_id(client: &Client, name: Option<&str>) -> Result<String, Failure> {
    let Some(name) = name else {
        return Ok(String::new());
    };
    let list = repeat(|| {
        let mut users = client.users();
        async move { users.list(request(ListUsersRequest {})).await }
    })
    .await?;
    let mut users = list.users.into_iter();
    let found = users.find(|user| user.name == name || user.id == name);
    found.map(|user| user.id).ok_or_else(|| {
        let mut failure = Failure::new(Exit::NotFound, format!("there is no user `{name}`"));
        failure.reason = Some("NO_SUCH_USER".to_owned());
        failure
    })
}

fn dimension(by: cli::By) -> UsageDimension {
    match by {
        cli::By::Day => UsageDimension::Day,
        cli::By::Box => UsageDimension::Box,
        cli::By::Agent => UsageDimension::Agent,
        cli::By::Role => UsageDimension::Role,
        cli::By::Vendor => UsageDimension::Vendor,
        cli::By::Model => UsageDimension::Model,
        cli::By::User => UsageDimension::User,
        cli::By::Routine => UsageDimension::Routine,
    }
}

fn heading(by: cli::By) -> &'static str {
    match by {
        cli::By::Day => "DAY",
        cli::By::Box => "BOX",
        cli::By::Agent => "AGENT",
        cli::By::Role => "ROLE",
        cli::By::Vendor => "VENDOR",
        cli::By::Model => "MODEL",
        cli::By::User => "USER",
        cli::By::Routine => "ROUTINE",
    }
}

fn cells(row: &UsageRow, by: &[cli::By]) -> Vec<String> {
    let word = |by: &cli::By| match by {
        cli::By::Day => row.day.clone(),
        cli::By::Box => row.box_id.clone(),
        cli::By::Agent => row.agent_id.clone(),
        cli::By::Role => row.role.clone(),
        cli::By::Vendor => row.vendor.clone(),
        cli::By::Model => row.model.clone(),
        cli::By::User => row.user_id.clone(),
        cli::By::Routine => row.routine_id.clone(),
    };
    let counts = [
        row.calls,
        row.failed_calls,
        row.input_tokens,
        row.output_tokens,
        row.cache_read_tokens,
        row.cache_write_tokens,
    ];
    let mut cells: Vec<String> = by.iter().map(word).collect();
    cells.extend(counts.iter().map(u64::to_string));
    cells.push(dollars(row.cost_micros));
    cells
}

fn awake(row: &AwakeRow) -> Vec<String> {
    let minutes = row.awake_ms / 60_000;
    let time = format!("{} h {:02} min", minutes / 60, minutes % 60);
    vec![row.day.clone(), row.box_id.clone(), time]
}

fn table(budgets: &[Budget]) -> String {
    let rows: Vec<Vec<String>> = budgets.iter().map(line).collect();
    let head = ["FOR", "SPAN", "LIMIT", "USED", "HELD", "STATE"];
    text::table(&head, &rows)
}

fn line(budget: &Budget) -> Vec<String> {
    let id = budget.budget.clone().unwrap_or_default();
    let of = match (id.box_id.as_str(), id.agent_id.as_str()) {
        ("", _) => "all boxes".to_owned(),
        (of, "") => format!("box {of}"),
        (of, agent) => format!("agent {agent} of box {of}"),
    };
    let amount = |tokens: Option<u64>, micros: Option<u64>| {
        let parts = [
            tokens.map(|tokens| format!("{tokens} tokens")),
            micros.map(dollars),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(", ")
    };
    // Only what the limit speaks of.
    let counted = |tokens: u64, micros: u64| {
        amount(
            budget.tokens_max.map(|_| tokens),
            budget.micros_max.map(|_| micros),
        )
    };
    let mut state = if budget.exceeded { "exceeded" } else { "open" }.to_owned();
    if budget.exceeded && budget.resets_at_ms > 0 {
        state.push_str(" until ");
        state.push_str(&text::moment(budget.resets_at_ms));
    }
    if budget.imposed {
        state.push_str(", by an admin");
    }
    vec![
        of,
        if id.per_day { "a day" } else { "total" }.to_owned(),
        amount(budget.tokens_max, budget.micros_max),
        counted(budget.tokens_used, budget.micros_used),
        counted(budget.tokens_reserved, budget.micros_reserved),
        state,
    ]
}

/// Cents, and more where there is more.
fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let cents = text.len() - 4;
    let (kept, rest) = text.split_at(cents);
    format!("${kept}{}", rest.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_told_in_a_line() {
        let id = |box_id: &str, agent_id: &str, per_day| {
            Some(BudgetId {
                box_id: box_id.into(),
                agent_id: agent_id.into(),
                per_day,
                ..BudgetId::default()
            })
        };
        let budgets = [
            Budget {
                budget: id("", "", true),
                micros_max: Some(5_000_000),
                micros_used: 1_234_500,
                tokens_used: 9,
                imposed: true,
                exceeded: true,
                resets_at_ms: 1_796_083_200_000,
                ..Budget::default()
            },
            Budget {
                budget: id("b1", "a1", false),
                tokens_max: Some(1_000),
                micros_max: Some(10),
                tokens_used: 7,
                tokens_reserved: 3,
                ..Budget::default()
            },
        ];
        let shown: Vec<String> = budgets.iter().map(|one| line(one).join(" | ")).collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        all boxes | a day | $5.00 | $1.2345 | $0.00 | exceeded until 2026-12-01 00:00:00.000Z, by an admin
        agent a1 of box b1 | total | 1000 tokens, $0.00001 | 7 tokens, $0.00 | 3 tokens, $0.00 | open
        ");
    }
}
