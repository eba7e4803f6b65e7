//! Requires that a detached function owns what it takes: its body outlives its caller.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::{FnArg, GenericArgument, PathArguments, Type};

use crate::args::Args;
use crate::condition::Condition;
use crate::function::{self, Function, Shape};
use crate::mistake::{Mistakes, mistake};
use crate::source::{signature_source, source, type_source};

/// Refuses borrows in a detached function, whose body outlives its caller.
pub(super) fn validate(
    args: &Args,
    written: &TokenStream,
    function: &Function,
    mistakes: &mut Mistakes,
) {
    let Some(given) = args.detach.as_ref().filter(|given| given.ok().is_some_and(|flag| flag.0))
    else {
        return;
    };
    if args.transaction.is_some() {
        // Refused already, whatever is borrowed.
        return;
    }
    if let Shape::Boxed(_) = function.shape {
        let what =
            "`detach` does not go with `#[async_trait]`, whose futures borrow from the caller";
        mistakes.push(mistake(&given.name, what, detached(written, function)));
        return;
    }
    for input in &function.sig.inputs {
        if let Some(at) = function::borrow(input) {
            let what = "a detached body outlives its caller and cannot borrow from it";
            mistakes.push(mistake(at, what, by_value(input)));
        }
    }
}

/// Parameters whose types are type parameters or `impl Trait`, each with the condition that it can be sent to another
/// thread and the token that is to get the bound. Only those on which the body calls something: one that it leaves
/// alone need not be sent.
pub(crate) fn conditions(function: &Function) -> Vec<(Ident, Ident, Condition)> {
    let conditions = function.bindings().into_iter().filter_map(|binding| {
        let parameter = binding.name;
        let ty = function.type_of(&parameter)?;
        let generics = &function.sig.generics;
        let declared = generics.type_params().find(|declared| match ty {
            Type::Path(path) => path.path.is_ident(&declared.ident),
            _ => false,
        });
        let (at, bounds, written) = match (ty, declared) {
            (_, Some(declared)) => {
                (declared.ident.clone(), &declared.bounds, signature_source(declared))
            }
            (Type::ImplTrait(of), None) => (
                Ident::new("impl", of.impl_token.span),
                &of.bounds,
                format!("{parameter}: {}", type_source(ty)),
            ),
            _ => return None,
        };
        if !is_read_first(&parameter, function.user_body()) {
            return None;
        }
        let is_static = bounds.iter().any(|bound| source(bound) == "'static");
        let separator = if bounds.is_empty() { ": " } else { " + " };
        let lifetime = if is_static { "" } else { " + 'static" };
        let condition = Condition {
            what: format!(
                "a detached body goes to another thread, and `{}` is not `Send`",
                type_source(ty)
            ),
            label: "needs `Send + 'static`".to_owned(),
            help: format!("`{written}{separator}Send{lifetime}`; or remove `detach`"),
        };
        Some((parameter, at, condition))
    });
    conditions.collect()
}

/// Returns `true` if the first of these words in the tokens is followed by a dot, and so is no new variable. After a dot, it
/// is a field.
fn is_read_first(word: &Ident, tokens: TokenStream) -> bool {
    fn after(word: &Ident, tokens: TokenStream) -> Option<bool> {
        let mut tokens = tokens.into_iter().peekable();
        let mut is_field = false;
        while let Some(token) = tokens.next() {
            let is_dot = token.to_string() == ".";
            let found = match token {
                TokenTree::Group(group) => after(word, group.stream()),
                TokenTree::Ident(ident) if ident == *word && !is_field => {
                    Some(tokens.peek().is_some_and(|next| next.to_string() == "."))
                }
                _ => None,
            };
            if found.is_some() {
                return found;
            }
            is_field = is_dot;
        }
        None
    }
    after(word, tokens).unwrap_or(false)
}

/// Help for a method of an `#[async_trait]`: a free function with its arguments.
fn detached(written: &TokenStream, function: &Function) -> String {
    let name = &function.sig.ident;
    let mut bindings = function.bindings();
    let body = function.written_body();
    // The receiver is left out where the body does without it.
    let reads_self =
        body.as_deref().is_none_or(|body| body.contains("self") || body.contains("Self"));
    bindings.retain(|binding| reads_self || binding.name != "self");
    let names: Vec<_> = bindings.iter().map(|binding| binding.name.to_string()).collect();
    let typed = bindings.iter().map(|binding| {
        let ty = function.binding_type(&binding.name)?;
        (function::borrow_in(&ty).is_none())
            .then(|| format!("{}: {}", binding.name, type_source(&ty)))
    });
    match typed.collect::<Option<Vec<_>>>() {
        Some(typed) => format!(
            "a free function can be detached, and the method calls it, `{name}({}).await`: \
             `#[idempotent({})] async fn {name}({}) -> {}{}`",
            names.join(", "),
            source(written),
            typed.join(", "),
            type_source(&function.returns()),
            body.map_or_else(String::new, |body| format!(" {body}")),
        ),
        None => format!(
            "move the body to a free async function that takes its arguments by value, and put \
             `#[idempotent({})]` there",
            source(written)
        ),
    }
}

/// Help for a parameter that borrows.
fn by_value(input: &FnArg) -> String {
    let by_value = match input {
        FnArg::Receiver(_) => "take `self: std::sync::Arc<Self>`".to_owned(),
        FnArg::Typed(typed) => {
            let owned = function::owned(&typed.ty);
            let ty = owned.as_ref().unwrap_or(&typed.ty);
            match (without_lifetimes(ty), &owned) {
                (Some((name, ty)), _) => format!(
                    "let the fields of `{name}` own what they borrow, as a `String` or, shared without a copy, a \
                     `std::sync::Arc<str>`, and take `{}: {}`",
                    source(&typed.pat),
                    type_source(&ty)
                ),
                (None, Some(ty)) => {
                    format!("take it by value: `{}: {}`", source(&typed.pat), type_source(ty))
                }
                (None, None) => "take it by value".to_owned(),
            }
        }
    };
    format!("{by_value}, or remove `detach`")
}

/// The name of a type whose fields borrow, such as `Charge<'_>`, and that type without its lifetimes.
fn without_lifetimes(ty: &Type) -> Option<(Ident, Type)> {
    let Type::Path(path) = ty else { return None };
    let mut path = path.clone();
    let last = path.path.segments.last_mut()?;
    let PathArguments::AngleBracketed(arguments) = &mut last.arguments else { return None };
    let all = arguments.args.len();
    let rest = std::mem::take(&mut arguments.args).into_iter();
    arguments.args = rest.filter(|it| !matches!(it, GenericArgument::Lifetime(_))).collect();
    if arguments.args.len() == all {
        return None;
    }
    if arguments.args.is_empty() {
        last.arguments = PathArguments::None;
    }
    Some((last.ident.clone(), Type::Path(path)))
}
