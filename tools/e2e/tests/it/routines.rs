//! Prompts that are sent by the clock, with real boxes.

use cocoonbox_e2e::{
    Events, Installation, Setup, TheBox, User, events::payload, reason, run, until,
};
use cocoonbox_events::{Clock as _, SystemClock};
use cocoonbox_proto::{
    agent::v1::{ListAgentsRequest, SendRequest, TranscriptRequest, transcript_item::Kind},
    control::v1::{
        BoxRef, CreateRoutineRequest, GetBoxRequest, ListRoutinesRequest, Routine, RoutinePlan,
        RoutineRef, RoutineRunsRequest, State, UsageDimension, UsageRequest,
    },
    log::v1::{
        BoxHibernateRequested, RoutineRunEnded, RoutineRunStarted,
        agent_turn_ended::Outcome as Turn, routine_run_ended::Outcome,
    },
};

const SCRIPT: &str = r#"
[[conversation]]
when = "which colour"
[[conversation.step]]
tools = [{ name = "ask_user", args = { question = "Which colour?", choices = ["red", "blue"] } }]

[[conversation]]
when = "think"
[[conversation.step]]
text = "x"
stall = { ms = 600000 }

[[conversation]]
[[conversation.step]]
text = "All is well."
"#;
const SOON_MS: i64 = 1_500;

fn plan(name: &str, prompt: &str, at_ms: i64) -> RoutinePlan {
    RoutinePlan {
        name: name.into(),
        prompt: prompt.into(),
        at_ms,
        ..RoutinePlan::default()
    }
}

fn now_ms() -> i64 {
    SystemClock.now_us() / 1_000
}

async fn create(user: &User, box_id: &str, plan: RoutinePlan) -> Routine {
    let request = CreateRoutineRequest {
        box_id: box_id.into(),
        plan: Some(plan),
        command_id: String::new(),
    };
    let made = user.routines().create(request).await;
    made.expect("a routine is made").into_inner()
}

fn of(routine: &Routine) -> RoutineRef {
    RoutineRef {
        routine_id: routine.id.clone(),
        command_id: String::new(),
    }
}

async fn shown(user: &User, id: &str) -> Routine {
    let list = user.routines().list(ListRoutinesRequest::default()).await;
    let mut routines = list.expect("a list").into_inner().routines.into_iter();
    routines.find(|one| one.id == id).expect("the routine")
}

fn events(user: &User, routine: &Routine) -> Events {
    Events::of_account(user, "", &[&format!("routine/{}", routine.id)])
}

async fn ended(events: &mut Events) -> RoutineRunEnded {
    let event = events.next_of("routine.run_ended").await;
    payload(&event, "routine.run_ended")
}

async fn prompts(user: &User, the_box: &TheBox, agent_id: &str) -> Vec<String> {
    let request = TranscriptRequest {
        agent_id: agent_id.into(),
        page_size: 1_000,
        ..TranscriptRequest::default()
    };
    let page = user.agents(&the_box.id).transcript(request).await;
    let items = page.expect("a transcript").into_inner().items;
    let prompts = items.into_iter().filter(|item| item.kind() == Kind::Prompt);
    prompts.map(|item| item.text).collect()
}

async fn sleeps(user: &User, box_id: &str) {
    until("the box sleeps", || async {
        let request = GetBoxRequest {
            box_id: box_id.into(),
            ..GetBoxRequest::default()
        };
        let found = user.boxes().get(request).await.expect("the box is there");
        (found.into_inner().state() == State::Hibernated).then_some(())
    })
    .await;
}

async fn asleep(installation: &Installation, user: &User) -> TheBox {
    let the_box = TheBox::up(installation, user, "main").await;
    the_box.hibernate().await;
    the_box
}

#[test]
fn a_box_that_sleeps_is_woken_for_its_routine_and_sleeps_again() {
    run(async {
        let installation = Setup::scripted(SCRIPT).start().await;
        let user = installation.user("ann").await;
        let the_box = asleep(&installation, &user).await;
        let at_ms = now_ms() + SOON_MS;
        let routine = create(&user, &the_box.id, plan("morning", "Look around", at_ms)).await;
        assert_eq!(
            (routine.state.as_str(), routine.next_ms),
            ("scheduled", at_ms)
        );

        let mut events = events(&user, &routine);
        let started = events.next_of("routine.run_started").await;
        let started: RoutineRunStarted = payload(&started, "routine.run_started");
        assert_eq!(
            (started.due_us, started.next_us, started.wakes),
            (at_ms * 1_000, 0, true)
        );
        let end = ended(&mut events).await;
        assert_eq!((end.outcome(), end.turn()), (Outcome::Done, Turn::Done));
        let stream = format!("box/{}", the_box.id);
        let mut of_box = Events::of_account(&user, &events.from, &[&stream]);
        let sleep = of_box.next_of("box.hibernate_requested").await;
        let sleep: BoxHibernateRequested = payload(&sleep, "box.hibernate_requested");
        assert_eq!(sleep.reason, "routine");
        sleeps(&user, &the_box.id).await;

        let after = shown(&user, &routine.id).await;
        assert_eq!((after.state.as_str(), after.next_ms), ("over", 0));
        assert_eq!(after.last_run.expect("a run").outcome(), Outcome::Done);
        assert_eq!(
            prompts(&user, &the_box, &routine.agent_id).await,
            ["Look around"]
        );
        let usage = UsageRequest {
            group_by: vec![UsageDimension::Routine.into()],
            ..UsageRequest::default()
        };
        let usage = user
            .users()
            .usage(usage)
            .await
            .expect("a report")
            .into_inner();
        let awake = usage.awake.iter().find(|row| row.box_id == the_box.id);
        assert!(awake.expect("it was awake").awake_ms > 0);
        let of_routine = usage.rows.iter().find(|row| row.routine_id == routine.id);
        assert_eq!(of_routine.expect("its row").calls, 1);
    });
}

