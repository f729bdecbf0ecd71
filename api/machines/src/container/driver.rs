//! The steps of every call, in order. Blocking: the callers are threads made for that.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::mount::MountAttrFlags;
use rustix::process::Signal;

use super::bundle::Bundle;
use super::cgroup::Hierarchies;
use super::layout::{BoxLayout, Layout, gone, replace};
use super::lock::Lock;
use super::netns::Network;
use super::run::Init;
use super::runc::Runc;
use super::{Config, agent, disks, io_device, mounts, overlay, run, runc, volume};
use crate::Error;
use crate::machine::{
    BoxId, Fill, Identity, Machine, MachineState, Spec, Usage, UserFolder, WakeId,
};

/// A killed init is gone at once, unless the disk below it hangs.
const KILL_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Driver {
    grace: Duration,
    layout: Layout,
    hierarchies: Hierarchies,
    runc: Runc,
    agents: agent::Copies,
    /// Under which fence this process drives a box. Absent: it asks nobody.
    fences: Mutex<HashMap<BoxId, u64>>,
}

impl Driver {
    pub(super) fn new(config: Config) -> Result<Self, Error> {
        let layout = Layout::prepare(&config.data).map_err(host("make the data folder"))?;
        let runc = Runc::find(&layout)?;
        disks::sweep(&layout).map_err(host("remove deleted disks"))?;
        {
            let _alone = shared(&layout)?;
            overlay::release_images(&layout).map_err(host("unmount images"))?;
        }
        Ok(Self {
            grace: config.grace,
            hierarchies: Hierarchies::find().map_err(host("find the cgroups"))?,
            runc,
            agents: agent::Copies::default(),
            fences: Mutex::default(),
            layout,
        })
    }

    /// Keeps the fence under which this process drives the box, unless another drives it under a higher.
    pub(super) fn claim(&self, id: &BoxId, fence: u64) -> Result<(), Error> {
        let mut lock = self.lock(id)?;
        let of = self.layout.of(id);
        let kept = lock.fence().map_err(during(&of, "read the fence"))?;
        if kept > fence {
            return Err(Error::Replaced(id.to_string()));
        }
        lock.keep_fence(fence)
            .map_err(during(&of, "keep the fence"))?;
        self.fences().insert(id.clone(), fence);
        Ok(())
    }

    /// Takes the box for a change. Refuses a process whose claim was replaced meanwhile.
    fn alone(&self, id: &BoxId) -> Result<Lock, Error> {
        let mut lock = self.lock(id)?;
        let claimed = self.fences().get(id).copied();
        let kept = lock.fence();
        let kept = kept.map_err(during(&self.layout.of(id), "read the fence"))?;
        if claimed.is_some_and(|claimed| claimed < kept) {
            return Err(Error::Replaced(id.to_string()));
        }
        Ok(lock)
    }

    fn lock(&self, id: &BoxId) -> Result<Lock, Error> {
        let lock = Lock::take(&self.layout.box_lock(id));
        lock.map_err(during(&self.layout.of(id), "wait for another process"))
    }

