//! What a process and all that it started use.

use std::{collections::HashMap, fs, time::Duration};

use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

const LOOK: Duration = Duration::from_millis(10);
/// The kernel's unit of processor time, the same on every Linux that runs this.
const TICK: Duration = Duration::from_millis(10);
const PAGE_BYTES: u64 = 4_096;

/// What was used in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// The most memory that was resident at one time, of all processes together.
    pub(crate) resident_bytes: u64,
}

/// Watches processes until it is asked.
pub(crate) struct Watch {
    stop: oneshot::Sender<()>,
    watching: JoinHandle<Usage>,
}

impl Watch {
    pub(crate) fn over(roots: Vec<u32>) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let watching = tokio::spawn(async move {
            let mut ticks = HashMap::new();
            let mut usage = Usage::default();
            let mut look = interval(LOOK);
            look.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                let resident = sample(&roots, &mut ticks);
                usage.resident_bytes = usage.resident_bytes.max(resident);
                tokio::select! {
                    _ = look.tick() => {}
                    _ = &mut stopped => break,
                }
            }
            let ticks: u64 = ticks.values().sum();
            usage.cpu = TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
            usage
        });
        Self { stop, watching }
    }

    pub(crate) async fn usage(self) -> Usage {
        self.stop.send(()).ok();
        self.watching.await.unwrap_or_default()
    }
}

/// The memory of a process alone, at the moment.
pub(crate) fn resident(pid: u32) -> u64 {
    stat(pid).map_or(0, |fields| fields[21] * PAGE_BYTES)
}

/// What the kernel says of a process, after its name: utime is field 11, stime 12, rss (in pages) 21.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let fields = fields.split_ascii_whitespace();
    let fields: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
    Some(fields).filter(|fields| fields.len() > 21)
}

/// Takes the processor time of the trees in, and returns their memory.
fn sample(roots: &[u32], ticks: &mut HashMap<u32, u64>) -> u64 {
    let mut resident = 0;
    let mut waiting = roots.to_vec();
    while let Some(pid) = waiting.pop() {
        let Some(fields) = stat(pid) else {
            continue;
        };
        ticks.insert(pid, fields[11] + fields[12]);
        resident += fields[21] * PAGE_BYTES;
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            waiting.extend(
                children
                    .split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
    }
    resident
}
