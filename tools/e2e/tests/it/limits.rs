//! What a box may use, and what is said when it wants more.

use cocoonbox_e2e::{Events, Setup, TheBox, events::payload, exec::start, run};
use cocoonbox_proto::{
    control::v1::GetBoxRequest,
    log::v1::{BoxMemoryExhausted, exec_exited::Reason},
};

const SMALL: &str = "[limits]\nmemory_bytes = 268435456\ndisk_bytes = 134217728\n";

#[test]
fn a_full_memory_is_told_and_a_full_disk_stops_no_agent() {
    run(async {
        let installation = Setup::plain().config(SMALL).start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let before: Vec<_> = the_box.processes().iter().map(|one| one.pid).collect();

        let greedy = the_box
            .exec(start(&["python3", "-c", "bytearray(1 << 30)"]))
            .await
            .expect("it is run");
        assert_eq!(
            (greedy.exited.reason(), greedy.exited.signal),
            (Reason::Signalled, 9)
        );
        let event = Events::of_account(&user, "", &["box/"])
            .next_of("box.memory_exhausted")
            .await;
        let told: BoxMemoryExhausted = payload(&event, "box.memory_exhausted");
        assert_eq!(told.killed, 1);
        let request = GetBoxRequest {
            box_id: the_box.id.clone(),
            at_least: event.offset_key,
        };
        let shown = user.boxes().get(request).await.expect("the box is there");
        assert_eq!(
            shown.into_inner().notice,
            "its memory was full: a process was killed"
        );
        // Neither the agent nor what holds its sessions was taken for it.
        let after: Vec<_> = the_box.processes().iter().map(|one| one.pid).collect();
        assert_eq!(before, after);

        let full = the_box.sh("cat /dev/zero 2>&1 >fill || true").await;
        assert!(full.contains("No space left"), "{full}");
        the_box.send("hello").await.assert_done();
        the_box.hibernate().await;
        the_box.wake().await;
        the_box.sh("rm fill && echo back > file && cat file").await;
    });
}
