//! What is looked at when somebody asks.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use cocoonbox_events::{Clock, LogInfo, LogKind, Store};
use cocoonbox_projections::{Condition, Views, conditions};
use metrics::{Unit, counter, gauge};
use metrics_exporter_prometheus::PrometheusHandle;

use super::{files, vitals};
use crate::{channel::Channels, vitals::Vitals};

/// Files of the data folder whose write-ahead logs are watched.
const DATABASES: [&str; 3] = ["log.db", "views.db", "vault.db"];

/// Answers scrapes of one api.
#[derive(Clone)]
pub struct Scraper {
    pub handle: PrometheusHandle,
    pub store: Arc<dyn Store>,
    pub views: Views,
    pub channels: Channels,
    pub vitals: Vitals,
    pub clock: Arc<dyn Clock>,
    pub data: PathBuf,
}

impl Scraper {
    /// Returns every metric in Prometheus' text form.
    pub async fn scrape(&self) -> String {
        let conditions = conditions(&self.views, &*self.store, self.clock.now_us()).await;
        for condition in &conditions {
            view(condition);
        }
        for (name, folded) in self.views.folded() {
            let count = |part: &'static str, events| {
                counter!("cocoonbox_views_folded_events_total", "projection" => name, "part" => part)
                    .absolute(events);
            };
            count("live", folded.live);
            count("built", folded.built);
        }
        if let Some(ago) = self.views.looked_ago() {
            gauge!("cocoonbox_views_looked_ago_seconds").set(ago);
        }
        logs(&self.store.logs());
        vitals::measure(&self.vitals);
        let channels = self.channels.all();
        let stopped = channels.iter().filter(|one| !one.fault.borrow().is_empty());
        gauge!("cocoonbox_replication_stopped").set(number(stopped.count() as u64));
        gauge!("cocoonbox_boxes_attached").set(number(channels.len() as u64));
        for name in DATABASES {
            let bytes = files::bytes(&self.data.join(name));
            gauge!("cocoonbox_database_bytes", "file" => name).set(number(bytes));
            let wal = files::bytes(&self.data.join(format!("{name}-wal")));
            gauge!("cocoonbox_database_wal_bytes", "file" => name).set(number(wal));
        }
        if let Some((free, all)) = files::room(&self.data) {
            gauge!("cocoonbox_disk_free_bytes").set(number(free));
            gauge!("cocoonbox_disk_bytes").set(number(all));
        }
        if let Some(bytes) = files::resident_bytes() {
            gauge!("process_resident_memory_bytes").set(number(bytes));
        }
        if let Some(open) = files::open_files() {
            gauge!("process_open_fds").set(number(open as u64));
        }
        gauge!("cocoonbox_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        self.handle.render()
    }
}

fn view(condition: &Condition) {
    let name = condition.projection;
    let set = |metric: &'static str, value: f64| gauge!(metric, "projection" => name).set(value);
    set(
        "cocoonbox_views_answer",
        f64::from(u8::from(condition.answers)),
    );
    set("cocoonbox_views_logs", number(condition.logs as u64));
    set("cocoonbox_views_position_sum", number(condition.done));
    set("cocoonbox_views_lag_events", number(condition.lag_events));
    set(
        "cocoonbox_views_lag_events_max",
        number(condition.lag_events_max),
    );
    set(
        "cocoonbox_views_lag_seconds",
        number(condition.lag_us.unsigned_abs()) / 1e6,
    );
    set(
        "cocoonbox_views_stopped_logs",
        number(condition.stopped.len() as u64),
    );
    let building = condition.building.as_ref();
    let (done, of) = building.map_or((0, 0), |building| (building.done, building.of));
    set(
        "cocoonbox_views_building",
        f64::from(u8::from(building.is_some())),
    );
    set("cocoonbox_views_building_events_done", number(done));
    set("cocoonbox_views_building_events", number(of));
}

