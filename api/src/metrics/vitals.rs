//! Checkpoints, the database and leases, as metrics.

use metrics::{Unit, counter, gauge};

use super::scrape::number;
use crate::vitals::Vitals;

pub(super) fn measure(vitals: &Vitals) {
    let truth = |is_so: bool| f64::from(u8::from(is_so));
    let checkpoints = vitals.checkpoints();
    gauge!("cocoonbox_checkpoints_overdue_logs").set(number(checkpoints.overdue_logs));
    gauge!("cocoonbox_checkpoints_failing").set(truth(!checkpoints.fault.is_empty()));
    gauge!("cocoonbox_checkpoints_alarm").set(truth(!checkpoints.alarm.is_empty()));
    counter!("cocoonbox_checkpoints_written_total").absolute(checkpoints.written);
    counter!("cocoonbox_checkpoints_failed_total").absolute(checkpoints.failed);
    if let Some(database) = vitals.database() {
        let polled_ms = database.polled_ago_ms.unsigned_abs();
        gauge!("cocoonbox_store_polled_ago_seconds").set(number(polled_ms) / 1e3);
        if database.notifies {
            gauge!("cocoonbox_store_listening").set(truth(database.is_listening));
        }
        counter!("cocoonbox_store_listener_losses_total").absolute(database.listener_losses);
        counter!("cocoonbox_store_failed_polls_total").absolute(database.failed_polls);
    }
    if let Some(leases) = vitals.leases() {
        gauge!("cocoonbox_leases_held").set(number(leases.held));
        gauge!("cocoonbox_leases_renewing").set(truth(leases.is_renewing));
        counter!("cocoonbox_leases_lost_total").absolute(leases.lost);
    }
}

pub(super) fn describe() {
    use metrics::{describe_counter, describe_gauge};
    let gauges: [(&'static str, &'static str); 7] = [
        (
            "cocoonbox_checkpoints_overdue_logs",
            "Logs whose checkpoint is due and could not be written",
        ),
        (
            "cocoonbox_checkpoints_failing",
            "1 if the last checkpoint failed; alert on it",
        ),
        (
            "cocoonbox_checkpoints_alarm",
            "1 if a kept checkpoint is not what its log has there; alert on it",
        ),
        (
            "cocoonbox_store_polled_ago_seconds",
            "Since the database answered how far logs are; alert above 3",
        ),
        (
            "cocoonbox_store_listening",
            "1 if the doorbell's connection stands; alert on 0",
        ),
        (
            "cocoonbox_leases_held",
            "Leases of this process: boxes that it drives",
        ),
        (
            "cocoonbox_leases_renewing",
            "1 if leases could be renewed last; alert on 0",
        ),
    ];
    for (name, text) in gauges {
        let is_time = name.ends_with("_seconds");
        let unit = if is_time { Unit::Seconds } else { Unit::Count };
        describe_gauge!(name, unit, text);
    }
    let counters: [(&'static str, &'static str); 5] = [
        ("cocoonbox_checkpoints_written_total", "Checkpoints written"),
        (
            "cocoonbox_checkpoints_failed_total",
            "Checkpoints that were not written, with each attempt",
        ),
        (
            "cocoonbox_store_listener_losses_total",
            "Times that the doorbell's connection was lost",
        ),
        (
            "cocoonbox_store_failed_polls_total",
            "Questions for how far logs are that the database did not answer",
        ),
        (
            "cocoonbox_leases_lost_total",
            "Leases that were not renewed in time, or taken by another process",
        ),
    ];
    for (name, text) in counters {
        describe_counter!(name, text);
    }
}
