//! Templates: `"user:{req.user_id}:order:{req.order_id}"`.

use proc_macro2::Ident;
use syn::{Expr, LitStr};

use super::path::{self, Place};
use super::{Piece, quoted};
use crate::mistake::{Mistakes, mistake};

pub(super) fn read(name: &Ident, template: &LitStr) -> syn::Result<Vec<Piece>> {
    let pieces = read_pieces(name, template)?;
    if !pieces.iter().any(|piece| matches!(piece, Piece::Hole(_))) {
        let text = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Hole(_) => "",
        });
        let text: String = text.collect();
        let help = format!("`{name} = \"order:{{req.order_id}}\"`, or `{name} = const \"{text}\"`");
        return Err(mistake(template, format!("the template in `{name}` has no holes"), help));
    }
    Ok(pieces)
}

/// Reads a text for people, in which there may be no holes and no part is optional.
pub(super) fn read_message(name: &Ident, template: &LitStr) -> syn::Result<Vec<Piece>> {
    let pieces = read_pieces(name, template)?;
    for piece in &pieces {
        if let Piece::Hole(path) = piece
            && path.optional
        {
            let what = format!("`{name}` shows values, and an `Option` may have none");
            let help = "add a method that returns the text, and call it: `{req.reference()}`";
            return Err(mistake(template, what, help));
        }
    }
    Ok(pieces)
}

fn read_pieces(name: &Ident, template: &LitStr) -> syn::Result<Vec<Piece>> {
    let mut mistakes = Mistakes::default();
    let mut pieces = Vec::new();
    let mut text = String::new();
    for part in split(&template.value()) {
        match part {
            Ok(Part::Text(more)) => text.push_str(more),
            Ok(Part::Hole(hole)) => {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                if let Some(path) = mistakes.take(read_hole(name, template, hole)) {
                    pieces.push(Piece::Hole(path));
                }
            }
            Err(Unbalanced(brace)) => {
                let partner = if brace == '{' { '}' } else { '{' };
                let text = template.value();
                let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '?');
                let open = text
                    .rsplit_once('{')
                    .filter(|_| brace == '{')
                    .map(|(_, rest)| rest.find(|c| !is_path(c)).map_or(rest, |end| &rest[..end]));
                let help = match open.filter(|path| !path.is_empty()) {
                    Some(path) => format!("`{{{path}}}`, or for a brace as text `{{{{`"),
                    None => format!("for a brace as text, double it: `{brace}{brace}`"),
                };
                return Err(mistake(template, format!("`{brace}` without `{partner}`"), help));
            }
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    mistakes.or(pieces)
}

fn read_hole(name: &Ident, template: &LitStr, hole: &str) -> syn::Result<path::FieldPath> {
    if hole.trim().is_empty() {
        let what = format!("`{{{hole}}}` is empty");
        return Err(mistake(template, what, "name a field: `{req.order_id}`"));
    }
    if let Some((path, _)) = hole.split_once(':').filter(|(_, format)| !format.starts_with(':')) {
        let what = format!("`{{{hole}}}` cannot have a format");
        return Err(mistake(template, what, format!("`{{{}}}`", path.trim())));
    }
    let expr: Expr = quoted::parse_text(hole, template.span()).map_err(|_| {
        let what = format!("`{{{hole}}}` is not a field path");
        mistake(template, what, "name a field: `{req.order_id}`")
    })?;
    path::read(name, &expr, Place::Hole)
}

enum Part<'a> {
    Text(&'a str),
    Hole(&'a str),
}

/// A brace without its counterpart.
struct Unbalanced(char);

/// Splits the template at its braces; `{{` and `}}` are text.
fn split(template: &str) -> impl Iterator<Item = Result<Part<'_>, Unbalanced>> {
    let mut rest = template;
    std::iter::from_fn(move || (!rest.is_empty()).then(|| next(&mut rest)))
}

fn next<'a>(rest: &mut &'a str) -> Result<Part<'a>, Unbalanced> {
    let text = *rest;
    let brace = text.find(['{', '}']).unwrap_or(text.len());
    if brace > 0 {
        *rest = &text[brace..];
        return Ok(Part::Text(&text[..brace]));
    }
    if text.starts_with("{{") || text.starts_with("}}") {
        *rest = &text[2..];
        return Ok(Part::Text(&text[..1]));
    }
    match (text.starts_with('{'), text.find('}')) {
        (true, Some(end)) => {
            *rest = &text[end + 1..];
            Ok(Part::Hole(&text[1..end]))
        }
        (true, None) => Err(Unbalanced('{')),
        (false, _) => Err(Unbalanced('}')),
    }
}
