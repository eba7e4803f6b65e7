//! Text that a key puts together, as a template.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, Lit, Token};

use super::unwrap;
use crate::source::source;
use crate::value::literal;

/// `order-{id}` for the tokens of a template whose quotes were left out.
pub(super) fn in_braces(expr: &Expr) -> Option<String> {
    match unwrap(expr) {
        Expr::Block(block) => match block.block.stmts.as_slice() {
            [syn::Stmt::Expr(path @ (Expr::Path(_) | Expr::Field(_)), None)] => {
                Some(format!("{{{}}}", source(path)))
            }
            _ => None,
        },
        Expr::Struct(name) => Some(source(name).replace(' ', "")),
        Expr::Binary(binary) => {
            let side = |expr: &Expr| match unwrap(expr) {
                Expr::Path(path) => Some(source(path)),
                expr => in_braces(expr),
            };
            let op = source(&binary.op).trim().to_owned();
            let text = format!("{}{op}{}", side(&binary.left)?, side(&binary.right)?);
            text.contains('{').then_some(text)
        }
        _ => None,
    }
}

/// The template for a concatenation of strings: `order:{req.id}` for `"order:" + req.id`.
pub(super) fn concatenation(binary: &syn::ExprBinary) -> Option<String> {
    fn pieces(expr: &Expr, template: &mut String) -> Option<()> {
        match unwrap(expr) {
            Expr::Binary(binary) if matches!(binary.op, syn::BinOp::Add(_)) => {
                pieces(&binary.left, template)?;
                pieces(&binary.right, template)
            }
            Expr::Reference(reference) => pieces(&reference.expr, template),
            expr => {
                match literal(expr) {
                    Some(Lit::Str(text)) => {
                        template.push_str(&text.value().replace('{', "{{").replace('}', "}}"));
                    }
                    Some(Lit::Char(letter)) => template.push(letter.value()),
                    Some(_) => return None,
                    None => template.push_str(&format!("{{{}}}", source(expr))),
                }
                Some(())
            }
        }
    }
    let mut template = String::new();
    pieces(&Expr::Binary(binary.clone()), &mut template)?;
    if !template.contains('{') {
        // Names in quotes, with text between them.
        return all_quoted(binary);
    }
    // Without fixed text it may as well be a sum.
    let is_text = template.split(['{', '}']).step_by(2).any(|text| !text.is_empty());
    is_text.then_some(template)
}

/// `{user}:{id}` for `"user" + ":" + "id"`.
fn all_quoted(binary: &syn::ExprBinary) -> Option<String> {
    fn piece(expr: &Expr) -> Option<String> {
        match (unwrap(expr), literal(expr)) {
            (_, Some(Lit::Str(text))) => Some(match text.parse::<Expr>() {
                Ok(Expr::Path(_) | Expr::Field(_)) => format!("{{{}}}", text.value()),
                _ => text.value(),
            }),
            (Expr::Binary(binary), _) => all_quoted(binary),
            _ => None,
        }
    }
    Some(piece(&binary.left)? + &piece(&binary.right)?)
}

/// `order:{id}` for `concat!("order:", id)`.
pub(super) fn concatenated(arguments: &TokenStream) -> Option<String> {
    let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
    let piece = |argument: &Expr| match literal(argument) {
        Some(Lit::Str(text)) => text.value(),
        _ => format!("{{{}}}", source(argument)),
    };
    Some(parser.parse2(arguments.clone()).ok()?.iter().map(piece).collect())
}
