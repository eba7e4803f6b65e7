//! Items that are not functions, and where the attribute goes in their place.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::{
    Block, Expr, ExprClosure, Fields, FnArg, Generics, ImplItem, Item, ItemEnum, Pat, ReturnType,
    Signature, Stmt, TraitItem, Type, Visibility,
};

use super::pattern;
use crate::mistake::mistake;
use crate::source::{signature_source, source, type_source};
use crate::synonyms::snake_case;

/// The error for an item that is not a function. `arguments` are those of the attribute.
pub(super) fn not_a_function(item: &TokenStream, arguments: &TokenStream) -> syn::Error {
    let what = |kind| format!("`#[idempotent]` goes on an async function, not on {kind}");
    let help = "`#[idempotent(key = \"id\")] async fn create(id: u64) -> Result<u64, \
                idempotent_runtime::Error> { Ok(id) }`";
    match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Struct(item)) => {
            let help = taking(&item.ident, &item.generics, &item.fields, arguments);
            mistake(&item.ident, what("a struct"), help)
        }
        Ok(Item::Enum(item)) => {
            let help = taking_variants(&item, arguments);
            mistake(&item.ident, what("an enum"), help)
        }
        Ok(Item::Union(item)) => mistake(&item.ident, what("a union"), help),
        Ok(Item::Trait(item)) => {
            let name = item.ident.to_string();
            let functions = item.items.iter().filter_map(|item| match item {
                TraitItem::Fn(function) => Some((&Visibility::Inherited, &function.sig)),
                _ => None,
            });
            let methods = on_each(example(functions, Some(&name), arguments))
                .replace("each function", "each function of the `impl` blocks");
            mistake(&item.ident, what("a trait"), methods)
        }
        Ok(Item::Mod(item)) => {
            let items = item.content.as_ref().map_or(&[][..], |(_, items)| items);
            let functions = items.iter().filter_map(|item| match item {
                Item::Fn(function) => Some((&function.vis, &function.sig)),
                _ => None,
            });
            // An import outside of the module is not one inside of it.
            let inside = example(functions, None, arguments)
                .map(|first| first.replacen("#[idempotent", "#[idempotent_runtime::idempotent", 1));
            mistake(&item.ident, what("a module"), on_each(inside))
        }
        Ok(Item::Impl(item)) => {
            let name = match &*item.self_ty {
                Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
                _ => None,
            };
            let functions = item.items.iter().filter_map(|item| match item {
                ImplItem::Fn(function) => Some((&function.vis, &function.sig)),
                _ => None,
            });
            let first = example(functions, name.as_deref(), arguments);
            mistake(item.impl_token, what("an `impl` block"), on_each(first))
        }
        _ => {
            let first: TokenStream = item.clone().into_iter().take(1).collect();
            let at = if first.is_empty() { quote_spanned!(Span::call_site()=> _) } else { first };
            if let Ok(closure) = syn::parse2::<ExprClosure>(item.clone()) {
                let help = outside("run", &closure, arguments);
                return mistake(at, what("a closure"), help);
            }
            if at.to_string() == "let" {
                let (kind, help) = match local(item) {
                    Some((name, Expr::Closure(closure))) => {
                        ("a closure", outside(&name, &closure, arguments))
                    }
                    Some((_, value)) => ("a statement", on_called(&value, arguments)),
                    None => ("a statement", on_called(&Expr::Verbatim(item.clone()), arguments)),
                };
                return mistake(at, what(kind), help);
            }
            mistake(at, "`#[idempotent]` goes on an async function", help)
        }
    }
}

/// The name and the value of `let name = value;`.
fn local(item: &TokenStream) -> Option<(String, Expr)> {
    let statements = Block::parse_within.parse2(item.clone()).ok()?;
    let [Stmt::Local(local)] = statements.as_slice() else { return None };
    let name = match &local.pat {
        Pat::Ident(name) => name.ident.to_string(),
        Pat::Type(typed) => match &*typed.pat {
            Pat::Ident(name) => name.ident.to_string(),
            _ => return None,
        },
        _ => "run".to_owned(),
    };
    Some((name, (*local.init.as_ref()?.expr).clone()))
}

