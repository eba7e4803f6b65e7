//! The function under the attribute: its shape, its parameters and its return type.
//!
//! The body of an async function is kept as tokens: nothing here needs to understand it.

mod attributes;
mod borrows;
mod boxed;
mod items;
pub(crate) mod nested;
mod pattern;
mod returns;
mod rewritten;

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::visit::Visit;
use syn::{
    Attribute, FnArg, GenericArgument, PathArguments, Receiver, Signature, Token, Type, Visibility,
    token,
};

pub(crate) use self::attributes::mark;
pub(crate) use self::borrows::{borrow, borrow_in, owned};
use self::boxed::Boxed;
use self::items::not_a_function;
pub(crate) use self::returns::{is_opaque, result_types, written_types};
pub(crate) use self::rewritten::shown;
use crate::mistake::mistake;
use crate::source::source;

/// A function with a body.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) sig: Signature,
    pub(crate) shape: Shape,
    vis: Visibility,
    brace: token::Brace,
    body: TokenStream,
}

/// The form in which the function is async.
#[derive(Debug)]
pub(crate) enum Shape {
    Async,
    /// The output of `#[async_trait]`: a plain function that ends in `Box::pin(async move { .. })`.
    Boxed(Box<Boxed>),
    /// A function that is not async.
    Plain,
}

/// A name that keys can start with.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: Ident,
    /// The pattern that binds the name again, since `#[async_trait]` moves patterns into the body.
    pub(crate) pattern: Option<TokenStream>,
}

impl Function {
    /// Parses the item, or explains why it is not a function with a body. `arguments` are those of the
    /// attribute.
    pub(crate) fn parse(item: &TokenStream, arguments: &TokenStream) -> syn::Result<Self> {
        match syn::parse2(item.clone()) {
            Ok(Parsed::Function(function)) => Ok(*function),
            Ok(Parsed::WithoutBody(sig)) => Err(variadic(&sig).unwrap_or_else(|| {
                mistake(
                    &sig.ident,
                    format!("`{}` has no body to run", sig.ident),
                    format!(
                        "put `#[idempotent({})]` on the function in the `impl` block; in each one of several with a \
                         `name` of its own",
                        source(arguments)
                    ),
                )
            })),
            Err(_) => Err(not_a_function(item, arguments)),
        }
    }

    /// The name of a parameter, as the signature has it.
    pub(crate) fn parameter(&self, name: &Ident) -> Ident {
        let named = |input: &FnArg| match input {
            FnArg::Typed(typed) => match &*typed.pat {
                syn::Pat::Ident(pattern) if pattern.ident == *name => Some(pattern.ident.clone()),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        };
        self.sig.inputs.iter().find_map(named).unwrap_or_else(|| name.clone())
    }

    /// The type of a parameter that is a plain name.
    pub(crate) fn type_of(&self, name: &Ident) -> Option<&Type> {
        self.sig.inputs.iter().find_map(|input| match input {
            FnArg::Typed(typed) => match &*typed.pat {
                syn::Pat::Ident(pattern) if pattern.ident == *name => Some(&*typed.ty),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        })
    }

    /// The type of a name, which may be bound by a pattern: `Order` for `Json(order): Json<Order>`.
    pub(crate) fn binding_type(&self, name: &Ident) -> Option<Type> {
        self.type_of(name).cloned().or_else(|| {
            self.sig.inputs.iter().find_map(|input| {
                let FnArg::Typed(typed) = input else { return None };
                let syn::Pat::TupleStruct(pattern) = &*typed.pat else { return None };
                let is_bound =
                    pattern.elems.len() == 1 && pattern::names(&typed.pat) == [name.clone()];
                let Type::Path(path) = &*typed.ty else { return None };
                match &path.path.segments.last()?.arguments {
                    PathArguments::AngleBracketed(arguments) if is_bound => {
                        match arguments.args.first()? {
                            GenericArgument::Type(inner) => Some(inner.clone()),
                            _ => None,
                        }
                    }
                    _ => None,
                }
            })
        })
    }

    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.sig.receiver()
    }

    /// Returns `true` if the parameters or the return type mention `Self`.
    pub(crate) fn mentions_self_type(&self) -> bool {
        struct Find(bool);
        impl Visit<'_> for Find {
            fn visit_ident(&mut self, ident: &Ident) {
                self.0 |= ident == "Self";
            }
        }
        let mut find = Find(false);
        for input in &self.sig.inputs {
            find.visit_fn_arg(input);
        }
        find.visit_return_type(&self.sig.output);
        find.0
    }

