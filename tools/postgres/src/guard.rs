//! What cleans up after a process, however it ends.

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{error::ClusterError, programs::Programs};

/// Waits for the end of its input, which is the end of the process that holds the other side, even
/// one that is killed. Then it stops the server and removes the folder. Away from the terminal's
/// signals, which are for the process that it watches.
const SCRIPT: &str = r#"
trap '' INT HUP TERM
while read -r line; do :; done
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ]; then
  kill -QUIT "$pid" 2>/dev/null
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
fi
rm -rf "$1"
"#;

/// Lives as long as the cluster.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    pub(crate) fn watch(programs: &Programs, folder: &Path) -> Result<Self, ClusterError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sh"]).arg(folder);
        programs.confine(&mut command);
        let child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| ClusterError::Run {
                program: "/bin/sh".into(),
                source,
            })?;
        Ok(Self(child))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        if let Err(error) = self.0.wait() {
            eprintln!("a test's PostgreSQL was not waited for: {error}");
        }
    }
}