fn logs(logs: &[LogInfo]) {
    let mut by_kind: BTreeMap<&'static str, (u64, u64, u64)> = [
        ("system", (0, 0, 0)),
        ("account", (0, 0, 0)),
        ("box", (0, 0, 0)),
    ]
    .into();
    for log in logs {
        let (count, sum, max) = by_kind.entry(kind(log.kind)).or_default();
        *count += 1;
        *sum += log.tail.pos - log.parent.map_or(0, |parent| parent.pos);
        *max = (*max).max(log.tail.pos);
    }
    for (kind, (count, sum, max)) in by_kind {
        gauge!("cocoonbox_log_logs", "kind" => kind).set(number(count));
        gauge!("cocoonbox_log_events", "kind" => kind).set(number(sum));
        gauge!("cocoonbox_log_tail_max", "kind" => kind).set(number(max));
    }
}

/// What a kind of log is called.
pub(crate) fn kind(kind: LogKind) -> &'static str {
    match kind {
        LogKind::System => "system",
        LogKind::Account => "account",
        LogKind::Box => "box",
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a metric is a float; above 2^53 nobody counts single events"
)]
pub(super) fn number(value: u64) -> f64 {
    value as f64
}

pub(super) fn describe() {
    use metrics::{describe_counter, describe_gauge};
    describe_counter!(
        "cocoonbox_views_folded_events_total",
        "Events taken into views: into those that answer, and into those that are built"
    );
    let gauges: [(&'static str, &'static str); 24] = [
        ("cocoonbox_views_answer", "1 if there are rows that answer"),
        ("cocoonbox_views_logs", "Logs that a projection takes in"),
        (
            "cocoonbox_views_position_sum",
            "Positions reached, over all logs",
        ),
        (
            "cocoonbox_views_lag_events",
            "Events not taken in yet, over all logs",
        ),
        (
            "cocoonbox_views_lag_events_max",
            "Events not taken in yet of the log furthest behind",
        ),
        (
            "cocoonbox_views_lag_seconds",
            "Age of the oldest event that is not taken in",
        ),
        (
            "cocoonbox_views_stopped_logs",
            "Logs in which a projection stopped at an event",
        ),
        ("cocoonbox_views_building", "1 while rows are built"),
        (
            "cocoonbox_views_building_events_done",
            "Events taken into the rows that are built",
        ),
        (
            "cocoonbox_views_building_events",
            "Events that those rows need",
        ),
        (
            "cocoonbox_views_looked_ago_seconds",
            "Since the views looked at the logs last",
        ),
        ("cocoonbox_log_logs", "Logs"),
        ("cocoonbox_log_events", "Events in all logs of a kind"),
        (
            "cocoonbox_log_tail_max",
            "Position of the longest log of a kind",
        ),
        (
            "cocoonbox_replication_stopped",
            "Boxes whose logs cannot be copied any more",
        ),
        ("cocoonbox_boxes_attached", "Boxes that are connected"),
        ("cocoonbox_database_bytes", "Size of a database file"),
        (
            "cocoonbox_database_wal_bytes",
            "Size of its write-ahead log",
        ),
        (
            "cocoonbox_disk_free_bytes",
            "Room on the data folder's file system",
        ),
        (
            "cocoonbox_disk_bytes",
            "Size of the data folder's file system",
        ),
        ("cocoonbox_build_info", "1, with the version"),
        (
            "process_resident_memory_bytes",
            "Memory that the process holds",
        ),
        ("process_open_fds", "Descriptors that the process has open"),
        ("cocoonbox_streams_open", "Streams of events to clients"),
    ];
    for (name, text) in gauges {
        let unit = if name.ends_with("_bytes") {
            Unit::Bytes
        } else if name.ends_with("_seconds") {
            Unit::Seconds
        } else {
            Unit::Count
        };
        describe_gauge!(name, unit, text);
    }
}
