//! Why there is no cluster.

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "PostgreSQL's programs are neither in PATH nor in /usr/lib/postgresql: apt install postgresql"
    )]
    NotInstalled,
    #[error("there is no user `nobody` to run PostgreSQL as; it refuses to run as root")]
    NoUser,
    #[error("running `{program}`")]
    Run {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{program}` says: {output}")]
    Failed { program: PathBuf, output: String },
    #[error("folder `{path}`")]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the system's random source does not answer")]
    NoRandomness,
}