    /// Returns `true` for a type parameter of the function itself.
    pub(crate) fn is_type_parameter(&self, ty: &Type) -> bool {
        let Type::Path(path) = ty else { return false };
        let is_name = |name: &Ident| path.path.is_ident(name) && path.qself.is_none();
        self.sig.generics.type_params().any(|parameter| is_name(&parameter.ident))
    }

    /// Every name that the parameters bind.
    pub(crate) fn bindings(&self) -> Vec<Binding> {
        let mut bindings = Vec::new();
        for input in &self.sig.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    bindings.push(Binding { name: receiver.self_token.into(), pattern: None });
                }
                FnArg::Typed(argument) => {
                    let names = pattern::names(&argument.pat).into_iter();
                    bindings.extend(names.map(|name| Binding { name, pattern: None }));
                }
            }
        }
        if let Shape::Boxed(boxed) = &self.shape {
            boxed.replace_hidden(&mut bindings);
        }
        bindings
    }

    /// Returns `true` if there are parameters other than `self`, with or without a name.
    pub(crate) fn has_parameters(&self) -> bool {
        self.sig.inputs.iter().any(|input| matches!(input, FnArg::Typed(_)))
    }

    /// Several names that the pattern of one parameter binds.
    pub(crate) fn taken_apart(&self) -> Option<Vec<Ident>> {
        let patterns = self.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(pattern::names(&typed.pat)),
            FnArg::Receiver(_) => None,
        });
        patterns.into_iter().find(|names| names.len() > 1)
    }

    /// The tokens that are the user's body.
    pub(crate) fn user_body(&self) -> TokenStream {
        match &self.shape {
            Shape::Boxed(boxed) => boxed.body(),
            _ => self.body.clone(),
        }
    }

    /// The function with another async body.
    pub(crate) fn with_body(&self, body: TokenStream) -> TokenStream {
        let Self { attrs, sig, shape, vis, brace, .. } = self;
        let body = match shape {
            Shape::Boxed(boxed) => boxed.with_body(body),
            _ => body,
        };
        printed(attrs, &quote!(#vis #sig), brace, &body)
    }
}

fn printed(
    attrs: &[Attribute],
    head: &TokenStream,
    brace: &token::Brace,
    body: &TokenStream,
) -> TokenStream {
    let (inner, outer): (Vec<_>, Vec<_>) =
        attrs.iter().partition(|attr| matches!(attr.style, syn::AttrStyle::Inner(_)));
    let mut tokens = quote!(#(#outer)* #head);
    brace.surround(&mut tokens, |tokens| tokens.extend(quote!(#(#inner)* #body)));
    tokens
}

/// Refuses C-variadic arguments, which have no names.
pub(crate) fn variadic(sig: &Signature) -> Option<syn::Error> {
    let dots = sig.variadic.as_ref()?.dots;
    let what = format!("`{}` takes a variable number of arguments", sig.ident);
    Some(mistake(dots, what, "name every parameter"))
}

enum Parsed {
    Function(Box<Function>),
    WithoutBody(Box<Signature>),
}

impl Parse for Parsed {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig: Signature = input.parse()?;
        if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
            return Ok(Self::WithoutBody(Box::new(sig)));
        }
        let content;
        let brace = syn::braced!(content in input);
        attrs.extend(content.call(Attribute::parse_inner)?);
        let body: TokenStream = content.parse()?;
        let shape = match sig.asyncness {
            Some(_) => Shape::Async,
            None => Boxed::recognise(&sig, &body)
                .map_or(Shape::Plain, |boxed| Shape::Boxed(Box::new(boxed))),
        };
        Ok(Self::Function(Box::new(Function { attrs, sig, shape, vis, brace, body })))
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn names(item: TokenStream) -> Vec<String> {
        let function = Function::parse(&item, &TokenStream::new()).unwrap();
        function.bindings().iter().map(|binding| binding.name.to_string()).collect()
    }

    fn refusal(item: TokenStream) -> String {
        Function::parse(&item, &TokenStream::new()).unwrap_err().to_string()
    }

    #[test]
    fn names_inside_patterns_are_parameters_and_underscores_are_not() {
        let item = quote! {
            async fn f(&self, Json(req): Json<T>, (a, [b, ..]): P, S { c, d: e }: S, mut g: u8, _: u8) {}
        };
        assert_eq!(names(item), ["self", "req", "a", "b", "c", "e", "g"]);
    }

    #[test]
    fn patterns_that_async_trait_moved_are_found_in_the_body() {
        let item = quote! {
            fn f<'a>(&'a self, __arg1: P, x: u8, __arg3: u8) -> Pin<Box<dyn Future<Output = R> + 'a>> {
                Box::pin(async move {
                    let __self = self;
                    let (a, mut b) = { let __arg1 = __arg1; __arg1 };
                    let x = x;
                    let __arg3 = __arg3;
                })
            }
        };
        assert_eq!(names(item), ["self", "a", "b", "x"]);
    }

    #[test]
    fn a_body_is_not_parsed() {
        let item = quote!(async fn f() -> R { syntax of { the future } });
        assert!(Function::parse(&item, &TokenStream::new()).is_ok());
    }

    #[test]
    fn other_items_are_named() {
        assert!(
            refusal(quote!(
                struct A;
            ))
            .contains("not on a struct")
        );
        assert!(
            refusal(quote!(
                enum A {}
            ))
            .contains("not on an enum")
        );
        assert!(refusal(quote!(impl A {})).contains("not on an `impl` block"));
        assert!(
            refusal(quote!(
                trait A {}
            ))
            .contains("not on a trait")
        );
        assert!(
            refusal(quote!(
                mod a {}
            ))
            .contains("not on a module")
        );
        assert!(
            refusal(quote!(
                static A: u8 = 1;
            ))
            .contains("goes on an async function")
        );
        assert!(
            refusal(quote!(
                async fn f(&self);
            ))
            .contains("`f` has no body to run")
        );
    }

    #[test]
    fn self_types_are_found_in_the_signature_only() {
        let mentions =
            |item| Function::parse(&item, &TokenStream::new()).unwrap().mentions_self_type();
        assert!(mentions(quote!(
            async fn f(a: Vec<Self>) -> R {}
        )));
        assert!(mentions(quote!(
            async fn f() -> Result<Self, E> {}
        )));
        assert!(!mentions(quote!(
            async fn f(a: u8) -> R {
                Self::new()
            }
        )));
    }

    #[test]
    fn borrows_are_found_where_they_are_the_callers() {
        let borrowed = |input: FnArg| borrow(&input).map(|at| at.to_string());
        assert_eq!(borrowed(parse_quote!(&self)).unwrap(), "&");
        assert_eq!(borrowed(parse_quote!(self: &Self)).unwrap(), "&");
        assert_eq!(borrowed(parse_quote!(a: Vec<&str>)).unwrap(), "&");
        assert_eq!(borrowed(parse_quote!(a: Cow<'_, str>)).unwrap(), "'_");
        assert_eq!(borrowed(parse_quote!(self: Arc<Self>)), None);
        assert_eq!(borrowed(parse_quote!(a: &'static str)), None);
        assert_eq!(borrowed(parse_quote!(a: fn(&str) -> &str)), None);
        assert_eq!(borrowed(parse_quote!(a: Box<dyn Fn(&str)>)), None);
        assert_eq!(borrowed(parse_quote!(a: impl Fn(&u8))), None);
    }
}
