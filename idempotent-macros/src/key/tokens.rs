//! Code generation for keys: calls into the runtime.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit};

use super::path::Step;
use super::{FieldPath, Form, Key, Piece};
use crate::condition::Condition;
use crate::function::Binding;
use crate::runtime::Runtime;

/// The meaning of a `None` in a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Missing {
    /// No key: a path to an `Option` has to end in `?`.
    Refused,
    /// A payload that differs from every other one.
    Told,
}

impl Key {
    /// Code that encodes the key. A part may have a condition with a text of its own.
    pub(crate) fn encoded(
        &self,
        runtime: &Runtime,
        bindings: &[Binding],
        missing: Missing,
        condition: impl Fn(&FieldPath) -> Option<Condition>,
    ) -> TokenStream {
        let span = Span::mixed_site().located_at(self.span);
        let private = runtime.private(span);
        // The parts before a path are taken first: its value may be a temporary.
        let parts = Ident::new("__idempotent_parts", span);
        let part = |path: &FieldPath, before: TokenStream| {
            let missing = if self.is_template() { Missing::Refused } else { missing };
            let value = |reference| value_of(runtime, path, reference, missing, condition(path));
            if path.legs().count() == 1 {
                let call = call(path, value(self.reference(path, bindings)));
                return quote!(#before #call);
            }
            let found = |reference| {
                let call = call(path, value(reference));
                quote_spanned!(span=> #parts #call)
            };
            let none = quote_spanned!(span=> #parts.optional(#private::NOTHING));
            let value = self.on_the_way(runtime, path, bindings, found, &none);
            quote_spanned!(span=> { let #parts = #before; #value })
        };
        match &self.form {
            Form::Path(path) => {
                let function = match path.optional {
                    true => quote_spanned!(span=> optional_key),
                    false => quote_spanned!(span=> key),
                };
                let key = |reference| {
                    let part = value_of(runtime, path, reference, missing, condition(path));
                    quote_spanned!(span=> #private::#function(#part))
                };
                match path.legs().count() {
                    1 => key(self.reference(path, bindings)),
                    _ => {
                        let none = quote_spanned!(span=> #private::optional_key(#private::NOTHING));
                        self.on_the_way(runtime, path, bindings, key, &none)
                    }
                }
            }
            Form::Tuple(paths) => {
                let start = quote_spanned!(span=> #private::tuple());
                let parts = paths.iter().fold(start, |before, path| part(path, before));
                quote_spanned!(span=> #parts .finish())
            }
            Form::Template(pieces) => {
                let start = quote_spanned!(span=> #private::template());
                let parts = pieces.iter().fold(start, |before, piece| match piece {
                    Piece::Text(text) => quote_spanned!(span=> #before .text(#text)),
                    Piece::Hole(path) => part(path, before),
                });
                quote_spanned!(span=> #parts .finish())
            }
            Form::Constant(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => {
                quote_spanned!(span=> #private::key(#text))
            }
            Form::Constant(value) => {
                let span = Span::mixed_site().located_at(value.span());
                let private = runtime.private(span);
                quote_spanned!(span=> #private::constant_key(&#value))
            }
        }
    }

    /// Code that writes the message of one call. `site` is the static of the function.
    pub(crate) fn worded(
        &self,
        runtime: &Runtime,
        bindings: &[Binding],
        site: &Ident,
    ) -> TokenStream {
        let span = Span::mixed_site().located_at(self.span);
        let private = runtime.private(span);
        let Form::Template(pieces) = &self.form else {
            unreachable!("a message is a template");
        };
        let pieces = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => quote_spanned!(span=> .text(#text)),
            Piece::Hole(path) => {
                let value = self.reference(path, bindings);
                match path.as_debug {
                    true => quote_spanned!(span=> .debug(#value)),
                    false => quote_spanned!(span=> .value(#value)),
                }
            }
        });
        quote_spanned!(span=> #private::worded(&#site) #(#pieces)* .finish())
    }

    /// Code for a path with `?` on its way: `found` makes it from the value at the end, and `none` is that for a
    /// value that is missing before.
    fn on_the_way(
        &self,
        runtime: &Runtime,
        path: &FieldPath,
        bindings: &[Binding],
        found: impl FnOnce(TokenStream) -> TokenStream,
        none: &TokenStream,
    ) -> TokenStream {
        let span = Span::mixed_site().located_at(path.root.span());
        let private = runtime.private(span);
        let value = Ident::new("__idempotent_value", span);
        let mut legs = path.legs().rev();
        let first = self.reference(path, bindings);
        let last = legs.next().unwrap_or_default();
        let inside = quote_spanned!(span=> (*#value));
        let mut code = found(steps_of(&inside, last, span));
        let mut legs = legs.peekable();
        while let Some(leg) = legs.next() {
            let option = match legs.peek() {
                Some(_) => steps_of(&inside, leg, span),
                None => first.clone(),
            };
            code = quote_spanned! {span=>
                match #private::option(#option) {
                    ::core::option::Option::Some(#value) => #code,
                    ::core::option::Option::None => #none,
                }
            };
        }
        code
    }

    /// A reference to the value of a path, up to the first `?` on its way.
    fn reference(&self, path: &FieldPath, bindings: &[Binding]) -> TokenStream {
        let span = Span::mixed_site().located_at(path.root.span());
        let root = self.resolve(&path.root, bindings);
        let steps = path.legs().next().unwrap_or_default();
        // Methods are called behind a shared borrow: one that changes or consumes its receiver would
        // take it from the body. The type stays that of the root: on a reference to it, `clone`
        // would copy a reference.
        let root = match steps.iter().any(|step| matches!(step, Step::Call(_))) {
            true => quote_spanned!(span=> (*&#root)),
            false => quote!(#root),
        };
        steps_of(&root, steps, span)
    }

    /// Resolves a name to the parameter of that name, regardless of macro hygiene. Of several
    /// parameters, which only hygiene tells apart, a name without quotes means its own.
    fn resolve(&self, name: &Ident, bindings: &[Binding]) -> Ident {
        let mut name = name.clone();
        let mut named = bindings.iter().filter(|binding| binding.name == name);
        if let Some(binding) = named.next()
            && (self.quoted.is_some() || named.next().is_none())
        {
            name.set_span(binding.name.span().located_at(name.span()));
        }
        name
    }
}

/// A reference to what the steps lead to from `root`.
fn steps_of(root: &TokenStream, steps: &[Step], span: Span) -> TokenStream {
    let and = quote_spanned!(span=> &);
    let steps = steps.iter().map(|step| match step {
        Step::Field(member) => quote!(.#member),
        Step::Call(method) => {
            let span = method.span();
            quote_spanned!(span=> .#method())
        }
        Step::Value => TokenStream::new(),
    });
    quote!(#and #root #(#steps)*)
}

fn call(part: &FieldPath, value: TokenStream) -> TokenStream {
    let span = Span::mixed_site().located_at(part.root.span());
    match part.optional {
        true => quote_spanned!(span=> .optional(#value)),
        false => quote_spanned!(span=> .part(#value)),
    }
}

/// The value of a path, which the compiler requires to be an `Option` if the path ends in `?`.
fn value_of(
    runtime: &Runtime,
    part: &FieldPath,
    reference: TokenStream,
    missing: Missing,
    condition: Option<Condition>,
) -> TokenStream {
    // A step that answers with something else than an `Option` is reported once if all has one place.
    let at = if part.optional { part.root.span() } else { part.end() };
    let span = Span::mixed_site().located_at(at);
    let private = &runtime.private(span);
    match (part.optional, condition) {
        (true, _) => quote_spanned!(span=> #private::option(#reference)),
        (false, None) => match missing {
            Missing::Refused => {
                quote_spanned!(span=> #private::part(#reference).__idempotent_checked())
            }
            Missing::Told => {
                quote_spanned!(span=> &#private::payload(#reference).__idempotent_checked())
            }
        },
        (false, Some(condition)) => {
            condition.on_part(&quote_spanned!(span=> #private::KeyPart), &reference, span)
        }
    }
}