    fn fences(&self) -> std::sync::MutexGuard<'_, HashMap<BoxId, u64>> {
        self.fences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ensure(&self, spec: &Spec) -> Result<Machine, Error> {
        let _alone = self.alone(&spec.box_id)?;
        let of = self.layout.of(&spec.box_id);
        let up = Machine {
            box_id: spec.box_id.clone(),
            wake_id: Some(spec.wake_id.clone()),
            state: MachineState::Running,
        };
        let recorded = run::recorded_wake(&of).map_err(during(&of, "read the recorded wake"))?;
        if recorded.as_ref() == Some(&spec.wake_id) && self.is_running(&of)? {
            return Ok(up);
        }
        self.stop(&of)?;
        match self.start(&of, spec) {
            Ok(()) => Ok(up),
            Err(error) => {
                // The start's error tells more than one of the clean-up, which the next call repeats.
                let cleaned = self
                    .tear_down(&of)
                    .and_then(|()| self.release_images(&of.id));
                if let Err(second) = cleaned {
                    tracing::warn!(r#box = %of.id, error = %second, "left parts of a failed start");
                }
                Err(error)
            }
        }
    }

    pub(super) fn tell(&self, id: &BoxId, wake: &WakeId, identity: &Identity) -> Result<(), Error> {
        let _alone = self.alone(id)?;
        let of = self.layout.of(id);
        match self.running_as(&of, wake) {
            Ok(_) => write_identity(&of, identity).map_err(during(&of, "write the identity")),
            Err(Error::NotFound(_) | Error::NotRunning(_) | Error::OtherWake { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn copy(&self, from: &BoxId, to: &BoxId) -> Result<(), Error> {
        let _alone = self.alone(to)?;
        let of = self.layout.of(to);
        if of.disks.exists() {
            return Ok(());
        }
        let _still = self.lock(from)?;
        let source = self.layout.of(from);
        if !source.disks.is_dir() {
            return Err(Error::NotFound(from.to_string()));
        }
        if self.is_running(&source)? {
            return Err(Error::Runs(from.to_string()));
        }
        disks::copy(&self.layout, &source, &of).map_err(during(&of, "copy the disks"))
    }

    pub(super) fn make(
        &self,
        id: &BoxId,
        disk_bytes: Option<u64>,
        fill: Fill,
    ) -> Result<(), Error> {
        let _alone = self.alone(id)?;
        let of = self.layout.of(id);
        if of.disks.exists() {
            return Ok(());
        }
        disks::fill(&self.layout, &of, disk_bytes, fill).map_err(during(&of, "fill the disks"))
    }

    pub(super) fn folders(&self, id: &BoxId) -> Result<Vec<UserFolder>, Error> {
        let of = self.layout.of(id);
        if !of.disks.is_dir() {
            return Err(Error::NotFound(id.to_string()));
        }
        let folders = disks::user_folders(&of);
        // A volume is mounted while its box runs only.
        if folders.iter().any(|folder| !folder.place.is_dir()) {
            return Err(Error::CannotShow(id.to_string()));
        }
        Ok(folders)
    }

    pub(super) fn get(&self, id: &BoxId) -> Result<Option<Machine>, Error> {
        let of = self.layout.of(id);
        if !of.disks.is_dir() {
            return Ok(None);
        }
        let running = self.is_running(&of)?;
        let wake_id = run::recorded_wake(&of).map_err(during(&of, "read the recorded wake"))?;
        let state = if running {
            MachineState::Running
        } else {
            MachineState::Stopped
        };
        Ok(Some(Machine {
            box_id: id.clone(),
            wake_id,
            state,
        }))
    }

    pub(super) fn list(&self) -> Result<Vec<Machine>, Error> {
        let listing = host("list the boxes");
        let mut machines = Vec::new();
        let entries = std::fs::read_dir(self.layout.boxes())
            .and_then(Iterator::collect::<io::Result<Vec<_>>>);
        for entry in entries.map_err(listing)? {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| BoxId::new(name).ok()) else {
                continue;
            };
            machines.extend(self.get(&id)?);
        }
        machines.sort_by(|a, b| a.box_id.cmp(&b.box_id));
        Ok(machines)
    }

    pub(super) fn hibernate(&self, id: &BoxId) -> Result<(), Error> {
        let _alone = self.alone(id)?;
        self.stop(&self.layout.of(id))?;
        self.release_images(id)
    }

    pub(super) fn delete(&self, id: &BoxId) -> Result<(), Error> {
        let alone = self.alone(id)?;
        let of = self.layout.of(id);
        self.stop(&of)?;
        self.release_images(id)?;
        let doing = "remove the disks";
        disks::remove(&self.layout, &of).map_err(during(&of, doing))?;
        self.fences().remove(id);
        alone.remove().map_err(during(&of, doing))
    }

    /// Returns the init of the run `wake`, if that is what runs. Alone: a start in progress has a wake and
    /// no init yet, which would look like an end.
    pub(super) fn init_of(&self, id: &BoxId, wake: &WakeId) -> Result<Option<Init>, Error> {
        let _alone = self.lock(id)?;
        match self.running_as(&self.layout.of(id), wake) {
            Ok(init) => Ok(Some(init)),
            Err(Error::NotFound(_) | Error::NotRunning(_) | Error::OtherWake { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the network of the run `wake`.
    pub(super) fn network_of(&self, id: &BoxId, wake: &WakeId) -> Result<Network, Error> {
        let of = self.layout.of(id);
        let init = self.running_as(&of, wake)?;
        let network = Network::of(&init).map_err(during(&of, "open the box's network"))?;
        // Checked after the namespace was opened by number: it is this init's, and this wake's.
        let lives = init
            .lives()
            .map_err(during(&of, "look at the box's init"))?;
        if lives {
            Ok(network)
        } else {
            Err(Error::NotRunning(id.to_string()))
        }
    }

    pub(super) fn usage(&self, id: &BoxId) -> Result<Usage, Error> {
        let of = self.layout.of(id);
        if !of.disks.is_dir() {
            return Err(Error::NotFound(id.to_string()));
        }
        runc::bound_console(&of).map_err(during(&of, "cut the console's file"))?;
        let disk_bytes = disks::bytes(&of).map_err(during(&of, "measure the disks"))?;
        Ok(Usage {
            disk_bytes,
            ..self.hierarchies.at(&of.cgroup).usage()
        })
    }

    pub(super) fn memory_kills(&self, id: &BoxId) -> u64 {
        let of = self.layout.of(id);
        self.hierarchies.at(&of.cgroup).memory_kills()
    }

    fn start(&self, of: &BoxLayout, spec: &Spec) -> Result<(), Error> {
        let (uid_base, agent) = {
            let _alone = shared(&self.layout)?;
            let uid_base = disks::claim(&self.layout, of, spec.limits.disk_bytes);
            let agent = self.agents.folder(&self.layout, &spec.agent);
            (
                uid_base.map_err(during(of, "make the disks"))?,
                agent.map_err(during(of, "copy the agent"))?,
            )
        };
        write_identity(of, &spec.identity).map_err(during(of, "write the identity"))?;
        run::record_wake(of, &spec.wake_id).map_err(during(of, "record the wake"))?;

        let ids = mounts::id_map(uid_base).map_err(during(of, "make the id map"))?;
        let root = {
            // From making the mount points until the root is mounted nobody may release the image.
            let _alone = shared(&self.layout)?;
            let made = self.layout.make_mounts(of, uid_base);
            made.map_err(during(of, "make the mount points"))?;
            volume::mount(of).map_err(during(of, "mount the disks"))?;
            let lower = overlay::lower(&self.layout, &spec.image);
            let lower = lower.map_err(during(of, "mount the image"))?;
            overlay::mount(of, &lower, &ids, uid_base).map_err(during(of, "mount the root"))?
        };
        let fixed = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let read_only = fixed | MountAttrFlags::MOUNT_ATTR_RDONLY;
        for (name, source, attributes) in [
            ("home", of.folder("home"), fixed),
            ("workspace", of.folder("workspace"), fixed),
            ("agent", of.disks.join("agent"), fixed),
            (
                "identity",
                of.identity(),
                read_only | MountAttrFlags::MOUNT_ATTR_NOEXEC,
            ),
            ("bin", agent, read_only),
        ] {
            mounts::clone(&source, &of.mount_point(name), attributes, ids.as_fd())
                .map_err(during(of, "mount a folder"))?;
        }
        let cap_swap = self.hierarchies.are_unified();
        let device = io_device::below(&of.disks);
        let device = device.map_err(during(of, "find the disk to limit"))?;
        let bundle = Bundle {
            of,
            root,
            uid_base,
            limits: spec.limits,
            cap_swap,
            device,
        };
        bundle
            .write()
            .map_err(during(of, "write the container's configuration"))?;
        self.runc.start(of)
    }

    /// Ends what runs, gently first, and removes everything but the disks.
    fn stop(&self, of: &BoxLayout) -> Result<(), Error> {
        let doing = "stop the box's init";
        if let Some(init) = self.init(of)? {
            let asked = init.ask_to_stop(self.grace);
            if !asked.map_err(during(of, doing))? {
                tracing::info!(r#box = %of.id, "did not stop by itself");
                let killed = init
                    .signal(Signal::KILL)
                    .and_then(|()| init.ended_within(KILL_WAIT));
                killed.map_err(during(of, doing))?;
            }
        }
        self.tear_down(of)
    }

    /// Removes processes, container, cgroup and mounts, whichever of them exist.
    fn tear_down(&self, of: &BoxLayout) -> Result<(), Error> {
        let cgroup = self.hierarchies.at(&of.cgroup);
        cgroup.destroy().map_err(during(of, "empty the cgroup"))?;
        self.runc.forget(of)?;
        // The second is what runc writes before it renames, and refuses to find.
        for file in [of.pid_file(), of.run().join(".init.pid")] {
            gone(std::fs::remove_file(file)).map_err(during(of, "remove the pid file"))?;
        }
        mounts::clear(&of.mounts).map_err(during(of, "unmount"))?;
        volume::released(of).map_err(during(of, "let go of the disks"))
    }

    /// Not part of a tear-down: a restart would lose what the kernel has unpacked of the image.
    fn release_images(&self, id: &BoxId) -> Result<(), Error> {
        let _alone = shared(&self.layout)?;
        let released = overlay::release_images(&self.layout);
        released.map_err(during(&self.layout.of(id), "unmount images"))
    }

    fn init(&self, of: &BoxLayout) -> Result<Option<Init>, Error> {
        Init::find(of, &self.hierarchies.at(&of.cgroup))
            .map_err(during(of, "look for the box's init"))
    }

    fn is_running(&self, of: &BoxLayout) -> Result<bool, Error> {
        // Most boxes sleep: the runtime is only asked about those that may not.
        Ok(self.init(of)?.is_some() && self.runc.is_started(of)?)
    }

    fn running_as(&self, of: &BoxLayout, wake: &WakeId) -> Result<Init, Error> {
        let id = || of.id.to_string();
        if !of.disks.is_dir() {
            return Err(Error::NotFound(id()));
        }
        let init = self.init(of)?;
        // Read after the init was found: a run that began in between has another wake.
        match run::recorded_wake(of).map_err(during(of, "read the recorded wake"))? {
            Some(actual) if actual != *wake => Err(Error::OtherWake {
                box_id: id(),
                expected: wake.0.clone(),
                actual: actual.0,
            }),
            Some(_) => init.ok_or_else(|| Error::NotRunning(id())),
            None => Err(Error::NotRunning(id())),
        }
    }
}

fn write_identity(of: &BoxLayout, identity: &Identity) -> io::Result<()> {
    let file = of.identity().join("identity");
    replace(&file, &serde_json::to_vec(&identity.0)?)?;
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o644))
}

/// Takes what all boxes of the folder share, also from other processes.
fn shared(layout: &Layout) -> Result<Lock, Error> {
    Lock::take(&layout.shared_lock()).map_err(host("wait for another process"))
}

fn during(of: &BoxLayout, doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io {
        box_id: of.id.to_string(),
        doing,
        source,
    }
}

fn host(doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Host { doing, source }
}
