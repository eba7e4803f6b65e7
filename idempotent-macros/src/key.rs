//! Key expressions, as `key`, `scope` and `fingerprint` take them: field paths, tuples, templates
//! and constants. `message` takes a template of the same kind.
//!
//! An expression is parsed into [`Key`] and generated from it, so that nothing outside the grammar
//! reaches the generated code.

mod braces;
mod elements;
mod foreign;
mod header;

mod path;
#[cfg(any(test, not(proc_macro)))]
pub(crate) mod printed;
pub(crate) mod quoted;
mod repaired;
mod template;
mod tokens;

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Block, Expr, ExprConst, ExprLit, ExprTuple, Lit, LitStr, Stmt};

pub(crate) use self::elements::Elements;
pub(crate) use self::header::Header;
use self::path::Place;
pub(crate) use self::path::{FieldPath, formatted};
pub(crate) use self::repaired::{RENAMED, keyword};
use self::repaired::{
    fallback, fixed, in_single_quotes, is_words, looks_fixed, unclosed, with_braces,
};
pub(crate) use self::tokens::Missing;
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

    /// The value of a constant key.
    pub(crate) fn constant(&self) -> Option<&Expr> {
        match &self.form {
            Form::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The text of a constant key, and its placeholders as if it was a template.
    pub(crate) fn constant_text(&self, name: &Ident) -> Option<(&LitStr, Vec<FieldPath>)> {
        let Form::Constant(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) = &self.form else {
            return None;
        };
        let pieces = template::read(name, text).ok()?;
        let holes = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Hole(path) => Some(path),
        });
        Some((text, holes.collect()))
    }

    /// The key with other paths, as it stands in quotes.
    pub(crate) fn with(&self, written: impl Fn(&FieldPath) -> String) -> String {
        match &self.form {
            Form::Path(path) => written(path),
            Form::Tuple(paths) => {
                let members: Vec<_> = paths.iter().map(written).collect();
                let comma = if members.len() == 1 { "," } else { "" };
                format!("({}{comma})", members.join(", "))
            }
            Form::Template(pieces) => {
                let pieces = pieces.iter().map(|piece| match piece {
                    Piece::Text(text) => text.replace('{', "{{").replace('}', "}}"),
                    Piece::Hole(path) => format!("{{{}}}", written(path)),
                });
                pieces.collect()
            }
            Form::Constant(value) => source(value),
        }
    }

    /// The argument `name` with another path in the place of `old`: the hole of a template, and a tuple with its
    /// other parts.
    pub(crate) fn with_in_place(&self, name: &str, old: &FieldPath, new: &str) -> String {
        if self.is_template() {
            return format!("{{{new}}}");
        }
        let key = self.with(|path| match std::ptr::eq(path, old) {
            true => new.to_owned(),
            false => path.with_root(&path.root.to_string()),
        });
        format!("{name} = \"{key}\"")
    }

    /// The tuple of both keys, if they consist of paths and the other one has more of them.
    pub(crate) fn together_with(&self, other: &Self) -> Option<String> {
        let is_path = |key: &Self| matches!(key.form, Form::Path(_) | Form::Tuple(_));
        let texts = |key: &Self| -> Vec<String> {
            key.paths().iter().map(|path| path.with_root(&path.root.to_string())).collect()
        };
        let (mut paths, others) = (texts(self), texts(other));
        let known = paths.len();
        paths.extend(others.into_iter().filter(|path| !texts(self).contains(path)));
        let is_more = paths.len() > known && is_path(self) && is_path(other);
        is_more.then(|| format!("({})", paths.join(", ")))
    }

    /// Returns `true` for several parts.
    pub(crate) fn is_tuple(&self) -> bool {
        matches!(self.form, Form::Tuple(_))
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
        if let Some(error) = called(name, value) {
            return Err(error);
        }
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

/// The error for `"message.id"()`: the compiler proposes to call a method, and puts the parentheses behind the
/// quotes.
pub(crate) fn called(name: &Ident, value: &Expr) -> Option<syn::Error> {
    let Expr::Call(call) = value else { return None };
    let Some(Lit::Str(text)) = literal(&call.func).filter(|_| call.args.is_empty()) else {
        return None;
    };
    let written = text.value();
    let key = match name == "message" {
        true => message(name, text).ok()??,
        false => Key { form: from_text(name, text).ok()?, span: text.span(), quoted: None },
    };
    let fields = key.paths().into_iter().filter(|path| path.last_field().is_some());
    let calls: Vec<_> = fields
        .map(|field| {
            let call = key.with(|path| {
                let written = path.with_root(&path.root.to_string());
                if std::ptr::eq(path, field) { format!("{written}()") } else { written }
            });
            format!("`{name} = \"{call}\"`")
        })
        .collect();
    if calls.is_empty() {
        return None;
    }
    let what =
        format!("`()` behind `{written}` calls nothing: a method is called inside the quotes");
    Some(mistake(call, what, calls.join(", or ")))
}

/// The root of a path from the answer in other languages. It is a keyword, and no parameter.
pub(crate) const ANSWER: &str = "r#return";

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
    // The answer, which has no name here.
    let answer = ["return", "#result", "#return"].iter().find_map(|name| value.strip_prefix(name));
    if let Some(path) = answer
        && let Ok(expr) = quoted::parse_text(&format!("{ANSWER}{path}"), text.span())
        && let Ok(form) = from_expression(name, &expr)
        && matches!(&form, Form::Path(path) if path.root == ANSWER)
    {
        return Ok(form);
    }
    if let Some(elements) = Elements::of(&value).filter(|_| !value.contains(['{', '}'])) {
        let (what, help) = elements.explain(name, |key| format!("{name} = \"{key}\""));
        return Err(mistake(text, what, help));
    }
    if let Some(foreign) = foreign::recognise(&value) {
        let tuple = foreign.translation.replace(['{', '}'], "");
        let translation = match syn::parse_str::<ExprTuple>(&tuple) {
            // A tuple has no holes.
            Ok(_) => tuple,
            Err(_) => foreign.translation,
        };
        return Err(mistake(text, foreign.what, format!("`{name} = \"{translation}\"`")));
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
        if let Some((what, path)) = keyword(&value) {
            return mistake(text, what, format!("{RENAMED}`{name} = \"{path}\"`"));
        }
        if let Some(error) = in_single_quotes(name, text) {
            return error;
        }
        if let Some(header) = Header::of_text(&value) {
            return mistake(text, format!("`{value}` is not a field path"), header.help(name));
        }
        if let Some(error) = in_place_of_fallback(name, text, &value, Place::Whole) {
            return error;
        }
        let listed = value.trim_end_matches([',', ' ']);
        let as_constant = format!("for one key of all calls: `{name} = const {}`", source(text));
        let or_constant = match looks_fixed(&value) {
            true => format!("; {as_constant}"),
            false => String::new(),
        };
        let help = match value.strip_prefix("const ") {
            Some(constant) => match fixed(constant).as_str() {
                text if text == constant => {
                    format!("write it without the quotes: `{name} = const {text}`")
                }
                text => format!("`const` stands before the quotes: `{name} = const {text}`"),
            },
            None if syn::parse_str::<ExprTuple>(&format!("({listed})")).is_ok() => {
                format!("several parts are a tuple: `{name} = \"({listed})\"`")
            }
            None if value.contains("? ") && value.contains(':') => {
                let root = path::root_of(&value);
                format!(
                    "add a method that chooses, and call it: `{name} = \"{root}.idempotency_key()\"`"
                )
            }
            None if is_words(&value) => {
                let words: Vec<_> = value.split_whitespace().collect();
                let (field, tuple) = (words.join("."), words.join(", "));
                format!(
                    "for a field: `{name} = \"{field}\"`; for several parts: `{name} = \
                     \"({tuple})\"`{or_constant}"
                )
            }
            None => match (value.strip_prefix("mut "), with_braces(&value)) {
                (Some(parameter), _) => format!("`{name} = \"{parameter}\"`"),
                (_, Some(template)) => format!("`{name} = \"{template}\"`"),
                _ => format!("`{name} = \"{}\"`{or_constant}", path::example(name)),
            },
        };
        mistake(text, format!("`{value}` is not a field path"), help)
    })?;
    from_expression(name, &expr)
}

