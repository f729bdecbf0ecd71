//! A box in which nothing happens goes to sleep, and one that has a reason to stay awake does not.

use cocoonbox_e2e::{
    Events, Setup, TheBox, User, events::payload, exec::start, reason, run, until,
};
use cocoonbox_events::{Clock as _, SystemClock};
use cocoonbox_proto::{
    control::v1::{GetBoxRequest, KeepAwakeRequest, State},
    log::v1::BoxHibernateRequested,
};

const SOON: &str = "[idle]\nafter_seconds = 1\n";
/// A model that thinks for longer than any test takes.
const THINKS: &str =
    "[[conversation]]\n[[conversation.step]]\ntext = \"x\"\nstall = { ms = 600000 }\n";

async fn state(the_box: &TheBox) -> State {
    let request = GetBoxRequest {
        box_id: the_box.id.clone(),
        ..GetBoxRequest::default()
    };
    let found = the_box.user.boxes().get(request).await;
    found.expect("the box is there").into_inner().state()
}

async fn sleeps(the_box: &TheBox) {
    until("the box sleeps", || async {
        (state(the_box).await == State::Hibernated).then_some(())
    })
    .await;
}

/// Returns once a box that has no reason to stay awake, and became idle after all others, sleeps.
async fn all_who_may_sleep(installation: &cocoonbox_e2e::Installation, user: &User) {
    let last = TheBox::up(installation, user, "last").await;
    last.sh("true").await;
    sleeps(&last).await;
}

#[test]
fn only_a_box_without_a_reason_to_stay_awake_sleeps() {
    run(async {
        let installation = Setup::scripted(THINKS).config(SOON).start().await;
        let user = installation.user("ann").await;
        let up = async |name: &str| TheBox::up(&installation, &user, name).await;

        let kept = up("kept").await;
        let keep = |until_ms| {
            let box_id = kept.id.clone();
            KeepAwakeRequest {
                box_id,
                until_ms,
                command_id: String::new(),
            }
        };
        let in_an_hour = SystemClock.now_us() / 1_000 + 3_600_000;
        let shown = user.boxes().keep_awake(keep(in_an_hour)).await;
        assert_eq!(shown.expect("kept").into_inner().awake_until_ms, in_an_hour);
        let next_month = in_an_hour + 30 * 24 * 3_600_000;
        let refused = user.boxes().keep_awake(keep(next_month)).await;
        assert_eq!(reason(&refused.expect_err("too long")), "BAD_REQUEST");

        let watched = up("watched").await;
        let mut watching = watched.events("", &[]);
        watching.item().await.expect("an open stream");
        let working = up("working").await;
        working
            .sh("setsid sleep 600 >/dev/null 2>&1 </dev/null &")
            .await;
        let piping = up("piping").await;
        let mut pipe = start(&["sleep", "600"]);
        pipe.pipe = true;
        let piped = piping.exec_stream(pipe).await.expect("a pipe");
        let thinking = up("thinking").await;
        thinking.accept("think").await;
        let idle = up("idle").await;
        idle.sh("true").await;

        sleeps(&idle).await;
        all_who_may_sleep(&installation, &user).await;
        for awake in [&kept, &watched, &working, &piping, &thinking] {
            assert_eq!(state(awake).await, State::Running, "{awake:?}");
        }
        let request = Events::of_account(&user, "", &[&format!("box/{}", idle.id)])
            .next_of("box.hibernate_requested")
            .await;
        let told: BoxHibernateRequested = payload(&request, "box.hibernate_requested");
        assert_eq!(told.reason, "idle");

        // Their reasons end one by one.
        user.boxes().keep_awake(keep(0)).await.expect("let go");
        drop(watching);
        working.sh("pkill -x sleep").await;
        drop(piped);
        thinking
            .user
            .agents(&thinking.id)
            .cancel(cocoonbox_proto::agent::v1::AgentRef::default())
            .await
            .expect("cancelled");
        for still in [&kept, &watched, &working, &piping, &thinking] {
            sleeps(still).await;
        }
        // It wakes as any other, and has what it had.
        working.wake().await;
        assert_eq!(working.sh("echo here").await, "here\n");
    });
}