/// Help for a closure: the same as a function, with the arguments of the attribute.
fn outside(name: &str, closure: &ExprClosure, arguments: &TokenStream) -> String {
    let parameter = |pattern: &Pat| match pattern {
        Pat::Type(_) => signature_source(pattern),
        pattern => format!("{}: ..", source(pattern)),
    };
    let parameters: Vec<_> = closure.inputs.iter().map(parameter).collect();
    let returns = match &closure.output {
        ReturnType::Type(_, ty) => type_source(ty),
        ReturnType::Default => "Result<.., idempotent_runtime::Error>".to_owned(),
    };
    let body = match &*closure.body {
        Expr::Async(block) => source(&block.block),
        Expr::Block(block) => source(&block.block),
        value => format!("{{ {} }}", source(value)),
    };
    let first = closure.inputs.first().map(|first| match first {
        Pat::Type(typed) => source(&typed.pat),
        pattern => source(pattern),
    });
    let arguments = match (source(arguments), first) {
        (given, Some(first)) if given.is_empty() => format!("key = \"{first}\""),
        (given, _) => given,
    };
    format!(
        "a function in its place, outside of the body: `#[idempotent({arguments})] async fn \
         {name}({}) -> {returns} {body}`",
        parameters.join(", ")
    )
}

/// Help for a statement: the function that is called in it, with the arguments of the attribute.
fn on_called(value: &Expr, arguments: &TokenStream) -> String {
    let called = match value {
        Expr::Await(wait) => called(&wait.base),
        Expr::Try(value) => match &*value.expr {
            Expr::Await(wait) => called(&wait.base),
            value => called(value),
        },
        value => called(value),
    };
    let called = called.unwrap_or_else(|| "..".to_owned());
    let arguments = source(arguments);
    format!("put it on the function that is called: `#[idempotent({arguments})] async fn {called}`")
}

/// The name of the function that is called.
fn called(call: &Expr) -> Option<String> {
    match call {
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
            _ => None,
        },
        Expr::MethodCall(call) => Some(call.method.to_string()),
        _ => None,
    }
}

/// Help for a struct: a function that takes it, with the arguments of the attribute.
fn taking(ty: &Ident, generics: &Generics, fields: &Fields, arguments: &TokenStream) -> String {
    let names: Vec<_> = fields.members().map(|member| source(&member)).collect();
    let mut arguments = written(arguments);
    for name in &names {
        arguments = arguments.replace(&format!("\"{name}\""), &format!("\"req.{name}\""));
        arguments = arguments.replace(&format!("{{{name}}}"), &format!("{{req.{name}}}"));
        arguments = arguments.replace(&format!("key = {name}"), &format!("key = req.{name}"));
        arguments = arguments.replace("\"self.", "\"req.");
    }
    if arguments.is_empty() {
        arguments = match names.first() {
            Some(first) => format!("key = \"req.{first}\""),
            None => "key = \"req\"".to_owned(),
        };
    }
    on_function(ty, generics, &[], &arguments)
}

/// Help for an enum: a function that takes it, beside the fields of its variants that the arguments read.
fn taking_variants(item: &ItemEnum, arguments: &TokenStream) -> String {
    let arguments = written(arguments);
    let mut read: Vec<(String, String)> = Vec::new();
    for field in item.variants.iter().flat_map(|variant| &variant.fields) {
        let Some(name) = field.ident.as_ref().map(ToString::to_string) else { continue };
        if is_read(&name, &arguments) && !read.iter().any(|(known, _)| *known == name) {
            read.push((name, type_source(&field.ty)));
        }
    }
    let parameters: Vec<_> = read.into_iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    match arguments.is_empty() {
        true => format!(
            "{}, with `#[derive(idempotent_runtime::KeyPart)]` on `{}`",
            on_function(&item.ident, &item.generics, &[], "key = \"req\""),
            item.ident
        ),
        false => on_function(&item.ident, &item.generics, &parameters, &arguments),
    }
}