/// The error for `req.token ?? req.id` in a text, which is one for `||`, too.
fn in_place_of_fallback(
    name: &Ident,
    text: &LitStr,
    path: &str,
    place: Place<'_>,
) -> Option<syn::Error> {
    let (operator, expr) = fallback(path)?;
    let error = match place {
        Place::Hole => path::read(name, &expr, place).err()?,
        _ => from_expression(name, &expr).err()?,
    };
    let error = error.to_string();
    let (_, help) = error.split_once("\nhelp: ")?;
    Some(mistake(text, format!("`{name}` cannot use the operator `{operator}`"), help))
}

/// The template of `message`, if the text is one: text without holes is not.
pub(crate) fn message(name: &Ident, text: &LitStr) -> syn::Result<Option<Key>> {
    let pieces =
        template::read_message(name, text).map_err(|errors| match braces::doubled(text) {
            Some((braces, doubled)) => {
                let what = format!("`{braces}` is text, and braces in `{name}` stand for values");
                mistake(text, what, format!("double them: `{name} = {doubled}`"))
            }
            None => quoted::point_at(text, errors),
        })?;
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
        let help = format!("`{name} = \"{}\"`", path::example(name));
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
        .enumerate()
        .filter_map(|(at, member)| {
            mistakes.take(path::read(name, member, Place::Member(tuple, at)))
        })
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
    if let Ok(Expr::Call(_) | Expr::Macro(_)) = syn::parse2(at.to_token_stream()) {
        let help = format!(
            "compute it in the caller, and pass it as a parameter `idempotency_key: impl idempotent_runtime::KeyPart`: \
             `{name} = idempotency_key`"
        );
        return mistake(at, what, help);
    }
    mistake(at, what, format!("`{name} = const \"..\"`, or the name of a constant after `const`"))
}

#[cfg(test)]
mod tests;
