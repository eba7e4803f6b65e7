//! Key expressions, as `key`, `scope` and `fingerprint` take them: field paths, tuples, templates
//! and constants. `message` takes a template of the same kind.
//!
//! An expression is parsed into [`Key`] and generated from it, so that nothing outside the grammar
//! reaches the generated code.

mod foreign;
mod path;
#[cfg(any(test, not(proc_macro)))]
pub(crate) mod printed;
pub(crate) mod quoted;
mod template;
mod tokens;

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Block, Expr, ExprConst, ExprTuple, Lit, LitStr, Stmt};

use self::path::Place;
pub(crate) use self::path::{FieldPath, formatted};
use crate::mistake::{Mistakes, mistake};
use crate::source::source;
use crate::value::{Value, literal, peel};

/// A key expression with its position in the user's code.
#[derive(Debug)]
pub(crate) struct Key {
    form: Form,
    span: Span,
    /// The literal of a quoted key. Its names have no hygiene of their own and mean the function's
    /// parameters.
    quoted: Option<LitStr>,
}

#[derive(Debug)]
enum Form {
    Path(FieldPath),
    Tuple(Vec<FieldPath>),
    Template(Vec<Piece>),
    Constant(Expr),
}

/// A part of a template.
#[derive(Debug)]
enum Piece {
    Text(String),
    Hole(FieldPath),
}

impl Key {
    /// The tokens at which an error about `path` is reported.
    pub(crate) fn at(&self, path: &FieldPath) -> TokenStream {
        match &self.quoted {
            Some(literal) => literal.to_token_stream(),
            None => path.root.to_token_stream(),
        }
    }

    /// The position of the whole key.
    pub(crate) fn at_all(&self) -> Span {
        self.span
    }

    /// Returns `true` for text with holes.
    pub(crate) fn is_template(&self) -> bool {
        matches!(self.form, Form::Template(_))
    }

    /// Returns `true` for a key in quotes.
    pub(crate) fn is_quoted(&self) -> bool {
        self.quoted.is_some()
    }

    /// All field paths, in source order.
    pub(crate) fn paths(&self) -> Vec<&FieldPath> {
        match &self.form {
            Form::Path(path) => vec![path],
            Form::Tuple(paths) => paths.iter().collect(),
            Form::Template(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    Piece::Text(_) => None,
                    Piece::Hole(path) => Some(path),
                })
                .collect(),
            Form::Constant(_) => Vec::new(),
        }
    }
}

impl Value for Key {
    fn read(name: &Ident, value: &Expr) -> syn::Result<Self> {
        let (form, quoted) = match (value, literal(value)) {
            (Expr::Const(block), _) => (constant(name, block)?, None),
            (_, Some(Lit::Str(text))) => {
                let form =
                    from_text(name, text).map_err(|errors| quoted::point_at(text, errors))?;
                (form, Some(text.clone()))
            }
            _ => (from_expression(name, value)?, None),
        };
        Ok(Self { form, span: value.span(), quoted })
    }
}

fn from_text(name: &Ident, text: &LitStr) -> syn::Result<Form> {
    let value = text.value();
    if value.trim().is_empty() {
        let out = match name == "key" {
            true => "leave `key` out to use the token of the request",
            false => "leave it out",
        };
        let help = format!("{out}; for a field: `{name} = \"{}\"`", path::example(name));
        return Err(mistake(text, format!("`{name}` is empty"), help));
    }
    if let Some(foreign) = foreign::recognise(&value) {
        return Err(mistake(text, foreign.what, format!("`{name} = \"{}\"`", foreign.translation)));
    }
    if let Ok(call) = syn::parse_str::<syn::ExprMacro>(&value)
        && call.mac.path.is_ident("format")
        && let Some(template) = path::formatted(&call.mac.tokens)
    {
        let what = format!("`{name}` cannot use the macro `format!`");
        let help = format!("a template puts text together: `{name} = \"{template}\"`");
        return Err(mistake(text, what, help));
    }
    if value.contains(['{', '}']) {
        return template::read(name, text).map(Form::Template);
    }
    if let Some((what, closed)) = unclosed(&value) {
        return Err(mistake(text, what, format!("`{name} = \"{closed}\"`")));
    }
    let expr = quoted::parse::<Expr>(text).map_err(|_| {
        let as_constant = format!("for a fixed value `{name} = const {}`", source(text));
        let help = match value.strip_prefix("const ") {
            Some(constant) => match fixed(constant).as_str() {
                text if text == constant => {
                    format!("write it without the quotes: `{name} = const {text}`")
                }
                text => format!("`const` stands before the quotes: `{name} = const {text}`"),
            },
            None if syn::parse_str::<ExprTuple>(&format!("({value})")).is_ok() => {
                format!("several parts are a tuple: `{name} = \"({value})\"`")
            }
            None if value.contains('?') && value.contains(' ') => {
                format!(
                    "add a method that chooses, and call it: `{name} = \"req.idempotency_key()\"`"
                )
            }
            None if is_words(&value) => {
                let words: Vec<_> = value.split_whitespace().collect();
                let (field, tuple) = (words.join("."), words.join(", "));
                format!(
                    "for a field: `{name} = \"{field}\"`; for several parts: `{name} = \
                     \"({tuple})\"`; {as_constant}"
                )
            }
            None => match (value.strip_prefix("mut "), with_braces(&value)) {
                (Some(parameter), _) => format!("`{name} = \"{parameter}\"`"),
                (_, Some(template)) => format!("`{name} = \"{template}\"`, or {as_constant}"),
                _ => format!("`{name} = \"{}\"`, or {as_constant}", path::example(name)),
            },
        };
        mistake(text, format!("`{value}` is not a field path"), help)
    })?;
    from_expression(name, &expr)
}

