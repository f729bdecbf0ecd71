//! Boxes as Linux containers: an OCI runtime, a root prepared by us, and no network but loopback.
//!
//! The driver holds no state that matters. Disks, mounts, cgroups and processes are looked at afresh in
//! every call, so a process that takes over after a crash knows as much as the one before.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OwnedMutexGuard;

use crate::machine::{
    BoxId, Error, Fill, Identity, Isolation, Listener, Machine, Machines, Promises, Spec, Stream,
    Usage, UserFolder, WakeId,
};

mod agent;
mod bundle;
mod cgroup;
mod disks;
mod driver;
mod io_device;
mod kernel;
mod layout;
mod lock;
mod mounts;
mod netns;
mod overlay;
mod program;
mod run;
mod runc;
mod seccomp;
mod volume;

use driver::Driver;

/// How a [`Container`] driver is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data folder. Several processes may drive the boxes of one: each box is locked while it is
    /// changed, and [`Machines::claim`] keeps a process out that was replaced.
    pub data: PathBuf,
    /// How long a box's init may take to stop after SIGTERM.
    pub grace: Duration,
}

/// Runs boxes as containers on this host. Needs root.
#[derive(Clone, Debug)]
pub struct Container {
    driver: Arc<Driver>,
    locks: Arc<Mutex<HashMap<BoxId, Arc<tokio::sync::Mutex<()>>>>>,
}

impl Config {
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            grace: Duration::from_secs(5),
        }
    }
}

impl Container {
    /// Opens the data folder, which is made if it does not exist. Removes what a killed process has
    /// left half deleted, so call it where that may block.
    pub fn new(config: Config) -> Result<Self, Error> {
        Ok(Self {
            driver: Arc::new(Driver::new(config)?),
            locks: Arc::default(),
        })
    }

    async fn lock(&self, id: &BoxId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody holds or awaits a lock that only this map knows.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(id.clone()).or_default())
        };
        lock.lock_owned().await
    }

    /// Runs `work` on a thread of its own, alone for this box. Once begun it goes on to its end even if
    /// the caller gives up, and the box stays locked until then.
    async fn alone<T: Send + 'static>(
        &self,
        id: &BoxId,
        work: impl FnOnce(&Driver) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let guard = self.lock(id).await;
        self.blocking(move |driver| {
            let _guard = guard;
            work(driver)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Driver) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let driver = Arc::clone(&self.driver);
        tokio::task::spawn_blocking(move || work(&driver))
            .await
            .map_err(|e| Error::Host {
                doing: "finish a call",
                source: io::Error::other(e),
            })?
    }
}

#[async_trait]
impl Machines for Container {
    fn promises(&self) -> Promises {
        Promises {
            memory_kept_on_hibernate: false,
            survives_host_restart: true,
            isolation: Isolation::Container,
        }
    }

    async fn claim(&self, id: &BoxId, fence: u64) -> Result<(), Error> {
        let of = id.clone();
        self.alone(id, move |driver| driver.claim(&of, fence)).await
    }

    async fn ensure(&self, spec: &Spec) -> Result<Machine, Error> {
        let spec = spec.clone();
        self.alone(&spec.box_id.clone(), move |driver| driver.ensure(&spec))
            .await
    }

    async fn tell(&self, id: &BoxId, wake: &WakeId, identity: &Identity) -> Result<(), Error> {
        let (of, run, identity) = (id.clone(), wake.clone(), identity.clone());
        self.alone(id, move |driver| driver.tell(&of, &run, &identity))
            .await
    }

    async fn copy(&self, from: &BoxId, to: &BoxId) -> Result<(), Error> {
        let (source, target) = (from.clone(), to.clone());
        self.alone(to, move |driver| driver.copy(&source, &target))
            .await
    }

    async fn make(&self, id: &BoxId, disk_bytes: Option<u64>, fill: Fill) -> Result<(), Error> {
        let of = id.clone();
        self.alone(id, move |driver| driver.make(&of, disk_bytes, fill))
            .await
    }

    async fn folders(&self, id: &BoxId) -> Result<Vec<UserFolder>, Error> {
        let id = id.clone();
        self.blocking(move |driver| driver.folders(&id)).await
    }

    async fn get(&self, id: &BoxId) -> Result<Option<Machine>, Error> {
        let id = id.clone();
        self.blocking(move |driver| driver.get(&id)).await
    }

    async fn list(&self) -> Result<Vec<Machine>, Error> {
        self.blocking(Driver::list).await
    }

    async fn hibernate(&self, id: &BoxId) -> Result<(), Error> {
        let of = id.clone();
        self.alone(id, move |driver| driver.hibernate(&of)).await
    }

    async fn delete(&self, id: &BoxId) -> Result<(), Error> {
        let of = id.clone();
        self.alone(id, move |driver| driver.delete(&of)).await
    }

    async fn wait(&self, id: &BoxId, wake: &WakeId) -> Result<(), Error> {
        let (of, run) = (id.clone(), wake.clone());
        let init = self
            .alone(id, move |driver| driver.init_of(&of, &run))
            .await?;
        let Some(init) = init else { return Ok(()) };
        let waiting = |source| Error::Io {
            box_id: id.to_string(),
            doing: "wait",
            source,
        };
        let ended = kernel::watch(init.handle).map_err(waiting)?;
        ended.readable().await.map_err(waiting)?.retain_ready();
        Ok(())
    }

    async fn dial(&self, id: &BoxId, wake: &WakeId, port: u16) -> Result<Stream, Error> {
        let (of, run) = (id.clone(), wake.clone());
        let dialing = |source| Error::Io {
            box_id: id.to_string(),
            doing: "connect",
            source,
        };
        let stream = self
            .blocking(move |driver| Ok(driver.network_of(&of, &run)?.dial(port)))
            .await?
            .and_then(Stream::from_std);
        stream.map_err(dialing)
    }

    async fn listen(&self, id: &BoxId, wake: &WakeId, port: u16) -> Result<Listener, Error> {
        let (of, run) = (id.clone(), wake.clone());
        let listening = |source| Error::Io {
            box_id: id.to_string(),
            doing: "listen",
            source,
        };
        let listener = self
            .blocking(move |driver| Ok(driver.network_of(&of, &run)?.listen(port)))
            .await?
            .and_then(Listener::from_std);
        listener.map_err(listening)
    }

    async fn usage(&self, id: &BoxId) -> Result<Usage, Error> {
        let id = id.clone();
        self.blocking(move |driver| driver.usage(&id)).await
    }

    async fn memory_kills(&self, id: &BoxId) -> Result<u64, Error> {
        let id = id.clone();
        self.blocking(move |driver| Ok(driver.memory_kills(&id)))
            .await
    }
}
