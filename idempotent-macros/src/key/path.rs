//! Field paths: `req.order_id`, `pair.0`, `req.id()`, `req.reference?`, `req.customer?.id`.
//!
//! Nothing in a path can panic: a value that may be missing is an `Option` with `?` after it.

mod absent;
mod computed;
mod fallback;
mod joined;
mod refusal;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprIndex, ExprMethodCall, ExprPath, ExprTuple, Lit, Member, Token};

use self::absent::end_of;
use self::refusal::as_text;
use super::{Elements, Header};
use crate::mistake::mistake;
use crate::source::source;
use crate::value::{literal, peel};

/// A parameter (or `self`) and the steps that lead from it to the value.
#[derive(Debug)]
pub(crate) struct FieldPath {
    pub(crate) root: Ident,
    pub(super) steps: Vec<Step>,
    /// The path ends in `?`: its value is an `Option`.
    pub(super) optional: bool,
    /// The path ends in `:?`, in a text for people: its value is shown by `Debug`.
    pub(super) as_debug: bool,
}

#[derive(Debug)]
pub(super) enum Step {
    Field(Member),
    Call(Ident),
    /// `?` on the way: the path goes on in the value of an `Option`.
    Value,
}

/// Position of the path in the key, for help texts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Whole,
    /// The member of a tuple at an index.
    Member(&'a ExprTuple, usize),
    Hole,
}

impl FieldPath {
    /// The field that the path takes first.
    pub(crate) fn first_field(&self) -> Option<String> {
        match self.steps.first()? {
            Step::Field(Member::Named(field)) => Some(field.to_string()),
            Step::Field(Member::Unnamed(_)) | Step::Call(_) | Step::Value => None,
        }
    }

    /// The field that the path ends in.
    pub(crate) fn last_field(&self) -> Option<String> {
        match self.steps.last()? {
            Step::Field(Member::Named(field)) => Some(field.to_string()),
            Step::Field(Member::Unnamed(_)) | Step::Call(_) | Step::Value => None,
        }
    }

    /// The position of the last name in the path.
    pub(super) fn end(&self) -> Span {
        match self.steps.last() {
            Some(Step::Field(Member::Named(name)) | Step::Call(name)) => name.span(),
            Some(Step::Field(Member::Unnamed(index))) => index.span,
            Some(Step::Value) | None => self.root.span(),
        }
    }

    /// The steps up to each `?` on the way, and those after the last one.
    pub(super) fn legs(&self) -> impl DoubleEndedIterator<Item = &[Step]> {
        self.steps.split(|step| matches!(step, Step::Value))
    }

    /// Returns `true` for a path with `?`.
    pub(crate) fn may_be_missing(&self) -> bool {
        self.optional || self.legs().count() > 1
    }

    /// The path as it is written from another root.
    pub(crate) fn with_root(&self, root: &str) -> String {
        let mut text = root.to_owned();
        for step in &self.steps {
            match step {
                Step::Field(Member::Named(field)) => text.push_str(&format!(".{field}")),
                Step::Field(Member::Unnamed(index)) => text.push_str(&format!(".{}", index.index)),
                Step::Call(method) => text.push_str(&format!(".{method}()")),
                Step::Value => text.push('?'),
            }
        }
        text.push_str(if self.optional { "?" } else { "" });
        text.push_str(if self.as_debug { ":?" } else { "" });
        text
    }

    /// Returns `true` if the path is a single identifier.
    pub(crate) fn is_word(&self) -> bool {
        self.steps.is_empty() && !self.optional
    }
}

pub(super) fn read(name: &Ident, expr: &Expr, place: Place<'_>) -> syn::Result<FieldPath> {
    let (base, optional) = match unwrap(expr) {
        Expr::Try(optional) => (unwrap(&optional.expr), true),
        base => (base, false),
    };
    let reader = Reader { name, place, whole: base, optional };
    let mut steps = Vec::new();
    let root = reader.walk(base, &mut steps)?;
    Ok(FieldPath { root, steps, optional, as_debug: false })
}

struct Reader<'a> {
    name: &'a Ident,
    place: Place<'a>,
    /// The path without `?`.
    whole: &'a Expr,
    /// The path ends in `?`.
    optional: bool,
}

