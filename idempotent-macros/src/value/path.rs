//! Arguments that name something: a function, the runtime crate, a parameter, an instance.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprClosure, ExprPath, Lit, Path};

use super::{Length, Value, literal};
use crate::args;
use crate::key::quoted;
use crate::methods::renamed;
use crate::mistake::mistake;
use crate::source::source;
use crate::synonyms::snake_case;
use crate::words::{ERROR_TYPE, VALUE_TYPE};

/// A function: `OrderError::is_final`, quoted or not.
#[derive(Debug)]
pub(crate) struct FunctionPath(pub(crate) ExprPath);

impl Value for FunctionPath {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        let path = match (value, literal(value)) {
            (Expr::Path(path), _) => Some(path.clone()),
            (_, Some(Lit::Str(text))) => quoted::parse(text).ok(),
            _ => None,
        };
        let written = path.as_ref().and_then(|path| path.path.get_ident()).map(ToString::to_string);
        if name == "final_errors"
            && let Some("all" | "any" | "always" | "every" | "none" | "never") = written.as_deref()
            && matches!(value, Expr::Lit(_))
        {
            let what = format!("`{name}` takes the path of a function");
            let is_final =
                if matches!(written.as_deref(), Some("none" | "never")) { "false" } else { "true" };
            return Err(mistake(value, what, final_errors(ERROR_TYPE, is_final)));
        }
        if let Some(path) = &path
            && let Some(error) = not_a_function(name, path)
        {
            return Err(error);
        }
        path.map(Self).ok_or_else(|| {
            let what = match value {
                Expr::Lit(_) | Expr::Array(_) | Expr::Binary(_) if name == "final_errors" => {
                    let what = format!("`{name}` takes the path of a function");
                    return mistake(value, what, final_errors(ERROR_TYPE, &pattern_of(value)));
                }
                Expr::Closure(_) => format!("`{name}` takes the path of a function, not a closure"),
                Expr::Call(call) if is_variant(&call.func) && name == "final_errors" => {
                    let what = format!("`{name}` takes the path of a function, not a pattern");
                    return mistake(value, what, final_errors(ERROR_TYPE, &pattern_of(&call.func)));
                }
                Expr::Macro(call) if call.mac.path.is_ident("matches") => {
                    let what = format!("`{name}` takes the path of a function");
                    return mistake(value, what, final_errors(ERROR_TYPE, &of_self(&call.mac)));
                }
                Expr::Call(_) => format!("`{name}` takes the path of a function, not a call"),
                _ => format!("`{name}` takes the path of a function"),
            };
            mistake(value, what, in_place_of(name, value))
        })
    }
}

/// Help for something that is not the path of a function.
fn in_place_of(name: &Ident, value: &Expr) -> String {
    match value {
        Expr::Closure(closure) => match hook(name, Some(closure)) {
            Some(help) => help,
            None => example(name),
        },
        _ if name == "expire_with" && is_duration(value) => {
            format!("the same for all values: `expire = {}`", source(value))
        }
        Expr::Call(call) if !call.args.is_empty() => {
            let call = source(call);
            match name.to_string().as_str() {
                "final_errors" => final_errors(ERROR_TYPE, &format!("{call}(self)")),
                "expire_with" => format!(
                    "`expire_with = retention`, with `fn retention(value: &{VALUE_TYPE}) -> std::time::Duration {{ \
                     {call}(value) }}`"
                ),
                _ => format!(
                    "`on_replay = count_replay`, with `fn count_replay(value: &{VALUE_TYPE}) {{ {call}(value); }}`"
                ),
            }
        }
        Expr::Call(call) if matches!(&*call.func, Expr::Path(_)) => {
            format!("`{name} = {}`", source(&call.func))
        }
        _ => hook(name, None).unwrap_or_else(|| example(name)),
    }
}

/// `matches!(self, ..)` for `matches!(error, ..)`.
fn of_self(mac: &syn::Macro) -> String {
    let rest = mac.tokens.clone().into_iter().skip_while(|token| token.to_string() != ",");
    format!("matches!(self{})", source(&rest.collect::<TokenStream>()))
}

