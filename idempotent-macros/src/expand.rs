//! The generated function: site, key, body, and one call into the runtime.

mod returns;
mod site;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprReference, LitStr};

use crate::args::Args;
use crate::function::{Binding, Function, Shape};
use crate::key::{FieldPath, Key, Missing};
use crate::key_types;
use crate::mistake::Mistakes;
use crate::runtime::Runtime;
use crate::source::source;
use crate::validate::{self, validate};
use crate::value::{Bare, Flag, Given, Message, Parameter};
use crate::words::Words;

/// Expands the attribute: returns the rewritten function, or the function as it was and its errors.
pub(crate) fn idempotent(arguments: TokenStream, mut item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let words;
    match Function::parse(&item, &arguments) {
        Err(error) => {
            mistakes.push(error);
            words = Words::of_item(&item, &arguments);
            if syn::parse2::<Expr>(item.clone()).is_ok() {
                // One expression may take the place of another, and nothing beside it.
                return mistakes.into_compile_errors(&words);
            }
        }
        Ok(function) => {
            let parameters: Vec<_> =
                function.bindings().iter().map(|binding| binding.name.to_string()).collect();
            let args = Args::parse(arguments.clone(), &parameters, &mut mistakes);
            validate(&args, &arguments, &function, &mut mistakes);
            if mistakes.is_empty() {
                return Expansion::new(&args, &function).function();
            }
            words = Words::of(&function, &arguments);
            item = function.without_marks(&item);
        }
    }
    let errors = mistakes.into_compile_errors(&words);
    quote!(#item #errors)
}

struct Expansion<'a> {
    args: &'a Args,
    function: &'a Function,
    bindings: Vec<Binding>,
    runtime: Runtime,
    /// Hygienic span, which hides generated names from the user's code. Code that can cause a type
    /// error gets the span of the user's token that the error is about instead.
    span: Span,
}

impl<'a> Expansion<'a> {
    fn new(args: &'a Args, function: &'a Function) -> Self {
        Self {
            args,
            function,
            bindings: function.bindings(),
            runtime: Runtime::new(value(&args.runtime).map(|path| path.0.clone())),
            span: Span::mixed_site(),
        }
    }

