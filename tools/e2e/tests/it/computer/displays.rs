//! Agents at the screen at one time, each at a display.

use cocoonbox_e2e::{TheBox, events::payload, run, screen::Viewer, until};
use cocoonbox_proto::{
    agent::v1::{CreateAgentRequest, SendAccepted, SendRequest},
    control::v1::desktop,
    log::v1::{AgentPromptReceived, DesktopDisplayOpened},
};

use super::{SHARED, light, reference};

/// The agents that have a display for themselves, by its number.
async fn displays(the_box: &TheBox) -> Vec<(u32, String)> {
    let told = the_box.user.boxes().get(reference(the_box)).await;
    let desktop = told.expect("the box is there").into_inner().desktop;
    let displays = desktop.unwrap_or_default().displays.into_iter();
    displays.map(|one| (one.display, one.agent_id)).collect()
}

/// Gives a prompt to an agent of its own.
async fn accept_beside(the_box: &TheBox, name: &str, prompt: &str) -> SendAccepted {
    let create = CreateAgentRequest {
        name: name.into(),
        client_nonce: name.into(),
        ..CreateAgentRequest::default()
    };
    let agents = || the_box.user.agents(&the_box.id);
    let agent = agents().create(create).await.expect("it is made");
    let send = SendRequest {
        agent_id: agent.into_inner().id,
        prompt: prompt.into(),
        client_nonce: format!("{name} 1"),
        ..SendRequest::default()
    };
    let accepted = agents().send(send).await.expect("it is accepted");
    accepted.into_inner()
}

#[test]
fn agents_at_the_screen_at_one_time_have_a_display_each() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = light(&installation, "second").await;
        let soon = |file: &'static str| {
            let look = format!("until [ -e ~/{file} ]; do sleep 0.1; done");
            let the_box = &the_box;
            async move { until::soon(file, the_box.sh(&look)).await }
        };
        let first = the_box.accept("the first").await;
        soon("first").await;
        assert_eq!(displays(&the_box).await, []);

        // The second one gets one of its own, and what it starts and types is there.
        let mut events = the_box.events(&first.offset_key, &["desktop/", "agent/"]);
        let second = accept_beside(&the_box, "second", "the second").await;
        soon("own").await;
        assert_eq!(the_box.sh("cat ~/own").await.trim_end(), "only here");
        let opened = events.next_of("desktop.display_opened").await;
        let opened: DesktopDisplayOpened = payload(&opened, "desktop.display_opened");
        assert_eq!(opened.display, 1);
        assert!(opened.agent_id.starts_with(&second.agent_id), "{opened:?}");
        until("the box says so", || async {
            (displays(&the_box).await == [(1, opened.agent_id.clone())]).then_some(())
        })
        .await;

        // A person takes that one over. The other agent goes on at the shared one.
        let shown = Viewer::of_display(&the_box, 1, |shown| shown.len() >= 42).await;
        drop(shown.expect("it is shown"));
        the_box.take_display(1, "l1").await.expect("it is free");
        the_box.sh("touch ~/taken").await;
        soon("refused").await;
        the_box.sh("touch ~/done").await;
        let first = the_box.turn_of(first).await;
        assert!(first.text().contains("clicked (20,20)"), "{}", first.text());

        // There are three in all; who comes then is told who has them. The shared one is free again.
        let more = accept_beside(&the_box, "more", "three more").await;
        let mut opened = 0;
        while opened < 2 {
            let event = events.next().await;
            opened += usize::from(event.kind == "desktop.display_opened");
        }
        let late = accept_beside(&the_box, "late", "have it clicked").await;
        let late = the_box.turn_of(late).await.text();
        assert!(late.contains("no display is free"), "{late}");
        assert!(late.contains(&second.agent_id), "{late}");

        // Handed back, it tells of that, and goes with its turn and all that was on it.
        the_box.hand_back_display(1, "l1", "").await;
        the_box.sh("touch ~/free").await;
        let told = the_box.turn_of(second).await.text();
        assert!(
            told.contains("second had control of this display before"),
            "{told}"
        );
        assert!(told.contains("clicked (10,10)"), "{told}");
        the_box.turn_of(more).await.assert_done();
        until("they are closed", || async {
            displays(&the_box).await.is_empty().then_some(())
        })
        .await;
        assert_eq!(the_box.sh("pgrep -f '[X]vnc :1[1-9]' || true").await, "");
        // Its programs end by themselves when they have no display.
        let gone = "while pgrep -f '[t]itle Own'; do sleep 0.1; done";
        until::soon("nothing is left of it", the_box.sh(gone)).await;
        let gone = Viewer::of_display(&the_box, 1, |shown| shown.len() >= 42).await;
        assert!(gone.is_err(), "a display is shown that is not there");
    });
}

