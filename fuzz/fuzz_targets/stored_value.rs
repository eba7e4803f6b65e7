//! The bytes of a stored value: refused, or read as the same again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    idempotent_runtime::testing::decoders::stored_value(bytes);
});
