//! Arguments that name something: a function, the runtime crate, a parameter, an instance.

use proc_macro2::Ident;
use syn::{Expr, ExprPath, Lit, Path};

use super::{Value, literal};
use crate::args;
use crate::key::quoted;
use crate::mistake::mistake;

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
        if let Some(path) = &path
            && let Some(error) = not_a_function(name, path)
        {
            return Err(error);
        }
        path.map(Self).ok_or_else(|| {
            let what = match value {
                Expr::Closure(_) => format!("`{name}` takes the path of a function, not a closure"),
                Expr::Call(_) => format!("`{name}` takes the path of a function, not a call"),
                _ => format!("`{name}` takes the path of a function"),
            };
            mistake(value, what, example(name))
        })
    }
}

/// The error for the path of a variant or a constant, which begins with a capital letter.
fn not_a_function(name: &Ident, path: &ExprPath) -> Option<syn::Error> {
    let last = &path.path.segments.last()?.ident;
    if !last.to_string().starts_with(char::is_uppercase) {
        return None;
    }
    let what =
        format!("`{name}` takes the path of a function, and `{last}` is not the name of one");
    let mut owner = path.path.segments.iter().rev().skip(1);
    let help = match owner.next().filter(|_| name == "final_errors") {
        Some(owner) => {
            let owner = &owner.ident;
            format!(
                "`{name} = {owner}::is_final`, with `fn is_final(&self) -> bool {{ matches!(self, \
                 Self::{last}) }}`"
            )
        }
        None => example(name),
    };
    Some(mistake(path, what, help))
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
            mistake(value, format!("`{name}` takes the name of a parameter"), example(name))
        })
    }
}

/// Any expression that is not a literal.
#[derive(Debug)]
pub(crate) struct Bare(pub(crate) Expr);

impl Value for Bare {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        match literal(value) {
            Some(Lit::Str(text)) => {
                let help = match text.parse::<Expr>() {
                    Ok(_) => format!("`{name} = {}`", text.value()),
                    Err(_) => example(name),
                };
                Err(mistake(value, format!("`{name}` takes an expression without quotes"), help))
            }
            Some(_) => {
                let what = format!("`{name}` takes an expression that borrows as `Idempotency`");
                Err(mistake(value, what, example(name)))
            }
            None => Ok(Self(value.clone())),
        }
    }
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
            function(parse_quote!(|e| true)).unwrap_err(),
            "`final_errors` takes the path of a function, not a closure\nhelp: `final_errors = OrderError::is_final`"
        );
        assert!(function(parse_quote!(check())).unwrap_err().contains("not a call"));
        assert!(function(parse_quote!(3)).is_err());
        assert!(function(parse_quote!("a b")).is_err());
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
    }
}