    fn function(&self) -> TokenStream {
        let Self { args, span, .. } = self;
        let site = self.site();
        let with = value(&args.with).map(|Bare(expr)| self.with(expr));
        let key = match value(&args.key) {
            Some(key) => self.encoded("__idempotent_key", key),
            None => {
                let private = self.runtime.private(*span);
                quote_spanned!(*span=> let __idempotent_key = #private::ambient_key();)
            }
        };
        let scope = value(&args.scope).map(|key| self.encoded("__idempotent_scope", key));
        let fingerprint =
            value(&args.fingerprint).map(|key| self.encoded("__idempotent_fingerprint", key));
        let message = value(&args.message).and_then(Message::template).map(|key| {
            let site = Ident::new("__IDEMPOTENT_SITE", *span);
            let worded = key.worded(&self.runtime, &self.bindings, &site);
            self.local("__idempotent_message", key, worded)
        });
        let returns = self.returns();
        let body = self.body();
        let run = match value(&args.transaction) {
            Some(Parameter(transaction)) => self.run_in_transaction(transaction, &body),
            None => {
                let (sent, run) = (self.sent(), self.run());
                quote!(#sent #body #run)
            }
        };
        let import = self.runtime.import();
        self.function
            .with_body(quote!(#import #site #with #key #scope #fingerprint #message #returns #run))
    }

    fn with(&self, expr: &Expr) -> TokenStream {
        let span = self.span.located_at(expr.span());
        let private = self.runtime.private(span);
        let borrow = ExprReference {
            attrs: Vec::new(),
            // At the user's own token, so that an error is at the whole expression.
            and_token: syn::Token![&](expr.span()),
            mutability: None,
            expr: Box::new(expr.clone()),
        };
        let instance = match validate::with::condition(expr, self.function) {
            Some(condition) => condition.on_instance(&private, &borrow, span),
            None => quote_spanned!(span=> #private::instance(#borrow)),
        };
        quote_spanned!(span=> let __idempotent_with = #instance;)
    }

    fn encoded(&self, local: &str, key: &Key) -> TokenStream {
        let argument = local.trim_start_matches("__idempotent_");
        let condition = |path: &FieldPath| key_types::condition(argument, key, path, self.function);
        let missing = match argument {
            "fingerprint" => Missing::Told,
            _ => Missing::Refused,
        };
        self.local(local, key, key.encoded(&self.runtime, &self.bindings, missing, condition))
    }

    /// Binds what `code` makes from the paths of `key`.
    fn local(&self, local: &str, key: &Key, code: TokenStream) -> TokenStream {
        let conditions = self.conditions(key);
        let argument = local.trim_start_matches("__idempotent_");
        let local = Ident::new(local, self.span);
        let mut patterns: Vec<&TokenStream> = Vec::new();
        for path in key.paths() {
            let binding = self.bindings.iter().find(|binding| binding.name == path.root);
            let pattern = binding.and_then(|binding| binding.pattern.as_ref());
            if let Some(pattern) = pattern
                && !patterns.iter().any(|known| known.to_string() == pattern.to_string())
            {
                patterns.push(pattern);
            }
        }
        let binding = match patterns.as_slice() {
            [] => quote_spanned!(self.span=> let #local = #code;),
            _ => quote_spanned!(self.span=> let #local = { #(#patterns)* #code };),
        };
        let Some((name, conditions)) = conditions else { return binding };
        let shown = source(&conditions);
        let help = format!(
            "one attribute for each: `#[cfg_attr({shown}, idempotent(..))]` and \
             `#[cfg_attr(not({shown}), idempotent(..))]`"
        );
        let what = format!("`{name}` is not there without `{shown}`, and `{argument}` reads it");
        let text = LitStr::new(&format!("{what}\nhelp: {help}"), key.at_all());
        let error = quote_spanned!(key.at_all()=> ::core::compile_error!(#text));
        quote_spanned! {self.span=>
            #[cfg(#conditions)]
            #binding
            #[cfg(not(#conditions))]
            let #local = #error;
        }
    }

    /// The first parameter of a key that is there under a condition, and all those conditions.
    fn conditions(&self, key: &Key) -> Option<(String, TokenStream)> {
        let mut first = None;
        let mut all: Vec<TokenStream> = Vec::new();
        for path in key.paths() {
            if let Some(condition) = self.function.condition(&path.root) {
                first.get_or_insert_with(|| path.root.to_string());
                if !all.iter().any(|known| known.to_string() == condition.to_string()) {
                    all.push(condition);
                }
            }
        }
        let conditions = match all.as_slice() {
            [only] => only.clone(),
            all => quote!(all(#(#all),*)),
        };
        Some((first?, conditions))
    }

    /// The user's statements as an async block.
    ///
    /// It opens with a `return` that is never reached. That tells the compiler the type of the
    /// block, so that a mismatch is reported at the user's expression. Code from `#[async_trait]`
    /// has one already.
    fn body(&self) -> TokenStream {
        let stmts = self.function.user_body();
        let named = self.function.returns_opaque().is_none();
        let edge = (named && matches!(self.function.shape, Shape::Async)).then(|| {
            let ty = self.function.returns();
            quote_spanned! {self.span=>
                #[allow(unreachable_code, unreachable_patterns)]
                if let ::core::option::Option::Some(__idempotent_never) =
                    ::core::option::Option::None::<#ty>
                {
                    return __idempotent_never;
                }
            }
        });
        let scope = match edge {
            Some(_) => quote_spanned!(self.span=> { #stmts }),
            None => stmts,
        };
        let span = self.run_span();
        quote_spanned!(span=> let __idempotent_body = async move { #edge #scope };)
    }

    /// Claim, body and record, in a transaction of the caller's. The body borrows the transaction
    /// for as long as it runs.
    fn run_in_transaction(&self, transaction: &Ident, body: &TokenStream) -> TokenStream {
        let span = self.span;
        // Errors about the type of the transaction belong to the parameter.
        let at = span.located_at(transaction.span());
        let private = self.runtime.private(span);
        let call = self.call(span);
        let tx = self.function.parameter(transaction);
        let state = quote_spanned!(at=> ::idempotent_sql::__private::CallersTransaction);
        quote_spanned! {span=>
            let mut __idempotent_transaction = #state::new();
            let __idempotent_claim = #private::claim(
                #call,
                __idempotent_returns,
                &mut __idempotent_transaction.on(&mut *#tx),
            )
            .await;
            match __idempotent_claim {
                ::core::ops::ControlFlow::Break(__idempotent_answer) => __idempotent_answer,
                ::core::ops::ControlFlow::Continue(mut __idempotent_attempt) => {
                    let __idempotent_answer = {
                        let #tx = &mut *#tx;
                        #body
                        #private::InTransaction::body(&mut __idempotent_attempt, __idempotent_body).await
                    };
                    __idempotent_attempt
                        .settle(&mut __idempotent_transaction.on(&mut *#tx), __idempotent_answer)
                        .await
                }
            }
        }
    }

    /// The requirement of a detached body on parameters of any type.
    fn sent(&self) -> TokenStream {
        let Some(Flag(true)) = value(&self.args.detach) else { return TokenStream::new() };
        let conditions = validate::detach::conditions(self.function);
        let conditions = conditions.into_iter().map(|(parameter, at, condition)| {
            condition.on_sent(&parameter, self.span.located_at(at.span()))
        });
        conditions.collect()
    }

    fn run(&self) -> TokenStream {
        let args = self.args;
        let span = &self.run_span();
        let private = self.runtime.private(*span);
        let call = self.call(*span);
        let function = match value(&args.detach) {
            Some(Flag(true)) => "detached_body_must_be_send",
            _ => "run",
        };
        let function = Ident::new(function, *span);
        let answer = quote_spanned! {*span=>
            #private::#function(#call, __idempotent_returns, __idempotent_body).await
        };
        // As the last expression it would be dropped after the instance that it borrows, before the edition of 2024.
        match args.with {
            Some(_) => quote_spanned! {*span=>
                let __idempotent_answer = #answer;
                __idempotent_answer
            },
            None => answer,
        }
    }

    /// The call, with its key, scope, fingerprint and instance.
    fn call(&self, span: Span) -> TokenStream {
        let args = self.args;
        let span = &span;
        let private = self.runtime.private(*span);
        let parts = [
            args.scope.as_ref().map(|_| ("scope", quote_spanned!(*span=> __idempotent_scope))),
            args.fingerprint
                .as_ref()
                .map(|_| ("fingerprint", quote_spanned!(*span=> __idempotent_fingerprint))),
            value(&args.message)
                .and_then(Message::template)
                .map(|_| ("message", quote_spanned!(*span=> &__idempotent_message))),
            args.with.as_ref().map(|_| ("instance", quote_spanned!(*span=> &__idempotent_with))),
        ]
        .into_iter()
        .flatten()
        .map(|(setter, value)| self.set(setter, value));
        quote_spanned!(*span=> #private::Call::new(&__IDEMPOTENT_SITE, __idempotent_key) #(#parts)*)
    }

    /// Span of the call into the runtime: with `detach`, the argument, which is what requires
    /// `Send`.
    fn run_span(&self) -> Span {
        match &self.args.detach {
            Some(given) => self.span.located_at(given.name.span()),
            None => self.span,
        }
    }

    /// `.setter(value)`, with the span of the value.
    fn set(&self, setter: &str, value: TokenStream) -> TokenStream {
        let span = self.span.located_at(value.span());
        let setter = Ident::new(setter, span);
        quote_spanned!(span=> .#setter(#value))
    }
}

/// The value of an argument, if it was given. After validation every given argument has one.
fn value<T>(given: &Option<Given<T>>) -> Option<&T> {
    given.as_ref().and_then(Given::ok)
}
