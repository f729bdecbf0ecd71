//! What people say to an agent while it works: steering, answers, second thoughts.

use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{
        Agent, BranchRequest, ConfigureRequest, ListAgentsRequest, RespondRequest,
        SelectBranchRequest, SendRequest, WithdrawRequest,
    },
    log::v1::{
        ApprovalRules, Event, Risk, RiskRule, Verdict, agent_tool_finished::Outcome,
        agent_turn_ended,
    },
};
use tonic::Code;

use crate::{
    turns::results,
    world::{World, payload, story},
};

pub(crate) fn ended(events: &[Event]) -> agent_turn_ended::Outcome {
    match payload(events.last().expect("an end")) {
        Payload::Agent(AgentEvent::TurnEnded(ended)) => ended.outcome(),
        _ => panic!("another event:\n{}", story(events).join("\n")),
    }
}

/// Everything up to the end of a turn that went well.
pub(crate) async fn done(world: &World) -> Vec<Event> {
    let events = world.until_kind("agent.turn_ended").await;
    assert_eq!(ended(&events), agent_turn_ended::Outcome::Done);
    events
}

/// What the model was sent last.
pub(crate) fn sent_last(world: &World) -> String {
    let requests = world.model.requests();
    requests.last().expect("a call").body.to_string()
}

async fn main_agent(world: &World) -> Agent {
    let list = world.agents().list(ListAgentsRequest {}).await;
    let agents = list.expect("a list").into_inner().agents;
    let found = agents.into_iter().find(|agent| agent.id == "main");
    found.expect("the agent")
}

const RISKS: [Risk; 5] = [
    Risk::WriteWorkspace,
    Risk::WriteOutside,
    Risk::NetworkWrite,
    Risk::Destructive,
    Risk::Money,
];

pub(crate) async fn ask_before(world: &World, verdict: Verdict, ttl_s: u32) {
    set_rules(world, |_| verdict, ttl_s).await;
}

/// Allows everything but one risk.
pub(crate) async fn rule(world: &World, of: Risk, verdict: Verdict) {
    let rule = |risk| if risk == of { verdict } else { Verdict::Allow };
    set_rules(world, rule, 0).await;
}

async fn set_rules(world: &World, verdict: impl Fn(Risk) -> Verdict, ttl_s: u32) {
    let rule = |risk: Risk| RiskRule {
        risk: risk.into(),
        verdict: verdict(risk).into(),
    };
    let request = ConfigureRequest {
        rules: Some(ApprovalRules {
            rules: RISKS.into_iter().map(rule).collect(),
            ttl_s,
        }),
        ..ConfigureRequest::default()
    };
    world.agents().configure(request).await.expect("configured");
}

pub(crate) const LONG: &str = r#"
[[conversation]]
when = "go"
[[conversation.step]]
tools = [{ name = "shell", args = { command = "while ! test -e free; do sleep 0.02; done" } }]
[[conversation.step]]
text = "Straight on."
[[conversation]]
when = "left"
[[conversation.step]]
text = "Left it is."
[[conversation]]
[[conversation.step]]
text = "Something else."
"#;

pub(crate) async fn say(world: &World, prompt: &str, steer: bool) -> String {
    let request = SendRequest {
        prompt: prompt.to_owned(),
        client_nonce: prompt.to_owned(),
        steer,
        ..SendRequest::default()
    };
    let accepted = world.agents().send(request).await.expect("accepted");
    accepted.into_inner().prompt_id
}

/// A box whose agent works until there is a file `free`.
async fn at_work(wire: &str) -> World {
    let world = World::new(wire, LONG).await;
    say(&world, "go", false).await;
    world.until_kind("exec.started").await;
    world
}

fn set_free(world: &World) {
    std::fs::write(world.workspace().join("free"), "").expect("a write");
}

#[tokio::test]
async fn steering_reaches_the_next_call_of_the_turn() {
    for wire in ["anthropic", "openai"] {
        let world = at_work(wire).await;
        let steering = say(&world, "turn left", true).await;
        set_free(&world);
        let events = done(&world).await;
        let calls: Vec<_> = events
            .iter()
            .filter_map(|event| match payload(event) {
                Payload::Agent(AgentEvent::ModelCalled(called)) => Some(called.prompt_ids),
                _ => None,
            })
            .collect();
        assert_eq!(calls, [vec![], vec![steering]], "{wire}");
        let told = sent_last(&world);
        assert!(told.contains("turn left"), "{told}");
    }
}

#[tokio::test]
async fn steering_outlives_the_process() {
    let mut world = at_work("anthropic").await;
    say(&world, "turn left", true).await;
    world.kill_serve().await;
    assert!(world.start_serve(&[]).await);
    done(&world).await;
    let told = sent_last(&world);
    assert!(told.contains("turn left"), "{told}");
}

#[tokio::test]
async fn a_prompt_that_waits_can_be_taken_back() {
    let world = at_work("anthropic").await;
    let prompt_id = say(&world, "something else", false).await;
    assert_eq!(main_agent(&world).await.queued_prompt_ids, [&*prompt_id]);
    let withdraw = WithdrawRequest {
        prompt_id: prompt_id.clone(),
        ..WithdrawRequest::default()
    };
    let mut agents = world.agents();
    agents.withdraw(withdraw.clone()).await.expect("taken back");
    assert!(main_agent(&world).await.queued_prompt_ids.is_empty());
    set_free(&world);
    world.until_kind("agent.turn_ended").await;
    let unknown = WithdrawRequest {
        prompt_id: "none".into(),
        ..withdraw
    };
    let status = agents.withdraw(unknown).await.expect_err("refused");
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(main_agent(&world).await.state, "idle");
}

