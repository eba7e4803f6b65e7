//! `Result`s and `Outcome`s inside of other types, and the return type that is meant.

use proc_macro2::Ident;
use syn::{GenericArgument, PathArguments, Type, TypePath, parse_quote};

/// The return type that is meant by one with a `Result` or an `Outcome` at the wrong place: a `Result` goes around
/// all, and an `Outcome` around the value alone.
pub(crate) fn meant(returns: &Type) -> Option<Type> {
    let layers = Layers::of(returns);
    if layers.result.is_none() && layers.outcome.is_none() {
        return None;
    }
    let value = match layers.outcome {
        Some(outcome) => around(outcome, layers.value),
        None => layers.value,
    };
    let meant = match layers.result {
        Some(result) => around(result, value),
        None => parse_quote!(Result<#value, idempotent_runtime::Error>),
    };
    (meant != *returns).then_some(meant)
}

/// Returns `true` for a `Result`, and for a type with one at the wrong place.
pub(crate) fn has_result(ty: &Type) -> bool {
    Layers::of(ty).result.is_some()
}

/// A type without the `Result` and the `Outcome` in it.
struct Layers<'a> {
    result: Option<&'a TypePath>,
    outcome: Option<&'a TypePath>,
    value: Type,
}

impl<'a> Layers<'a> {
    fn of(ty: &'a Type) -> Self {
        let leaf = Self { result: None, outcome: None, value: ty.clone() };
        let Some((path, name, inside)) = parts(ty) else { return leaf };
        let inside = Self::of(inside);
        let is_plain = inside.result.is_none() && inside.outcome.is_none();
        match name.to_string().as_str() {
            // The inner error is the one of the user's own.
            "Result" => Self { result: inside.result.or(Some(path)), ..inside },
            "Outcome" => Self { outcome: inside.outcome.or(Some(path)), ..inside },
            "Option" if !is_plain => Self { value: around(path, inside.value), ..inside },
            // Several results are a value.
            "Vec" if !is_plain && inside.result.is_none() => {
                Self { value: around(path, inside.value), ..inside }
            }
            _ => leaf,
        }
    }
}

/// A type with arguments, its name, and the first argument.
fn parts(ty: &Type) -> Option<(&TypePath, &Ident, &Type)> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(first) => Some((path, &last.ident, first)),
        _ => None,
    }
}

/// The type with another first argument.
fn around(path: &TypePath, inside: Type) -> Type {
    let mut path = path.clone();
    if let Some(last) = path.path.segments.last_mut()
        && let PathArguments::AngleBracketed(arguments) = &mut last.arguments
        && let Some(first) = arguments.args.first_mut()
    {
        *first = GenericArgument::Type(inside);
    }
    Type::Path(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_goes_around_all_and_an_outcome_around_the_value() {
        let is = |ty: Type, other: Type| assert_eq!(meant(&ty), Some(other));
        is(parse_quote!(Outcome<Result<Order, E>>), parse_quote!(Result<Outcome<Order>, E>));
        is(parse_quote!(Option<Result<Order, E>>), parse_quote!(Result<Option<Order>, E>));
        is(parse_quote!(Result<Result<Order, E>, Error>), parse_quote!(Result<Order, E>));
        is(parse_quote!(Outcome<anyhow::Result<u8>>), parse_quote!(anyhow::Result<Outcome<u8>>));
        is(
            parse_quote!(Result<Option<Outcome<Order>>, E>),
            parse_quote!(Result<Outcome<Option<Order>>, E>),
        );
        is(
            parse_quote!(Outcome<Outcome<Vec<u8>>>),
            parse_quote!(Result<Outcome<Vec<u8>>, idempotent_runtime::Error>),
        );
    }

    #[test]
    fn other_types_are_meant() {
        for ty in [
            parse_quote!(Order),
            parse_quote!(Option<Order>),
            parse_quote!(Vec<Result<Order, E>>),
            parse_quote!(Result<Vec<Result<Order, E>>, Error>),
            parse_quote!(Result<Outcome<Order>, E>),
            parse_quote!(anyhow::Result<Outcome<Option<Order>>>),
        ] {
            assert_eq!(meant(&ty), None);
        }
    }
}
