//! Variables of the body in a key, which is read before the body runs.

use proc_macro2::{TokenStream, TokenTree};
use syn::Expr;

use crate::key::{Key, formatted};
use crate::source::{source, type_source};
use crate::value::Value;

impl super::Unknown<'_> {
    /// Help for a variable of the body: the same from the parameters, if a key can have it.
    pub(super) fn in_place_of_variable(&self, variable: &str, value: TokenStream) -> String {
        let Self { name, parameters, .. } = self;
        let ty = match *name == "message" {
            _ if self.is_text(&value) => "String",
            true => "impl std::fmt::Display",
            false => "impl idempotent_runtime::KeyPart",
        };
        let in_caller = format!(
            "compute it in the caller, and pass it as a parameter `{variable}: {ty}`: `{}`",
            self.written(variable)
        );
        let template = match syn::parse2::<syn::ExprMacro>(value.clone()) {
            Ok(call) if call.mac.path.is_ident("format") => formatted(&call.mac.tokens),
            _ => None,
        };
        let copied = match syn::parse2::<Expr>(value) {
            Ok(Expr::MethodCall(call))
                if ["clone", "to_owned", "to_string"].iter().any(|copy| call.method == copy) =>
            {
                Some(*call.receiver)
            }
            // All integers are keys.
            Ok(Expr::Cast(cast)) => Some(*cast.expr),
            Ok(expr) => Some(expr),
            Err(_) => None,
        };
        let is_key =
            |key: &Key| key.paths().iter().all(|path| parameters.contains(&path.root.to_string()));
        let path = copied.filter(|expr| {
            matches!(expr, Expr::Field(_) | Expr::Path(_) | Expr::MethodCall(_))
                && Key::read(name, expr).is_ok_and(|key| is_key(&key))
        });
        match (template, path) {
            // Templates are no parts of a tuple.
            (Some(_), _) if self.key.is_tuple() => in_caller,
            (Some(template), _) => {
                let text = syn::LitStr::new(&template, name.span());
                let lit = Expr::Lit(syn::ExprLit { attrs: Vec::new(), lit: syn::Lit::Str(text) });
                match Key::read(name, &lit) {
                    Ok(key) if is_key(&key) => format!("`{name} = \"{template}\"`"),
                    _ => in_caller,
                }
            }
            (None, Some(path)) => format!("`{}`", self.written(&source(&path))),
            (None, None) => in_caller,
        }
    }

    /// Returns `true` for an expression of type `String`: by its end, or by its beginning for the copy of a piece of text.
    fn is_text(&self, value: &TokenStream) -> bool {
        let call = match syn::parse2::<Expr>(value.clone()) {
            Ok(Expr::Macro(call)) => return call.mac.path.is_ident("format"),
            Ok(Expr::MethodCall(call)) => call,
            _ => return false,
        };
        match call.method.to_string().as_str() {
            "to_string" | "to_lowercase" | "to_uppercase" => true,
            "to_owned" => {
                let root = value.clone().into_iter().next().map(|token| token.to_string());
                let ty = root.and_then(|root| syn::parse_str(&root).ok());
                let ty = ty.and_then(|root| self.function.type_of(&root));
                ty.is_some_and(|ty| {
                    matches!(type_source(ty).trim_start_matches('&'), "String" | "str")
                })
            }
            _ => false,
        }
    }
}

/// The value that a `let` anywhere in `body` binds to `name` itself, if there is one: empty without a
/// value.
pub(in crate::validate) fn bound_in(body: TokenStream, name: &str) -> Option<TokenStream> {
    let mut after_let = false;
    let mut tokens = body.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "let" => after_let = true,
            TokenTree::Ident(word) if after_let && word == "mut" => {}
            TokenTree::Ident(word) if after_let && word == name => {
                let statement = tokens.take_while(|token| token.to_string() != ";");
                let value = statement.skip_while(|token| token.to_string() != "=").skip(1);
                return Some(value.collect());
            }
            TokenTree::Group(group) => {
                if let Some(value) = bound_in(group.stream(), name) {
                    return Some(value);
                }
                after_let = false;
            }
            _ => after_let = false,
        }
    }
    None
}
