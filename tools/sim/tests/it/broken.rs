//! Whatever is broken on purpose is found, under the law that it breaks.

use cocoonbox_sim::{Broken, Law, Run};

/// As many as the usual run has.
const SEEDS: u64 = 100;

/// Runs seeds until one fails, and returns the law that broke.
fn found(broken: Broken) -> Option<(u64, Law)> {
    (1..=SEEDS).find_map(|seed| {
        let run = Run {
            broken,
            ..Run::new(seed)
        };
        let violation = run.go().violation?;
        Some((seed, violation.law))
    })
}

#[track_caller]
fn is_found(broken: Broken, laws: &[Law]) {
    match found(broken) {
        Some((seed, law)) => assert!(
            laws.contains(&law),
            "{broken:?} breaks {law:?} in seed {seed}, expected one of {laws:?}"
        ),
        None => panic!("{broken:?} is not found in {SEEDS} seeds"),
    }
}

#[test]
fn an_ack_before_the_sync() {
    // What is gone may be what somebody waits for, and nobody writes it again.
    let laws = [Law::Durable, Law::Resume, Law::Liveness];
    is_found(Broken::AckBeforeSync, &laws);
}

#[test]
fn a_copy_without_a_look_at_what_is_next() {
    is_found(Broken::BlindReplica, &[Law::Durable]);
}

#[test]
fn a_resume_that_ignores_the_chain() {
    is_found(Broken::ResumeByPosition, &[Law::Resume, Law::BadInput]);
}

#[test]
fn a_lease_without_a_fence() {
    is_found(Broken::UnfencedLease, &[Law::Once]);
}

#[test]
fn a_projection_that_skips() {
    is_found(Broken::SkippedEvent, &[Law::Rebuild]);
}

#[test]
fn a_retry_under_another_id() {
    is_found(Broken::FreshRetryId, &[Law::Once]);
}

#[test]
fn a_disk_that_went_back_unsaid() {
    is_found(Broken::SilentRestore, &[Law::Durable, Law::Liveness]);
}

#[test]
fn a_promotion_unsaid() {
    is_found(Broken::SilentPromotion, &[Law::Durable, Law::Resume]);
}

#[test]
fn an_effect_that_is_repeated() {
    is_found(Broken::RepeatedEffect, &[Law::Once]);
}

#[test]
fn a_door_that_does_not_ask_who() {
    is_found(Broken::OpenDoor, &[Law::Isolation]);
}

#[test]
fn an_erasure_that_the_copy_forgets() {
    is_found(Broken::ForgottenErasure, &[Law::Erased]);
}

#[test]
fn every_variant_has_a_test() {
    let here = include_str!("broken.rs");
    for broken in Broken::ALL {
        assert!(here.contains(&format!("Broken::{broken:?},")), "{broken:?}");
    }
}
