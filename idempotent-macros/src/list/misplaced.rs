//! Values that belong to another argument than the one that they were given to.

use proc_macro2::Ident;
use syn::{Expr, Lit};

use super::neighbours::Neighbours;
use super::unknown::{accepted, refusal};
use crate::mistake::mistake;
use crate::source::source;
use crate::value::literal;

/// The error for a value that tells which argument was meant.
pub(super) fn misplaced(
    name: &Ident,
    value: &Expr,
    parameters: &[String],
    neighbours: &Neighbours,
) -> Option<syn::Error> {
    let written = source(value);
    match name.to_string().as_str() {
        "abandon" if is_time(value) => {
            let lease = accepted("lease", &written)?;
            let what =
                format!("`{name}` says what happens to the key of a crashed process, and not when");
            let help = format!("`lease = {lease}` is the time after which the key is free");
            Some(mistake(value, what, neighbours.put_into(&help)))
        }
        "bind_payload_after_failure"
            if is_payload(value, parameters)
                && refusal("fingerprint", &written).is_none()
                && neighbours.value("fingerprint").is_none() =>
        {
            let what = format!("`{name}` is a flag, and `fingerprint` has the payload");
            Some(mistake(value, what, format!("`fingerprint = {written}, {name}`")))
        }
        _ => None,
    }
}

/// Returns `true` for a number, and for text that begins with one.
fn is_time(value: &Expr) -> bool {
    match literal(value) {
        Some(Lit::Str(text)) => text.value().starts_with(|c: char| c.is_ascii_digit()),
        Some(Lit::Int(_)) => true,
        Some(_) => false,
        None => matches!(value, Expr::Call(_)),
    }
}

/// Returns `true` for a path from a parameter, for several, and for a template.
fn is_payload(value: &Expr, parameters: &[String]) -> bool {
    let text = match literal(value) {
        Some(Lit::Str(text)) => text.value(),
        Some(_) => return false,
        None => source(value),
    };
    let start: String = text
        .trim_start_matches('(')
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    text.contains('{') || start == "self" || parameters.contains(&start)
}
