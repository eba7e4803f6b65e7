//! Conditions on the answer, as `unless` and `cache_if` of other libraries take them: the same as a function for
//! `expire_with`.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, LitStr, Pat, UnOp, parse_quote};

use crate::source::source;
use crate::synonyms::{ANSWERS, snake_case};

/// The function for a condition with this name and text, if the text is one on the answer.
pub(super) fn retention(name: &str, text: Option<&str>, parameters: &[String]) -> Option<String> {
    let condition = match condition(text?)? {
        Expr::Closure(closure) => {
            let [Pat::Ident(answer)] = closure.inputs.iter().collect::<Vec<_>>()[..] else {
                return None;
            };
            OfValue::read(*closure.body.clone(), &[&answer.ident.to_string()])?
        }
        // A function that is given the value.
        Expr::Path(path) if !is_answer(&path) => parse_quote!(#path(value)),
        _ if is_known_before(text, parameters) => return None,
        condition => OfValue::read(condition, &[&ANSWERS[..], &["value", "it"]].concat())?,
    };
    let condition = source(&condition).replace("!= ", " != ");
    let condition = condition.replace("! ", "!").replace("* value", "*value");
    let is_kept = !["unless", "skip", "null", "none"].iter().any(|word| name.contains(word));
    Some(match is_kept {
        true => function(&condition, "from_secs(300)", "ZERO"),
        false => function(&condition, "ZERO", "from_secs(300)"),
    })
}

/// The function with a condition that is left to the user.
pub(super) fn open() -> String {
    function("..", "ZERO", "from_secs(300)")
}

fn function(condition: &str, then: &str, otherwise: &str) -> String {
    format!(
        "`fn retention(value: &Order) -> std::time::Duration {{ if {condition} {{ std::time::Duration::{then} }} else {{ \
         std::time::Duration::{otherwise} }} }}`"
    )
}

/// Returns `true` for a condition that reads a parameter, which is known before the body runs.
pub(super) fn is_known_before(text: Option<&str>, parameters: &[String]) -> bool {
    fn names(tokens: TokenStream, parameters: &[String]) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(word) => parameters.contains(&word.to_string()),
            TokenTree::Group(group) => names(group.stream(), parameters),
            _ => false,
        })
    }
    let condition = text.and_then(condition);
    condition.is_some_and(|condition| names(condition.to_token_stream(), parameters))
}

/// The condition, which may stand in quotes and be one of the Spring expression language.
fn condition(text: &str) -> Option<Expr> {
    let text = match syn::parse_str::<LitStr>(text) {
        Ok(quoted) => quoted
            .value()
            .replace('#', "")
            .replace('\'', "\"")
            .replace("===", "==")
            .replace("!==", "!=")
            .replace(" is not None", " != None")
            .replace(" is None", " == None"),
        Err(_) => text.to_owned(),
    };
    syn::parse_str(&text).ok()
}

fn is_answer(path: &syn::ExprPath) -> bool {
    path.path.get_ident().is_some_and(|name| ANSWERS.iter().any(|answer| name == answer))
}

/// Writes a condition on the answer as one on `value: &T`.
struct OfValue<'a> {
    answers: &'a [&'a str],
    found: bool,
}

impl OfValue<'_> {
    /// The condition, if it reads the answer.
    fn read(mut condition: Expr, answers: &[&str]) -> Option<Expr> {
        let mut reader = OfValue { answers, found: false };
        reader.visit_operand(&mut condition);
        reader.found.then_some(condition)
    }

    fn is_answer(&self, expr: &Expr) -> bool {
        let Expr::Path(path) = expr else { return false };
        path.path.get_ident().is_some_and(|name| self.answers.iter().any(|answer| name == answer))
    }

    /// An expression that is taken by value.
    fn visit_operand(&mut self, expr: &mut Expr) {
        match self.is_answer(expr) {
            true => {
                self.found = true;
                *expr = parse_quote!(*value);
            }
            false => self.visit_expr_mut(expr),
        }
    }
}

impl VisitMut for OfValue<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if self.is_answer(expr) {
            self.found = true;
            *expr = parse_quote!(value);
            return;
        }
        match expr {
            Expr::Binary(binary) if is_nothing(&binary.right) => {
                self.visit_expr_mut(&mut binary.left);
                let value = &binary.left;
                match binary.op {
                    BinOp::Eq(_) => *expr = parse_quote!(#value.is_none()),
                    BinOp::Ne(_) => *expr = parse_quote!(#value.is_some()),
                    _ => {}
                }
            }
            Expr::Binary(binary) => match (&*binary.left, &*binary.right) {
                // They are compared as references.
                (Expr::Reference(_), _) | (_, Expr::Reference(_)) => {
                    visit_mut::visit_expr_binary_mut(self, binary);
                }
                _ => {
                    self.visit_operand(&mut binary.left);
                    self.visit_operand(&mut binary.right);
                }
            },
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                self.visit_operand(&mut unary.expr);
            }
            Expr::MethodCall(call) => {
                call.method = snake(&call.method);
                visit_mut::visit_expr_method_call_mut(self, call);
            }
            expr => visit_mut::visit_expr_mut(self, expr),
        }
    }
}

/// `is_empty` for `isEmpty`.
fn snake(name: &Ident) -> Ident {
    let snake = snake_case(&name.to_string());
    syn::parse_str(&snake).unwrap_or_else(|_| name.clone())
}

/// Returns `true` for `null` and `None`.
fn is_nothing(expr: &Expr) -> bool {
    let Expr::Path(path) = expr else { return false };
    ["null", "nil", "None"].iter().any(|nothing| path.path.is_ident(nothing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_function(name: &str, text: &str, condition: &str) {
        let function = retention(name, Some(text), &["req".to_owned()]).expect("a condition");
        let start =
            format!("`fn retention(value: &Order) -> std::time::Duration {{ if {condition} {{");
        assert!(function.starts_with(&start), "{function}");
    }

    #[test]
    fn conditions_on_the_answer_are_conditions_on_the_value() {
        is_function("unless", "\"result == 0\"", "*value == 0");
        is_function("unless", "\"#result == null\"", "value.is_none()");
        is_function("unless", "\"#result.status == 'open'\"", "value.status == \"open\"");
        is_function("cache_if", "!result.isEmpty()", "!value.is_empty()");
        is_function("skip_if", "|r| r < 3 || r.is_odd()", "*value < 3 || value.is_odd()");
        is_function("unless", "\"result != 3\"", "*value != 3");
        is_function("skip_if", "|r| *r == 3", "*value == 3");
        is_function("skip_if", "|r| r == &3", "value == &3");
        is_function("skip_if", "is_empty", "is_empty(value)");
        let kept = retention("cache_if", Some("result > 0"), &[]).unwrap();
        assert!(
            kept.contains("if *value > 0 { std::time::Duration::from_secs(300) } else"),
            "{kept}"
        );
    }

    #[test]
    fn other_conditions_are_left_to_the_user() {
        let parameters = ["req".to_owned()];
        for text in ["\"not result\"", "\"true\"", "\"#req.amount > 10\"", "\"other > 3\""] {
            assert_eq!(retention("unless", Some(text), &parameters), None, "{text}");
        }
        assert!(is_known_before(Some("\"#req.amount > 10\""), &parameters));
        assert!(!is_known_before(Some("\"#result > 10\""), &parameters));
    }
}
