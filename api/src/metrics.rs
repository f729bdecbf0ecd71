//! Metrics in Prometheus' text form, for the operator: on the api's own socket, and on a listener of
//! their own if one is configured; never on the port that clients use.
//!
//! What happens is counted where it happens, through the process's one recorder. What merely is (how far
//! views are, sizes of files) is looked at when somebody asks. No label has users, boxes or logs in it.

mod files;
mod scrape;
mod serve;
mod store;
mod vitals;

pub use scrape::Scraper;
pub(crate) use scrape::kind as log_kind;
pub use serve::{listen, routes};
pub use store::Measured;

use std::{sync::OnceLock, time::Duration};

use metrics::Unit;
pub use metrics_exporter_prometheus::BuildError as RecorderError;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

/// Seconds, from an idle disk's fsync to a stall.
const SECONDS: [f64; 13] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];
/// Events of one append; 256 is the log's limit.
const EVENTS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// Samples of histograms are held until they are summed up; unseen by any scraper they would grow.
const UPKEEP: Duration = Duration::from_secs(5);

pub(crate) const APPENDS: &str = "cocoonbox_log_appends_total";
pub(crate) const APPENDED_EVENTS: &str = "cocoonbox_log_appended_events_total";
pub(crate) const APPEND_EVENTS: &str = "cocoonbox_log_append_events";
pub(crate) const APPEND_SECONDS: &str = "cocoonbox_log_append_seconds";
pub(crate) const REPLICATED_EVENTS: &str = "cocoonbox_replication_events_total";
pub(crate) const REPLICATION_DELAY: &str = "cocoonbox_replication_delay_seconds";
pub(crate) const STREAMS_OPEN: &str = "cocoonbox_streams_open";
pub(crate) const GATEWAY_CALLS: &str = "cocoonbox_gateway_calls_total";
pub(crate) const GATEWAY_TOKENS: &str = "cocoonbox_gateway_tokens_total";

/// The process's recorder. The second and every later call returns the first one's.
pub fn recorder() -> Result<PrometheusHandle, RecorderError> {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    static INSTALLING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = INSTALLING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(handle) = HANDLE.get() {
        return Ok(handle.clone());
    }
    let exact = |name: &str| Matcher::Full(name.to_owned());
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(exact(APPEND_SECONDS), &SECONDS)?
        .set_buckets_for_metric(exact(REPLICATION_DELAY), &SECONDS)?
        .set_buckets_for_metric(exact(APPEND_EVENTS), &EVENTS)?
        .install_recorder()?;
    describe();
    Ok(HANDLE.get_or_init(|| handle).clone())
}

/// Sums samples up until stopped.
pub async fn keep_up(handle: PrometheusHandle, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(UPKEEP) => handle.run_upkeep(),
        }
    }
}

/// A stream to a client, counted as long as it lives.
pub(crate) struct OpenStream(());

impl OpenStream {
    pub(crate) fn begin() -> Self {
        metrics::gauge!(STREAMS_OPEN).increment(1.0);
        Self(())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        metrics::gauge!(STREAMS_OPEN).decrement(1.0);
    }
}

fn describe() {
    use metrics::{
        describe_counter as counter, describe_gauge as gauge, describe_histogram as histogram,
    };
    counter!(APPENDS, "Appends, by how they came out");
    counter!(APPENDED_EVENTS, "Events written by appends");
    histogram!(APPEND_EVENTS, "Events of one append");
    histogram!(
        APPEND_SECONDS,
        Unit::Seconds,
        "From an append to its answer, which waits for the disk"
    );
    counter!(REPLICATED_EVENTS, "Events copied from boxes");
    histogram!(
        REPLICATION_DELAY,
        Unit::Seconds,
        "Age of a box's newest event when its copy was on disk"
    );
    gauge!(STREAMS_OPEN, "Streams of events to clients");
    counter!(GATEWAY_CALLS, "Model calls, by vendor and outcome");
    counter!(
        GATEWAY_TOKENS,
        "Tokens of model calls, by vendor and direction"
    );
    scrape::describe();
    vitals::describe();
}
