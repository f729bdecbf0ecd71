//! What every store must do, run against each of them. The paths are spelled out because crates with
//! other stores include this file: their `support` says with `each_store` which.

#[path = "conformance/appending.rs"]
mod appending;
#[path = "conformance/branching.rs"]
mod branching;
#[path = "conformance/following.rs"]
mod following;
#[path = "conformance/odd.rs"]
mod odd;
#[path = "conformance/reading.rs"]
mod reading;
#[path = "conformance/replicating.rs"]
mod replicating;

macro_rules! suite {
    (@store $store:ident: $($part:ident: $($test:ident),* $(,)?;)*) => {
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
    ($($tests:tt)*) => {
        crate::support::each_store!(suite: $($tests)*);
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
        a_command_without_events_is_remembered,
        a_command_without_events_is_decided_on_what_is_there,
        limits_are_typed_errors,
        time_never_goes_back,
        logs_are_apart;
    reading:
        pages_are_bounded_by_count,
        pages_are_bounded_by_bytes,
        streams_are_read_by_seq,
        keys_resume_or_say_why_not,
        chains_are_given_by_position,
        erased_payloads_are_gone_and_the_chain_verifies,
        digests_of_erased_commands_are_gone;
    replicating:
        a_copy_is_equal,
        a_batch_may_come_twice,
        a_gap_is_refused,
        another_history_is_refused,
        a_tampered_field_is_refused,
        a_wrong_seq_is_refused,
        erased_events_replicate,
        a_copy_remembers_commands;
    branching:
        a_branch_goes_on_where_it_parted,
        a_branch_of_a_branch_is_one_history,
        a_branch_needs_its_parent,
        a_rewind_closes_what_it_leaves,
        keys_of_ancestors_resume_or_say_where_they_part,
        a_branch_is_replicated,
        checkpoints_are_kept;
    odd:
        clocks_may_jump_by_years,
        events_of_other_builds_are_kept_as_they_are,
        names_and_batches_end_at_their_limits;
    following:
        doorbells_ring_after_the_append,
        followers_see_exactly_the_suffix,
        a_follower_may_be_cancelled;
}
