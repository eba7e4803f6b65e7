//! Help for values that may be missing on the way of a path.

use quote::{ToTokens, quote};
use syn::{Expr, Member};

use super::{KEY_PART, Reader, root_of, unwrap};
use crate::key::template::text_method;
use crate::methods::{method_of, renamed};
use crate::source::source;

impl Reader<'_> {
    /// Help for a step that has no answer where a value is missing. `option` is the path up to it.
    pub(super) fn without_a_value(&self, step: &impl ToTokens, option: &str) -> String {
        if self.name == "message" {
            return self.text();
        }
        let path = match source(step) == source(self.whole) {
            true => Some(format!("{option}?")),
            false => with_question_marks(self.whole),
        };
        match path {
            Some(path) => format!("refuse a call without it: `{}`", self.whole(&path)),
            None => self.own_option(),
        }
    }

    /// Help for a path that may have no value on its way: a method with the same path.
    pub(super) fn own_option(&self) -> String {
        let root = root_of(&source(self.whole)).to_owned();
        let method = match self.whole {
            Expr::Field(field) => match &field.member {
                Member::Named(name) => name.to_string(),
                Member::Unnamed(_) => "reference".to_owned(),
            },
            _ => "reference".to_owned(),
        };
        let call = self.optional(&format!("{root}.{method}()"));
        let general =
            format!("compute it in the caller, and {}", self.as_parameter(Some(method.clone())));
        match optional_value(self.whole) {
            Some(value) => method_of(
                &root,
                &format!("`{call}`, with "),
                &format!("fn {method}(&self) -> Option<{KEY_PART}> {{ {value} }}"),
                &general,
            ),
            None => general,
        }
    }

    /// Help for an `Option` in a text for people.
    pub(super) fn text(&self) -> String {
        let root = root_of(&source(self.whole)).to_owned();
        let mut path = unwrap(self.whole);
        while let Expr::MethodCall(call) = path {
            path = unwrap(&call.receiver);
        }
        let field = match path {
            Expr::Field(field) => match &field.member {
                Member::Named(name) => name.to_string(),
                Member::Unnamed(_) => "reference".to_owned(),
            },
            _ => "reference".to_owned(),
        };
        let option = source(&renamed(path.to_token_stream(), &root, "self"));
        text_method(&root, &field, &option)
    }
}

/// The method for the first or the last element, if the index is that of one: `0`, and `-1` of Python.
pub(super) fn end_of(index: &Expr) -> Option<&'static str> {
    match source(index).replace(' ', "").as_str() {
        "0" => Some(".first()"),
        "-1" => Some(".last()"),
        _ => None,
    }
}

/// The value of a path in a method, with `?` where there may be none: `Some(&self.customer.as_ref()?.email)`
/// for `req.customer.unwrap().email`.
fn optional_value(path: &Expr) -> Option<String> {
    fn steps(expr: &Expr) -> Option<String> {
        Some(match unwrap(expr) {
            Expr::Path(path) => {
                path.path.get_ident()?;
                "self".to_owned()
            }
            Expr::Field(field) => {
                let member = &field.member;
                format!("{}.{}", steps(&field.base)?, quote!(#member))
            }
            Expr::Try(inner) => format!("{}.as_ref()?", steps(&inner.expr)?),
            Expr::Index(index) => {
                let is_position =
                    matches!(&*index.index, Expr::Path(_) | Expr::Lit(_) | Expr::Range(_));
                let at = Some(&index.index).filter(|_| is_position)?;
                format!("{}.get({})?", steps(&index.expr)?, source(at))
            }
            Expr::MethodCall(call) => {
                let receiver = steps(&call.receiver)?;
                match call.method.to_string().as_str() {
                    "unwrap" | "expect" | "unwrap_or_default" | "unwrap_or" | "unwrap_or_else" => {
                        format!("{receiver}.as_ref()?")
                    }
                    method => format!("{receiver}.{method}({})", source(&call.args)),
                }
            }
            _ => return None,
        })
    }
    let value = steps(path)?;
    Some(match unwrap(path) {
        Expr::Field(_) => format!("Some(&{value})"),
        _ => format!("Some({value})"),
    })
}

/// The path with `?` in the place of each step that has no answer for a missing value: `req.customer?.email` for
/// `req.customer.unwrap().email`.
fn with_question_marks(path: &Expr) -> Option<String> {
    Some(match unwrap(path) {
        Expr::Path(path) => path.path.get_ident()?.to_string(),
        Expr::Field(field) => {
            let member = &field.member;
            format!("{}.{}", with_question_marks(&field.base)?, quote!(#member))
        }
        Expr::Try(value) => format!("{}?", with_question_marks(&value.expr)?),
        Expr::Index(index) => {
            format!("{}{}?", with_question_marks(&index.expr)?, end_of(&index.index)?)
        }
        Expr::MethodCall(call) => {
            let receiver = with_question_marks(&call.receiver)?;
            match call.method.to_string().as_str() {
                "unwrap" | "expect" | "unwrap_or_default" | "unwrap_or" | "unwrap_or_else" => {
                    format!("{receiver}?")
                }
                method if call.args.is_empty() => format!("{receiver}.{method}()"),
                _ => return None,
            }
        }
        _ => return None,
    })
}
