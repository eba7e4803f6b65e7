//! Requires that the function returns a `Result`, with a value that can be kept.

mod help;
mod misplaced;

use proc_macro2::Ident;
use syn::{Expr, ReturnType, Type};

pub(super) use self::help::awaited;
use crate::args::Args;
use crate::condition::Condition;
use crate::function::{self, Function, Shape, nested, shown};
use crate::mistake::{Mistakes, mistake};
use crate::source::type_source;
use crate::value::Mode;

/// The error type in examples.
const ERROR: &str = "idempotent_runtime::Error";

/// Refuses return types that cannot be a `Result`, and values that cannot be kept for a replay.
pub(super) fn validate(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    if let Shape::Plain = function.shape {
        return;
    }
    let name = &function.sig.ident;
    let returns = function.returns();
    if let ReturnType::Default = function.sig.output {
        let what = format!("`{name}` returns nothing, but `#[idempotent]` needs a `Result`");
        let result = format!("Result<(), {ERROR}>");
        let whole = function.rewritten(&result, |last| {
            Some(
                last.map_or_else(|| "Ok(())".to_owned(), |last| format!("{}; Ok(())", shown(last))),
            )
        });
        let help = whole.map_or_else(
            || format!("`-> {result}`, with `Ok(())` at the end of the body and in each `return`"),
            |whole| format!("`{whole}`"),
        );
        mistakes.push(mistake(name, what, help));
        return;
    }
    if !may_be_result(&returns, function) {
        let help = help::as_result(function, &returns);
        mistakes.push(mistake(&returns, not_a_result(function), help));
        return;
    }
    let kept = match &args.mode {
        None => true,
        Some(given) => given.ok() == Some(&Mode::Strong),
    };
    if let Some(token) = function.returns_opaque().filter(|_| kept) {
        let what = "a value of type `impl Trait` cannot be kept for replay";
        let error = function::result_types(&returns)
            .map_or_else(|| ERROR.to_owned(), |(_, error)| type_source(error));
        let help = help::collected(function, &returns, &error).unwrap_or_else(|| {
            format!("name the type, as in `Result<String, {error}>`, or use `mode = \"reject\"`")
        });
        mistakes.push(mistake(token, what, help));
    }
}

/// Returns `true` for a path, which may name a `Result` or an alias of one.
///
/// A struct that the body ends in is none, whatever it is called: `Order { id }` is not the variant of an
/// enum.
fn may_be_result(returns: &Type, function: &Function) -> bool {
    match returns {
        Type::Group(group) => may_be_result(&group.elem, function),
        Type::Paren(paren) => may_be_result(&paren.elem, function),
        Type::Path(_) => match function.last_expression() {
            Some(Expr::Struct(made)) => made.path.get_ident() != last_name(returns),
            _ => true,
        },
        Type::Macro(_) | Type::Verbatim(_) => true,
        _ => false,
    }
}

/// The condition for a return type that is not called `Result`, and looks like something else: like a type of
/// the standard library, or like what the body ends in.
pub(crate) fn condition(function: &Function) -> Option<Condition> {
    let returns = function.returns();
    let Type::Path(path) = &returns else { return None };
    let name = last_name(&returns)?;
    let is_std =
        path.qself.is_none() && path.path.get_ident().is_some() && is_primitive(&name.to_string())
            || path.path.segments.len() == 1 && PLAIN.iter().any(|plain| name == plain);
    let is_made = || match function.last_expression() {
        Some(Expr::Call(call)) => match &*call.func {
            Expr::Path(path) => path.path.get_ident() == Some(name),
            _ => false,
        },
        _ => false,
    };
    let is_nested = || nested::meant(&returns).is_some() && name != "Result";
    (is_std || is_made() || is_nested()).then(|| Condition {
        what: not_a_result(function),
        label: "not a `Result`".to_owned(),
        help: help::as_result(function, &returns),
    })
}

/// A value with a `Result` or an `Outcome` in it at the wrong place, and the condition that it can be kept: it can if
/// all of it serializes.
pub(crate) fn value_condition(function: &Function) -> Option<(Type, Condition)> {
    let returns = function.returns();
    let (value, _) = function::result_types(&returns)?;
    let meant = type_source(&nested::meant(&returns)?);
    let outcome = match type_source(value).contains("Outcome") {
        true => ", and an `idempotent_runtime::Outcome` around the value alone",
        false => "",
    };
    let inner = match nested::has_result(value) {
        true => {
            "; or keep the inner `Result`, with `#[derive(serde::Serialize, serde::Deserialize)]` on its types"
        }
        false => "",
    };
    let what = format!(
        "`{}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
        type_source(value)
    );
    let condition = Condition {
        what,
        label: "its values cannot be stored and read back".to_owned(),
        help: format!(
            "`-> {meant}`: one `Result` goes around all{outcome}{inner}; or keep no value: \
             `mode = \"reject\"`"
        ),
    };
    Some((value.clone(), condition))
}

/// An error with the name of a type of the language, or beside a value with the name of an error, and the condition
/// that it can be made from a refusal.
pub(crate) fn error_condition(function: &Function) -> Option<(Type, Condition)> {
    let returns = function.returns();
    let (value, error) = function::result_types(&returns)?;
    if function::is_opaque(&returns) {
        return None;
    }
    let condition = Condition {
        what: format!(
            "`{}` cannot be made from `{ERROR}`, which a refused call gets",
            type_source(error)
        ),
        label: format!("needs `From<{ERROR}>`"),
        help: help::swapped(function, value, error)
            .or_else(|| help::with_text_error(function, value, error))?,
    };
    Some((error.clone(), condition))
}

fn not_a_result(function: &Function) -> String {
    format!("`{}` does not return a `Result`", function.sig.ident)
}

fn last_name(ty: &Type) -> Option<&Ident> {
    last_segment(ty).map(|last| &last.ident)
}

fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// Types of the standard library that are in every prelude.
const PLAIN: [&str; 4] = ["String", "Vec", "Option", "Box"];

pub(crate) fn is_primitive(name: &str) -> bool {
    [
        "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "str", "u8",
        "u16", "u32", "u64", "u128", "usize",
    ]
    .contains(&name)
}
