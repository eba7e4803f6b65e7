//! The shape that `#[async_trait]` leaves behind.
//!
//! ```text
//! fn create<'life0, 'async_trait>(&'life0 self, __arg1: Json<T>) -> Pin<Box<dyn Future<Output = R> + ..>> {
//!     Box::pin(async move {
//!         let __self = self;
//!         let Json(req) = { let __arg1 = __arg1; __arg1 };
//!         ..
//!     })
//! }
//! ```

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::visit::Visit;
use syn::{
    Block, Expr, ExprAsync, GenericArgument, Local, PathArguments, ReturnType, Signature, Stmt,
    Type, TypeParamBound,
};

use super::{Binding, pattern};

#[derive(Debug)]
pub(crate) struct Boxed {
    pub(super) output: Type,
    /// Statements before `Box::pin(..)`.
    before: Vec<Stmt>,
    /// `Box::pin`
    pin: Expr,
    block: ExprAsync,
}

impl Boxed {
    pub(super) fn recognise(sig: &Signature, body: &TokenStream) -> Option<Self> {
        let ReturnType::Type(_, returns) = &sig.output else {
            return None;
        };
        let output = boxed_output(returns)?;
        let mut before = Block::parse_within.parse2(body.clone()).ok()?;
        let Some(Stmt::Expr(Expr::Call(call), None)) = before.pop() else {
            return None;
        };
        let Expr::Path(function) = &*call.func else {
            return None;
        };
        let mut names = function.path.segments.iter().rev();
        if names.next()?.ident != "pin" || names.next()?.ident != "Box" {
            return None;
        }
        match call.args.into_iter().next()? {
            Expr::Async(block) => Some(Self { output, before, pin: *call.func, block }),
            _ => None,
        }
    }

    pub(super) fn body(&self) -> TokenStream {
        let stmts = &self.block.block.stmts;
        quote!(#(#stmts)*)
    }

    pub(super) fn with_body(&self, body: TokenStream) -> TokenStream {
        let Self { before, pin, block, .. } = self;
        let mut block = block.clone();
        block.block.stmts = vec![Stmt::Expr(Expr::Verbatim(body), None)];
        quote!(#(#before)* #pin(#block))
    }

    /// Replaces `__arg1` with the names of the pattern that it stands for.
    pub(super) fn replace_hidden(&self, bindings: &mut Vec<Binding>) {
        struct Moved<'a>(&'a mut Vec<Binding>);
        impl Visit<'_> for Moved<'_> {
            fn visit_local(&mut self, local: &Local) {
                let Some(argument) = moved_argument(local) else {
                    return;
                };
                let Some(at) = self.0.iter().position(|binding| binding.name == argument) else {
                    return;
                };
                let pattern = pattern::by_reference(&local.pat);
                let span = Span::mixed_site();
                let borrow =
                    quote_spanned!(span=> #[allow(unused_variables)] let #pattern = &#argument;);
                let names = pattern::names(&local.pat).into_iter();
                let names = names.map(|name| Binding { name, pattern: Some(borrow.clone()) });
                self.0.splice(at..=at, names);
            }
        }
        Moved(bindings).visit_expr_async(&self.block);
        bindings.retain(|binding| !is_hidden(&binding.name));
    }
}

fn is_hidden(name: &Ident) -> bool {
    name.to_string().starts_with("__arg")
}

/// `__arg1` of `let PATTERN = { let __arg1 = __arg1; __arg1 };`
fn moved_argument(local: &Local) -> Option<Ident> {
    let Expr::Block(block) = &*local.init.as_ref()?.expr else {
        return None;
    };
    let Stmt::Expr(Expr::Path(path), None) = block.block.stmts.last()? else {
        return None;
    };
    path.path.get_ident().filter(|name| is_hidden(name)).cloned()
}

/// `R` of `Pin<Box<dyn Future<Output = R> + ..>>`
fn boxed_output(returns: &Type) -> Option<Type> {
    let Type::TraitObject(object) = argument_of("Box", argument_of("Pin", returns)?)? else {
        return None;
    };
    object.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let future = bound.path.segments.last().filter(|last| last.ident == "Future")?;
        let PathArguments::AngleBracketed(arguments) = &future.arguments else {
            return None;
        };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(output) if output.ident == "Output" => {
                Some(output.ty.clone())
            }
            _ => None,
        })
    })
}

/// `T` of `Name<T>`
fn argument_of<'a>(name: &str, ty: &'a Type) -> Option<&'a Type> {
    let Type::Path(path) = ty else {
        return None;
    };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}
