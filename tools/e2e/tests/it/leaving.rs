//! A user leaves with their data: their own key, a copy of the store, and a program that needs nothing else.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use cocoonbox_e2e::{
    Events, Installation, Setup, TheBox, User, events::payload_if, programs::Programs, run,
};
use cocoonbox_proto::{control::v1::ExportKeyRequest, log::v1::CapsuleKeyExported};

const QUIET: &str = "[capsule]\nevery_minutes = 0\nafter_turns = false\nasleep = false\n";

/// The program as a person runs it; with a token, where there is an api to talk to.
fn cli(home: &Path, of: Option<(&Installation, &User)>, args: &[&str]) -> Output {
    let mut command = Command::new(Programs::get().api.with_file_name("cocoonbox"));
    command.env_clear().env("HOME", home).args(args);
    if let Some((installation, user)) = of {
        command.env("COCOONBOX_TOKEN", &user.token).env(
            "COCOONBOX_API",
            format!("http://{}", installation.address()),
        );
    }
    command.output().expect("it runs")
}

fn is_fine(output: &Output) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
}

#[test]
fn what_was_saved_is_read_with_the_exported_key_and_the_store_alone() {
    run(async {
        let installation = Setup::plain().config(QUIET).start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box
            .sh("cd /workspace; mkdir d; echo mine > d/a; chmod 640 d/a; ln -s a d/link; head -c 9M /dev/urandom > big")
            .await;
        let sum = the_box.sh("sha256sum < /workspace/big").await;
        the_box.save().await;

        let home = tempfile::tempdir().expect("a folder");
        let key = home.path().join("key");
        let key_file = key.to_str().expect("text");
        let of = Some((&installation, &user));
        let exported = cli(home.path(), of, &["capsule", "export-key", key_file]);
        is_fine(&exported);
        let text = fs::read_to_string(&key).expect("a key");
        let text = text.trim();
        assert_eq!(text.len(), 64);
        let mode = fs::metadata(&key).expect("a key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let told = [exported.stdout, exported.stderr].concat();
        assert!(
            !String::from_utf8_lossy(&told).contains(text),
            "it is shown"
        );
        assert!(!installation.api_log().contains(text), "it is logged");
        // It is not written over another one, and then nobody is given it.
        let again = cli(home.path(), of, &["capsule", "export-key", key_file]);
        assert!(!again.status.success());
        let events = Events::of_account(&user, "", &[])
            .all()
            .await
            .expect("readable");
        let of_key = events.iter();
        let of_key = of_key
            .filter_map(|event| payload_if::<CapsuleKeyExported>(event, "capsule.key_exported"));
        let devices: Vec<_> = of_key.map(|exported| exported.token_id).collect();
        assert_eq!(devices, std::slice::from_ref(&user.token_id));
        let in_log = |event: &cocoonbox_proto::log::v1::Event| {
            event
                .payload
                .windows(64)
                .any(|part| part == text.as_bytes())
        };
        assert!(!events.iter().any(in_log), "it is in the log");

        // Somebody else's is another one and does not open it.
        let eve = installation.user("eve").await;
        let other = eve.capsule().export_key(ExportKeyRequest::default()).await;
        let other = other.expect("her own").into_inner();
        assert_ne!(other.key, text);
        assert_eq!(other.folder, eve.id);
        assert!(!format!("{other:?}").contains(&other.key));

        // The installation is gone; what is left is a copy of the folder.
        let store = home.path().join("store");
        let folder = installation.data().join("capsules").join(&user.id);
        let copied = Command::new("cp")
            .arg("-a")
            .arg(&folder)
            .arg(&store)
            .status();
        assert!(copied.expect("cp").success());
        installation.stop();
        let store = store.to_str().expect("text");
        let target = home.path().join("all");
        let restore = [
            "capsule",
            "restore",
            "--store",
            store,
            "--key-file",
            key_file,
            "--target",
            target.to_str().expect("text"),
        ];
        is_fine(&cli(home.path(), None, &restore));
        let at = |path: &str| target.join("workspace").join(path);
        assert_eq!(fs::read_to_string(at("d/a")).expect("restored"), "mine\n");
        let mode = fs::metadata(at("d/a"))
            .expect("restored")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(
            fs::read_link(at("d/link")).expect("restored"),
            Path::new("a")
        );
        let big = fs::File::open(at("big")).expect("restored");
        let again = Command::new("sha256sum")
            .stdin(big)
            .output()
            .expect("it runs");
        assert_eq!(String::from_utf8_lossy(&again.stdout), sum);
        let other_key = home.path().join("other");
        fs::write(&other_key, other.key).expect("written");
        fs::set_permissions(&other_key, fs::Permissions::from_mode(0o600)).expect("set");
        let args = ["capsule", "snapshots", "--store", store, "--key-file"];
        let args = [&args[..], &[other_key.to_str().expect("text")]].concat();
        let refused = cli(home.path(), None, &args);
        assert!(!refused.status.success());
        // It takes its box away.
        installation.restart().await;
    });
}