impl Reader<'_> {
    fn walk(&self, expr: &Expr, steps: &mut Vec<Step>) -> syn::Result<Ident> {
        let expr = unwrap(expr);
        match expr {
            Expr::Path(path) => self.root(path),
            Expr::Field(field) => {
                let root = self.walk(&field.base, steps)?;
                steps.push(Step::Field(field.member.clone()));
                Ok(root)
            }
            Expr::MethodCall(call) => {
                let root = self.walk(&call.receiver, steps)?;
                let on_a_place = !steps.iter().any(|step| matches!(step, Step::Call(_)));
                steps.push(Step::Call(self.method(call, on_a_place)?));
                Ok(root)
            }
            Expr::Try(value) => {
                let root = self.walk(&value.expr, steps)?;
                steps.push(Step::Value);
                Ok(root)
            }
            Expr::Index(index) => Err(self.index(index)),
            _ => Err(self.refuse(expr)),
        }
    }

    fn root(&self, path: &ExprPath) -> syn::Result<Ident> {
        match path.path.get_ident() {
            Some(root) if path.qself.is_none() => Ok(root.clone()),
            _ => {
                let name = self.name;
                let text = source(path);
                let what = format!("`{text}` is not a parameter");
                let is_value = |segment: &syn::PathSegment| {
                    segment.ident.to_string().starts_with(|c: char| c.is_lowercase())
                };
                let is_constant = path.path.segments.last().is_none_or(|last| !is_value(last));
                if is_constant && matches!(self.place, Place::Member(..)) {
                    let rest = self.several(&[]);
                    let help =
                        format!("leave out a constant, which is the same for every call: `{rest}`");
                    return Err(mistake(path, what, help));
                }
                let help = match path.qself.is_none() && path.path.segments.iter().all(is_value) {
                    true if is_function(path) => {
                        let method = path.path.segments.last().map(|last| &last.ident);
                        let call = format!("req.{}()", quote!(#method));
                        format!("make the function a method: `{}`", self.whole(&call))
                    }
                    true => format!("for a field: `{}`", self.whole(&text.replace("::", "."))),
                    false if path.path.segments.last().is_some_and(is_value) => {
                        let last = path.path.segments.last().map(|last| &last.ident);
                        let field = self.whole(&format!("req.{}", quote!(#last)));
                        format!("for a field: `{field}`; for a constant: `{name} = const {text}`")
                    }
                    false => format!("for a constant: `{name} = const {text}`"),
                };
                Err(mistake(path, what, help))
            }
        }
    }

    /// The name of a method that can be called. `on_a_place` says that it is called on a parameter
    /// or on a field of one, which the key only borrows.
    fn method(&self, call: &ExprMethodCall, on_a_place: bool) -> syn::Result<Ident> {
        let method = &call.method;
        let name = self.name;
        let receiver = source(&call.receiver);
        match method.to_string().as_str() {
            "unwrap" | "expect" => {
                let what = format!("`{method}` panics in the caller if there is no value");
                return Err(mistake(method, what, self.without_a_value(call, &receiver)));
            }
            "unwrap_or_default" | "unwrap_or" | "unwrap_or_else" if !is_path_of_own(call) => {
                let what = match name == "message" {
                    true => format!("`{name}` shows values, and an `Option` may have none"),
                    false => format!("`{method}` gives all calls without a value the same key"),
                };
                let refused = self.without_a_value(call, &receiver);
                let help = match name == "message" {
                    true => refused,
                    false => {
                        format!("{refused}; or, if that is meant, {}", self.own_method(&receiver))
                    }
                };
                return Err(mistake(method, what, help));
            }
            text if text.starts_with("into_") && on_a_place => {
                let what = format!(
                    "`{method}` takes `{receiver}` away from the body, and a key only borrows it"
                );
                let cloned = self.whole(&format!("{receiver}.clone().{method}()"));
                let help = match text {
                    // The text itself is a key.
                    "into_bytes" | "into_string" | "into_boxed_str" => {
                        format!("`{}`, or `{cloned}`", self.whole(&receiver))
                    }
                    _ => {
                        let field = match text.trim_start_matches("into_") {
                            "inner" | "value" | "parts" => "0",
                            field => field,
                        };
                        let borrows = match field {
                            "0" => "as_inner",
                            field => field,
                        };
                        let method = self.whole(&format!("{receiver}.{borrows}()"));
                        let field = self.whole(&format!("{receiver}.{field}"));
                        format!(
                            "name the field that it returns: `{field}`; or a method that borrows, with `&self` \
                             in place of `self`: `{method}`; if the type is `Clone`, a copy of it: `{cloned}`"
                        )
                    }
                };
                return Err(mistake(method, what, help));
            }
            _ => {}
        }
        if let Some(turbofish) = &call.turbofish {
            let what = format!("`{name}` cannot give `{method}` type arguments");
            return Err(mistake(turbofish, what, self.own_method(&receiver)));
        }
        if let Some(help) = self.header(call) {
            let what = format!("`{name}` cannot give `{method}` arguments");
            return Err(mistake(&call.args, what, help));
        }
        if !call.args.is_empty() {
            let what = format!("`{name}` cannot give `{method}` arguments");
            return Err(mistake(&call.args, what, self.own_method(&receiver)));
        }
        Ok(method.clone())
    }

    fn index(&self, index: &ExprIndex) -> syn::Error {
        let receiver = source(&index.expr);
        let whole = source(self.whole).replace(' ', "");
        if is_all(&index.index)
            && self.name != "message"
            && let Some(elements) = Elements::of(&whole)
        {
            let (what, help) = elements.explain(self.name, |path| self.whole(path));
            return mistake(index, what, help);
        }
        let what = format!("`{}` panics in the caller if there is no such element", source(index));
        if let (Some(Lit::Str(entry)), Place::Whole) = (literal(&index.index), self.place)
            && receiver.contains("header")
            && let Some(header) = Header::of_path("headers", Some(&entry.value()))
        {
            return mistake(index, what, header.help(self.name));
        }
        let Some(end) = end_of(&index.index) else {
            return mistake(index, what, self.own_option());
        };
        mistake(index, what, self.without_a_value(index, &format!("{receiver}{end}")))
    }

    /// The path with `?`, as it is written in its place.
    fn optional(&self, path: &str) -> String {
        self.whole(&format!("{path}?"))
    }

    /// The path as it is written in its place: a tuple with its other members.
    fn whole(&self, path: &str) -> String {
        self.several(&[path.to_owned()])
    }

    /// Several paths in the place of the one.
    fn several(&self, paths: &[String]) -> String {
        match (self.place, paths) {
            (Place::Hole, _) => {
                paths.iter().map(|path| format!("{{{path}}}")).collect::<Vec<_>>().join(":")
            }
            (Place::Whole, [path]) => format!("{} = {path}", self.name),
            (Place::Whole, _) => format!("{} = ({})", self.name, paths.join(", ")),
            // The other members may be mistakes, too.
            (Place::Member(tuple, at), _)
                if !tuple.elems.iter().enumerate().all(|(other, member)| {
                    other == at || read(self.name, member, Place::Hole).is_ok()
                }) =>
            {
                paths.join(", ")
            }
            (Place::Member(tuple, at), _) => {
                let mut members: Vec<_> = tuple.elems.iter().map(source).collect();
                members.splice(at..=at, paths.iter().cloned());
                let comma = if members.len() == 1 { "," } else { "" };
                format!("{} = ({}{comma})", self.name, members.join(", "))
            }
        }
    }
}

/// Returns `true` for a value that another field takes the place of: `token.unwrap_or(req.id)`.
fn is_path_of_own(call: &ExprMethodCall) -> bool {
    let mut argument = call.args.first().map(unwrap);
    loop {
        argument = match argument {
            Some(Expr::Reference(reference)) => Some(unwrap(&reference.expr)),
            Some(Expr::MethodCall(call)) => Some(unwrap(&call.receiver)),
            argument => return matches!(argument, Some(Expr::Field(_))),
        };
    }
}

/// Returns `true` for `..`.
fn is_all(index: &Expr) -> bool {
    matches!(index, Expr::Range(range) if range.start.is_none() && range.end.is_none())
}

/// The type that a method in a help text returns.
pub(super) const KEY_PART: &str = "impl idempotent_runtime::KeyPart + '_";

/// Returns `true` for the path of a function that makes keys, by its name.
fn is_function(path: &ExprPath) -> bool {
    let name = path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    let verbs = ["make_", "get_", "build_", "compute_", "derive_", "hash_"];
    name.contains("key") || verbs.iter().any(|verb| name.starts_with(verb))
}

/// A value for an argument that takes a key expression.
pub(super) fn example(name: &Ident) -> &'static str {
    match name == "fingerprint" {
        true => "(req.amount, req.currency)",
        false => "req.order_id",
    }
}

/// The parameter that a path starts from, or `req` where there is none.
pub(super) fn root_of(path: &str) -> &str {
    let path = path.trim_start_matches(['&', '*', '(', ' ']).trim_start_matches("mut ");
    let raw = if path.starts_with("r#") { 2 } else { 0 };
    let name = &path[raw..];
    let end = raw + name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    match &path[..end] {
        "" => "req",
        root => root,
    }
}

/// The template for the arguments of `format!`: `order:{req.id}` for `"order:{}", req.id`.
pub(crate) fn formatted(arguments: &TokenStream) -> Option<String> {
    let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
    let arguments = parser.parse2(arguments.clone()).ok()?;
    let mut arguments = arguments.iter();
    let Some(Lit::Str(text)) = literal(arguments.next()?) else { return None };
    let text = text.value().replace("{:?}", "{}").replace("{:#?}", "{}");
    let mut pieces = text.split("{}");
    let mut template = pieces.next()?.to_owned();
    for piece in pieces {
        let argument = arguments.next()?;
        match literal(argument) {
            Some(fixed) => template.push_str(&as_text(fixed)),
            None => template.push_str(&format!("{{{}}}", source(argument))),
        }
        template.push_str(piece);
    }
    // Without fixed text or a path in it, there is nothing to put together.
    template.contains('{').then_some(template)
}

/// The expression without parentheses and invisible groups.
fn unwrap(expr: &Expr) -> &Expr {
    match peel(expr) {
        Expr::Paren(paren) => unwrap(&paren.expr),
        expr => expr,
    }
}
