//! Help for return types with a `Result` or an `Outcome` at the wrong place: the function with the one that is meant.

use syn::{Expr, Type};

use super::last_segment;
use crate::function::{self, Function, nested, shown};
use crate::source::type_source;

/// Help for a function whose `Result` or `Outcome` is at the wrong place.
pub(super) fn help(function: &Function, returns: &Type, meant: &Type) -> String {
    let (value, _) = function::written_types(meant);
    let is_value = value == Some(returns);
    let result = type_source(meant);
    let whole = function.rewritten(&result, |last| match last? {
        last if is_value => Some(format!("Ok({})", shown(last))),
        last if nested::has_result(returns) => in_ok(last, returns),
        _ => None,
    });
    match (whole, value) {
        (Some(whole), _) => format!("`{whole}`"),
        (None, Some(value)) if !is_value => format!(
            "`-> {result}`, with `Ok(value)` at the end of the body and in each `return`, where `value` is of type `{}`",
            type_source(value)
        ),
        (None, _) => {
            format!("`-> {result}`, with `Ok(value)` at the end of the body and in each `return`")
        }
    }
}

/// The expression of a type with a `Result` inside, as a `Result` of that type: `Ok(Some(value))` for
/// `Some(Ok(value))`.
fn in_ok(expr: &Expr, returns: &Type) -> Option<String> {
    match expr {
        Expr::Call(call) if call.args.len() == 1 && makes_value(&call.func) => {
            let make = shown(&call.func);
            inside_out(call.args.first()?, |value| format!("{make}({value})"))
        }
        Expr::MethodCall(call) if call.method == "into" => {
            inside_out(&call.receiver, |value| format!("{value}.into()"))
        }
        value if last_segment(returns)?.ident == "Option" => {
            Some(format!("{}.transpose()", shown(value)))
        }
        _ => None,
    }
}

/// Returns `true` for `Some` and for constructors with the usual names.
fn makes_value(function: &Expr) -> bool {
    let Expr::Path(path) = function else { return false };
    path.path
        .segments
        .last()
        .is_some_and(|last| ["Some", "from", "new"].iter().any(|it| last.ident == it))
}

/// A `Result` of what `make` makes of the value in `result`.
fn inside_out(result: &Expr, make: impl Fn(&str) -> String) -> Option<String> {
    let made = match result {
        Expr::Call(call) if call.args.len() == 1 => Some((shown(&call.func), call.args.first()?)),
        _ => None,
    };
    Some(match made.as_ref().map(|(name, value)| (name.as_str(), value)) {
        Some(("Ok", value)) => format!("Ok({})", make(&shown(value))),
        Some(("Err", _)) => shown(result),
        _ => format!("Ok({})", make(&format!("{}?", shown(result)))),
    })
}
