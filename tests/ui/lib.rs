//! Compiler messages: mistakes read well, and every supported shape compiles without a warning.
//!
//! A crate of its own, because every mistake is built with the dependencies of the crate it lies in.
#![cfg(test)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs, thread};

#[test]
fn mistakes_are_reported_where_they_are_made() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}

/// Makes each file a module and a test that runs its `main`. They are built together, in one crate: a crate for each
/// takes ten times as long.
macro_rules! shapes {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[path = $path]
            #[allow(dead_code, clippy::ptr_arg, clippy::unnecessary_owned_empty_strings)]
            mod $name;
        )*

        mod shapes {
            $(
                #[test]
                fn $name() {
                    super::in_a_process_of_its_own(super::$name::main);
                }
            )*
        }

        const SHAPES: &[&str] = &[$($path),*];
    };
}

shapes! {
    ambient_key: "pass/ambient-key.rs",
    async_trait: "pass/async-trait.rs",
    attributes_and_docs: "pass/attributes-and-docs.rs",
    complex_types: "pass/complex-types.rs",
    derive: "pass/derive.rs",
    detach: "pass/detach.rs",
    durations: "pass/durations.rs",
    every_argument: "pass/every-argument.rs",
    fingerprint: "pass/fingerprint.rs",
    free_function: "pass/free-function.rs",
    generated_names_in_the_body: "pass/generated-names-in-the-body.rs",
    generics: "pass/generics.rs",
    impl_trait_return: "pass/impl-trait-return.rs",
    instrument_above: "pass/instrument-above.rs",
    instrument_below: "pass/instrument-below.rs",
    instrument_with_async_trait: "pass/instrument-with-async-trait.rs",
    keys: "pass/keys.rs",
    lifetimes: "pass/lifetimes.rs",
    macro_rules: "pass/macro-rules.rs",
    methods: "pass/methods.rs",
    nested_function: "pass/nested-function.rs",
    not_send: "pass/not-send.rs",
    optional_key_missing: "pass/optional-key-missing.rs",
    patterns: "pass/patterns.rs",
    reject_without_serde: "pass/reject-without-serde.rs",
    renamed_crate: "pass/renamed-crate.rs",
    result_alias: "pass/result-alias.rs",
    send: "pass/send.rs",
    send_async_trait: "pass/send-async-trait.rs",
    send_axum: "pass/send-axum.rs",
    shadowed_names: "pass/shadowed-names.rs",
    trait_impl: "pass/trait-impl.rs",
    unsafe_function: "pass/unsafe-function.rs",
    ways_to_return: "pass/ways-to-return.rs",
    window_without_serde: "pass/window-without-serde.rs",
    with: "pass/with.rs",
}

/// Names of functions and the default instance belong to a process, and the files know nothing of each other.
fn in_a_process_of_its_own(main: fn()) {
    const ALONE: &str = "IDEMPOTENT_SHAPE_ALONE";
    if env::var_os(ALONE).is_some() {
        return main();
    }
    let test = thread::current().name().expect("tests run on threads with their names").to_owned();
    let alone = Command::new(env::current_exe().unwrap())
        .args([&test, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&alone.stdout);
    let errors = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.success() && printed.contains("1 passed"), "{printed}{errors}");
}

#[test]
fn every_shape_is_a_test() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("pass");
    let files: BTreeSet<_> = fs::read_dir(directory)
        .unwrap()
        .map(|file| format!("pass/{}", file.unwrap().file_name().display()))
        .collect();
    assert_eq!(files, SHAPES.iter().map(ToString::to_string).collect());
}
