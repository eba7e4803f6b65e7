//! The generated function: site, key, body, and one call into the runtime.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, ExprReference, LitStr, Type, parse_quote_spanned};

use crate::args::Args;
use crate::function::{Binding, Function, Shape};
use crate::key::Key;
use crate::mistake::Mistakes;
use crate::runtime::Runtime;
use crate::source::source;
use crate::validate::validate;
use crate::value::{
    Bare, Flag, FunctionPath, Given, Message, Mode, OperationName, Parameter, variant,
};
use crate::words::Words;

/// Expands the attribute: returns the rewritten function, or the function as it was and its errors.
pub(crate) fn idempotent(arguments: TokenStream, mut item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let mut words = Words::default();
    match Function::parse(&item) {
        Err(error) => {
            mistakes.push(error);
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
            words = Words::of(&function);
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
                let run = self.run();
                quote!(#body #run)
            }
        };
        let import = self.runtime.import();
        self.function
            .with_body(quote!(#import #site #with #key #scope #fingerprint #message #returns #run))
    }

    /// The `static` with the arguments that are known at compile time.
    fn site(&self) -> TokenStream {
        let Self { args, span, .. } = self;
        let private = self.runtime.private(*span);
        let start = match (value(&args.name), value(&args.shared_name)) {
            (Some(OperationName(name)), Some(Flag(true))) => quote_spanned!(*span=> shared(#name)),
            (Some(OperationName(name)), _) => quote_spanned!(*span=> named(#name)),
            (None, _) => {
                let name = format!("::{}", self.function.sig.ident.unraw());
                // The type name of the closure contains the path of the enclosing item.
                quote_spanned! {*span=>
                    derived(::core::concat!(::core::module_path!(), #name), || {})
                }
            }
        };
        let one_of = |ty: &str, variant: Ident| {
            let ty = Ident::new(ty, *span);
            quote_spanned!(*span=> #private::#ty::#variant)
        };
        let settings = [
            ("expire", value(&args.expire).map(|time| self.time(time, time.constant()))),
            ("mode", value(&args.mode).map(|mode| one_of("Mode", variant(mode)))),
            (
                "message",
                value(&args.message).and_then(Message::fixed).map(|text| match text {
                    Expr::Lit(text) => text.to_token_stream(),
                    constant => self.constant("text", constant),
                }),
            ),
            ("wait", value(&args.wait).map(|time| self.time(time, time.constant()))),
            ("lease", value(&args.lease).map(|time| self.time(time, time.constant()))),
            ("max_run", value(&args.max_run).map(|time| self.time(time, time.constant()))),
            ("abandon", value(&args.abandon).map(|policy| one_of("Abandon", variant(policy)))),
            (
                "on_store_error",
                value(&args.on_store_error).map(|choice| one_of("OnStoreError", variant(choice))),
            ),
            (
                "on_unrecorded",
                value(&args.on_unrecorded).map(|choice| one_of("OnUnrecorded", variant(choice))),
            ),
        ]
        .into_iter()
        .filter_map(|(setter, value)| Some(self.set(setter, value?)));
        let binding = match value(&args.bind_payload_after_failure) {
            Some(Flag(true)) => Some(quote_spanned!(*span=> .bind_payload_after_failure())),
            _ => None,
        };
        // The configuration has the mode, and with it whether these have an effect.
        let for_strong = match (&args.mode, &args.wait, &args.on_replay) {
            (None, Some(_), _) => Some("wait"),
            (None, None, Some(_)) => Some("on_replay"),
            _ => None,
        };
        let for_strong = for_strong.map(|argument| quote_spanned!(*span=> .for_strong(#argument)));
        quote_spanned! {*span=>
            static __IDEMPOTENT_SITE: #private::Site =
                #private::Site::#start #(#settings)* #binding #for_strong;
        }
    }

    fn time(&self, time: &impl ToTokens, constant: Option<&Expr>) -> TokenStream {
        match constant {
            Some(constant) => self.constant("duration", constant),
            None => time.to_token_stream(),
        }
    }

    /// A constant of the user's, with a `check` of its type.
    ///
    /// The witness of the type has exactly the span of the constant: the compiler reports the type
    /// for both, and drops the second report if it is at the same place.
    fn constant(&self, check: &str, constant: &Expr) -> TokenStream {
        let tokens: Vec<_> = constant.to_token_stream().into_iter().collect();
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
            return TokenStream::new();
        };
        let private = self.runtime.private(first.span());
        let type_of = Ident::new("type_of", first.span());
        let and = quote_spanned!(first.span()=> &);
        let mut inside = Group::new(Delimiter::Parenthesis, quote!(#and #constant));
        inside.set_span(last.span());
        let span = self.span.located_at(first.span());
        let check = Ident::new(check, span);
        let root = self.runtime.private(span);
        quote_spanned!(span=> #root::#check(#private::#type_of #inside, #constant))
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
        quote_spanned!(span=> let __idempotent_with = #private::instance(#borrow);)
    }

    fn encoded(&self, local: &str, key: &Key) -> TokenStream {
        self.local(local, key, key.encoded(&self.runtime, &self.bindings))
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
            for condition in self.function.conditions(&path.root) {
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

    /// A witness of the return type, so that a missing trait is reported once and at that type.
    fn returns(&self) -> TokenStream {
        let args = self.args;
        let ty = self.function.returns();
        let span = self.span.located_at(ty.span());
        let private = self.runtime.private(span);
        let witness = match value(&args.mode) {
            Some(Mode::Reject | Mode::Window) => Ident::new("plain", span),
            Some(Mode::Strong) | None => Ident::new("replay", span),
        };
        let ty: Type = match self.function.returns_opaque() {
            Some(_) => parse_quote_spanned!(span=> ::core::result::Result<_, _>),
            None => ty,
        };
        let hooks = [
            ("final_errors", &args.final_errors),
            ("expire_with", &args.expire_with),
            ("on_replay", &args.on_replay),
        ];
        let hooks =
            hooks.into_iter().filter_map(|(name, given)| Some(self.hook(name, value(given)?)));
        quote_spanned! {span=>
            let __idempotent_returns = #private::#witness::<#ty>();
            #(#hooks)*
        }
    }

    /// Adds one of the user's functions to the policy: as itself, to be checked, and as a pointer. All
    /// is at the function, so that errors are.
    fn hook(&self, name: &str, FunctionPath(path): &FunctionPath) -> TokenStream {
        let span = self.span.located_at(path.span());
        let private = self.runtime.private(span);
        let hook = Ident::new(name, span);
        let policy = quote_spanned! {span=>
            #private::#hook(__idempotent_returns, __idempotent_hook, __idempotent_hook)
        };
        let policy = match name == "final_errors" {
            // The type of the errors is known here alone, and with it whether they have sources.
            true => quote_spanned!(span=> #private::FinalErrors::of(#policy).searched()),
            false => policy,
        };
        quote_spanned! {span=>
            let __idempotent_hook = #path;
            let __idempotent_returns = #policy;
        }
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
                        __idempotent_attempt.body(__idempotent_body).await
                    };
                    __idempotent_attempt
                        .settle(&mut __idempotent_transaction.on(&mut *#tx), __idempotent_answer)
                        .await
                }
            }
        }
    }

    fn run(&self) -> TokenStream {
        let args = self.args;
        let span = &self.run_span();
        let private = self.runtime.private(*span);
        let call = self.call(*span);
        let function = match value(&args.detach) {
            Some(Flag(true)) => "run_detached",
            _ => "run",
        };
        let function = Ident::new(function, *span);
        quote_spanned! {*span=>
            #private::#function(#call, __idempotent_returns, __idempotent_body).await
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
