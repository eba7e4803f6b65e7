//! Prints keys as a user would write them, so that tests can parse the result again.

use super::Missing;
use std::fmt;

use proc_macro2::Span;
use quote::{ToTokens, format_ident};
use syn::{Expr, Lit, LitStr};

use super::path::Step;
use super::{FieldPath, Form, Key, Piece};
use crate::runtime::Runtime;
use crate::value::Value;

/// Returns `true` if `text` is a key, quoted or bare. Asserts that such a key is the same after it
/// was printed and parsed again, and that every error for any other text has a `help:`.
pub(crate) fn is_sound(text: &str) -> bool {
    let bare = match syn::parse_str::<Expr>(text) {
        // A literal is a quoted key.
        Ok(Expr::Lit(_)) | Err(_) => false,
        Ok(expr) => reads_again(&expr, |printed| syn::parse_str(printed).ok()),
    };
    reads_again(&quoted(text), |printed| Some(quoted(printed))) | bare
}

fn quoted(text: &str) -> Expr {
    let lit = Lit::Str(LitStr::new(text, Span::call_site()));
    Expr::Lit(syn::ExprLit { attrs: Vec::new(), lit })
}

fn reads_again(expr: &Expr, parse: impl Fn(&str) -> Option<Expr>) -> bool {
    let name = format_ident!("key");
    let key = match Key::read(&name, expr) {
        Ok(Key { form: Form::Constant(_), .. }) => return true,
        Ok(key) => key,
        Err(errors) => {
            for error in errors {
                assert!(error.to_string().contains("\nhelp: "), "no help: {error}");
            }
            return false;
        }
    };
    let printed = key.to_string();
    let again = parse(&printed).and_then(|expr| Key::read(&name, &expr).ok());
    let again = again.unwrap_or_else(|| panic!("`{printed}` is not read again"));
    let tokens = generated(&key);
    assert_eq!(tokens, generated(&again), "`{printed}` is read as another key");
    assert!(syn::parse_str::<Expr>(&tokens).is_ok(), "no expression is generated: {tokens}");
    true
}

fn generated(key: &Key) -> String {
    key.encoded(&Runtime::new(None), &[], Missing::Refused, |_| None).to_string()
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            Form::Path(path) => path.fmt(formatter),
            Form::Tuple(paths) => {
                formatter.write_str("(")?;
                paths.iter().try_for_each(|path| write!(formatter, "{path}, "))?;
                formatter.write_str(")")
            }
            Form::Template(pieces) => pieces.iter().try_for_each(|piece| match piece {
                Piece::Text(text) => {
                    formatter.write_str(&text.replace('{', "{{").replace('}', "}}"))
                }
                Piece::Hole(path) => write!(formatter, "{{{path}}}"),
            }),
            Form::Constant(value) => write!(formatter, "const {}", value.to_token_stream()),
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(formatter)?;
        for step in &self.steps {
            match step {
                Step::Field(member) => write!(formatter, ".{}", member.to_token_stream())?,
                Step::Call(method) => write!(formatter, ".{method}()")?,
                Step::Value => formatter.write_str("?")?,
            }
        }
        if self.optional { formatter.write_str("?") } else { Ok(()) }
    }
}
