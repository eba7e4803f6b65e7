//! Templates: `"user:{req.user_id}:order:{req.order_id}"`.

use proc_macro2::Ident;
use syn::{Expr, LitStr};

use super::path::{self, Place};
use super::{Elements, Piece, quoted};
use crate::methods::method_of;
use crate::mistake::{Mistakes, mistake};

pub(super) fn read(name: &Ident, template: &LitStr) -> syn::Result<Vec<Piece>> {
    let pieces = read_pieces(name, template)?;
    if !pieces.iter().any(|piece| matches!(piece, Piece::Hole(_))) {
        if let Some(holes) = doubled(&template.value()) {
            let what = "doubled braces are text, and no holes";
            return Err(mistake(template, what, format!("`{name} = \"{holes}\"`")));
        }
        let help = format!("`{name} = \"{}:{{req.order_id}}\"`", template.value());
        return Err(mistake(template, format!("the template in `{name}` has no holes"), help));
    }
    Ok(pieces)
}

/// `order:{id}` for `order:{{id}}`, as other template languages have it.
fn doubled(template: &str) -> Option<String> {
    let inside = template.split_once("{{")?.1.split_once("}}")?.0;
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ' ');
    let holes =
        template.replace("{{", "{").replace("}}", "}").replace("{ ", "{").replace(" }", "}");
    (!inside.trim().is_empty() && inside.chars().all(is_path)).then_some(holes)
}

/// Reads a text for people, in which there may be no holes and no part is optional.
pub(super) fn read_message(name: &Ident, template: &LitStr) -> syn::Result<Vec<Piece>> {
    let pieces = read_pieces(name, template)?;
    for piece in &pieces {
        if let Piece::Hole(path) = piece
            && path.may_be_missing()
        {
            let what = format!("`{name}` shows values, and an `Option` may have none");
            let field = path.last_field().unwrap_or_else(|| "reference".to_owned());
            let option = path.with_root("self");
            let help = match option.trim_end_matches('?') {
                way if way.contains('?') => text_parameter(&field),
                option => text_method(&path.root.to_string(), &field, option),
            };
            return Err(mistake(template, what, help));
        }
    }
    Ok(pieces)
}

/// Help for an `Option` in a text for people: a method that has a text without it, too.
pub(super) fn text_method(root: &str, field: &str, option: &str) -> String {
    let call = format!("{{{root}.{field}_text()}}");
    method_of(
        root,
        &format!("`{call}`, with "),
        &format!(
            "fn {field}_text(&self) -> String {{ {option}.as_ref().map_or_else(|| \"-\".to_owned(), \
             |value| value.to_string()) }}"
        ),
        &text_parameter(field),
    )
}

/// Help for an `Option` in a text for people: a parameter.
fn text_parameter(field: &str) -> String {
    format!(
        "make a text of it in the caller, and pass it as a parameter `{field}: String`: `{{{field}}}`"
    )
}

fn read_pieces(name: &Ident, template: &LitStr) -> syn::Result<Vec<Piece>> {
    if let Some((hole, named)) = named(&template.value()) {
        let what = format!("`{hole}` does not name a parameter");
        return Err(mistake(template, what, format!("`{name} = \"{named}\"`")));
    }
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
                    None if without_stray(&text).is_some() => format!(
                        "remove it: `{name} = \"{}\"`; for a brace as text, double it: `}}}}`",
                        without_stray(&text).unwrap_or_default()
                    ),
                    Some(_) => {
                        let closed = closed(&text);
                        format!("`{name} = \"{closed}\"`, or for a brace as text `{{{{`")
                    }
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

/// `user:{user}` for `user:{user}}`: the template without the closing braces that close nothing, if
/// that leaves holes.
fn without_stray(template: &str) -> Option<String> {
    let (mut clean, mut depth, mut holes) = (String::new(), 0, 0);
    for letter in template.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => continue,
            '}' => (depth, holes) = (depth - 1, holes + 1),
            _ => {}
        }
        clean.push(letter);
    }
    let is_sound = split(&clean).all(|part| part.is_ok());
    (holes > 0 && depth == 0 && is_sound && clean != template).then_some(clean)
}

