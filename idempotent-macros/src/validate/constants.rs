//! Parameters in values that are fixed when the program is compiled.

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Expr, ExprPath};

use crate::args::Args;
use crate::function::Function;
use crate::key::{FieldPath, Key};
use crate::mistake::{Mistakes, mistake};
use crate::source::source;
use crate::value::Message;

/// Refuses a parameter as the `message`, which has its place in a template, and in the text of a constant key, where it
/// would not be filled in.
pub(super) fn validate(args: &Args, function: &Function, mistakes: &mut Mistakes) {
    for given in [&args.key, &args.scope, &args.fingerprint].into_iter().flatten() {
        if let Some(key) = given.ok() {
            not_filled_in(&given.name, key, function, mistakes);
        }
    }
    let Some(given) = &args.message else { return };
    let Some(text) = given.ok().and_then(Message::fixed) else { return };
    if let Some(parameter) = parameter_in(text, function) {
        let name = &given.name;
        let what = format!("`{name}` is a constant, and cannot read the parameter `{parameter}`");
        let help = format!("a template can: `{name} = \"{{{}}}\"`", source(text));
        mistakes.push(mistake(parameter, what, help));
    }
}

/// A parameter after `const`, or a text with a placeholder of one: that would be the same for all calls.
fn not_filled_in(name: &Ident, key: &Key, function: &Function, mistakes: &mut Mistakes) {
    if let Some(parameter) = key.constant().and_then(|value| parameter_in(value, function)) {
        let what = format!("`{parameter}` is a parameter, and no constant");
        mistakes.push(mistake(parameter, what, format!("remove `const`: `{name} = {parameter}`")));
        return;
    }
    let Some((text, holes)) = key.constant_text(name) else { return };
    let bindings = function.bindings();
    let is_parameter = |path: &&FieldPath| bindings.iter().any(|it| it.name == path.root);
    if let Some(path) = holes.iter().find(is_parameter) {
        let hole = path.with_root(&path.root.to_string());
        let what = format!("a text after `const` is no template: `{{{hole}}}` is not filled in");
        let help = format!("remove `const`: `{name} = {}`", source(text));
        mistakes.push(mistake(text, what, help));
    }
}

/// The first parameter that a constant names. Blocks and closures have names of their own.
pub(super) fn parameter_in<'a>(constant: &'a Expr, function: &Function) -> Option<&'a Ident> {
    struct Find<'a> {
        parameters: Vec<Ident>,
        found: Option<&'a Ident>,
    }
    impl<'a> Visit<'a> for Find<'a> {
        fn visit_expr_path(&mut self, path: &'a ExprPath) {
            let word = path.path.get_ident().filter(|_| path.qself.is_none());
            if let Some(word) = word.filter(|word| self.parameters.contains(word)) {
                self.found.get_or_insert(word);
            }
        }
        fn visit_expr(&mut self, expr: &'a Expr) {
            match expr {
                Expr::Block(_)
                | Expr::Closure(_)
                | Expr::Const(_)
                | Expr::Match(_)
                | Expr::If(_) => {}
                expr => visit::visit_expr(self, expr),
            }
        }
    }
    let parameters = function.bindings().into_iter().map(|binding| binding.name).collect();
    let mut find = Find { parameters, found: None };
    find.visit_expr(constant);
    find.found
}
