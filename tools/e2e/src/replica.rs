//! Another api process of an installation whose logs are in a database: its own data folder, the same machines.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    sync::Mutex,
};

use cocoonbox_events::{SystemClock, SystemIds};
use cocoonbox_installation::{Address, Installation as Opened, Purpose};
use tonic::transport::Channel;

use crate::{
    Installation,
    installation::{channel, free_port, reap, spawn, wait_until_up},
    process,
};

/// A process beside the first one of an installation. Dropped, it is killed.
#[derive(Debug)]
pub struct Replica {
    data: PathBuf,
    machines: PathBuf,
    port: u16,
    env: Vec<(String, String)>,
    process: Mutex<Option<Child>>,
}

impl Replica {
    /// Starts one and returns once it answers.
    pub async fn beside(first: &Installation) -> Self {
        let data = first.data().with_file_name("data2");
        fs::create_dir(&data).expect("the data folder can be made");
        fs::copy(first.data().join("master.key"), data.join("master.key"))
            .expect("the master key can be copied");
        let mut env = first.env();
        let machines = first.data().to_owned();
        env.push((
            "COCOONBOX_MACHINES_DIR".to_owned(),
            machines.display().to_string(),
        ));
        let replica = Self {
            data,
            machines,
            port: free_port(),
            env,
            process: Mutex::new(None),
        };
        replica.restart().await;
        replica
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The folder of the machines, which is the first one's.
    pub fn machines(&self) -> &Path {
        &self.machines
    }

    /// Host and port that clients connect to.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A connection of its own.
    pub fn channel(&self) -> Channel {
        channel(self.port)
    }

    /// Everything that it has logged so far.
    pub fn api_log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    pub async fn restart(&self) {
        let child = spawn(&self.data, self.port, &self.log_file(), &self.env);
        *self.process.lock().expect("not poisoned") = Some(child);
        wait_until_up(self.port, &self.process, &self.log_file()).await;
    }

    /// Kills it with SIGKILL; boxes go on running.
    pub fn kill9(&self) {
        if let Some(mut api) = self.process.lock().expect("not poisoned").take() {
            let _gone = api.kill();
            let _status = api.wait();
        }
    }

    /// Stops or goes on with all of the process, as when its host is held up.
    pub fn freeze(&self, is_frozen: bool) {
        let process = self.process.lock().expect("not poisoned");
        let pid = process.as_ref().map(Child::id).expect("the api runs");
        process::freeze(i32::try_from(pid).expect("a pid fits"), is_frozen);
    }

    /// Asks it to end and waits for it.
    pub fn stop(&self) {
        if let Some(api) = self.process.lock().expect("not poisoned").take() {
            reap(api, &self.log_file());
        }
    }

    fn log_file(&self) -> PathBuf {
        self.data.with_file_name("api2.log")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.api_log();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines.len().saturating_sub(40);
            eprintln!("the other api's log:\n{}", lines[end..].join("\n"));
        }
        self.kill9();
    }
}

/// Opens the store of an installation to look into it; `data` has the master key.
pub async fn open(store: &str, data: &Path) -> Opened {
    let address = Address::parse(store, data).expect("an address");
    let (clock, ids) = (
        std::sync::Arc::new(SystemClock),
        std::sync::Arc::new(SystemIds),
    );
    let opened = Opened::open(&address, data, Purpose::Use, clock, ids).await;
    opened.expect("the store can be opened")
}
