//! Prompts that are sent to boxes by the clock.

mod shown;

use cocoonbox_proto::{
    control::v1::{
        ChangeRoutineRequest, CreateRoutineRequest, ListRoutinesRequest, Routine, RoutinePlan,
        RoutineRef, RoutineRunsRequest,
    },
    json,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    cli::routine as cli,
    client::{Client, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    replay::Calendar,
    send::read_prompt,
    target, text,
};

pub async fn routine(ctx: &mut Context, command: cli::Routine) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    match command {
        cli::Routine::Create(args) => create(ctx, &client, args).await,
        cli::Routine::List => list(ctx, &client).await,
        cli::Routine::Show(args) => show(ctx, &client, args).await,
        cli::Routine::Change(args) => change(ctx, &client, args).await,
        cli::Routine::Delete(named) => delete(ctx, &client, &named.name).await,
        cli::Routine::Pause(named) => tell(ctx, &client, &named.name, Tell::Pause).await,
        cli::Routine::Resume(named) => tell(ctx, &client, &named.name, Tell::Resume).await,
        cli::Routine::Run(named) => tell(ctx, &client, &named.name, Tell::Run).await,
    }
}

/// What takes nothing but a routine.
#[derive(Clone, Copy)]
enum Tell {
    Pause,
    Resume,
    Run,
}

async fn tell(ctx: &mut Context, client: &Client, name: &str, what: Tell) -> Result<Exit, Failure> {
    let call = named_call(client, name).await?;
    let told = repeat(|| {
        let (mut routines, call) = (client.routines(), request(call.clone()));
        async move {
            match what {
                Tell::Pause => routines.pause(call).await,
                Tell::Resume => routines.resume(call).await,
                Tell::Run => routines.run(call).await,
            }
        }
    })
    .await?;
    let word = match what {
        Tell::Pause => "paused",
        Tell::Resume => "resumed",
        Tell::Run => "started",
    };
    answer(ctx, word, &told)
}

fn answer(ctx: &mut Context, word: &str, routine: &Routine) -> Result<Exit, Failure> {
    let words = format!("{word} {}; {}", plan(routine).name, shown::when(routine));
    ctx.out.answer(&value(routine), words)?;
    Ok(Exit::Ok)
}