/// Help with a function that takes a type, after other parameters.
fn on_function(ty: &Ident, generics: &Generics, before: &[String], arguments: &str) -> String {
    let name = snake_case(&ty.to_string());
    let name = if name.contains('_') { name } else { format!("create_{name}") };
    let (declared, given, condition) = generics.split_for_impl();
    let [declared, given] = [signature_source(&declared), signature_source(&given)];
    let condition = condition.map_or_else(String::new, |it| format!(" {}", signature_source(it)));
    let before: String = before.iter().map(|parameter| format!("{parameter}, ")).collect();
    format!(
        "put it on the function that takes one: `#[idempotent({arguments})] async fn {name}{declared}({before}req: \
         {ty}{given}) -> Result<(), idempotent_runtime::Error>{condition} {{ Ok(()) }}`"
    )
}

fn written(arguments: &TokenStream) -> String {
    source(arguments).trim_end_matches(',').to_owned()
}

/// Returns `true` if the arguments have this word in them.
fn is_read(name: &str, arguments: &str) -> bool {
    arguments.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
}

/// The attribute on the function to which its arguments belong, if there is one that can have it: with
/// `arguments`, or with a key of its own. `ty` is the type or trait that the functions belong to.
fn example<'a>(
    functions: impl Iterator<Item = (&'a Visibility, &'a Signature)>,
    ty: Option<&str>,
    arguments: &TokenStream,
) -> Option<String> {
    let given = written(arguments);
    let has_result = |sig: &Signature| match &sig.output {
        ReturnType::Type(_, ty) => {
            matches!(&**ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident.to_string().ends_with("Result")))
        }
        ReturnType::Default => false,
    };
    let (vis, sig) = functions
        .filter(|(_, sig)| sig.asyncness.is_some() || has_result(sig))
        .min_by_key(|(_, sig)| {
            let reads = roots(sig).iter().any(|name| is_read(name, &given));
            (!reads && !given.is_empty(), !has_result(sig), sig.asyncness.is_none())
        })?;
    let mut sig = sig.clone();
    sig.asyncness = Some(Default::default());
    let attribute = on_method(&sig, ty, given);
    Some(format!("{attribute} {}", signature_source(&quote!(#vis #sig))))
}

/// The names that the parameters bind.
fn roots(sig: &Signature) -> Vec<String> {
    let names = sig.inputs.iter().flat_map(|input| match input {
        FnArg::Typed(typed) => pattern::names(&typed.pat),
        FnArg::Receiver(receiver) => vec![receiver.self_token.into()],
    });
    names.map(|name| name.to_string()).collect()
}

/// The attribute for a function, with a name and a key if `given` has none.
fn on_method(sig: &Signature, ty: Option<&str>, given: String) -> String {
    let mut list: Vec<String> = Vec::new();
    let end = format!(".{}", sig.ident);
    // One name for all of them would make one operation of them.
    let given = match given.split_once("name = \"") {
        Some((before, rest)) if before.is_empty() || before.ends_with([' ', ',']) => {
            rest.split_once('"').map_or(given.clone(), |(name, rest)| {
                format!("{before}name = \"{}{end}\"{rest}", name.trim_end_matches(&end))
            })
        }
        _ => given,
    };
    if sig.receiver().is_some() && !given.contains("name =") {
        let ty = ty.map_or_else(|| "service".to_owned(), snake_case);
        list.push(format!("name = \"{ty}{end}\""));
    }
    match (given.is_empty(), roots(sig).into_iter().find(|name| name != "self")) {
        (false, _) => list.push(given),
        (true, Some(first)) => list.push(format!("key = \"{first}\"")),
        (true, None) => list.push(format!("key = const \"{}\"", sig.ident)),
    }
    format!("#[idempotent({})]", list.join(", "))
}

fn on_each(first: Option<String>) -> String {
    let example = "#[idempotent(key = \"id\")] async fn create(id: u64) -> Result<u64, idempotent_runtime::Error>";
    let first = first.as_deref().unwrap_or(example);
    let name = if first.contains("name = ") { ", each with a `name` of its own" } else { "" };
    format!("put it on each function that runs once per key{name}: `{first}`")
}
