//! Requires that the function returns a `Result`, with a value that can be kept.

use syn::{GenericArgument, PathArguments, ReturnType, Type};

use crate::args::Args;
use crate::function::{self, Function, Shape};
use crate::mistake::{Mistakes, mistake};
use crate::source::type_source;
use crate::value::Mode;

/// Refuses return types that cannot be a `Result`, and values that cannot be kept for a replay.
pub(super) fn validate(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    if let Shape::Plain = function.shape {
        return;
    }
    let name = &function.sig.ident;
    let returns = function.returns();
    if let ReturnType::Default = function.sig.output {
        let what = format!("`{name}` returns nothing, but `#[idempotent]` needs a `Result`");
        mistakes.push(mistake(name, what, "`-> Result<(), idempotent_runtime::Error>`"));
        return;
    }
    if !may_be_result(&returns) {
        let what = format!("`{name}` does not return a `Result`");
        let help = match &returns {
            Type::ImplTrait(_) if function.future_output().is_some() => {
                let output = function.future_output().map(|ty| type_source(&ty));
                format!("the function is async already: `-> {}`", output.unwrap_or_default())
            }
            Type::ImplTrait(_) => {
                "return the value, and let the handler make a response of it: `-> Result<T, \
                 idempotent_runtime::Error>`, with the type of the value for `T`"
                    .to_owned()
            }
            ty if is_response(ty) => {
                let value = answer_in(ty).map_or_else(|| "()".to_owned(), |ty| type_source(&ty));
                format!(
                    "return the value, and let the handler make a response of it: `-> \
                     Result<{value}, idempotent_runtime::Error>`"
                )
            }
            ty => format!("`-> Result<{}, idempotent_runtime::Error>`", type_source(ty)),
        };
        mistakes.push(mistake(&returns, what, help));
        return;
    }
    let answers = function::result_types(&returns);
    if let Some((_, error)) = answers
        && let Some(parameter) = function.unbounded(error)
    {
        let what = format!("`{parameter}` cannot be made from the error of a refused call");
        let help = format!("add a bound: `{parameter}: From<idempotent_runtime::Error>`");
        mistakes.push(mistake(error, what, help));
    }
    let kept = match &args.mode {
        None => true,
        Some(given) => given.ok() == Some(&Mode::Strong),
    };
    if !kept {
        return;
    }
    if let Some((value, _)) = answers
        && let Some(parameter) = function.unbounded(value)
    {
        let what = format!("a value of type `{parameter}` cannot be kept for replay");
        let help = format!(
            "add bounds: `{parameter}: serde::Serialize + serde::de::DeserializeOwned`, or use `mode = \
             \"reject\"`"
        );
        mistakes.push(mistake(value, what, help));
    } else if let Some(token) = function.returns_opaque() {
        let what = "a value of type `impl Trait` cannot be kept for replay";
        let help = "name the type, as in `Result<Order, Error>`, or use `mode = \"reject\"`";
        mistakes.push(mistake(token, what, help));
    } else if let Some(token) = function::borrowed_value(&returns) {
        let what = "a borrowed value cannot be kept for replay";
        let owned = answers.and_then(|(value, error)| {
            Some(format!(
                ": `Result<{}, {}>`",
                type_source(&function::owned(value)?),
                type_source(error)
            ))
        });
        let owned = owned.unwrap_or_default();
        let help = format!("return an owned value{owned}, or use `mode = \"reject\"`");
        mistakes.push(mistake(token, what, help));
    }
}

/// Returns `true` for a tuple with a status or `Json` in it, as handlers of axum return them.
fn is_response(ty: &Type) -> bool {
    match ty {
        Type::Tuple(tuple) => tuple.elems.iter().any(|member| {
            last_segment(member)
                .is_some_and(|last| matches!(&*last.ident.to_string(), "StatusCode" | "Json"))
        }),
        _ => false,
    }
}

/// `T` of the `Json<T>` in a tuple.
fn answer_in(ty: &Type) -> Option<Type> {
    let Type::Tuple(tuple) = ty else { return None };
    tuple.elems.iter().filter_map(last_segment).find_map(|last| match &last.arguments {
        PathArguments::AngleBracketed(arguments) if last.ident == "Json" => {
            match arguments.args.first()? {
                GenericArgument::Type(inner) => Some(inner.clone()),
                _ => None,
            }
        }
        _ => None,
    })
}

fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// Returns `true` for a path, which may name a `Result` or an alias of one.
fn may_be_result(returns: &Type) -> bool {
    match returns {
        Type::Group(group) => may_be_result(&group.elem),
        Type::Paren(paren) => may_be_result(&paren.elem),
        Type::Path(_) | Type::Macro(_) | Type::Verbatim(_) => true,
        _ => false,
    }
}