#[test]
fn a_run_goes_on_when_the_api_is_killed_and_asks_once() {
    run(async {
        let installation = Setup::scripted(SCRIPT).start().await;
        let user = installation.user("ann").await;
        let the_box = asleep(&installation, &user).await;
        let later = now_ms() + 3_600_000;
        let routine = create(&user, &the_box.id, plan("kept", "Look around", later)).await;
        let stream = format!("routine/{}", routine.id);
        let mut events = Events::of_account(&user, "", &[&stream]);
        // Killed at once, while the box wakes, once it has the prompt, and not at all.
        let until = [
            None,
            Some("routine.run_started"),
            Some("routine.run_prompted"),
        ];
        for run in 1..=4_usize {
            let asked = user.routines().run(of(&routine)).await;
            assert_eq!(asked.expect("a run").into_inner().state, "running");
            let again = user.routines().run(of(&routine)).await;
            assert_eq!(reason(&again.expect_err("it runs")), "ROUTINE_RUNNING");
            if let Some(kind) = until.get(run - 1).copied().flatten() {
                events.next_of(kind).await;
            }
            if run <= until.len() {
                installation.kill9();
                installation.restart().await;
            }
            assert_eq!(
                ended(&mut events).await.outcome(),
                Outcome::Done,
                "run {run}"
            );
            assert_eq!(prompts(&user, &the_box, &routine.agent_id).await.len(), run);
        }
        let request = RoutineRunsRequest {
            routine_id: routine.id.clone(),
            limit: 3,
        };
        let runs = user
            .routines()
            .runs(request)
            .await
            .expect("runs")
            .into_inner()
            .runs;
        assert_eq!(runs.len(), 3);
        assert!(
            runs.iter()
                .all(|run| run.due_ms == 0 && !run.box_offset_key.is_empty())
        );
        assert_eq!(shown(&user, &routine.id).await.next_ms, later);
    });
}

#[test]
fn a_run_ends_in_time_whatever_the_agent_does() {
    run(async {
        let installation = Setup::scripted(SCRIPT).start().await;
        let user = installation.user("ann").await;
        let the_box = asleep(&installation, &user).await;
        let limited = |name: &str, prompt: &str| RoutinePlan {
            run_ms_max: 2_000,
            ..plan(name, prompt, now_ms() + 3_600_000)
        };
        let slow = create(&user, &the_box.id, limited("slow", "Think")).await;
        let mut of_slow = events(&user, &slow);
        user.routines().run(of(&slow)).await.expect("a run");
        assert_eq!(ended(&mut of_slow).await.outcome(), Outcome::TimedOut);
        sleeps(&user, &the_box.id).await;

        // One that waits for a person goes on waiting, and the box sleeps meanwhile.
        let asks = create(&user, &the_box.id, limited("asks", "Which colour?")).await;
        let mut of_asks = events(&user, &asks);
        user.routines().run(of(&asks)).await.expect("a run");
        assert_eq!(ended(&mut of_asks).await.outcome(), Outcome::Waiting);
        sleeps(&user, &the_box.id).await;
        the_box.wake().await;

        // Behind a run, a box that was awake before it stays so.
        let brief = create(&user, &the_box.id, limited("brief", "Look around")).await;
        let mut of_brief = events(&user, &brief);
        user.routines().run(of(&brief)).await.expect("a run");
        let started = of_brief.next_of("routine.run_started").await;
        let started: RoutineRunStarted = payload(&started, "routine.run_started");
        assert!(!started.wakes);
        assert_eq!(ended(&mut of_brief).await.outcome(), Outcome::Done);
        assert_eq!(the_box.sh("echo awake").await, "awake\n");

        // A prompt that waits behind a person's turn is taken back; the turn is theirs.
        let think = SendRequest {
            agent_id: brief.agent_id.clone(),
            prompt: "Think".into(),
            ..SendRequest::default()
        };
        let mut agents = user.agents(&the_box.id);
        agents.send(think).await.expect("accepted");
        user.routines().run(of(&brief)).await.expect("a run");
        assert_eq!(ended(&mut of_brief).await.outcome(), Outcome::TimedOut);
        let agent = until("the prompt is taken back", || async {
            let list = user.agents(&the_box.id).list(ListAgentsRequest {}).await;
            let mut all = list.expect("a list").into_inner().agents.into_iter();
            let agent = all.find(|agent| agent.id == brief.agent_id)?;
            agent.queued_prompt_ids.is_empty().then_some(agent)
        })
        .await;
        assert_eq!(agent.state, "working");
    });
}

