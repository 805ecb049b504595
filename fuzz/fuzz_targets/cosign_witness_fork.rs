#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| counterfoil_fuzz::forks::witness_fork(data));