#[test]
fn a_killed_agent_process_leaves_no_display() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = light(&installation, "killed").await;
        let turn = the_box.accept("three more").await;
        let mut events = the_box.events(&turn.offset_key, &["desktop/"]);
        for _ in 0..2 {
            events.next_of("desktop.display_opened").await;
        }
        the_box.agent().expect("it runs").kill();
        for _ in 0..2 {
            events.next_of("desktop.display_closed").await;
        }
        assert!(the_box.processes_with("Xvnc :11").is_empty());
        // What keeps a display dies with all that it kept, and the next who needs one gets it.
        the_box.sh("touch ~/free").await;
        the_box.turn_of(turn).await;
        the_box.sh("rm ~/free").await;
        let turn = accept_beside(&the_box, "again", "three more").await;
        events.next_of("desktop.display_opened").await;
        let keeper = "[d]esktop --plan .* --private 1";
        let keeper = format!("until pkill -KILL -f '{keeper}'; do sleep 0.1; done");
        until::soon("it is killed", the_box.sh(&keeper)).await;
        events.next_of("desktop.part_failed").await;
        // That is no matter of the shared one's.
        let desktop = the_box.user.boxes().get(reference(&the_box)).await;
        let desktop = desktop.expect("it is there").into_inner().desktop;
        assert_eq!(desktop.unwrap_or_default().state(), desktop::State::Ready);
        until("nothing of it is left", || async {
            the_box.processes_with("Xvnc :11").is_empty().then_some(())
        })
        .await;
        the_box.sh("touch ~/free").await;
        the_box.turn_of(turn).await.assert_done();
    });
}

#[test]
fn a_note_at_a_display_that_its_helper_has_left_reaches_the_agent() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = light(&installation, "noter").await;
        let first = the_box.accept("the first").await;
        let there = "until [ -e ~/first ]; do sleep 0.1; done";
        until::soon("the first is there", the_box.sh(there)).await;
        let third = accept_beside(&the_box, "third", "the third").await;
        let there = "until [ -e ~/there ]; do sleep 0.1; done";
        until::soon("the helper is there", the_box.sh(there)).await;
        the_box.take_display(1, "l1").await.expect("it is free");
        the_box.sh("touch ~/held").await;
        let turn = the_box.turn_of(third.clone()).await;
        turn.assert_done();

        // A person has it, so it stays.
        let shown = Viewer::of_display(&the_box, 1, |shown| shown.len() >= 42).await;
        drop(shown.expect("it is there"));
        let mut events = the_box.events(&third.offset_key, &["agent/", "desktop/"]);
        the_box.hand_back_display(1, "l1", "it is written").await;
        loop {
            let event = events.next_of("agent.prompt_received").await;
            let prompt: AgentPromptReceived = payload(&event, "agent.prompt_received");
            if prompt.text.contains("it is written") {
                assert!(prompt.text.contains("which is over by now"), "{prompt:?}");
                assert_eq!(event.stream, format!("agent/{}", third.agent_id));
                break;
            }
        }
        let mut left = vec!["agent.turn_ended", "desktop.display_closed"];
        while !left.is_empty() {
            let kind = events.next().await.kind;
            left.retain(|one| *one != kind);
        }
        the_box.sh("touch ~/done").await;
        the_box.turn_of(first).await.assert_done();
    });
}