/// Returns `true` for the path of a variant, which begins with a capital letter.
fn is_variant(expr: &Expr) -> bool {
    let Expr::Path(path) = expr else { return false };
    let last = path.path.segments.last();
    last.is_some_and(|last| last.ident.to_string().starts_with(char::is_uppercase))
}

/// Returns `true` for a value that `expire` takes.
fn is_duration(value: &Expr) -> bool {
    Length::read(&Ident::new("expire", proc_macro2::Span::call_site()), value).is_ok()
}

/// Help for `name`: the function, with the body of the closure that was given in its place.
fn hook(name: &Ident, closure: Option<&ExprClosure>) -> Option<String> {
    let body = |parameter: Option<&str>| {
        let closure = closure.filter(|closure| closure.inputs.len() == 1)?;
        let pattern = match closure.inputs.first()? {
            syn::Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        let syn::Pat::Ident(old) = pattern else { return None };
        let old = &old.ident;
        let new = parameter.map_or_else(|| old.to_string(), str::to_owned);
        Some((source(&renamed(closure.body.to_token_stream(), &old.to_string(), &new)), new))
    };
    let hook =
        |default: &str| body(None).unwrap_or_else(|| (default.to_owned(), "value".to_owned()));
    match name.to_string().as_str() {
        "final_errors" => {
            let body = body(Some("self")).map(|(body, _)| body);
            Some(final_errors(ERROR_TYPE, body.as_deref().unwrap_or("true")))
        }
        "expire_with" => {
            let (body, value) = hook("std::time::Duration::from_secs(300)");
            Some(format!(
                "`expire_with = retention`, with `fn retention({value}: &{VALUE_TYPE}) -> \
                 std::time::Duration {{ {body} }}`"
            ))
        }
        "on_replay" => {
            let (body, value) = hook("println!(\"replayed {value:?}\")");
            let body = body + ";";
            Some(format!(
                "`on_replay = count_replay`, with `fn count_replay({value}: &{VALUE_TYPE}) {{ {body} }}`"
            ))
        }
        _ => None,
    }
}

/// The error for the path of a variant, which is in camel case. A constant may be a pointer to a function.
fn not_a_function(name: &Ident, path: &ExprPath) -> Option<syn::Error> {
    let last = &path.path.segments.last()?.ident;
    if !is_camel_case(&last.to_string()) {
        return None;
    }
    let what =
        format!("`{name}` takes the path of a function, and `{last}` is not the name of one");
    let owner = path.path.segments.iter().rev().nth(1).map(|owner| owner.ident.to_string());
    let owner = owner.as_deref().unwrap_or(ERROR_TYPE);
    let help = match name == "final_errors" {
        true => final_errors(owner, &format!("matches!(self, Self::{last} {{ .. }})")),
        false => hook(name, None).unwrap_or_else(|| example(name)),
    };
    Some(mistake(path, what, help))
}

/// Help for `final_errors`: a function of the error type, and its body.
pub(crate) fn final_errors(owner: &str, body: &str) -> String {
    format!(
        "`final_errors = {owner}::is_final`, with `impl {owner} {{ fn is_final(&self) -> bool {{ \
         {body} }} }}` and `#[derive(serde::Serialize, serde::Deserialize)]` on `{owner}`"
    )
}

/// An expression that is true for the variants that `value` names: `[SoldOut, Closed]`,
/// `"SoldOut(_)"`. Without names, for all.
fn pattern_of(value: &Expr) -> String {
    let text = match literal(value) {
        Some(Lit::Str(text)) => text.value(),
        _ => source(value),
    };
    // `{ .. }` matches a variant of any kind.
    let variants: Vec<String> = text
        .trim_matches(['[', ']'])
        .split([',', '|'])
        .filter_map(|piece| {
            let piece = piece.trim().trim_matches('"');
            let path = piece.split(['(', '{', ' ']).next()?;
            let last = path.rsplit("::").next()?;
            last.starts_with(char::is_uppercase).then(|| format!("Self::{last} {{ .. }}"))
        })
        .collect();
    match variants.is_empty() {
        true => "true".to_owned(),
        false => format!("matches!(self, {})", variants.join(" | ")),
    }
}

/// The runtime crate, quoted or not.
#[derive(Debug)]
pub(crate) struct RuntimePath(pub(crate) Path);

impl Value for RuntimePath {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        let path = match (value, literal(value)) {
            (Expr::Path(path), _) if path.qself.is_none() => Some(path.path.clone()),
            (_, Some(Lit::Str(text))) => quoted::parse(text).ok(),
            _ => None,
        };
        path.map(Self).ok_or_else(|| {
            mistake(value, format!("`{name}` takes the path of the runtime crate"), example(name))
        })
    }
}

