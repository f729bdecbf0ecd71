//! What every store must do, run against each of them.

mod appending;
mod following;
mod reading;
mod replicating;

macro_rules! suite {
    ($($part:ident: $($test:ident),* $(,)?;)*) => {
        suite!(@store memory: $($part: $($test),*;)*);
        suite!(@store sqlite: $($part: $($test),*;)*);
        suite!(@store sealed: $($part: $($test),*;)*);
    };
    (@store $store:ident: $($part:ident: $($test:ident),*;)*) => {
        mod $store {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    let fixture = crate::support::$store();
                    crate::support::within(super::$part::$test(fixture)).await;
                }
            )*)*
        }
    };
}

suite! {
    appending:
        positions_are_gapless,
        opening_is_idempotent,
        unknown_logs_are_refused,
        expectations_hold_or_conflict,
        several_streams_are_expected,
        one_of_many_rivals_wins,
        a_command_happens_once,
        concurrent_duplicates_happen_once,
        a_replay_outlives_its_expectation,
        limits_are_typed_errors,
        time_never_goes_back,
        logs_are_apart;
    reading:
        pages_are_bounded_by_count,
        pages_are_bounded_by_bytes,
        streams_are_read_by_seq,
        keys_resume_or_say_why_not,
        chains_are_given_by_position,
        erased_payloads_are_gone_and_the_chain_verifies;
    replicating:
        a_copy_is_equal,
        a_batch_may_come_twice,
        a_gap_is_refused,
        another_history_is_refused,
        a_tampered_field_is_refused,
        a_wrong_seq_is_refused,
        erased_events_replicate,
        a_copy_remembers_commands,
        a_branch_starts_at_its_parent;
    following:
        doorbells_ring_after_the_append,
        followers_see_exactly_the_suffix,
        a_follower_may_be_cancelled;
}
