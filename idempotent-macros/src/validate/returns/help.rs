//! Help for return types: the function with another one, and with the end of the body that goes with it.

use quote::quote;
use syn::{Expr, GenericArgument, PathArguments, Type};

use super::{ERROR, is_primitive, last_segment, misplaced};
use crate::form::Form;
use crate::function::{self, Function, nested, shown};
use crate::source::type_source;

/// Help with another `Result` for a function that ends in `Ok(value)`: the whole function, in which
/// `end` has made its last expression of the value, or the return type and a `remark`.
fn rewritten(
    function: &Function,
    result: &str,
    end: impl Fn(&Expr) -> String,
    remark: &str,
) -> String {
    let whole = function.rewritten(result, |last| match last? {
        Expr::Call(call) if call.args.len() == 1 && shown(&call.func) == "Ok" => {
            call.args.first().map(&end)
        }
        _ => None,
    });
    match whole {
        Some(whole) => format!("`{whole}`"),
        None => format!("`-> {result}`, {remark}"),
    }
}

/// Help for a function that returns no `Result`.
pub(super) fn as_result(function: &Function, returns: &Type) -> String {
    if let Type::ImplTrait(_) = returns
        && let Some(output) = function.future_output()
    {
        let output = type_source(&output);
        let whole = function.rewritten(&output, |last| Some(awaited(last?)));
        return match whole {
            Some(whole) => format!("the function is async already: `{whole}`"),
            None => {
                format!("the function is async already: `-> {output}`, with `.await` on the future")
            }
        };
    }
    if let Some(meant) = nested::meant(returns) {
        return misplaced::help(function, returns, &meant);
    }
    let last = function.last_expression();
    let response = last.as_ref().and_then(|last| response(last, function, returns));
    let (value, end) = match (response, returns) {
        (Some((value, end)), _) => (value, Some(end)),
        (None, Type::ImplTrait(_)) => ("String".to_owned(), None),
        (None, ty) if is_response(ty) => {
            (answer_in(ty).map_or_else(|| "()".to_owned(), |ty| type_source(&ty)), None)
        }
        (None, ty) => match (function::owned(ty), own_method(ty)) {
            (Some(owned), Some(method)) => {
                let end = last.as_ref().map(|last| match last {
                    Expr::Reference(_) => format!("({}).{method}()", shown(last)),
                    last => format!("{}.{method}()", shown(last)),
                });
                (type_source(&owned), end)
            }
            _ => (type_source(ty), last.as_ref().map(shown)),
        },
    };
    let result = format!("Result<{value}, {ERROR}>");
    let whole = function.rewritten(&result, |_| end.as_ref().map(|end| format!("Ok({end})")));
    let help = match whole {
        Some(whole) => format!("`{whole}`"),
        None => {
            format!("`-> {result}`, with `Ok(value)` at the end of the body and in each `return`")
        }
    };
    if matches!(returns, Type::ImplTrait(_)) || is_response(returns) {
        return format!("return the value, and let the handler make a response of it: {help}");
    }
    match Form::of(returns, function) {
        Form::Object | Form::Stream => {
            format!("`mode = \"reject\"`, which keeps no value, and {help}")
        }
        _ => help,
    }
}

/// Help for a function whose value is called an error, and its error is not: the two change places.
pub(super) fn swapped(function: &Function, value: &Type, error: &Type) -> Option<String> {
    let is_error =
        |ty: &Type| last_segment(ty).is_some_and(|last| last.ident.to_string().ends_with("Error"));
    if !is_error(value) || is_error(error) {
        return None;
    }
    let result = format!("Result<{}, {}>", type_source(error), type_source(value));
    let whole = function.rewritten(&result, |last| {
        let Expr::Call(call) = last? else { return None };
        let inside = shown(call.args.first()?);
        match shown(&call.func).as_str() {
            "Ok" => Some(format!("Err({inside})")),
            "Err" => Some(format!("Ok({inside})")),
            _ => None,
        }
    });
    let help = match whole {
        Some(whole) => format!("`{whole}`"),
        None => format!("`-> {result}`, with `Ok` and `Err` swapped in the body"),
    };
    Some(format!(
        "the value comes first, and the error second: {help}; otherwise, `From<{ERROR}>` for `{}`",
        type_source(error)
    ))
}

/// Help for a function whose error is text, a number or nothing: the same with a `String`.
pub(super) fn with_text_error(function: &Function, value: &Type, error: &Type) -> Option<String> {
    let method = match error {
        Type::Reference(_) => own_method(error).filter(|method| *method == "to_owned")?,
        Type::Tuple(tuple) if tuple.elems.is_empty() => "",
        Type::Path(path) if is_primitive(&path.path.get_ident()?.to_string()) => "to_string",
        _ => return None,
    };
    let text = |error: &str| match method {
        "" => "\"failed\".to_owned()".to_owned(),
        method => format!("{error}.{method}()"),
    };
    let result = format!("Result<{}, String>", type_source(value));
    let whole = function.rewritten(&result, |last| {
        let Expr::Call(call) = last? else { return None };
        match shown(&call.func).as_str() {
            "Ok" => Some(shown(last?)),
            "Err" => Some(format!("Err({})", text(&shown(call.args.first()?)))),
            _ => None,
        }
    });
    let help = match whole {
        Some(whole) => format!("`{whole}`"),
        None => format!("`-> {result}`, with `Err({})` in place of `Err(error)`", text("error")),
    };
    let error = type_source(error);
    Some(format!(
        "{help}; or an error of your own, as `Err(CallError::Failed(error))`: `#[derive(Debug)] enum CallError {{ Failed({error}), Refused({ERROR}) }}`, with \
         `impl From<{ERROR}> for CallError {{ fn from(error: {ERROR}) -> Self {{ Self::Refused(error) }} }}`"
    ))
}