/// A parameter of the function, quoted or not.
#[derive(Debug)]
pub(crate) struct Parameter(pub(crate) Ident);

impl Value for Parameter {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        let parameter = match (value, literal(value)) {
            (Expr::Path(path), _) if path.qself.is_none() => path.path.get_ident().cloned(),
            (_, Some(Lit::Str(text))) => quoted::parse(text).ok(),
            _ => None,
        };
        parameter.map(Self).ok_or_else(|| {
            let word = match (value, literal(value)) {
                (_, Some(Lit::Str(text))) => Some(text.value()),
                (Expr::Path(path), _) => {
                    path.path.segments.last().map(|last| last.ident.to_string())
                }
                _ => None,
            };
            if let Some(error) = word.and_then(|word| setting(name, value, &word)) {
                return error;
            }
            let help = match value {
                Expr::Reference(reference) => format!("`{name} = {}`", source(&reference.expr)),
                Expr::Unary(unary) => format!("`{name} = {}`", source(&unary.expr)),
                _ => example(name),
            };
            mistake(value, format!("`{name}` takes the name of a parameter"), help)
        })
    }
}

/// The error for a propagation or an isolation in the place of a parameter, as other frameworks set them.
pub(crate) fn setting(name: &Ident, at: impl ToTokens, word: &str) -> Option<syn::Error> {
    const SETTINGS: [&str; 11] = [
        "mandatory",
        "nested",
        "never",
        "not_supported",
        "read_committed",
        "read_uncommitted",
        "repeatable_read",
        "required",
        "requires_new",
        "serializable",
        "supports",
    ];
    let snake = snake_case(&word.replace(' ', "_"));
    if !SETTINGS.contains(&snake.as_str()) {
        return None;
    }
    let what = format!(
        "`{name}` takes the name of a parameter, and `{word}` is a setting of transactions"
    );
    let help = format!(
        "remove `{name}`: the record is then written on its own; `{name}` writes it in a transaction that the caller \
         begins and commits"
    );
    Some(mistake(at, what, help))
}

/// Any expression that is not a literal.
#[derive(Debug)]
pub(crate) struct Bare(pub(crate) Expr);

impl Value for Bare {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        match literal(value) {
            Some(Lit::Str(text)) => {
                let help = match text.parse::<Expr>() {
                    Ok(_) if STORES.contains(&text.value().to_lowercase().as_str()) => {
                        WITH.to_owned()
                    }
                    Ok(_) => format!("`{name} = {}`", text.value()),
                    Err(_) => WITH.to_owned(),
                };
                Err(mistake(value, format!("`{name}` takes an expression without quotes"), help))
            }
            Some(_) => {
                let what = format!("`{name}` takes an expression that borrows as `Idempotency`");
                Err(mistake(value, what, WITH))
            }
            None => Ok(Self(value.clone())),
        }
    }
}

/// Help for something that is not an instance.
const WITH: &str = "`with = self.idempotency`, with a field `idempotency: idempotent_runtime::Idempotency`; or leave `with` out, and call `idempotent_runtime::Idempotency::install` once";

/// Stores that other libraries choose by a word.
const STORES: [&str; 8] =
    ["redis", "memory", "postgres", "postgresql", "mysql", "sqlite", "valkey", "database"];

/// Returns `true` for the name of a type or a variant, such as `SoldOut`.
fn is_camel_case(name: &str) -> bool {
    name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
}

