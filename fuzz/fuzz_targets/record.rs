//! The bytes of a record in Redis: refused, or written as they were read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    idempotent_runtime::testing::decoders::record(bytes);
});
