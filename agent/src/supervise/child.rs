//! Starting the command itself.

use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio as Output},
};

use cocoonbox_proto::toolhost::v1::RunStart;
use rustix::process::{Resource, Rlimit};

use super::word::Stdio;

/// What programs expect; the toolhost itself runs with more.
const FILES_SOFT: u64 = 1024;

/// Gives the command the usual soft limit of open files. Programs may raise it themselves.
pub(super) fn reset_limits() {
    let now = rustix::process::getrlimit(Resource::Nofile);
    let soft = now.maximum.map_or(FILES_SOFT, |hard| hard.min(FILES_SOFT));
    // Not being able to is no reason not to run the command.
    let _ = rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(soft),
            maximum: now.maximum,
        },
    );
}

/// Starts the command in a process group of its own and returns its process id, or why not.
pub(super) fn spawn(start: &RunStart, stdio: Stdio) -> Result<i32, String> {
    let (program, args) = start
        .argv
        .split_first()
        .ok_or("there is no program to run")?;
    if program.is_empty() {
        return Err("the program's name is empty".to_owned());
    }
    if !Path::new(&start.cwd).is_dir() {
        return Err(format!(
            "the working directory `{}` does not exist",
            start.cwd
        ));
    }
    let [stdin, stdout, stderr] = stdio;
    let spawned = Command::new(program)
        .args(args)
        .env_clear()
        .envs(
            start
                .env
                .iter()
                .map(|(name, value)| (OsStr::new(name), OsStr::new(value))),
        )
        .current_dir(&start.cwd)
        .stdin(Output::from(stdin))
        .stdout(Output::from(stdout))
        .stderr(Output::from(stderr))
        .process_group(0)
        .spawn();
    match spawned {
        // The status is collected by whoever reaps everything else, too.
        Ok(child) => i32::try_from(child.id()).map_err(|_| "no such process id".to_owned()),
        Err(error) => Err(reason(program, &error)),
    }
}

fn reason(program: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("`{program}` is not a program on the PATH"),
        io::ErrorKind::PermissionDenied => format!("`{program}` may not be executed"),
        io::ErrorKind::ArgumentListTooLong => {
            "arguments and environment are longer than the system takes; use a file".to_owned()
        }
        io::ErrorKind::InvalidInput => "an argument or variable holds a NUL byte".to_owned(),
        _ => format!("`{program}`: {error}"),
    }
}
