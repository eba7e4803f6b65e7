//! Types of other crates in the return type, told by their names.
//!
//! The compiler checks them as all others, and only the text of its error depends on this: a type of
//! the user's may have one of these names.

use syn::{GenericArgument, PathArguments, PathSegment, Type};

use crate::function::result_types;
use crate::validate::returns::is_primitive;

/// Crates with errors that functions return as they are.
const CRATES: [&str; 14] = [
    "axum",
    "chrono",
    "core",
    "diesel",
    "http",
    "hyper",
    "io",
    "redis",
    "reqwest",
    "serde_json",
    "sqlx",
    "std",
    "tokio",
    "tonic",
];

/// Types with names that say so.
const ERRORS: [&str; 12] = [
    "DbErr",
    "Elapsed",
    "FromUtf8Error",
    "Infallible",
    "JoinError",
    "JsonRejection",
    "ParseFloatError",
    "ParseIntError",
    "Response",
    "StatusCode",
    "SystemTimeError",
    "Utf8Error",
];

/// Returns `true` if the error of a `Result` looks like a type of another crate.
pub(crate) fn is_error(returns: &Type) -> bool {
    let Some((_, error)) = result_types(returns) else { return is_alias(returns) };
    match error {
        Type::Tuple(_) | Type::Reference(_) | Type::Array(_) => true,
        Type::Path(path) => {
            let Some(last) = last_segment(error).map(|last| last.ident.to_string()) else {
                return false;
            };
            let is_of_crate = path.path.segments.len() > 1
                && path.path.segments.first().is_some_and(|first| is_one_of(&CRATES, first));
            is_of_crate || ERRORS.contains(&last.as_str()) || last.starts_with(char::is_lowercase)
        }
        _ => false,
    }
}

/// Returns `true` for `serde_json::Result<T>`, whose error is not written.
fn is_alias(returns: &Type) -> bool {
    let Type::Path(path) = returns else { return false };
    let segments = &path.path.segments;
    let is_result = segments.last().is_some_and(|last| last.ident.to_string().ends_with("Result"));
    is_result
        && segments.len() > 1
        && segments.first().is_some_and(|first| is_one_of(&CRATES, first))
}

/// `T` of `Json<T>`, and of `(StatusCode, T)` and `(StatusCode, Json<T>)`.
pub(crate) fn inside_response(value: &Type) -> Option<&Type> {
    if let Type::Tuple(tuple) = value {
        let first = tuple.elems.first().and_then(last_segment);
        first.filter(|first| is_one_of(&["StatusCode"], first))?;
        let last = tuple.elems.last().filter(|_| tuple.elems.len() > 1)?;
        return Some(inside_response(last).unwrap_or(last));
    }
    let last = last_segment(value).filter(|last| is_one_of(&["Json", "Html", "Form"], last))?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let is_json = last.ident == "Json";
    match arguments.args.first()? {
        GenericArgument::Type(inside) => {
            Some(inside).filter(|inside| is_json || !may_be_constant(inside))
        }
        _ => None,
    }
}

/// Returns `true` for a name alone that does not look like that of a type: `N` of a user's own `Form<N>`.
fn may_be_constant(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let Some(name) = path.path.get_ident().map(ToString::to_string) else { return false };
    let is_camel_case = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    !is_camel_case && !is_primitive(&name)
}

fn is_one_of(names: &[&str], segment: &PathSegment) -> bool {
    names.iter().any(|name| segment.ident == name)
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn errors_of_other_crates_are_told_by_their_names() {
        for ty in [
            parse_quote!(Result<u64, StatusCode>),
            parse_quote!(Result<u64, std::io::Error>),
            parse_quote!(Result<u64, (StatusCode, String)>),
            parse_quote!(Result<u64, u16>),
            parse_quote!(Result<u64, &'static str>),
            parse_quote!(serde_json::Result<u64>),
            parse_quote!(redis::RedisResult<u64>),
        ] {
            assert!(is_error(&ty));
        }
        for ty in [
            parse_quote!(Result<u64, OrderError>),
            parse_quote!(Result<u64, Error>),
            parse_quote!(Result<u64, orders::Error>),
            parse_quote!(Result<u64, String>),
            parse_quote!(anyhow::Result<u64>),
            parse_quote!(std::result::Result<u64, OrderError>),
        ] {
            assert!(!is_error(&ty));
        }
    }

    #[test]
    fn responses_have_a_value_in_them() {
        assert_eq!(inside_response(&parse_quote!(axum::Json<Order>)), Some(&parse_quote!(Order)));
        let created = parse_quote!((StatusCode, Json<Order>));
        assert_eq!(inside_response(&created), Some(&parse_quote!(Order)));
        assert_eq!(inside_response(&parse_quote!((u64, Json<Order>))), None);
        assert_eq!(inside_response(&parse_quote!(Order)), None);
        assert!(inside_response(&parse_quote!(Json<u64>)).is_some());
        assert_eq!(inside_response(&parse_quote!(Form<N>)), None);
        assert_eq!(inside_response(&parse_quote!(Form<PAGES>)), None);
    }
}
