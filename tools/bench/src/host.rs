//! What the numbers were measured on, and what processes use.

use std::{fs, time::Duration};

use cocoonbox_events::{Clock, SystemClock};

/// Kernel clock ticks in a second, as `/proc` counts them: fixed at 100 on every Linux in use.
const TICKS_PER_SECOND: u64 = 100;

/// Processor, cores, memory, kernel, build and date, on one line.
pub(crate) fn facts() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory_mb = kilobytes("/proc/meminfo", "MemTotal:").unwrap_or(0) / 1024;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    let build = if cfg!(debug_assertions) {
        "UNOPTIMISED build"
    } else {
        "release build"
    };
    format!(
        "{}, {cores} cores, {memory_mb} MB, Linux {}, {build}, load {load} at the end, {}",
        processor(),
        kernel.trim(),
        today(),
    )
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or_else(
            || "unknown processor".to_owned(),
            |(_, name)| name.trim().to_owned(),
        )
}

fn today() -> String {
    let now_s = SystemClock.now_us() / 1_000_000;
    time::OffsetDateTime::from_unix_timestamp(now_s)
        .map_or_else(|_| "unknown date".to_owned(), |now| now.date().to_string())
}

/// Processor time that this process has used.
pub(crate) fn cpu_used() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything: state is field 3, utime 14, stime 15.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || {
        fields
            .next()
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let total = ticks() + ticks();
    Duration::from_millis(total * 1_000 / TICKS_PER_SECOND)
}

/// Memory of this process that is in RAM, in KB.
pub(crate) fn resident_kb() -> u64 {
    kilobytes("/proc/self/status", "VmRSS:").unwrap_or(0)
}

/// The same of another process.
pub(crate) fn resident_kb_of(pid: u32) -> u64 {
    kilobytes(&format!("/proc/{pid}/status"), "VmRSS:").unwrap_or(0)
}

/// One process.
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Name and first argument.
    pub(crate) what: String,
    pub(crate) cgroup: String,
    pub(crate) rss_kb: u64,
    /// Memory that is its own, with a fair part of what it shares; 0 if it may not be read.
    pub(crate) pss_kb: u64,
}

/// Every process of the program with this name.
pub(crate) fn processes(name: &str) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Process> = pids.filter_map(|pid| process(pid, name)).collect();
    found.sort_unstable_by_key(|process| process.pid);
    found
}

/// Memory of all processes whose cgroup names this, each with a fair part of what it shares, in KB. `None` if there is
/// none that may be read.
pub(crate) fn shared_kb_of_cgroup(part: &str) -> Option<u64> {
    let mut total = None;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let file = |leaf: &str| entry.path().join(leaf).to_string_lossy().into_owned();
        let cgroup = fs::read_to_string(file("cgroup"));
        if cgroup.is_ok_and(|cgroup| cgroup.contains(part)) {
            // One that ends meanwhile uses nothing.
            let used = kilobytes(&file("smaps_rollup"), "Pss:").unwrap_or(0);
            *total.get_or_insert(0) += used;
        }
    }
    total
}

/// `None` if it is of another program or has ended meanwhile.
fn process(pid: u32, name: &str) -> Option<Process> {
    let file = |leaf: &str| format!("/proc/{pid}/{leaf}");
    // Not by its `comm`: a process that started itself again is called `exe`.
    let program = fs::read_link(file("exe")).ok()?;
    if program
        .file_name()?
        .to_str()?
        .trim_end_matches(" (deleted)")
        != name
    {
        return None;
    }
    let argv = fs::read(file("cmdline")).ok()?;
    let argument = argv.split(|byte| *byte == 0).nth(1).unwrap_or_default();
    Some(Process {
        pid,
        what: format!("{name} {}", String::from_utf8_lossy(argument))
            .trim()
            .to_owned(),
        cgroup: fs::read_to_string(file("cgroup")).unwrap_or_default(),
        rss_kb: kilobytes(&file("status"), "VmRSS:")?,
        pss_kb: kilobytes(&file("smaps_rollup"), "Pss:").unwrap_or(0),
    })
}

fn kilobytes(path: &str, label: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}
