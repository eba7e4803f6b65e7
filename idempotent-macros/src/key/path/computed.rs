//! Help for values that a key cannot compute: a method with the same code, or a parameter.

use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, Lit, parse_quote};

use super::{KEY_PART, Reader, root_of, unwrap};
use crate::key::Header;
use crate::methods::{method_of, renamed};
use crate::source::source;
use crate::value::literal;

impl Reader<'_> {
    /// Help for a computation: a method with the same code, or a parameter. `receiver` is the expression
    /// that the computation starts from.
    pub(super) fn own_method(&self, receiver: &str) -> String {
        let root = root_of(receiver);
        let method = match self.name == "fingerprint" {
            true => "payload",
            false => "idempotency_key",
        };
        if let Some(call) = serializer(self.whole) {
            return self.serialized(call, root, method);
        }
        let call = format!("{root}.{method}()");
        // These have no value for some calls.
        let is_option =
            self.optional || matches!(self.whole, Expr::MethodCall(call) if is_lookup(call));
        let call = if is_option { self.optional(&call) } else { self.whole(&call) };
        let parameter = self.as_parameter(None);
        let general = format!(
            "add a method without arguments and call it: `{call}`; or compute the value in the caller, \
             and {parameter}"
        );
        // A block may have anything in it.
        let is_code =
            !receiver.is_empty() && !matches!(self.whole, Expr::Closure(_) | Expr::Macro(_));
        match is_code && root_of(&source(&without_call(self.whole))) == root {
            true => {
                let (body, returns) = self.as_body(root);
                let returns = match is_option {
                    true => format!("Option<{returns}>"),
                    false => returns.to_owned(),
                };
                let method = format!("fn {method}(&self) -> {returns} {{ {body} }}");
                let otherwise = format!("compute the value in the caller, and {parameter}");
                method_of(root, &format!("`{call}`, with "), &method, &otherwise)
            }
            false => general,
        }
    }

    /// The whole expression in a method of `root`, and the type that the method returns.
    fn as_body(&self, root: &str) -> (String, &'static str) {
        let whole = renamed(self.whole.to_token_stream(), root, "self");
        let code = match syn::parse2::<Expr>(whole.clone()) {
            Ok(mut code) => {
                Borrowing.visit_expr_mut(&mut code);
                source(&code)
            }
            Err(_) => source(&whole),
        };
        match self.whole {
            Expr::MethodCall(call) if call.method == "collect" && call.turbofish.is_none() => {
                (code.replace(".collect()", ".collect::<Vec<_>>()"), KEY_PART)
            }
            Expr::MethodCall(call) if borrows_from_copy(call) => {
                let owned = match is_lookup(call) {
                    true => ".map(str::to_owned)",
                    false => ".to_owned()",
                };
                (code + owned, KEY_PART)
            }
            _ => (code, KEY_PART),
        }
    }

    /// Help for a call that serializes something of `root`, which may fail: a method that has no value then.
    fn serialized(&self, call: &syn::ExprCall, root: &str, method: &str) -> String {
        let mut code = call.clone();
        if let Ok(renamed) = syn::parse2(renamed(call.to_token_stream(), root, "self")) {
            code = renamed;
        }
        let mut code = Expr::Call(code);
        Borrowing.visit_expr_mut(&mut code);
        let code = source(&code);
        let arguments = code.split_once('(').map_or("self)", |(_, arguments)| arguments);
        let (returns, code) = match self.name == "fingerprint" {
            true => (
                "idempotent_runtime::Fingerprint",
                format!("idempotent_runtime::Fingerprint::of_serialized({arguments}"),
            ),
            false => (KEY_PART, code),
        };
        let method_code = format!("fn {method}(&self) -> Option<{returns}> {{ {code}.ok() }}");
        let path = self.optional(&format!("{root}.{method}()"));
        let otherwise = format!("compute the value in the caller, and {}", self.as_parameter(None));
        method_of(root, &format!("`{path}`, with "), &method_code, &otherwise)
    }

    /// Help for a header or another entry that is looked up by its name, as in
    /// `headers.get("idempotency-key")`.
    pub(super) fn header(&self, call: &syn::ExprMethodCall) -> Option<String> {
        let name = self.name;
        if !matches!(call.method.to_string().as_str(), "get" | "header") || call.args.len() != 1 {
            return None;
        }
        let Some(Lit::Str(entry)) = literal(call.args.first()?) else { return None };
        let parameter = crate::synonyms::snake_case(&entry.value());
        syn::parse_str::<syn::Ident>(&parameter).ok()?;
        let receiver = source(&call.receiver);
        if !receiver.contains("header") {
            return None;
        }
        let header = Header::of_path("headers", Some(&entry.value())).filter(|_| name == "key");
        let layer = header.map_or_else(String::new, |header| format!("; or {}", header.layer()));
        Some(format!(
            "read it in the caller, for a `HeaderMap` by `{receiver}.get({}).and_then(|value| \
             value.to_str().ok()).map(str::to_owned)`, and pass it as a parameter `{parameter}: \
             Option<String>`: `{}`{layer}",
            source(entry),
            self.optional(&parameter),
        ))
    }

    /// Help for a value that is known in the caller. `known_as` is its name there.
    pub(super) fn as_parameter(&self, known_as: Option<String>) -> String {
        let parameter = known_as.unwrap_or_else(|| match self.name.to_string().as_str() {
            "fingerprint" => "payload".to_owned(),
            "message" => "text".to_owned(),
            "scope" => "scope".to_owned(),
            _ => "idempotency_key".to_owned(),
        });
        let ty = match self.name == "message" {
            true => "impl std::fmt::Display",
            false => "impl idempotent_runtime::KeyPart",
        };
        format!("pass it as a parameter `{parameter}: {ty}`: `{}`", self.whole(&parameter))
    }
}