fn example(name: &Ident) -> String {
    let name = name.to_string();
    let example = args::find(&name).map_or(name.as_str(), |argument| argument.example);
    format!("`{example}`")
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens, format_ident};
    use syn::parse_quote;

    use super::*;

    fn function(value: Expr) -> Result<String, String> {
        FunctionPath::read(&format_ident!("final_errors"), &value)
            .map(|path| path.0.to_token_stream().to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn functions_are_paths_quoted_or_not() {
        assert_eq!(function(parse_quote!(is_final)).unwrap(), "is_final");
        assert_eq!(function(parse_quote!("a::is_final")).unwrap(), "a :: is_final");
        assert_eq!(function(parse_quote!(<E as Final>::check)).unwrap(), "< E as Final > :: check");
    }

    #[test]
    fn closures_calls_and_numbers_are_not_functions() {
        assert_eq!(
            function(parse_quote!(|e: &E| matches!(e, E::Final))).unwrap_err(),
            "`final_errors` takes the path of a function, not a closure\n\
             help: `final_errors = OrderError::is_final`, with `impl OrderError { fn is_final(&self) -> bool { \
             matches!(self, E::Final) } }` and `#[derive(serde::Serialize, serde::Deserialize)]` on `OrderError`"
        );
        assert_eq!(
            function(parse_quote!(check())).unwrap_err(),
            "`final_errors` takes the path of a function, not a call\nhelp: `final_errors = check`"
        );
        assert!(function(parse_quote!(3)).is_err());
        assert!(function(parse_quote!("a b")).is_err());
    }

    #[test]
    fn a_duration_in_place_of_a_function_is_answered_with_expire() {
        let help = |value: Expr| {
            let read = FunctionPath::read(&format_ident!("expire_with"), &value);
            read.unwrap_err().to_string().split_once("\nhelp: ").unwrap().1.to_owned()
        };
        assert_eq!(help(parse_quote!("10m")), "the same for all values: `expire = \"10m\"`");
        assert_eq!(help(parse_quote!(300)), "the same for all values: `expire = 300`");
        assert!(
            help(parse_quote!(|v| v.ttl))
                .ends_with("with `fn retention(v: &Order) -> std::time::Duration { v.ttl }`")
        );
    }

    #[test]
    fn a_constant_may_be_a_function() {
        assert_eq!(function(parse_quote!(rules::IS_FINAL)).unwrap(), "rules :: IS_FINAL");
    }

    #[test]
    fn variants_are_answered_with_a_function_that_matches_them() {
        let body = |value: Expr| {
            let error = function(value).unwrap_err();
            let (_, help) = error.split_once("-> bool { ").unwrap();
            help.split_once(" } }`").unwrap().0.to_owned()
        };
        let sold_out = "matches!(self, Self::SoldOut { .. })";
        assert_eq!(body(parse_quote!(true)), "true");
        assert_eq!(body(parse_quote!("SoldOut(_)")), sold_out);
        assert_eq!(body(parse_quote!("OrderError::SoldOut")), sold_out);
        assert_eq!(body(parse_quote!(OrderError::SoldOut)), sold_out);
        let both = "matches!(self, Self::SoldOut { .. } | Self::Closed { .. })";
        assert_eq!(body(parse_quote!([SoldOut, Closed])), both);
        assert_eq!(body(parse_quote!("SoldOut { .. } | OrderError::Closed")), both);
    }

    #[test]
    fn with_takes_no_quotes() {
        let with = format_ident!("with");
        assert!(Bare::read(&with, &parse_quote!(self.idem)).is_ok());
        let error = Bare::read(&with, &parse_quote!("self.idem")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`with` takes an expression without quotes\nhelp: `with = self.idem`"
        );
        let error = Bare::read(&with, &parse_quote!("redis")).unwrap_err().to_string();
        assert!(error.ends_with(&format!("\nhelp: {WITH}")), "{error}");
        // A unit struct may dereference to an instance.
        for value in [parse_quote!(INSTANCE), parse_quote!(services::Global)] {
            assert!(Bare::read(&with, &value).is_ok());
        }
    }
}
