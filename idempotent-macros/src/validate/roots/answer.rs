//! Fields of the answer in a key, which is made before there is an answer: the parameters that they are made from.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::Expr;

use crate::key::ANSWER;
use crate::source::source;
use crate::synonyms::ANSWERS;
use crate::words::fields_of;

impl super::Unknown<'_> {
    /// Help for a field of the answer: the parameter that it is made from, and no other one.
    pub(super) fn in_place_of_answer(&self, listed: &str) -> String {
        let Self { parameters, path, .. } = self;
        let Some(field) = path.last_field() else { return listed.to_owned() };
        match made_from(&field, parameters, &self.function.user_body()) {
            Some(path) => format!("`{}`; {}", self.written(&path), self.all()),
            None => match self.with_fields().as_slice() {
                [] => listed.to_owned(),
                [root, ..] => format!(
                    "what it is made from; {}: `{}`, if it has such a field",
                    self.all(),
                    self.written(&format!("{root}.{field}"))
                ),
            },
        }
    }
}

/// Returns `true` for a name of the answer.
pub(super) fn is_named(name: &str) -> bool {
    name == ANSWER || ANSWERS.contains(&name)
}

/// The path that the body puts into `field` of a struct: `req.order_id` for `Order { id: req.order_id }`. Without
/// one, the parameter or the field of one that has a name like it.
fn made_from(field: &str, parameters: &[String], body: &TokenStream) -> Option<String> {
    let put = put_into(field, parameters, body.clone()).pop();
    put.or_else(|| {
        let is_alike = |name: &str| {
            name == field
                || name.ends_with(&format!("_{field}"))
                || name.starts_with(&format!("{field}_"))
                || field.ends_with(&format!("_{name}"))
        };
        let paths = parameters.iter().flat_map(|root| {
            let fields = fields_of(root, body.clone()).into_iter();
            let fields =
                fields.filter(|name| is_alike(name)).map(move |name| format!("{root}.{name}"));
            is_alike(root).then(|| root.clone()).into_iter().chain(fields)
        });
        let mut paths: Vec<_> = paths.collect();
        // Of several, none is better than the others.
        (paths.len() == 1).then(|| paths.remove(0))
    })
}

/// All paths from a parameter that stand behind `field:` in braces.
fn put_into(field: &str, parameters: &[String], body: TokenStream) -> Vec<String> {
    let tokens: Vec<_> = body.into_iter().collect();
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.to_string() == text);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                found.extend(put_into(field, parameters, group.stream()));
                let is_struct = group.delimiter() == Delimiter::Brace
                    && at > 0
                    && matches!(&tokens[at - 1], TokenTree::Ident(_));
                // `Order { id }`
                let is_short = |name: &TokenStream| name.to_string() == field;
                let mut members = members(group.stream()).into_iter();
                if is_struct
                    && parameters.iter().any(|name| name == field)
                    && members.any(|name| is_short(&name))
                {
                    found.push(field.to_owned());
                }
            }
            TokenTree::Ident(name)
                if name == field
                    && is(at + 1, ":")
                    && !is(at + 2, ":")
                    && (at == 0 || is(at - 1, ",")) =>
            {
                let value = tokens[at + 2..].iter().take_while(|token| token.to_string() != ",");
                found.extend(path(value.cloned().collect(), parameters));
            }
            _ => {}
        }
    }
    found
}

/// The tokens between commas.
fn members(tokens: TokenStream) -> Vec<TokenStream> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let members = tokens.split(|token| token.to_string() == ",");
    members.map(|member| member.iter().cloned().collect()).collect()
}

/// The path, if it starts at a parameter. A copy of it is as good.
fn path(value: TokenStream, parameters: &[String]) -> Option<String> {
    let mut value = syn::parse2::<Expr>(value).ok()?;
    while let Expr::MethodCall(call) = &value {
        let is_copy =
            ["clone", "to_owned", "to_string", "into"].iter().any(|copy| call.method == copy);
        value = (*call.receiver).clone();
        if !is_copy {
            return None;
        }
    }
    let mut root = &value;
    while let Expr::Field(field) = root {
        root = &field.base;
    }
    let Expr::Path(root) = root else { return None };
    let root = root.path.get_ident()?.to_string();
    parameters.contains(&root).then(|| source(&value))
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn a_field_of_the_answer_is_made_from_a_parameter() {
        let parameters = ["req".to_owned(), "user".to_owned()];
        let from = |field: &str, body| made_from(field, &parameters, &body);
        let body = quote!(
            let item: u64 = 3;
            Ok(Order { id: req.order_id.clone(), user, total: req.price * 2, item })
        );
        assert_eq!(from("id", body.clone()).as_deref(), Some("req.order_id"));
        assert_eq!(from("user", body.clone()).as_deref(), Some("user"));
        assert_eq!(from("total", body.clone()), None);
        assert_eq!(from("item", body), None);
        let body = quote!(db.insert(req.order_id, req.total).await);
        assert_eq!(from("id", body.clone()).as_deref(), Some("req.order_id"));
        assert_eq!(from("total", body.clone()).as_deref(), Some("req.total"));
        assert_eq!(from("item", body), None);
        assert_eq!(from("id", quote!(db.insert(req.order_id, req.shop_id))), None);
    }
}