/// The call that serializes something, of an expression that has nothing else around it than what takes the value
/// out of its `Result`.
pub(super) fn serializer(expr: &Expr) -> Option<&syn::ExprCall> {
    match unwrap(expr) {
        Expr::Try(value) => serializer(&value.expr),
        Expr::MethodCall(call) => {
            let takes = ["unwrap", "expect", "ok", "unwrap_or_default"];
            takes.iter().find(|takes| call.method == *takes)?;
            serializer(&call.receiver)
        }
        Expr::Call(call) => {
            let function = source(&call.func);
            let is_json = ["serde_json::to_string", "serde_json::to_vec", "serde_json::to_value"]
                .contains(&function.as_str());
            (call.args.len() == 1 && (is_json || function.ends_with("of_serialized")))
                .then_some(call)
        }
        _ => None,
    }
}

/// Returns `true` for a method that looks for something and may find nothing.
fn is_lookup(call: &syn::ExprMethodCall) -> bool {
    match call.method.to_string().as_str() {
        "get" | "nth" | "nth_back" | "find" | "rfind" | "position" | "strip_prefix"
        | "strip_suffix" | "split_once" | "rsplit_once" | "or" | "or_else" | "xor" => true,
        "next" | "next_back" | "first" | "last" | "min" | "max" | "ok" | "pop" | "peek" => {
            call.args.is_empty()
        }
        method => method.starts_with("checked_"),
    }
}

/// Returns `true` for `name.to_lowercase().trim()`: part of a text that the code itself has made.
fn borrows_from_copy(call: &syn::ExprMethodCall) -> bool {
    let method = call.method.to_string();
    let is_part = method.starts_with("trim") || method.starts_with("strip_") || method == "as_str";
    let mut receiver = unwrap(&call.receiver);
    while let Expr::MethodCall(call) = receiver {
        let method = call.method.to_string();
        if method.starts_with("to_") || method == "clone" || method.starts_with("replace") {
            return is_part;
        }
        receiver = unwrap(&call.receiver);
    }
    false
}

/// Changes code that owned its values into code of a method on `&self`: a copy for each value that it
/// takes.
struct Borrowing;

impl VisitMut for Borrowing {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::Call(call) = expr {
            for whole in call.args.iter_mut().filter(|argument| is_self(argument)) {
                *whole = parse_quote!(self.clone());
            }
        }
        visit_mut::visit_expr_mut(self, expr);
        match expr {
            Expr::Call(call) => call.args.iter_mut().for_each(cloned),
            Expr::MethodCall(call) => {
                call.args.iter_mut().for_each(cloned);
                let method = call.method.to_string();
                let takes = [
                    "unwrap",
                    "unwrap_or",
                    "unwrap_or_default",
                    "unwrap_or_else",
                    "expect",
                    "or",
                    "or_else",
                    "xor",
                ];
                if method.starts_with("into_") || takes.contains(&method.as_str()) {
                    cloned(&mut call.receiver);
                }
            }
            // Strings: other sums are of copies.
            Expr::Binary(binary)
                if matches!(binary.op, BinOp::Add(_)) && is_text(&binary.right) =>
            {
                cloned(&mut binary.left);
            }
            // It is a reference already.
            Expr::Reference(reference) if is_self(&reference.expr) => {
                *expr = (*reference.expr).clone();
            }
            _ => {}
        }
    }
}

/// Returns `true` for what a `String` takes at its end.
fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Reference(_) | Expr::MethodCall(_))
        || matches!(literal(expr), Some(Lit::Str(_)))
}

/// A copy of the value, if it belongs to `self`.
fn cloned(expr: &mut Expr) {
    fn belongs(expr: &Expr) -> bool {
        match expr {
            Expr::Field(field) => is_self(&field.base) || belongs(&field.base),
            _ => false,
        }
    }
    if belongs(expr) {
        let value = &expr;
        *expr = parse_quote!(#value.clone());
    }
}

fn is_self(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(path) if path.path.is_ident("self"))
}

/// The expression, or the first argument of the call that it is.
pub(super) fn without_call(expr: &Expr) -> Expr {
    match unwrap(expr) {
        Expr::Call(call) => call.args.first().map_or_else(|| expr.clone(), without_call),
        expr => expr.clone(),
    }
}
