//! A target of cargo-fuzz: the reader of src/fuzz.rs that has its name.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| redlock::fuzz::read(env!("CARGO_BIN_NAME"), bytes));