pub(crate) const ASKS: &str = r#"
[[conversation]]
[[conversation.step]]
tools = [{ name = "ask_user", args = { question = "Which colour?", choices = ["red", "blue"] } }]
[[conversation.step]]
expect = "blue, but dark"
tools = [{ name = "todo", args = { items = [{ text = "paint", state = "in_progress" }] } }]
[[conversation.step]]
text = "Painted."
"#;

pub(crate) async fn question(world: &World) -> String {
    let events = world.until_kind("agent.question_asked").await;
    match payload(events.last().expect("a question")) {
        Payload::Agent(AgentEvent::QuestionAsked(asked)) => asked.question_id,
        _ => panic!("another event"),
    }
}

pub(crate) async fn answer(
    world: &World,
    question_id: &str,
    answer: &str,
) -> Result<(), tonic::Status> {
    let request = RespondRequest {
        question_id: question_id.to_owned(),
        answer: answer.to_owned(),
        ..RespondRequest::default()
    };
    world.agents().respond(request).await.map(drop)
}

#[tokio::test]
async fn a_question_waits_for_its_answer_across_a_restart() {
    let mut world = World::new("anthropic", ASKS).await;
    say(&world, "go", false).await;
    let question_id = question(&world).await;
    world.kill_serve().await;
    assert!(world.start_serve(&[]).await);
    let agent = main_agent(&world).await;
    assert_eq!(agent.state, "waiting");
    assert_eq!(agent.questions[0].question, "Which colour?");
    assert_eq!(agent.questions[0].choices, ["red", "blue"]);
    answer(&world, &question_id, "blue, but dark")
        .await
        .expect("taken");
    let events = done(&world).await;
    assert_eq!(results(&events)[0].content, "blue, but dark");
    assert_eq!(main_agent(&world).await.todo[0].text, "paint");
    let late = answer(&world, &question_id, "red").await;
    assert!(late.is_err(), "a question is answered once");
}

const TOUCHES: &str = r#"
[[conversation]]
[[conversation.step]]
tools = [{ name = "shell", args = { command = "touch ran" } }]
[[conversation.step]]
text = "So be it."
"#;

#[tokio::test]
async fn an_approval_that_nobody_answers_expires() {
    let world = World::new("anthropic", TOUCHES).await;
    ask_before(&world, Verdict::Ask, 1).await;
    say(&world, "go", false).await;
    let events = done(&world).await;
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    assert!(kinds.contains(&"agent.approval_expired"), "{kinds:?}");
    assert_eq!(results(&events)[0].outcome(), Outcome::Denied);
    assert!(!world.workspace().join("ran").exists());
}

#[tokio::test]
async fn a_rule_that_denies_is_told_to_the_model() {
    let world = World::new("openai", TOUCHES).await;
    ask_before(&world, Verdict::Deny, 0).await;
    say(&world, "go", false).await;
    let events = world.until_kind("agent.turn_ended").await;
    assert_eq!(results(&events)[0].outcome(), Outcome::Denied);
    assert!(!world.workspace().join("ran").exists());
}

const BRANCHES: &str = r#"
[[conversation]]
when = "first"
[[conversation.step]]
text = "One."
[[conversation]]
when = "second"
[[conversation.step]]
text = "Two."
[[conversation]]
when = "third"
[[conversation.step]]
text = "Three."
"#;

#[tokio::test]
async fn a_conversation_goes_on_from_before_a_prompt() {
    let world = World::new("anthropic", BRANCHES).await;
    say(&world, "first", false).await;
    world.until_kind("agent.turn_ended").await;
    let second = say(&world, "second", false).await;
    let turns = |count: usize| {
        let mut met = 0;
        move |event: &Event| {
            met += usize::from(event.kind == "agent.turn_ended");
            met == count
        }
    };
    world.until(turns(2)).await;
    let request = BranchRequest {
        prompt_id: second,
        prompt: "third".into(),
        client_nonce: "b".into(),
        ..BranchRequest::default()
    };
    let mut agents = world.agents();
    let accepted = agents.branch(request.clone()).await.expect("branched");
    let again = agents.branch(request).await.expect("the same");
    assert_eq!(
        accepted.into_inner().prompt_id,
        again.into_inner().prompt_id
    );
    world.until(turns(3)).await;
    let told = |world: &World| {
        let requests = world.model.requests();
        requests.last().expect("a call").body["messages"].to_string()
    };
    let body = told(&world);
    assert!(body.contains("One.") && body.contains("third"), "{body}");
    assert!(!body.contains("second") && !body.contains("Two."), "{body}");
    let agent = main_agent(&world).await;
    assert_eq!(agent.branch_ids.len(), 2);
    let select = SelectBranchRequest::default();
    agents.select_branch(select).await.expect("selected");
    say(&world, "third, again", false).await;
    world.until(turns(4)).await;
    let body = told(&world);
    assert!(body.contains("Two.") && !body.contains("Three."), "{body}");
}
