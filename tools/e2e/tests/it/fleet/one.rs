//! One api on a database.

use cocoonbox_e2e::{
    Setup, TheBox,
    history::{History, check_views_of},
    is_broken,
    replica::open,
    run,
    until::until,
};
use cocoonbox_postgres::Cluster;
use cocoonbox_proto::control::v1::WhoAmIRequest;

use super::in_database;
use crate::story;

#[test]
fn the_main_job_on_a_database() {
    run(async {
        let (installation, url) = in_database(Setup::scripted(story::SCRIPT), "").await;
        let user = story::live(&installation).await;
        installation.stop();
        let opened = open(&url, installation.data()).await;
        let history = History::of(&*opened.store).await;
        assert!(history.check_anchors(&user.id) >= 2);
        story::no_key_in_the_logs(&history);
        check_views_of(&*opened.store, installation.data()).await;
        opened.close().await;
        // Nothing of the logs, keys and tokens is in the data folder.
        for name in ["log.db", "keys.db", "vault.db"] {
            assert!(!installation.data().join(name).exists(), "{name}");
        }
        installation.restart().await;
    });
}

#[test]
fn a_database_that_goes_away_comes_back() {
    run(async {
        let cluster = Cluster::start().expect("a cluster of its own");
        let url = cluster.database().expect("a database");
        // Calls that find no database are answered and logged as errors.
        let setup = Setup::plain()
            .env("COCOONBOX_STORE", &url)
            .expect_error("cannot be read")
            .expect_error("call failed")
            // One may be due just then; it is written later.
            .expect_error("a checkpoint was not written");
        let installation = setup.start().await;
        let user = installation.user("ada").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let mut account = cocoonbox_e2e::Events::of_account(&user, "", &["box/"]);
        account.next_of("box.running").await;

        cluster.stop_immediately().expect("the server stops");
        let refused = user.users().who_am_i(WhoAmIRequest {}).await;
        let refused = refused.expect_err("nobody can be known without a database");
        assert!(is_broken(&refused), "{refused:?}");
        cluster.start_again().expect("the server starts");

        // The same api, the same box, the same stream.
        until("calls are answered again", || async {
            user.users().who_am_i(WhoAmIRequest {}).await.ok()
        })
        .await;
        let said = until("the box answers", || async {
            let ran = the_box.exec(cocoonbox_e2e::exec::start(&["echo", "here"]));
            ran.await.ok()
        })
        .await;
        assert_eq!(said.out(), "here\n");
        the_box.hibernate().await;
        account.next_of("box.hibernated").await;
        the_box.wake().await;
        assert_eq!(the_box.sh("echo again").await, "again\n");
    });
}

#[test]
fn an_api_says_what_is_wrong_with_its_store() {
    run(async {
        let (installation, url) = in_database(Setup::plain(), "").await;
        let other = tempfile::tempdir().expect("a folder");
        let says = |store: &str| {
            let programs = cocoonbox_e2e::programs::Programs::get();
            let ended = std::process::Command::new(&programs.api)
                .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
                .arg(other.path())
                .arg("--image")
                .arg(&programs.image)
                .arg("--agent")
                .arg(&programs.agent)
                .env("COCOONBOX_STORE", store)
                .output()
                .expect("it can be run");
            assert!(!ended.status.success());
            String::from_utf8_lossy(&ended.stderr).into_owned()
        };
        let said = says(&url);
        assert!(said.contains("copy `master.key`"), "{said}");
        let said = says("postgres://nobody:s3cret@127.0.0.1:1/none");
        assert!(said.contains("is the server up"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
        drop(installation);
    });
}