async fn create(ctx: &mut Context, client: &Client, args: cli::Create) -> Result<Exit, Failure> {
    let found = target::find(client, &args.target.box_name).await?;
    let calendar = Calendar::here();
    let at = args.when.at.as_deref().map(|at| calendar.ahead(at));
    let here = || calendar.zone_name().unwrap_or_default().to_owned();
    let plan = RoutinePlan {
        name: args.name,
        prompt: read_prompt(&args.prompt)?,
        zone: match (&args.when.cron, args.when.zone) {
            (Some(_), zone) => zone.unwrap_or_else(here),
            (None, _) => String::new(),
        },
        cron: args.when.cron.unwrap_or_default(),
        at_ms: at.transpose()?.map_or(0, Timestamp::as_millisecond),
        run_ms_max: u64::try_from(args.limit.as_millis()).unwrap_or(u64::MAX),
    };
    let call = CreateRoutineRequest {
        box_id: found.id,
        plan: Some(plan),
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let made = repeat(|| {
        let (mut routines, call) = (client.routines(), request(call.clone()));
        async move { routines.create(call).await }
    })
    .await?;
    answer(ctx, "created", &made)
}

async fn list(ctx: &mut Context, client: &Client) -> Result<Exit, Failure> {
    let routines = all(client).await?;
    let rows: Vec<Vec<String>> = routines.iter().map(shown::row).collect();
    let head = ["NAME", "STATE", "DUE", "WHEN", "LAST RUN", "BOX"];
    let values: Vec<Value> = routines.iter().map(value).collect();
    let table = text::table(&head, &rows);
    ctx.out.answer(&json!({ "routines": values }), table)?;
    Ok(Exit::Ok)
}

async fn show(ctx: &mut Context, client: &Client, args: cli::Show) -> Result<Exit, Failure> {
    let found = find(client, &args.name).await?;
    let call = RoutineRunsRequest {
        routine_id: found.id.clone(),
        limit: args.runs,
    };
    let runs = repeat(|| {
        let (mut routines, call) = (client.routines(), request(call.clone()));
        async move { routines.runs(call).await }
    })
    .await?;
    let mut shown = value(&found);
    let of_runs = json::render_message("cocoonbox.control.v1.RoutineRunsResponse", &runs);
    shown["runs"] = of_runs.unwrap_or_default()["runs"].take();
    let mut lines = shown::lines(&found);
    let rows: Vec<Vec<String>> = runs.runs.iter().map(shown::run).collect();
    if !rows.is_empty() {
        lines.push(String::new());
        lines.push(text::table(&["DUE", "STARTED", "TOOK", "OUTCOME"], &rows));
    }
    ctx.out.answer(&shown, lines.join("\n"))?;
    Ok(Exit::Ok)
}

async fn change(ctx: &mut Context, client: &Client, args: cli::Change) -> Result<Exit, Failure> {
    let found = find(client, &args.name).await?;
    let mut plan = plan(&found);
    if let Some(name) = args.rename {
        plan.name = name;
    }
    if let Some(cron) = args.cron {
        if plan.cron.is_empty() && args.zone.is_none() {
            let here = Calendar::here();
            here.zone_name()
                .unwrap_or_default()
                .clone_into(&mut plan.zone);
        }
        plan.cron = cron;
        plan.at_ms = 0;
    }
    if let Some(at) = args.at {
        plan.at_ms = Calendar::here().ahead(&at)?.as_millisecond();
        plan.cron.clear();
        plan.zone.clear();
    }
    if let Some(zone) = args.zone {
        plan.zone = zone;
    }
    if let Some(limit) = args.limit {
        plan.run_ms_max = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    }
    if let Some(prompt) = args.prompt {
        plan.prompt = prompt;
    }
    let call = ChangeRoutineRequest {
        routine_id: found.id,
        plan: Some(plan),
        command_id: uuid::Uuid::new_v4().to_string(),
    };
    let changed = repeat(|| {
        let (mut routines, call) = (client.routines(), request(call.clone()));
        async move { routines.change(call).await }
    })
    .await?;
    answer(ctx, "changed", &changed)
}

async fn delete(ctx: &mut Context, client: &Client, name: &str) -> Result<Exit, Failure> {
    let call = named_call(client, name).await?;
    let deleted = repeat(|| {
        let (mut routines, call) = (client.routines(), request(call.clone()));
        async move { routines.delete(call).await }
    })
    .await?;
    let value = json::render_message("cocoonbox.control.v1.DeleteRoutineResponse", &deleted);
    ctx.out
        .answer(&value.unwrap_or_default(), format!("deleted {name}"))?;
    Ok(Exit::Ok)
}

async fn all(client: &Client) -> Result<Vec<Routine>, Failure> {
    let list = repeat(|| {
        let mut routines = client.routines();
        async move { routines.list(request(ListRoutinesRequest::default())).await }
    })
    .await?;
    Ok(list.routines)
}

/// Finds a routine by id or name.
async fn find(client: &Client, name: &str) -> Result<Routine, Failure> {
    let mut routines = all(client).await?;
    let by_id = routines.iter().position(|one| one.id == name);
    let at = by_id.or_else(|| routines.iter().position(|one| plan(one).name == name));
    at.map(|at| routines.swap_remove(at)).ok_or_else(|| {
        let mut failure = Failure::new(Exit::NotFound, format!("there is no routine `{name}`"))
            .advise("`cocoonbox routine list` lists those there are");
        failure.reason = Some("NO_SUCH_ROUTINE".to_owned());
        failure
    })
}

async fn named_call(client: &Client, name: &str) -> Result<RoutineRef, Failure> {
    Ok(RoutineRef {
        routine_id: find(client, name).await?.id,
        command_id: uuid::Uuid::new_v4().to_string(),
    })
}

fn plan(routine: &Routine) -> RoutinePlan {
    routine.plan.clone().unwrap_or_default()
}

fn value(routine: &Routine) -> Value {
    json::render_message("cocoonbox.control.v1.Routine", routine).unwrap_or_default()
}