/// The problem of a parenthesis or a bracket without its counterpart, and the text with both.
fn unclosed(text: &str) -> Option<(String, String)> {
    let (open, close) = [('(', ')'), ('[', ']')]
        .into_iter()
        .find(|(open, close)| text.matches(*open).count() != text.matches(*close).count())?;
    let is_open = text.matches(open).count() > text.matches(close).count();
    let (alone, partner, closed) = match is_open {
        true => (open, close, format!("{text}{close}")),
        false => (close, open, format!("{open}{text}")),
    };
    let closed = match syn::parse_str(&closed) {
        Ok(Expr::Array(array)) => format!("({})", source(&array.elems)),
        // A pair around a path does nothing.
        Ok(Expr::Paren(paren)) => source(&paren.expr),
        Ok(_) => closed,
        // Several are missing: tuples do not nest.
        Err(_) => {
            let flat = format!("({})", text.replace([open, close], ""));
            syn::parse_str::<ExprTuple>(&flat).ok()?;
            flat
        }
    };
    Some((format!("`{alone}` without `{partner}`"), closed))
}

/// A constant as it stands after `const`: a literal and the path of a constant as they are, other
/// text in quotes.
fn fixed(text: &str) -> String {
    let is_constant = syn::parse_str::<syn::Path>(text).is_ok_and(|path| {
        let last = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        !last.contains(char::is_lowercase)
    });
    match is_constant || syn::parse_str::<Lit>(text).is_ok() {
        true => text.to_owned(),
        false => format!("\"{}\"", text.trim_matches(['\'', '\\', '"'])),
    }
}

/// Returns `true` for several names with nothing but space between them.
fn is_words(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_name = |word: &str| syn::parse_str::<Ident>(word).is_ok();
    words.clone().count() > 1 && words.all(is_name) && !text.starts_with("mut ")
}

/// `order:{req.id}` for `order:req.id`, in which the braces were left out.
fn with_braces(text: &str) -> Option<String> {
    let is_field = |text: &str| syn::parse_str::<syn::ExprField>(text).is_ok();
    let mut found = false;
    let pieces = text.split_inclusive([':', '/', '|']).map(|piece| {
        let field = piece.trim_end_matches([':', '/', '|']);
        match is_field(field) {
            true => {
                found = true;
                format!("{{{field}}}{}", &piece[field.len()..])
            }
            false => piece.to_owned(),
        }
    });
    let template: String = pieces.collect();
    found.then_some(template)
}

/// The template of `message`, if the text is one: text without holes is not.
pub(crate) fn message(name: &Ident, text: &LitStr) -> syn::Result<Option<Key>> {
    let pieces =
        template::read_message(name, text).map_err(|errors| quoted::point_at(text, errors))?;
    let has_holes = pieces.iter().any(|piece| matches!(piece, Piece::Hole(_)));
    let form = Form::Template(pieces);
    Ok(has_holes.then(|| Key { form, span: text.span(), quoted: Some(text.clone()) }))
}

fn from_expression(name: &Ident, expr: &Expr) -> syn::Result<Form> {
    match peel(expr) {
        Expr::Tuple(tuple) => from_tuple(name, tuple).map(Form::Tuple),
        expr => path::read(name, expr, Place::Whole).map(Form::Path),
    }
}

fn from_tuple(name: &Ident, tuple: &ExprTuple) -> syn::Result<Vec<FieldPath>> {
    if tuple.elems.is_empty() {
        let help = format!("`{name} = (req.user, req.seq)`");
        return Err(mistake(tuple, format!("the tuple in `{name}` is empty"), help));
    }
    let quoted = tuple.elems.iter().map(|member| match literal(member) {
        Some(Lit::Str(text)) => text.parse::<Expr>().ok().map(|_| text.value()),
        _ => None,
    });
    if let Some(paths) = quoted.collect::<Option<Vec<_>>>() {
        let what = format!("the quotes in `{name}` go around the whole tuple");
        return Err(mistake(tuple, what, format!("`{name} = \"({})\"`", paths.join(", "))));
    }
    let mut mistakes = Mistakes::default();
    let paths = tuple
        .elems
        .iter()
        .filter_map(|member| mistakes.take(path::read(name, member, Place::Member)))
        .collect();
    mistakes.or(paths)
}

/// `const "nightly"`: a literal or the path of a constant.
fn constant(name: &Ident, expr: &ExprConst) -> syn::Result<Form> {
    let Block { stmts, .. } = &expr.block;
    let value = match stmts.as_slice() {
        [Stmt::Expr(value, None)] => peel(value),
        _ => return Err(not_constant(name, expr)),
    };
    match value {
        Expr::Lit(lit) if matches!(lit.lit, Lit::Float(_)) => {
            let what = format!("`{name}` cannot be a float");
            Err(mistake(lit, what, format!("quote it: `{name} = const \"{}\"`", source(lit))))
        }
        Expr::Lit(_) | Expr::Path(_) => Ok(Form::Constant(value.clone())),
        _ => Err(not_constant(name, value)),
    }
}

fn not_constant(name: &Ident, at: &impl ToTokens) -> syn::Error {
    let what = "`const` takes a literal or the path of a constant";
    if let Ok(path @ (Expr::Field(_) | Expr::MethodCall(_) | Expr::Try(_))) =
        syn::parse2(at.to_token_stream())
        && from_expression(name, &path).is_ok()
    {
        return mistake(at, what, format!("remove `const`: `{name} = {}`", source(&path)));
    }
    mistake(at, what, format!("`{name} = const \"nightly\"`, or `{name} = const NIGHTLY`"))
}

#[cfg(test)]
mod tests;