fn read_hole(name: &Ident, template: &LitStr, hole: &str) -> syn::Result<path::FieldPath> {
    if hole.contains('{') {
        let what = format!("`{{{}` is not closed", path_in(hole));
        return Err(mistake(
            template,
            what,
            format!("`{name} = \"{}\"`", closed(&template.value())),
        ));
    }
    let is_debug = name == "message" && hole.trim_end().ends_with(":?");
    if let Some((path, _)) =
        hole.split_once(':').filter(|(_, format)| !is_debug && !format.starts_with(':'))
    {
        let (what, help) = match name == "message" {
            true => (
                format!("`{{{hole}}}` has a format that is not known here"),
                format!("`{{{path}}}`, or as `Debug` shows it: `{{{path}:?}}`", path = path.trim()),
            ),
            false => (
                format!("`{{{hole}}}` cannot have a format"),
                format!(
                    "`{{{}}}`: it tells the same values apart, however they are shown",
                    path.trim()
                ),
            ),
        };
        return Err(mistake(template, what, help));
    }
    let mut path = read_path(name, template, hole.trim_end().trim_end_matches(":?"))?;
    path.as_debug = is_debug;
    Ok(path)
}

fn read_path(name: &Ident, template: &LitStr, hole: &str) -> syn::Result<path::FieldPath> {
    if let Some(elements) = Elements::of(hole).filter(|_| name != "message") {
        let (what, help) = elements.explain(name, |path| format!("{{{path}}}"));
        return Err(mistake(template, what, help));
    }
    let expr: Expr = quoted::parse_text(hole, template.span()).map_err(|_| {
        if let Some((what, path)) = super::keyword(hole) {
            return mistake(template, what, format!("{}`{{{path}}}`", super::RENAMED));
        }
        if let Some((what, closed)) = super::unclosed(hole) {
            return mistake(template, what, format!("`{{{closed}}}`"));
        }
        if let Some(error) = super::in_place_of_fallback(name, template, hole, Place::Hole) {
            return error;
        }
        let what = format!("`{{{hole}}}` is not a field path");
        mistake(template, what, "name a field: `{req.order_id}`")
    })?;
    path::read(name, &expr, Place::Hole)
}

/// The path that a hole begins with.
fn path_in(hole: &str) -> &str {
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '?' | '(' | ')');
    hole.find(|c| !is_path(c)).map_or(hole, |end| &hole[..end])
}

/// `user:{user}:{id}` for `user:{user:{id}`: the template with a brace after each path that has none.
fn closed(template: &str) -> String {
    let mut pieces = template.split('{');
    let mut closed = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let path = path_in(piece);
        let rest = &piece[path.len()..];
        let brace = if path.is_empty() || piece.contains('}') { "" } else { "}" };
        closed.push_str(&format!("{{{path}{brace}{rest}"));
    }
    closed
}

/// The template with paths in the place of `{}` and `{0}`, if it has such holes.
fn named(template: &str) -> Option<(String, String)> {
    const FIELDS: [&str; 3] = ["req.order_id", "req.item", "req.user"];
    let mut first = None;
    let mut count = 0;
    let mut named = String::new();
    for part in split(template) {
        match part.ok()? {
            Part::Text(text) => named.push_str(&text.replace('{', "{{").replace('}', "}}")),
            Part::Hole(hole) if hole.trim().chars().all(|c| c.is_ascii_digit()) => {
                let at = hole.trim().parse().unwrap_or(count);
                named.push_str(&format!("{{{}}}", FIELDS[at % FIELDS.len()]));
                count += 1;
                first.get_or_insert_with(|| format!("{{{hole}}}"));
            }
            Part::Hole(hole) => named.push_str(&format!("{{{hole}}}")),
        }
    }
    Some((first?, named))
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
