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

/// Processes and threads of the user that a command may bring the box to. Builds need hundreds.
const PROCESSES_MAX: u64 = 4_096;

/// Gives the command the usual soft limit of open files, which programs may raise themselves, and fewer
/// processes than the toolhost may have: one that forks without end leaves it room to end that.
pub(super) fn reset_limits() {
    let now = rustix::process::getrlimit(Resource::Nproc);
    let own = [now.current, now.maximum].into_iter().flatten().min();
    let most = own.map_or(PROCESSES_MAX, |own| (own / 4 * 3).min(PROCESSES_MAX));
    // Not being able to is no reason not to run the command, here and below.
    let _ = rustix::process::setrlimit(
        Resource::Nproc,
        Rlimit {
            current: Some(most),
            maximum: Some(most),
        },
    );
    let now = rustix::process::getrlimit(Resource::Nofile);
    let soft = now.maximum.map_or(FILES_SOFT, |hard| hard.min(FILES_SOFT));
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
    let mut command = Command::new(program);
    if start.tty.is_some() {
        with_terminal(&mut command);
    } else {
        command.process_group(0);
    }
    let spawned = command
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
        .spawn();
    match spawned {
        // The status is collected by whoever reaps everything else, too.
        Ok(child) => i32::try_from(child.id()).map_err(|_| "no such process id".to_owned()),
        Err(error) => Err(reason(program, &error)),
    }
}

/// Makes the command the leader of a session of its own, whose terminal is its standard input.
fn with_terminal(command: &mut Command) {
    let lead = || {
        rustix::process::setsid()?;
        // By now the terminal is in the place of the standard input.
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: between fork and exec `lead` makes two system calls and nothing else: it takes no lock
    // and no memory. The supervisor has one thread when it forks.
    #[expect(
        unsafe_code,
        reason = "a session has to be entered between fork and exec, and std has no safe way to"
    )]
    unsafe {
        command.pre_exec(lead);
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
