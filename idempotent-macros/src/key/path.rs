//! Field paths: `req.order_id`, `pair.0`, `req.id()`, `req.reference?`.
//!
//! Nothing in a path can panic: a value that may be missing is an `Option` with `?` at the end.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprIndex, ExprMethodCall, ExprPath, Lit, Member, Token, UnOp};

use crate::list::source;
use crate::mistake::mistake;
use crate::value::{literal, peel};

/// A parameter (or `self`) and the steps that lead from it to the value.
#[derive(Debug)]
pub(crate) struct FieldPath {
    pub(crate) root: Ident,
    pub(super) steps: Vec<Step>,
    /// The path ends in `?`: its value is an `Option`.
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) enum Step {
    Field(Member),
    Call(Ident),
}

/// Position of the path in the key, for help texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Whole,
    Member,
    Hole,
}

impl FieldPath {
    /// The field that the path takes first.
    pub(crate) fn first_field(&self) -> Option<String> {
        match self.steps.first()? {
            Step::Field(Member::Named(field)) => Some(field.to_string()),
            Step::Field(Member::Unnamed(_)) | Step::Call(_) => None,
        }
    }

    /// Returns `true` if the path is a single identifier.
    pub(crate) fn is_word(&self) -> bool {
        self.steps.is_empty() && !self.optional
    }
}

pub(super) fn read(name: &Ident, expr: &Expr, place: Place) -> syn::Result<FieldPath> {
    let (base, optional) = match unwrap(expr) {
        Expr::Try(optional) => (unwrap(&optional.expr), true),
        base => (base, false),
    };
    let reader = Reader { name, place, whole: base };
    let mut steps = Vec::new();
    let root = reader.walk(base, &mut steps)?;
    Ok(FieldPath { root, steps, optional })
}

