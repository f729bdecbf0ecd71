//! Waiting on a condition. There is no other kind of waiting here.

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// For anything that takes seconds at most on an idle machine: this one may be ten times slower.
pub const GENEROUS: Duration = Duration::from_mins(1);
/// How often a condition is looked at.
pub const STEP: Duration = Duration::from_millis(20);

/// Looks until `look` finds something; panics after [`GENEROUS`], saying what it waited for.
pub async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            started.elapsed() < GENEROUS,
            "waited {GENEROUS:?} for this in vain: {what}"
        );
        tokio::time::sleep(STEP).await;
    }
}

/// Gives `work` as long as [`GENEROUS`].
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(GENEROUS, work).await;
    done.unwrap_or_else(|_| panic!("waited {GENEROUS:?} for this in vain: {what}"))
}
