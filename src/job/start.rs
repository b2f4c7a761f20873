//! Where the program starts.

/// Starts the program with a function that never returns, without the start of Rust's runtime: that start reads
/// /proc/self/maps and prepares a message for a stack overflow, which takes longer than acquiring a lock.
#[macro_export]
macro_rules! start_with {
    ($execute:path) => {
        // SAFETY: the C library calls the one function of this name, once, on the only thread. Unit tests have
        // another one.
        #[cfg_attr(not(test), unsafe(export_name = "main"))]
        #[cfg_attr(test, allow(dead_code))]
        extern "C" fn start(count: std::ffi::c_int, words: *mut *mut std::ffi::c_char) -> std::ffi::c_int {
            $crate::job::title::note(count, words);
            $crate::job::normalise();
            $execute()
        }
    };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
compile_error!(
    "redlock is built for Linux with glibc (a target such as x86_64-unknown-linux-gnu): musl's sched_setscheduler(3) does nothing, so that a job could outlive its lease on a busy machine"
);
