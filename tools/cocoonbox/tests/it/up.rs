//! Starting an api that does not start, and stopping one that does not run.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::program::Program;

#[tokio::test]
async fn an_api_that_ends_at_once_is_told_with_its_log() {
    // Beside the program, where it looks first. On one file system, so that a link will do.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program_path = folder.path().join("cocoonbox");
    fs::hard_link(env!("CARGO_BIN_EXE_cocoonbox"), &program_path).unwrap();
    let api = folder.path().join("cocoonbox-api");
    fs::write(
        &api,
        "#!/bin/sh\necho \"asked: $*\"\necho 'no such kernel' >&2\nexit 9\n",
    )
    .unwrap();
    fs::set_permissions(&api, fs::Permissions::from_mode(0o755)).unwrap();

    let program = Program::new("http://127.0.0.1:8799");
    let run = program.run_at(&program_path, &["up"]).await;
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(
        run.stderr.contains("the first `up` needs the image"),
        "{}",
        run.stderr
    );

    let image = folder.path().join("core.erofs");
    fs::write(&image, "").unwrap();
    let run = program
        .run_at(&program_path, &["up", "--image", image.to_str().unwrap()])
        .await;
    assert_eq!(run.code, 1, "{}", run.stderr);
    let data = program.home.path().join(".local/share/cocoonbox");
    let asked = format!(
        "    asked: serve --data-dir {} --listen 127.0.0.1:8799 --image {}\n    no such kernel\n",
        data.display(),
        image.display()
    );
    assert!(run.stderr.contains(&asked), "{}", run.stderr);
    assert!(Path::new(&data).join("run/api.log").exists());
}

#[tokio::test]
async fn stopping_what_does_not_run_is_fine() {
    let program = Program::new("http://127.0.0.1:8799");
    let run = program.run(&["down"]).await;
    assert_eq!((run.code, run.text().as_str()), (0, "no api runs here\n"));
    // A number that is somebody else's by now.
    let run_dir = program.home.path().join(".local/share/cocoonbox/run");
    fs::create_dir_all(&run_dir).unwrap();
    fs::write(run_dir.join("api.pid"), format!("{}\n", std::process::id())).unwrap();
    let run = program.run(&["down"]).await;
    assert_eq!((run.code, run.text().as_str()), (0, "no api runs here\n"));
}
