//! What stands in `key = ".."`: refused with something to type, or read as the same again.
#![no_main]

/// Long enough for every form. Beyond it, `syn` takes time exponential in the length to print some
/// chains of ranges and operators.
const LONGEST: usize = 96;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if text.len() <= LONGEST {
        key_grammar::key_is_sound(text);
    }
});
