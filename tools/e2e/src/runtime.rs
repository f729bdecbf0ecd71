//! One runtime for all tests of a process: channels and the scripted model outlive any one test.

use std::{future::Future, sync::LazyLock};

use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime can be built")
});

/// Runs a test.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    RUNTIME.block_on(test)
}

/// Runs `work` to its end from code that is not async, wherever that code runs.
pub(crate) fn run_apart<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| RUNTIME.block_on(work)).join();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
