//! What the processes use while nothing happens.

use crate::{
    host::{self, Process},
    samples::float,
    table::Table,
};

pub(crate) fn run(box_id: &str, api_pid: Option<u32>) -> Table {
    let mut table = Table::new(
        "Memory with one box up, idle",
        &["process", "pid", "RSS MB", "PSS MB"],
    );
    let agents = host::processes("cocoonbox-agent");
    let of_box: Vec<&Process> = agents
        .iter()
        .filter(|process| process.cgroup.contains(box_id))
        .collect();
    let (agents, told) = if of_box.is_empty() {
        (
            agents.iter().collect(),
            "all on this host: their cgroups do not name the box",
        )
    } else {
        (of_box, "those of the box")
    };
    let apis = host::processes("cocoonbox-api");
    let apis = apis
        .iter()
        .filter(|process| api_pid.is_none_or(|pid| process.pid == pid));
    let mut seen = agents.len();
    for process in agents.into_iter().chain(apis) {
        seen += 1;
        table.row(vec![
            process.what.clone(),
            process.pid.to_string(),
            megabytes(process.rss_kb),
            megabytes(process.pss_kb),
        ]);
    }
    if seen == 0 {
        table.note("No process of the api or of an agent can be seen from here.");
    } else {
        table.note(format!(
            "Agents: {told}. PSS 0.0 means that it may not be read."
        ));
    }
    table
}

fn megabytes(kb: u64) -> String {
    format!("{:.1}", float(kb) / 1024.0)
}
