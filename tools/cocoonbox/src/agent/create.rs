//! Making an agent.

use cocoonbox_proto::{
    agent::v1::CreateAgentRequest,
    log::v1::{ApprovalRules, ModelRoles},
};

use super::configure::rules;
use crate::{
    cli::agent::Create,
    client::{repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    models, target,
};

pub(super) async fn create(ctx: &mut Context, args: Create) -> Result<Exit, Failure> {
    let models = models::changed(&args.setup.models, ModelRoles::default());
    let models = models.map_err(Failure::usage)?;
    // None at all are the box's.
    let models = models.filter(|roles| *roles != ModelRoles::default());
    if models.as_ref().is_some_and(|roles| roles.main.is_none()) {
        return Err(Failure::usage("other models need --main beside them"));
    }
    let create = CreateAgentRequest {
        name: args.name,
        models,
        rules: rules(&args.setup, ApprovalRules::default()).map_err(Failure::usage)?,
        client_nonce: uuid::Uuid::new_v4().to_string(),
        steps_max: args.steps_max,
        ..CreateAgentRequest::default()
    };
    let client = ctx.client().await?;
    let found = target::awake(ctx, &client, &args.target.box_name).await?;
    let agents = client.agents(&found.id)?;
    let agent = repeat(|| {
        let (mut agents, call) = (agents.clone(), request(create.clone()));
        async move { agents.create(call).await }
    })
    .await?;
    ctx.out.answer(&super::list::to_json(&agent), &agent.id)?;
    Ok(Exit::Ok)
}
