//! The function under the attribute: its shape, its parameters, what it returns.
//!
//! The body of an async function is kept as tokens: nothing here needs to understand it.

mod boxed;
mod pattern;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::visit::{self, Visit};
use syn::{
    Attribute, FnArg, GenericArgument, Item, PathArguments, Receiver, ReturnType, Signature, Token,
    Type, Visibility, token,
};

use self::boxed::Boxed;
use crate::mistake::mistake;

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

/// How the function is async.
#[derive(Debug)]
pub(crate) enum Shape {
    Async,
    /// What `#[async_trait]` leaves: a plain function that ends in `Box::pin(async move { .. })`.
    Boxed(Box<Boxed>),
    /// Not at all.
    Plain,
}

/// A name that keys can start with.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: Ident,
    /// `#[async_trait]` moves patterns into the body; this brings the name back.
    pub(crate) pattern: Option<TokenStream>,
}

impl Function {
    /// The function, or why there is none.
    pub(crate) fn parse(item: &TokenStream) -> syn::Result<Self> {
        match syn::parse2(item.clone()) {
            Ok(Parsed::Function(function)) => Ok(*function),
            Ok(Parsed::WithoutBody(sig)) => Err(mistake(
                &sig.ident,
                format!("`{}` has no body to run", sig.ident),
                "put `#[idempotent(..)]` on the function in the `impl` block",
            )),
            Err(_) => Err(not_a_function(item)),
        }
    }

    pub(crate) fn receiver(&self) -> Option<&Receiver> {
        self.sig.receiver()
    }

    /// Whether the parameters or the return type say `Self`.
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

    /// The type that the async body returns.
    pub(crate) fn returns(&self) -> Type {
        match (&self.shape, &self.sig.output) {
            (Shape::Boxed(boxed), _) => boxed.output.clone(),
            (_, ReturnType::Type(_, ty)) => (**ty).clone(),
            (_, ReturnType::Default) => {
                let paren_token = token::Paren(self.sig.ident.span());
                Type::Tuple(syn::TypeTuple {
                    attrs: Vec::new(),
                    paren_token,
                    elems: Default::default(),
                })
            }
        }
    }

    /// The first `impl Trait` in the return type.
    pub(crate) fn returns_opaque(&self) -> Option<Token![impl]> {
        struct Find(Option<Token![impl]>);
        impl Visit<'_> for Find {
            fn visit_type_impl_trait(&mut self, ty: &syn::TypeImplTrait) {
                self.0.get_or_insert(ty.impl_token);
            }
        }
        let mut find = Find(None);
        find.visit_type(&self.returns());
        find.0
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
        let (inner, outer): (Vec<_>, Vec<_>) =
            attrs.iter().partition(|attr| matches!(attr.style, syn::AttrStyle::Inner(_)));
        let mut tokens = quote!(#(#outer)* #vis #sig);
        brace.surround(&mut tokens, |tokens| tokens.extend(quote!(#(#inner)* #body)));
        tokens
    }
}

/// A borrow in the type of a parameter, by its first token.
pub(crate) fn borrow(input: &FnArg) -> Option<TokenStream> {
    #[derive(Default)]
    struct Find(Option<TokenStream>);
    impl Find {
        fn found(&mut self, at: impl ToTokens) {
            self.0.get_or_insert(at.into_token_stream());
        }
    }
    impl Visit<'_> for Find {
        fn visit_receiver(&mut self, receiver: &Receiver) {
            if let syn::ReceiverKind::Reference(and, ..) = &receiver.kind {
                self.found(and);
            }
            visit::visit_receiver(self, receiver);
        }
        fn visit_type_reference(&mut self, ty: &syn::TypeReference) {
            match &ty.lifetime {
                Some(lifetime) if lifetime.ident == "static" => self.visit_type(&ty.elem),
                _ => self.found(ty.and_token),
            }
        }
        fn visit_lifetime(&mut self, lifetime: &syn::Lifetime) {
            if lifetime.ident != "static" {
                self.found(lifetime);
            }
        }
        // The references of a function's own parameters are not borrows of the caller.
        fn visit_type_fn_ptr(&mut self, _: &syn::TypeFnPtr) {}
        fn visit_parenthesized_generic_arguments(
            &mut self,
            _: &syn::ParenthesizedGenericArguments,
        ) {
        }
    }
    let mut find = Find::default();
    find.visit_fn_arg(input);
    find.0
}

/// A reference in the value of a returned `Result`.
pub(crate) fn borrowed_value(returns: &Type) -> Option<Token![&]> {
    struct Find(Option<Token![&]>);
    impl Visit<'_> for Find {
        fn visit_type_reference(&mut self, ty: &syn::TypeReference) {
            self.0.get_or_insert(ty.and_token);
        }
        fn visit_type_fn_ptr(&mut self, _: &syn::TypeFnPtr) {}
        fn visit_parenthesized_generic_arguments(
            &mut self,
            _: &syn::ParenthesizedGenericArguments,
        ) {
        }
    }
    let Type::Path(path) = returns else {
        return None;
    };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    let value = arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })?;
    let mut find = Find(None);
    find.visit_type(value);
    find.0
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

fn not_a_function(item: &TokenStream) -> syn::Error {
    let what = |kind| format!("`#[idempotent]` goes on an async function, not on {kind}");
    let help = "`#[idempotent(..)] async fn create_order(..) -> Result<..> { .. }`";
    let methods = "put it on each function that runs once per key";
    match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Struct(item)) => mistake(&item.ident, what("a struct"), help),
        Ok(Item::Enum(item)) => mistake(&item.ident, what("an enum"), help),
        Ok(Item::Union(item)) => mistake(&item.ident, what("a union"), help),
        Ok(Item::Trait(item)) => mistake(&item.ident, what("a trait"), methods),
        Ok(Item::Mod(item)) => mistake(&item.ident, what("a module"), methods),
        Ok(Item::Impl(item)) => mistake(item.impl_token, what("an `impl` block"), methods),
        _ => {
            let first: TokenStream = item.clone().into_iter().take(1).collect();
            let at = if first.is_empty() { quote_spanned!(Span::call_site()=> _) } else { first };
            mistake(at, "`#[idempotent]` goes on an async function", help)
        }
    }
}