/// The method that makes an owned value of text or of a slice.
fn own_method(ty: &Type) -> Option<&'static str> {
    let Type::Reference(reference) = ty else { return None };
    match &*reference.elem {
        // The elements stay what they are only if they own what they have.
        Type::Slice(slice) => function::owned(&slice.elem).is_none().then_some("to_vec"),
        Type::Path(path) if path.path.is_ident("str") => Some("to_owned"),
        _ => None,
    }
}

/// The type and the value in the response that a handler ends in: `Json(id)`, `(status, Json(id))`.
fn response(last: &Expr, function: &Function, returns: &Type) -> Option<(String, String)> {
    let json = match last {
        Expr::Tuple(tuple) => tuple.elems.iter().find(|member| in_json(member).is_some())?,
        last => last,
    };
    let value = in_json(json)?;
    let named = answer_in(returns).map(|ty| type_source(&ty));
    let ty = named.or_else(|| type_of(value, function))?;
    Some((ty, shown(value)))
}

/// `value` of `Json(value)`.
fn in_json(expr: &Expr) -> Option<&Expr> {
    let Expr::Call(call) = expr else { return None };
    let Expr::Path(path) = &*call.func else { return None };
    let is_json = path.path.segments.last().is_some_and(|last| last.ident == "Json");
    call.args.first().filter(|_| is_json && call.args.len() == 1)
}

/// The type of an expression, if it can be seen: of a parameter, a struct or text.
fn type_of(expr: &Expr, function: &Function) -> Option<String> {
    match expr {
        Expr::Struct(made) => Some(shown(&made.path)),
        Expr::Path(path) => {
            let name = path.path.get_ident()?;
            function.binding_type(name).map(|ty| type_source(&ty))
        }
        Expr::Macro(call) if call.mac.path.is_ident("format") => Some("String".to_owned()),
        _ => None,
    }
}

/// The last expression of a function that returns a future, as that of an async function.
pub(crate) fn awaited(last: &Expr) -> String {
    let inner = match last {
        Expr::Call(call) if call.args.len() == 1 && shown(&call.func).ends_with("Box::pin") => {
            call.args.first().unwrap_or(last)
        }
        last => last,
    };
    match inner {
        Expr::Async(block) => {
            let stmts = &block.block.stmts;
            shown(&quote!(#(#stmts)*))
        }
        future => format!("{}.await", shown(future)),
    }
}

/// Help for a function that returns an iterator: its items, in a `Vec`.
pub(super) fn collected(function: &Function, returns: &Type, error: &str) -> Option<String> {
    let item = item(returns)?;
    let (item, end) = match function::owned(&item) {
        Some(owned) if owned == syn::parse_quote!(String) => {
            (owned, ".map(str::to_owned).collect()")
        }
        Some(owned) if matches!(item, Type::Reference(_)) => (owned, ".cloned().collect()"),
        _ => (item, ".collect()"),
    };
    let result = format!("Result<Vec<{}>, {error}>", type_source(&item));
    let whole = |value: &Expr| format!("Ok({}{end})", shown(value));
    Some(rewritten(function, &result, whole, &format!("with `{end}` on the value")))
}

/// `T` of `impl Iterator<Item = T>`.
fn item(returns: &Type) -> Option<Type> {
    struct Find(Option<Type>);
    impl syn::visit::Visit<'_> for Find {
        fn visit_assoc_type(&mut self, assoc: &syn::AssocType) {
            if assoc.ident == "Item" {
                self.0.get_or_insert(assoc.ty.clone());
            }
        }
    }
    let mut find = Find(None);
    syn::visit::Visit::visit_type(&mut find, returns);
    find.0
}

/// Returns `true` for `Json`, and a tuple with it or a status in it, as handlers of axum return them.
fn is_response(ty: &Type) -> bool {
    match ty {
        Type::Path(_) => last_segment(ty).is_some_and(|last| last.ident == "Json"),
        Type::Tuple(tuple) => tuple.elems.iter().any(|member| {
            last_segment(member)
                .is_some_and(|last| matches!(&*last.ident.to_string(), "StatusCode" | "Json"))
        }),
        _ => false,
    }
}

/// `T` of `Json<T>`, or of that in a tuple.
fn answer_in(ty: &Type) -> Option<Type> {
    let members: Vec<&Type> = match ty {
        Type::Tuple(tuple) => tuple.elems.iter().collect(),
        ty => vec![ty],
    };
    members.into_iter().filter_map(last_segment).find_map(|last| match &last.arguments {
        PathArguments::AngleBracketed(arguments) if last.ident == "Json" => {
            match arguments.args.first()? {
                GenericArgument::Type(inner) => Some(inner.clone()),
                _ => None,
            }
        }
        _ => None,
    })
}
