//! Whose models an agent uses: its own, those of its box, those of the installation.

use cocoonbox_e2e::{Installation, TheBox, User, reason, run};
use cocoonbox_proto::{
    agent::v1::{ConfigureRequest, ListAgentsRequest},
    control::v1::SetBoxModelsRequest,
    log::v1::{ModelChoice, ModelRoles, Wire},
};

/// Prompts until a change has reached the box; more are a fault.
const PROMPTS_MAX: usize = 60;

fn roles(wire: Wire, model: &str) -> ModelRoles {
    ModelRoles {
        main: Some(ModelChoice {
            wire: wire.into(),
            model: model.to_owned(),
            ..ModelChoice::default()
        }),
        ..ModelRoles::default()
    }
}

fn asked(installation: &Installation) -> String {
    let requests = installation.model().requests();
    let last = requests.last().expect("a call");
    last.body["model"].as_str().expect("a name").to_owned()
}

/// The model that answers once the box has heard of the change.
async fn comes_to(installation: &Installation, the_box: &TheBox, model: &str) {
    for _ in 0..PROMPTS_MAX {
        the_box.send("hello").await;
        if asked(installation) == model {
            return;
        }
    }
    panic!("still `{}`", asked(installation));
}

async fn set(user: &User, the_box: &TheBox, models: ModelRoles) {
    let request = SetBoxModelsRequest {
        box_id: the_box.id.clone(),
        models: Some(models),
        ..SetBoxModelsRequest::default()
    };
    let changed = user.boxes().set_models(request).await;
    changed.expect("set");
}

#[test]
fn an_agent_follows_its_box_and_that_the_installation() {
    run(async {
        let installation = Installation::start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.send("hello").await;
        let default = asked(&installation);
        let wire = main_wire(&user, &the_box).await;

        // While it runs.
        set(&user, &the_box, roles(wire, "of-the-box")).await;
        comes_to(&installation, &the_box, "of-the-box").await;

        // One of its own counts for more, whatever becomes of the box's.
        let mut agents = user.agents(&the_box.id);
        let own = ConfigureRequest {
            models: Some(roles(wire, "its-own")),
            ..ConfigureRequest::default()
        };
        let agent = agents.configure(own).await.expect("set").into_inner();
        assert!(!agent.models_of_box);
        set(&user, &the_box, roles(wire, "another")).await;
        the_box.send("hello").await;
        assert_eq!(asked(&installation), "its-own");
        let back = ConfigureRequest {
            models_of_box: true,
            ..ConfigureRequest::default()
        };
        assert!(
            agents
                .configure(back)
                .await
                .expect("set")
                .into_inner()
                .models_of_box
        );
        comes_to(&installation, &the_box, "another").await;

        // While it sleeps; nothing set is the installation's again.
        the_box.hibernate().await;
        set(&user, &the_box, ModelRoles::default()).await;
        the_box.wake().await;
        the_box.send("hello").await;
        assert_eq!(asked(&installation), default);

        let telex = SetBoxModelsRequest {
            box_id: the_box.id.clone(),
            models: Some(roles(Wire::Unspecified, "x")),
            ..SetBoxModelsRequest::default()
        };
        let refused = user.boxes().set_models(telex).await.expect_err("no wire");
        assert_eq!(reason(&refused), "BAD_REQUEST");
    });
}

async fn main_wire(user: &User, the_box: &TheBox) -> Wire {
    let list = user.agents(&the_box.id).list(ListAgentsRequest {}).await;
    let agents = list.expect("a list").into_inner().agents;
    let main = agents.into_iter().find(|agent| agent.name == "main");
    let main = main.expect("the agent");
    assert!(main.models_of_box);
    main.model.expect("a model").wire()
}
