//! On how many threads an audit runs.

/// Runs `work` on `threads` threads of its own, at least one, which end with it. Where the system gives none it runs on the
/// one it was called on, all the same.
pub(crate) fn on<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}
