//! Methods in help texts: code of the user's, moved into an `impl` block of the type of a parameter.
//!
//! Key expressions are parsed without the function in view. Their help names the parameter, and
//! [`Methods`] puts its type there when the function is known.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::Type;

use crate::function::Function;
use crate::source::type_source;
use crate::words::has_fields;

/// Surrounds help that depends on the type of a parameter. Help has text of the user's in it, and no text
/// has this by accident.
const EDGE: &str = "\u{fdd0}__idempotent_method\u{fdd0}";

/// Separates the parts of such help.
const NEXT: &str = "\u{fdd0}__idempotent_next\u{fdd0}";

/// Help that ends in a method on the type of the parameter `root`, and another one where that type is
/// not the user's own.
pub(crate) fn method_of(root: &str, before: &str, method: &str, otherwise: &str) -> String {
    format!("{EDGE}{root}{NEXT}{before}{NEXT}{method}{NEXT}{otherwise}{EDGE}")
}

/// The tokens with another name in the place of `old`.
pub(crate) fn renamed(tokens: TokenStream, old: &str, new: &str) -> TokenStream {
    let named = |span| match new.strip_prefix("r#") {
        Some(name) => Ident::new_raw(name, span),
        None => Ident::new(new, span),
    };
    let rename = |token: TokenTree| match token {
        TokenTree::Ident(word) if word == old => TokenTree::Ident(named(word.span())),
        TokenTree::Group(group) => {
            Group::new(group.delimiter(), renamed(group.stream(), old, new)).into()
        }
        token => token,
    };
    tokens.into_iter().map(rename).collect()
}

/// The parameters of a function, with the types on which the user can add methods.
#[derive(Debug, Default)]
pub(crate) struct Methods {
    parameters: Vec<(String, Option<String>)>,
}

impl Methods {
    pub(crate) fn of(function: &Function) -> Self {
        let parameters = function.bindings().into_iter().map(|binding| {
            let name = binding.name.to_string();
            let ty = own_type(function, &binding.name);
            (name, ty)
        });
        Self { parameters: parameters.collect() }
    }

    /// Puts the types into a help text.
    pub(crate) fn put_into(&self, help: &str) -> String {
        let mut pieces = help.split(EDGE);
        let mut text = pieces.next().unwrap_or_default().to_owned();
        while let Some(choice) = pieces.next() {
            let parts: Vec<_> = choice.split(NEXT).collect();
            match parts.as_slice() {
                [root, before, method, otherwise] => {
                    let method =
                        self.method(root, method).map(|method| format!("{before}`{method}`"));
                    text.push_str(method.as_deref().unwrap_or(otherwise));
                }
                _ => text.push_str(choice),
            }
            text.push_str(pieces.next().unwrap_or_default());
        }
        text
    }

    /// The method in its `impl` block, if the type of the parameter is known and the method reads no
    /// other parameter.
    fn method(&self, root: &str, method: &str) -> Option<String> {
        let tokens: TokenStream = method.parse().ok()?;
        let others = self.parameters.iter().filter(|(name, _)| name != root && name != "self");
        if others.into_iter().any(|(name, _)| mentions(tokens.clone(), name)) {
            return None;
        }
        if root == "self" {
            return Some(method.to_owned());
        }
        let (_, ty) = self.parameters.iter().find(|(name, _)| name == root)?;
        Some(format!("impl {} {{ {method} }}", ty.as_deref()?))
    }
}

/// Returns `true` if the tokens read a variable of this name.
fn mentions(tokens: TokenStream, name: &str) -> bool {
    let mut after_dot = false;
    tokens.into_iter().any(|token| {
        let is_field = std::mem::replace(&mut after_dot, token.to_string() == ".");
        match token {
            TokenTree::Ident(word) => word == name && !is_field,
            TokenTree::Group(group) => mentions(group.stream(), name),
            _ => false,
        }
    })
}

/// Types of well-known crates, on which the user cannot add methods. One of the user's own with such a name gets the
/// other help.
const FOREIGN: [&str; 6] = ["Bytes", "DateTime", "JsonValue", "Map", "Url", "Value"];

/// The type of a parameter, if it may be one of the user's: `Order` for `order: &Order` and for
/// `Json(order): Json<Order>`.
pub(crate) fn own_type(function: &Function, name: &Ident) -> Option<String> {
    let ty = function.binding_type(name)?;
    let ty = match &ty {
        Type::Reference(reference) => &*reference.elem,
        ty => ty,
    };
    let Type::Path(path) = ty else { return None };
    let is_plain = path.path.segments.iter().all(|segment| segment.arguments.is_empty());
    let is_parameter = |name: &Ident| {
        function.sig.generics.type_params().any(|parameter| parameter.ident == *name)
    };
    let is_foreign =
        path.path.segments.last().is_some_and(|last| FOREIGN.iter().any(|it| last.ident == it));
    let is_free = path.path.get_ident().is_none_or(|name| !is_parameter(name));
    (is_plain && is_free && !is_foreign && has_fields(ty)).then(|| type_source(ty))
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn methods() -> Methods {
        let item = quote!(
            async fn f(&self, Json(req): Json<Order>, headers: HeaderMap, n: u64) -> R {}
        );
        Methods::of(&Function::parse(&item, &TokenStream::new()).unwrap())
    }

    #[test]
    fn a_method_stands_in_the_type_of_its_parameter() {
        let help = method_of("req", "add ", "fn id(&self) {}", "pass it");
        assert_eq!(methods().put_into(&help), "add `impl Order { fn id(&self) {} }`");
        let help = method_of("self", "add ", "fn id(&self) {}", "pass it");
        assert_eq!(methods().put_into(&help), "add `fn id(&self) {}`");
    }

    #[test]
    fn control_characters_of_the_user_do_not_cut_the_help() {
        let help = format!("`a\u{1}b\u{2}c` {}", method_of("req", "", "fn id(&self) {}", "pass"));
        let expected = "`a\u{1}b\u{2}c` `impl Order { fn id(&self) {} }`";
        assert_eq!(methods().put_into(&help), expected);
    }

    #[test]
    fn types_of_others_and_several_parameters_have_no_method() {
        for (root, code) in [("headers", "fn id() {}"), ("req", "fn id(&self) { self.a + n }")] {
            let help = format!("a {} z", method_of(root, "", code, "pass it"));
            assert_eq!(methods().put_into(&help), "a pass it z");
        }
        let help = method_of("req", "", "fn id(&self) { self.n }", "pass it");
        assert_eq!(methods().put_into(&help), "`impl Order { fn id(&self) { self.n } }`");
    }
}