struct Reader<'a> {
    name: &'a Ident,
    place: Place,
    /// The path without `?`.
    whole: &'a Expr,
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
                let help = match path.qself.is_none() && path.path.segments.iter().all(is_value) {
                    true => format!("for a field: `{}`", self.whole(&text.replace("::", "."))),
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
            "unwrap_or_default" | "unwrap_or" | "unwrap_or_else" => {
                let what = format!("`{method}` gives all calls without a value the same key");
                return Err(mistake(method, what, self.without_a_value(call, &receiver)));
            }
            text if text.starts_with("into_") && on_a_place => {
                let what = format!(
                    "`{method}` takes `{receiver}` away from the body, and a key only borrows it"
                );
                let cloned = self.whole(&format!("{receiver}.clone().{method}()"));
                return Err(mistake(method, what, format!("`{cloned}`")));
            }
            _ => {}
        }
        if let Some(turbofish) = &call.turbofish {
            let what = format!("`{name}` cannot give `{method}` type arguments");
            return Err(mistake(turbofish, what, self.own_method(&receiver)));
        }
        if !call.args.is_empty() {
            let what = format!("`{name}` cannot give `{method}` arguments");
            return Err(mistake(&call.args, what, self.own_method(&receiver)));
        }
        Ok(method.clone())
    }

    fn index(&self, index: &ExprIndex) -> syn::Error {
        let receiver = source(&index.expr);
        let what = format!("`{}` panics in the caller if there is no such element", source(index));
        let first = match literal(&index.index) {
            Some(Lit::Int(position)) if position.base10_digits() == "0" => ".first()",
            _ => return mistake(index, what, self.own_option(&receiver)),
        };
        mistake(index, what, self.without_a_value(index, &format!("{receiver}{first}")))
    }

    /// Help for a step that has no answer where a value is missing. `option` is the path up to it.
    fn without_a_value(&self, step: &impl ToTokens, option: &str) -> String {
        // A `?` goes at the end only.
        match source(step) == source(self.whole) {
            true => format!("refuse a call without it: `{}`", self.optional(option)),
            false => self.own_option(option),
        }
    }

    fn own_option(&self, receiver: &str) -> String {
        let call = self.optional(&format!("{}.reference()", root_of(receiver)));
        format!("add a method that returns the whole as an `Option`, and call it: `{call}`")
    }

    /// The error for an expression that is not a path.
    fn refuse(&self, expr: &Expr) -> syn::Error {
        let name = self.name;
        match expr {
            Expr::Try(optional) => mistake(
                optional.question_token,
                format!("`?` goes once, at the end of a path in `{name}`"),
                match unwrap(&optional.expr) {
                    Expr::Path(_) => {
                        format!("`{}`", self.optional(&source(self.whole).replace([' ', '?'], "")))
                    }
                    inner => self.own_option(&source(inner)),
                },
            ),
            Expr::Await(wait) => mistake(
                wait.await_token,
                format!("`{name}` cannot use `.await`"),
                "await it in the caller and pass the value as a parameter",
            ),
            Expr::Lit(lit) => {
                let text = source(lit);
                let help = match (self.place, &lit.lit) {
                    (Place::Whole, Lit::Bool(_)) => {
                        let what = format!("`{name}` is not a switch");
                        return mistake(lit, what, format!("`{name} = \"{}\"`", example(name)));
                    }
                    (Place::Whole, _) => format!("`{name} = const {text}`"),
                    (Place::Hole, Lit::Int(_)) => {
                        let what = format!("`{{{text}}}` does not stand for an argument");
                        return mistake(lit, what, "name a field of a parameter: `{req.order_id}`");
                    }
                    (_, Lit::Str(fixed)) => {
                        format!(
                            "put fixed text in a template: `{name} = \"{}:{{req.id}}\"`",
                            fixed.value()
                        )
                    }
                    _ => format!("put fixed text in a template: `{name} = \"{text}:{{req.id}}\"`"),
                };
                mistake(lit, format!("`{text}` is the same for every call"), help)
            }
            Expr::Tuple(tuple) => {
                let members = tuple.elems.iter().map(source).collect::<Vec<_>>().join(", ");
                let help = match self.place {
                    Place::Hole => {
                        format!("one hole each: {}", holes(tuple.elems.iter().map(source)))
                    }
                    _ => format!("name the members one after the other: `{members}`"),
                };
                mistake(tuple, "a tuple cannot stand inside another key", help)
            }
            Expr::Reference(reference) => mistake(
                reference.and_token,
                format!("`{name}` is taken by reference without `&`"),
                format!("`{name} = {}`", source(&reference.expr)),
            ),
            Expr::Unary(unary) => {
                let op = source(&unary.op);
                let help = match unary.op {
                    UnOp::Deref(_) => format!("`{name} = {}`", source(&unary.expr)),
                    _ => self.own_method(&source(&unary.expr)),
                };
                mistake(unary.op, format!("`{name}` cannot use the operator `{op}`"), help)
            }
            Expr::Binary(binary) => {
                let op = source(&binary.op).trim().to_owned();
                let operands: [&Expr; 2] = [&binary.left, &binary.right];
                let is_word = |expr: &&Expr| matches!(unwrap(expr), Expr::Path(_));
                let is_field = |expr: &&Expr| matches!(unwrap(expr), Expr::Field(_));
                let help = match concatenation(binary) {
                    Some(template) => {
                        format!("a template puts text together: `{name} = \"{template}\"`")
                    }
                    None if operands.iter().all(is_word) && self.place == Place::Whole => {
                        let text = source(binary).replace(' ', "");
                        let fixed = format!("`{name} = const \"{text}\"`");
                        match name == "key" {
                            true => format!(
                                "a key tells calls apart, and a name operations: `name = \
                                 \"{text}\", key = \"req.order_id\"`; for one key of all calls: \
                                 {fixed}"
                            ),
                            false => format!("for a fixed value: {fixed}"),
                        }
                    }
                    None if operands.iter().all(is_field) => format!(
                        "for several parts: `{name} = ({}, {})`",
                        source(&binary.left),
                        source(&binary.right)
                    ),
                    None => self.own_method(&source(&binary.left)),
                };
                mistake(binary.op, format!("`{name}` cannot use the operator `{op}`"), help)
            }
            Expr::Cast(cast) => {
                let (as_token, ty) = (&cast.as_token, &cast.ty);
                let help = format!("all integers are keys: `{name} = {}`", source(&cast.expr));
                mistake(quote!(#as_token #ty), format!("`{name}` cannot cast"), help)
            }
            Expr::Call(call) if call.args.is_empty() => mistake(
                call,
                format!("`{}` does not depend on the arguments of the call", source(call)),
                format!(
                    "a repeat call has to give the same {name}, so take it from the request: `{}`",
                    self.whole(match self.place {
                        Place::Whole => example(name),
                        Place::Member | Place::Hole => "req.order_id",
                    })
                ),
            ),
            Expr::Call(call) => mistake(
                &call.func,
                format!("`{name}` cannot call the function `{}`", source(&call.func)),
                self.own_method(&call.args.first().map(source).unwrap_or_default()),
            ),
            Expr::Array(array) => {
                let member = |expr: &Expr| match literal(expr) {
                    Some(Lit::Str(text)) => text.value(),
                    _ => source(expr),
                };
                let members = array.elems.iter().map(member).collect::<Vec<_>>().join(", ");
                let help = match array.elems.len() {
                    1 => format!("`{}`", self.whole(&members)),
                    _ => format!("several parts are a tuple: `{name} = \"({members})\"`"),
                };
                mistake(array, format!("`{name}` cannot hold an array"), help)
            }
            Expr::Macro(call) => mistake(
                &call.mac.path,
                format!("`{name}` cannot use the macro `{}!`", source(&call.mac.path)),
                self.in_place_of_macro(&call.mac),
            ),
            Expr::Closure(closure) => match unwrap(&closure.body) {
                body @ (Expr::Field(_) | Expr::MethodCall(_) | Expr::Path(_)) => mistake(
                    closure,
                    format!("`{name}` is a path, and not a closure that returns one"),
                    format!("`{}`", self.whole(&source(body))),
                ),
                _ => self.not_a_path(closure, "a closure"),
            },
            Expr::Infer(infer) => mistake(
                infer,
                "`_` is not the name of a parameter",
                format!("give the parameter a name, as in `id: u64`, and use it: `{name} = id`"),
            ),
            Expr::If(_) | Expr::Match(_) | Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) => {
                self.not_a_path(expr, "control flow")
            }
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => {
                self.not_a_path(expr, "control flow")
            }
            Expr::Block(_)
            | Expr::Unsafe(_)
            | Expr::Async(_)
            | Expr::TryBlock(_)
            | Expr::Const(_) => self.not_a_path(expr, "a block"),
            _ => self.not_a_path(expr, "such an expression"),
        }
    }

    fn in_place_of_macro(&self, mac: &syn::Macro) -> String {
        let name = self.name;
        if mac.path.is_ident("env") || mac.path.is_ident("option_env") {
            let value = source(mac);
            return format!(
                "for a value that is fixed when compiling: `const JOB: &str = {value};` and `{name} \
                 = const JOB`"
            );
        }
        let template = formatted(&mac.tokens);
        let template = template.as_deref().unwrap_or("order:{req.order_id}");
        format!("a template puts text together: `{name} = \"{template}\"`")
    }

    fn not_a_path(&self, at: impl ToTokens, kind: &str) -> syn::Error {
        let name = self.name;
        mistake(at, format!("`{name}` cannot hold {kind}"), self.own_method(""))
    }

    /// Help for a computation. `receiver` is the expression that it starts from.
    fn own_method(&self, receiver: &str) -> String {
        let root = root_of(receiver);
        let (method, call) = match self.name == "fingerprint" {
            true => ("a method without arguments, which may return a `Fingerprint`,", "payload()"),
            false => ("a method without arguments", "idempotency_key()"),
        };
        format!(
            "add {method} and call it: `{}`; or compute the value in the caller, and pass it as a \
             parameter",
            self.whole(&format!("{root}.{call}"))
        )
    }

    /// The path with `?`, as it is written in its place.
    fn optional(&self, path: &str) -> String {
        self.whole(&format!("{path}?"))
    }

    /// The path as it is written in its place.
    fn whole(&self, path: &str) -> String {
        match self.place {
            Place::Whole => format!("{} = {path}", self.name),
            Place::Member => path.to_owned(),
            Place::Hole => format!("{{{path}}}"),
        }
    }
}

