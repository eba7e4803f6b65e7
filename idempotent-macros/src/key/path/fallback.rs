//! Values that take the place of others, as `||` and `??` of other languages choose them.

use quote::ToTokens;
use syn::{BinOp, Expr};

use super::refusal::last_name;
use super::{Reader, root_of, unwrap};
use crate::methods::{method_of, renamed};
use crate::source::source;
use crate::value::literal;

impl Reader<'_> {
    /// Help for `a || b`: a method that returns the first one that there is, as a text that says which one it is.
    pub(super) fn first_of(&self, binary: &syn::ExprBinary) -> Option<String> {
        let operands = operands(binary)?;
        if self.name == "message" {
            return None;
        }
        let first = source(operands.first()?);
        if let [_, fixed] = operands.as_slice()
            && literal(fixed).is_some()
        {
            return Some(format!("refuse a call without it: `{}`", self.optional(&first)));
        }
        let root = root_of(&first);
        let in_caller = format!("choose one in the caller, and {}", self.as_parameter(None));
        let is_field = |expr: &&Expr| {
            root_of(&source(*expr)) == root && !matches!(unwrap(expr), Expr::Path(_))
        };
        if !operands.iter().all(is_field) {
            return Some(in_caller);
        }
        let method = if self.name == "fingerprint" { "payload" } else { "idempotency_key" };
        let call = self.whole(&format!("{root}.{method}()"));
        let code = format!("fn {method}(&self) -> String {{ {} }}", choice(&operands, root)?);
        Some(method_of(root, &format!("`{call}`, with "), &code, &in_caller))
    }
}

/// All operands of a chain of `||`, if they are paths and at most a literal at the end.
fn operands(binary: &syn::ExprBinary) -> Option<Vec<&Expr>> {
    let is_path =
        |expr: &Expr| matches!(expr, Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_));
    if !matches!(binary.op, BinOp::Or(_)) {
        return None;
    }
    let mut all = match unwrap(&binary.left) {
        Expr::Binary(inner) => operands(inner)?,
        path if is_path(path) => vec![path],
        _ => return None,
    };
    let last = unwrap(&binary.right);
    all.push(last);
    (is_path(last) || literal(last).is_some()).then_some(all)
}

/// `match &self.a { Some(it) => format!("a:{it}"), None => format!("b:{}", self.b) }`
fn choice(operands: &[&Expr], root: &str) -> Option<String> {
    let (last, options) = operands.split_last()?;
    let of_self = |expr: &Expr| source(&renamed(expr.to_token_stream(), root, "self"));
    let mut code = format!("format!(\"{}:{{}}\", {})", last_name(last)?, of_self(last));
    for option in options.iter().rev() {
        let name = last_name(option)?;
        code = format!(
            "match &{} {{ Some(it) => format!(\"{name}:{{it}}\"), None => {code} }}",
            of_self(option)
        );
    }
    Some(code)
}
