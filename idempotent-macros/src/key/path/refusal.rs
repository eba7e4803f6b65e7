//! Expressions that are not paths, and what to write in their place.

use proc_macro2::Ident;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{BinOp, Expr, Lit, Member, Token, UnOp};

use super::computed::{serializer, without_call};
use super::joined::{concatenated, concatenation, in_braces};
use super::{Place, Reader, example, formatted, unwrap};
use crate::key::{Header, template};
use crate::mistake::mistake;
use crate::source::source;
use crate::value::literal;

impl Reader<'_> {
    /// The error for an expression that is not a path.
    pub(super) fn refuse(&self, expr: &Expr) -> syn::Error {
        let name = self.name;
        match expr {
            Expr::Await(wait) => mistake(
                wait.await_token,
                format!("`{name}` cannot use `.await`"),
                format!("await it in the caller, and {}", self.as_parameter(last_name(&wait.base))),
            ),
            Expr::Lit(lit) => {
                let text = source(lit);
                let help = match (self.place, &lit.lit) {
                    (Place::Whole, Lit::Bool(_)) => {
                        let what = format!("`{name}` is not a switch");
                        return mistake(lit, what, format!("`{name} = \"{}\"`", example(name)));
                    }
                    (Place::Whole, _) => format!("`{name} = const {text}`"),
                    (Place::Member(tuple, _), _)
                        if tuple.elems.iter().all(|member| literal(member).is_some()) =>
                    {
                        format!(
                            "for one key of all calls: `{name} = const \"{}\"`",
                            as_template(name, tuple)
                        )
                    }
                    (Place::Member(tuple, _), _) => {
                        format!(
                            "a template has fixed text: `{name} = \"{}\"`",
                            as_template(name, tuple)
                        )
                    }
                    (Place::Hole, fixed) => {
                        format!("fixed text stands outside of the braces: `{}`", as_text(fixed))
                    }
                };
                mistake(lit, format!("`{text}` is the same for every call"), help)
            }
            Expr::Tuple(tuple) => {
                let members: Vec<_> = tuple.elems.iter().map(source).collect();
                let help = match self.place {
                    Place::Hole => format!("one hole each: `{}`", self.several(&members)),
                    _ => {
                        let several = self.several(&members);
                        format!("name the members one after the other: `{several}`")
                    }
                };
                mistake(tuple, "a tuple cannot stand inside another key", help)
            }
            Expr::Reference(reference) => mistake(
                reference.and_token,
                format!("`{name}` is taken by reference without `&`"),
                format!("`{}`", self.whole(&source(&reference.expr))),
            ),
            Expr::Unary(unary) => {
                let op = source(&unary.op);
                let help = match unary.op {
                    UnOp::Deref(_) => format!("`{}`", self.whole(&source(&unary.expr))),
                    _ => self.own_method(&source(&unary.expr)),
                };
                mistake(unary.op, format!("`{name}` cannot use the operator `{op}`"), help)
            }
            Expr::Binary(binary) => {
                let op = source(&binary.op).trim().to_owned();
                let operands: [&Expr; 2] = [&binary.left, &binary.right];
                let is_word = |expr: &&Expr| matches!(unwrap(expr), Expr::Path(_));
                let is_field = |expr: &&Expr| matches!(unwrap(expr), Expr::Field(_));
                let first_of = self.first_of(binary);
                let help = match concatenation(binary) {
                    _ if first_of.is_some() => first_of.unwrap_or_default(),
                    _ if in_braces(expr).is_some() => {
                        let text = in_braces(expr).unwrap_or_default();
                        let what = format!("a template in `{name}` stands in quotes");
                        return mistake(binary, what, format!("`{name} = \"{text}\"`"));
                    }
                    Some(template) if !matches!(self.place, Place::Member(..)) => {
                        format!("a template puts text together: `{name} = \"{template}\"`")
                    }
                    _ if operands.iter().all(is_word)
                        && matches!(op.as_str(), "&" | "&&" | "|" | "||" | "+") =>
                    {
                        let parts = operands.map(source);
                        format!("for several parts: `{}`", self.several(&parts))
                    }
                    _ if self.as_header(binary).is_some() => {
                        self.as_header(binary).unwrap_or_default()
                    }
                    None if operands.iter().all(is_word) && matches!(self.place, Place::Whole) => {
                        let text = source(binary).replace(' ', "");
                        let value = match name == "key" {
                            true => "for one key of all calls",
                            false => "for a fixed value",
                        };
                        format!("{value}: `{name} = const \"{text}\"`")
                    }
                    _ if operands.iter().all(is_field) => {
                        let parts = operands.map(source);
                        format!("for several parts: `{}`", self.several(&parts))
                    }
                    _ => match without_computation(binary) {
                        // Text with a number, such as `tenant-1`, rather than a subtraction.
                        Some(path)
                            if matches!(unwrap(path), Expr::Path(_))
                                && op == "-"
                                && matches!(self.place, Place::Whole) =>
                        {
                            let text = source(binary).replace(' ', "");
                            format!(
                                "for a fixed text: `{name} = const \"{text}\"`; without the computation: `{}`",
                                self.whole(&source(path))
                            )
                        }
                        Some(path) => {
                            let others = match unwrap(path) {
                                // A parameter may have no methods of the user's.
                                Expr::Path(_) => format!(
                                    "compute the value in the caller, and {}",
                                    self.as_parameter(None)
                                ),
                                _ => self.own_method(&source(path)),
                            };
                            let path = self.whole(&source(path));
                            format!("without the computation: `{path}`; or {others}")
                        }
                        None => self.own_method(&source(&binary.left)),
                    },
                };
                mistake(binary.op, format!("`{name}` cannot use the operator `{op}`"), help)
            }
            Expr::Cast(cast) => {
                let (as_token, ty) = (&cast.as_token, &cast.ty);
                let path = self.whole(&source(&cast.expr));
                let help = format!(
                    "all integers are keys, and so is an enum with \
                     `#[derive(idempotent_runtime::KeyPart)]`: `{path}`"
                );
                mistake(quote!(#as_token #ty), format!("`{name}` cannot cast"), help)
            }
            Expr::Call(call) if call.args.is_empty() => mistake(
                call,
                format!("`{}` does not depend on the arguments of the call", source(call)),
                self.in_place_of_call(call),
            ),
            Expr::Call(call) => {
                let what = format!("`{name}` cannot call the function `{}`", source(&call.func));
                let receiver = call.args.first().map(|first| source(&without_call(first)));
                let help = self.own_method(&receiver.unwrap_or_default());
                let help = match call.args.first().filter(|_| call.args.len() == 1).map(literal) {
                    Some(Some(Lit::Str(entry)))
                        if matches!(self.place, Place::Whole)
                            && Header::of_text(&entry.value()).is_some() =>
                    {
                        let header = Header::of_text(&entry.value());
                        header.map_or_else(String::new, |header| header.help(name))
                    }
                    Some(Some(fixed)) if matches!(self.place, Place::Whole) => {
                        format!("for a fixed value: `{name} = const {}`; or {help}", source(fixed))
                    }
                    _ => help,
                };
                let is_wrapper =
                    matches!(source(&call.func).as_str(), "Some" | "Ok" | "Box::new" | "Arc::new");
                let help = match self.without_call(call) {
                    Some(path) => {
                        let path = match self.optional {
                            true => self.optional(&path),
                            false => self.whole(&path),
                        };
                        match is_wrapper {
                            true => format!("`{path}`"),
                            false => format!("`{path}`, if that is a key; or {help}"),
                        }
                    }
                    None => help,
                };
                mistake(&call.func, what, help)
            }
            Expr::Array(array) => {
                let members: Vec<_> = array.elems.iter().map(as_path).collect();
                let help = match (members.as_slice(), self.place) {
                    (several @ [_, _, ..], Place::Whole) => {
                        format!(
                            "several parts are a tuple: `{name} = \"({})\"`",
                            several.join(", ")
                        )
                    }
                    (several, _) => format!("`{}`", self.several(several)),
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
                Expr::Tuple(tuple)
                    if tuple.elems.iter().all(|part| without_clone(part).is_some()) =>
                {
                    let parts: Vec<_> = tuple.elems.iter().filter_map(without_clone).collect();
                    let what = format!("`{name}` is a tuple, and not a closure that returns one");
                    mistake(
                        closure,
                        what,
                        format!("`{}`", self.whole(&format!("({})", parts.join(", ")))),
                    )
                }
                Expr::Macro(call) if formatted(&call.mac.tokens).is_some() => {
                    let what = format!("`{name}` cannot hold a closure");
                    mistake(closure, what, self.in_place_of_macro(&call.mac))
                }
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
            Expr::Block(_) if in_braces(expr).is_some() => {
                let path = in_braces(expr).unwrap_or_default();
                let path = path.trim_matches(['{', '}']);
                let what = format!("`{name}` cannot hold a block");
                mistake(expr, what, format!("`{}`", self.whole(path)))
            }
            Expr::Struct(_) => {
                let text = in_braces(expr).unwrap_or_default();
                let what = format!("a template in `{name}` stands in quotes");
                mistake(expr, what, format!("`{name} = \"{text}\"`"))
            }
            Expr::Block(_)
            | Expr::Unsafe(_)
            | Expr::Async(_)
            | Expr::TryBlock(_)
            | Expr::Const(_) => self.not_a_path(expr, "a block"),
            _ => self.not_a_path(expr, "such an expression"),
        }
    }

    /// Help for the name of a header, whose hyphens look like subtractions.
    fn as_header(&self, binary: &syn::ExprBinary) -> Option<String> {
        let name = self.name;
        let text = source(self.whole).replace(' ', "");
        let header = Header::of_text(&text).filter(|_| matches!(binary.op, BinOp::Sub(_)))?;
        if !matches!(self.place, Place::Whole) {
            let (parameter, by_caller) = header.as_parameter(name);
            return Some(format!("{by_caller}: `{}`", self.whole(&parameter)));
        }
        let fixed = match name == "key" {
            true => "for one key of all calls, whose answer every caller gets",
            false => "for a fixed value",
        };
        Some(format!("{}; {fixed}: `{name} = const \"{text}\"`", header.help(name)))
    }

    /// The path inside of a call that is the only thing wrong with it: `req.order_id` for `json(req).order_id`.
    fn without_call(&self, call: &syn::ExprCall) -> Option<String> {
        let path = only_paths(call)?;
        let rest = source(self.whole).strip_prefix(&source(call))?.to_owned();
        // Several paths are a tuple, which has no fields with names, and is no part of another key.
        match path.starts_with('(') && !(rest.is_empty() && matches!(self.place, Place::Whole)) {
            true => None,
            false => Some(format!("{path}{rest}")),
        }
    }

    /// Help for a call of a function without arguments.
    fn in_place_of_call(&self, call: &syn::ExprCall) -> String {
        let name = self.name;
        let Some(function) = function_name(call).filter(|_| !is_new_each_time(call)) else {
            let path = match self.place {
                Place::Whole => example(name),
                Place::Member(..) | Place::Hole => "req.order_id",
            };
            let again = format!("a repeat call has to give the same {name}");
            if name != "key" {
                return format!("{again}, so take it from the request: `{}`", self.whole(path));
            }
            let parameter = self.as_parameter(None);
            let or = match self.place {
                Place::Member(..) => {
                    format!("if the others tell calls apart, without it: `{}`", self.several(&[]))
                }
                _ => format!("if it tells calls apart: `{}`", self.whole(path)),
            };
            return format!("{again}: make it once in the caller, and {parameter}; or, {or}");
        };
        let verbs = ["get_", "fetch_", "load_", "read_", "find_"];
        let parameter = verbs.iter().find_map(|verb| function.strip_prefix(verb));
        let parameter = parameter.unwrap_or(&function);
        let help =
            format!("call it in the caller, and pass the value as a parameter `{parameter}`");
        let path = self.whole(&source(self.whole).replace(&source(call), parameter));
        format!("{help}: `{path}`")
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
        if mac.path.is_ident("vec")
            && let Ok(members) =
                Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone())
        {
            let members: Vec<_> = members.iter().map(as_path).collect();
            return format!("`{}`", self.several(&members));
        }
        let template = match self.place {
            Place::Member(tuple, _) => Some(as_template(name, tuple)),
            _ => text_of(mac),
        };
        let template = template.as_deref().unwrap_or("{req.order_id}");
        format!("a template puts text together: `{name} = \"{template}\"`")
    }

    fn not_a_path(&self, at: impl ToTokens, kind: &str) -> syn::Error {
        let name = self.name;
        mistake(at, format!("`{name}` cannot hold {kind}"), self.own_method(""))
    }
}

/// The path in `version + 1`.
fn without_computation(binary: &syn::ExprBinary) -> Option<&Expr> {
    let is_path = |expr: &Expr| matches!(unwrap(expr), Expr::Path(_) | Expr::Field(_));
    match (&*binary.left, &*binary.right) {
        (path, fixed) | (fixed, path) if is_path(path) && literal(fixed).is_some() => Some(path),
        _ => None,
    }
}

/// A path of a tuple, without the copy that a key does not need: `event.source` for `event.source.clone()`.
fn without_clone(part: &Expr) -> Option<String> {
    match unwrap(part) {
        Expr::MethodCall(call) if call.method == "clone" && call.args.is_empty() => {
            without_clone(&call.receiver)
        }
        Expr::Reference(reference) => without_clone(&reference.expr),
        part @ (Expr::Field(_) | Expr::Path(_) | Expr::MethodCall(_)) => Some(source(part)),
        _ => None,
    }
}

/// Returns `true` for a function of which every call returns something else, by its name.
fn is_new_each_time(call: &syn::ExprCall) -> bool {
    let path = source(&call.func).to_lowercase();
    let last = path.rsplit("::").next().unwrap_or_default();
    let is_word = |word: &str| last.split('_').any(|part| part == word);
    ["now", "random", "rand", "new", "v4", "v7", "nonce", "next", "generate", "gen", "default"]
        .iter()
        .any(|word| is_word(word))
        || path.contains("uuid")
        || path.contains("rand")
}

/// The arguments of a call as a key, if they are paths: `req.body`, `(user, id)`.
fn only_paths(call: &syn::ExprCall) -> Option<String> {
    if serializer(&Expr::Call(call.clone())).is_some() {
        // Something that is not a key, by its name.
        return None;
    }
    let path = |argument: &Expr| {
        let argument = match unwrap(argument) {
            Expr::Reference(reference) => unwrap(&reference.expr),
            argument => argument,
        };
        match argument {
            Expr::Field(_) | Expr::Path(_) => Some(source(argument)),
            Expr::Call(inner) => only_paths(inner).filter(|path| !path.starts_with('(')),
            _ => None,
        }
    };
    let paths = call.args.iter().map(path).collect::<Option<Vec<_>>>()?;
    match paths.as_slice() {
        [only] => Some(only.clone()),
        paths => Some(format!("({})", paths.join(", "))),
    }
}

/// The name of the method or function that is called, or of the value.
pub(super) fn last_name(call: &Expr) -> Option<String> {
    match unwrap(call) {
        Expr::MethodCall(call) => Some(call.method.to_string()),
        Expr::Call(call) => function_name(call),
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        Expr::Field(field) => match &field.member {
            Member::Named(name) => Some(name.to_string()),
            Member::Unnamed(_) => None,
        },
        _ => None,
    }
}

/// The name of the function, or of its module where that says more: `tenant` for
/// `tenant::current()`.
fn function_name(call: &syn::ExprCall) -> Option<String> {
    let Expr::Path(path) = &*call.func else { return None };
    let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let name = names.next()?;
    let says_little = ["current", "get", "load", "read", "find", "value"].contains(&name.as_str());
    match names.next().filter(|_| says_little) {
        Some(owner) => Some(crate::synonyms::snake_case(&owner)),
        None => Some(name),
    }
}

/// `v1:{req.id}` for `("v1", req.id)`.
fn as_template(name: &Ident, tuple: &syn::ExprTuple) -> String {
    let members = tuple.elems.iter().map(|member| match (unwrap(member), literal(member)) {
        (_, Some(Lit::Str(text))) if template::read(name, text).is_ok() => text.value(),
        (_, Some(fixed)) => as_text(fixed),
        (Expr::Macro(call), _) if text_of(&call.mac).is_some() => {
            text_of(&call.mac).unwrap_or_default()
        }
        (path, None) => format!("{{{}}}", source(path)),
    });
    members.collect::<Vec<_>>().join(":")
}

/// The template for `format!` or `concat!`.
fn text_of(mac: &syn::Macro) -> Option<String> {
    match mac.path.is_ident("concat") {
        true => concatenated(&mac.tokens),
        false => formatted(&mac.tokens),
    }
}

/// A member of a list as a path, which may stand in quotes.
fn as_path(member: &Expr) -> String {
    match literal(member) {
        Some(Lit::Str(text)) => text.value(),
        _ => source(member),
    }
}

/// A literal as text in a template.
pub(super) fn as_text(fixed: &Lit) -> String {
    let text = match fixed {
        Lit::Str(text) => text.value(),
        Lit::Char(letter) => letter.value().to_string(),
        fixed => source(fixed),
    };
    text.replace('{', "{{").replace('}', "}}")
}