/// A value for an argument that takes a key expression.
pub(super) fn example(name: &Ident) -> &'static str {
    match name == "fingerprint" {
        true => "(req.amount, req.currency)",
        false => "req.order_id",
    }
}

/// The parameter that a path starts from, or `req` where there is none.
fn root_of(path: &str) -> &str {
    let path = path.trim_start_matches(['&', '*', '(', ' ']).trim_start_matches("mut ");
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    match &path[..end] {
        "" => "req",
        root => root,
    }
}

/// The template for a concatenation of strings: `order:{req.id}` for `"order:" + req.id`.
fn concatenation(binary: &syn::ExprBinary) -> Option<String> {
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
    // Without fixed text it may as well be a sum.
    let is_text = template.split(['{', '}']).step_by(2).any(|text| !text.is_empty());
    is_text.then_some(template)
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
        template.push_str(&format!("{{{}}}{piece}", source(arguments.next()?)));
    }
    // Without fixed text or a path in it, there is nothing to put together.
    template.contains('{').then_some(template)
}

fn holes(members: impl Iterator<Item = String>) -> String {
    let holes: Vec<_> = members.map(|member| format!("{{{member}}}")).collect();
    format!("`{}`", holes.join(":"))
}

/// The expression without parentheses and invisible groups.
fn unwrap(expr: &Expr) -> &Expr {
    match peel(expr) {
        Expr::Paren(paren) => unwrap(&paren.expr),
        expr => expr,
    }
}
