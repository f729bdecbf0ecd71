//! An installation moves from files to a database and back, by the command line.

use std::process::{Command, Output};

use cocoonbox_e2e::{
    Events, Setup, TheBox, history::History, programs::Programs, replica::open, run,
};
use cocoonbox_postgres::shared;
use cocoonbox_proto::control::v1::WhoAmIRequest;

fn log_copy(from: &str, to: &str, data: &std::path::Path) -> Output {
    let program = Programs::get().api.with_file_name("cocoonbox");
    Command::new(program)
        .args(["log", "copy", from, to, "--json", "--data-dir"])
        .arg(data)
        .output()
        .expect("it can be run")
}

fn copied(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn an_installation_moves_and_its_tokens_and_keys_are_good() {
    run(async {
        let installation = Setup::plain().start().await;
        let user = installation.user("ada").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.send("Hello").await.assert_done();
        let seen = the_box.events("", &[]).all().await.expect("readable");
        let key = seen[seen.len() / 2].offset_key.clone();

        let data = installation.data().to_owned();
        let folder = format!("sqlite:{}", data.display());
        let url = shared().database().expect("a database");
        // Not while somebody writes it.
        let refused = log_copy(&folder, &url, &data);
        assert!(!refused.status.success());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("cocoonbox down"), "{said}");

        installation.stop();
        copied(&log_copy(&folder, &url, &data));
        let before = History::verified(&data).await;
        let opened = open(&url, &data).await;
        let there = History::of(&*opened.store).await;
        opened.close().await;
        same(&before, &there);

        // The same token, the same box, the same key, over the database: the box never stopped.
        let init = the_box.init().pid;
        installation.set_env("COCOONBOX_STORE", &url);
        installation.restart().await;
        let who = user.users().who_am_i(WhoAmIRequest {}).await;
        assert_eq!(who.expect("the token is good").into_inner().id, user.id);
        let rest = the_box
            .events(&key, &[])
            .all()
            .await
            .expect("the key is good");
        assert_eq!(rest.len(), seen.len() - seen.len() / 2 - 1);
        the_box.send("Again").await.assert_done();
        assert_eq!(the_box.init().pid, init);
        let mut account = Events::of_account(&user, "", &["box/"]);
        account.next_of("box.running").await;

        // And back, into files of their own.
        let running = log_copy(&url, "/nowhere", &data);
        assert!(!running.status.success(), "an api writes the source");
        installation.stop();
        let back = tempfile::tempdir().expect("a folder");
        copied(&log_copy(&url, &back.path().display().to_string(), &data));
        let opened = open(&url, &data).await;
        let there = History::of(&*opened.store).await;
        opened.close().await;
        same(&there, &History::verified(back.path()).await);
        installation.restart().await;
    });
}

fn same(one: &History, other: &History) {
    assert_eq!(one.logs.len(), other.logs.len());
    for (id, log) in &one.logs {
        assert_eq!(log.events, other.logs[id].events, "log {id}");
    }
}