#[test]
fn what_was_due_while_nobody_was_there_is_run_once() {
    run(async {
        let installation = Setup::scripted(SCRIPT).start().await;
        let user = installation.user("ann").await;
        let the_box = asleep(&installation, &user).await;
        let minutes = RoutinePlan {
            cron: "* * * * *".into(),
            zone: "Europe/Berlin".into(),
            ..plan("minutes", "Look around", 0)
        };
        let often = create(&user, &the_box.id, minutes).await;
        let paused = user
            .routines()
            .pause(of(&often))
            .await
            .expect("paused")
            .into_inner();
        assert_eq!((paused.state.as_str(), paused.next_ms), ("paused", 0));
        let at_ms = now_ms() + SOON_MS;
        let routine = create(&user, &the_box.id, plan("once", "Look around", at_ms)).await;
        installation.kill9();
        until("the time is over", || async {
            (now_ms() > at_ms).then_some(())
        })
        .await;
        installation.restart().await;
        let mut of_once = events(&user, &routine);
        assert_eq!(ended(&mut of_once).await.outcome(), Outcome::Done);

        // A box that is deleted takes its routines with it, when they are due at the latest.
        let request = BoxRef {
            box_id: the_box.id.clone(),
            ..BoxRef::default()
        };
        user.boxes().delete(request).await.expect("deleted");
        user.routines().run(of(&often)).await.expect("a run");
        let mut of_often = events(&user, &often);
        let end = ended(&mut of_often).await;
        assert_eq!(
            (end.outcome(), end.reason.as_str()),
            (Outcome::Unreached, "BOX_DELETED")
        );
        of_often.next_of("routine.deleted").await;
        let gone = user.routines().run(of(&often)).await;
        assert_eq!(reason(&gone.expect_err("gone")), "NO_SUCH_ROUTINE");
    });
}

#[test]
fn what_is_no_routine_is_refused() {
    run(async {
        let installation = Setup::scripted(SCRIPT).start().await;
        let user = installation.user("ann").await;
        let the_box = asleep(&installation, &user).await;
        let later = now_ms() + 3_600_000;
        let good = plan("one", "Look around", later);
        let refused = async |box_id: &str, plan: RoutinePlan| {
            let request = CreateRoutineRequest {
                box_id: box_id.into(),
                plan: Some(plan),
                command_id: String::new(),
            };
            let refused = user.routines().create(request).await;
            let status = refused.expect_err("refused");
            (reason(&status), status.message().to_owned())
        };
        let with = |change: fn(&mut RoutinePlan)| {
            let mut plan = good.clone();
            change(&mut plan);
            plan
        };
        let none = refused("b0", good.clone()).await;
        assert_eq!(none.0, "NO_SUCH_BOX");
        for (plan, field) in [
            (with(|plan| plan.name.clear()), "plan.name"),
            (with(|plan| plan.prompt.clear()), "plan.prompt"),
            (with(|plan| plan.at_ms = 1), "plan.at_ms"),
            (with(|plan| plan.cron = "* * * * *".into()), "plan.cron"),
            (with(|plan| plan.run_ms_max = 1), "plan.run_ms_max"),
            (
                with(|plan| (plan.at_ms, plan.cron) = (0, "61 * * * *".into())),
                "plan.cron",
            ),
            (
                with(|plan| {
                    (plan.at_ms, plan.cron) = (0, "* * * * *".into());
                    plan.zone = "Europe/Atlantis".into();
                }),
                "plan.zone",
            ),
        ] {
            let (reason, message) = refused(&the_box.id, plan).await;
            assert_eq!(reason, "BAD_REQUEST", "{message}");
            assert!(message.starts_with(field), "{field}: {message}");
        }
        // The same call again is the same routine; another one of the name is none.
        let request = CreateRoutineRequest {
            box_id: the_box.id.clone(),
            plan: Some(good.clone()),
            command_id: "6f0b3a3e-5a9c-4f1c-9a56-0f9a0c7d9f10".into(),
        };
        let first = user
            .routines()
            .create(request.clone())
            .await
            .expect("made")
            .into_inner();
        let again = user
            .routines()
            .create(request)
            .await
            .expect("made")
            .into_inner();
        assert_eq!(first.id, again.id);
        assert_eq!(refused(&the_box.id, good.clone()).await.0, "ROUTINE_EXISTS");
        for n in 2..=20 {
            create(
                &user,
                &the_box.id,
                plan(&format!("n{n}"), "Look around", later),
            )
            .await;
        }
        assert_eq!(
            refused(&the_box.id, plan("last", "Look around", later))
                .await
                .0,
            "TOO_MANY_ROUTINES"
        );
        let missed = Events::of_account(&user, "", &[&format!("routine/{}", first.id)]);
        let all = missed.all().await.expect("its events");
        let kinds: Vec<&str> = all.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["routine.created", "routine.prompt_set"]);
    });
}
