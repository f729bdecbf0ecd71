//! The programs under test and the image: found, never built here, but for the image.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Programs {
    pub api: PathBuf,
    /// Linked statically, for inside the box.
    pub agent: PathBuf,
    pub image: PathBuf,
}

static FOUND: LazyLock<Programs> = LazyLock::new(find);

impl Programs {
    /// Finds them once per process.
    pub fn get() -> &'static Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "boxes need root: run the tests as root"
        );
        &FOUND
    }
}

fn find() -> Programs {
    let bin = std::env::var_os("COCOONBOX_BIN_DIR").map_or_else(beside_the_test, PathBuf::from);
    let api = bin.join("cocoonbox-api");
    assert!(
        api.is_file(),
        "`{}` is not there: run `cargo build --workspace --bins`, or set COCOONBOX_BIN_DIR",
        api.display()
    );
    let agent = std::env::var_os("COCOONBOX_AGENT").map_or_else(
        || {
            bin.parent()
                .unwrap_or(Path::new("/"))
                .join("box/cocoonbox-agent")
        },
        PathBuf::from,
    );
    assert!(
        agent.is_file(),
        "`{}` is not there: build it with `cargo rustc -p cocoonbox-agent --bin cocoonbox-agent -- \
         -C target-feature=+crt-static`, copy it there, or name it in COCOONBOX_AGENT",
        agent.display()
    );
    Programs {
        api,
        agent,
        image: image(),
    }
}

/// `target/<profile>/`: the test executable is in `deps/` below it.
fn beside_the_test() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    test.ancestors()
        .nth(2)
        .expect("the test is in `target/<profile>/deps`")
        .to_owned()
}

/// Makes sure of an image of this flavor beside the one that the api is given.
pub fn need_image(flavor: &str) {
    let image = build(flavor);
    assert_eq!(
        image.parent(),
        Programs::get().image.parent(),
        "images of all flavors are in one folder"
    );
}

fn image() -> PathBuf {
    let given = std::env::var_os("COCOONBOX_IMAGE").map(PathBuf::from);
    given.unwrap_or_else(|| build("core"))
}

fn build(flavor: &str) -> PathBuf {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../image/build");
    let built = Command::new(&build)
        .arg(flavor)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("`image/build` can be run");
    assert!(
        built.status.success(),
        "`image/build` ended with {}",
        built.status
    );
    PathBuf::from(String::from_utf8_lossy(&built.stdout).trim())
}
