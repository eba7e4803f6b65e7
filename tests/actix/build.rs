//! Takes the program out of the page.

use std::path::Path;
use std::{env, fs};

const PAGE: &str = "../../idempotent-http/guide/actix-web.md";

fn main() {
    println!("cargo::rerun-if-changed={PAGE}");
    let page = fs::read_to_string(PAGE).expect("the page");
    let mut programs = page.split("```rust,ignore\n").skip(1);
    let program = programs.next().and_then(|it| it.split("\n```").next()).expect("a program");
    assert!(programs.next().is_none(), "the page has one program");
    let folder = env::var("OUT_DIR").expect("OUT_DIR");
    fs::write(Path::new(&folder).join("program.rs"), program).expect("OUT_DIR can be written to");
}
