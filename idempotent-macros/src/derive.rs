//! `#[derive(KeyPart)]`: newtypes as their field, structs as tuples, enums as named variants.
//!
//! `options` reads `#[key_part(..)]`, `place` knows where which of them stands, and `fields` encodes the fields that are part
//! of the key.

mod case;
mod fields;
mod options;
mod place;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, FieldsNamed, LitStr, Path, Variant, parse_quote};

use self::fields::{kept_fields, names_in};
use self::options::{TypeOptions, variant_name};
use crate::mistake::{Mistakes, mistake};
use crate::source::signature_source;

pub(crate) fn key_part(item: TokenStream) -> TokenStream {
    match syn::parse2(item) {
        Ok(input) => implementation(&input),
        Err(error) => error.to_compile_error(),
    }
}

/// The implementation, or one that does nothing and the errors: where the type is used, there is no
/// second one.
fn implementation(input: &DeriveInput) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let options = TypeOptions::read(input, &mut mistakes);
    let has_path = options.is_some();
    let runtime =
        options.unwrap_or_default().runtime.unwrap_or_else(|| parse_quote!(::idempotent_runtime));
    let body = match &input.data {
        Data::Struct(data) => encode_struct(&runtime, &input.ident, &data.fields, &mut mistakes),
        Data::Enum(data) => {
            let variants: Vec<_> = data.variants.iter().collect();
            encode_enum(&runtime, &variants, &mut mistakes)
        }
        Data::Union(data) => {
            let what = format!(
                "`{}` is a union, and nothing tells which of its fields is there",
                input.ident
            );
            let help = by_hand(input, &data.fields);
            mistakes.push(mistake(&input.ident, what, help));
            TokenStream::new()
        }
    };
    let (body, errors) = match mistakes.or(body) {
        Ok(body) => (body, None),
        // Without the path of the runtime, there is no trait to implement.
        Err(errors) if !has_path => return errors.to_compile_error(),
        Err(errors) => {
            let body = quote_spanned!(Span::mixed_site()=> ::core::unreachable!());
            (body, Some(errors.to_compile_error()))
        }
    };

    let name = &input.ident;
    let mut generics = input.generics.clone();
    let displayed = names_in(&input.data, |options| options.display);
    let encoded = names_in(&input.data, |options| !options.display && !options.skip);
    let skipped = names_in(&input.data, |options| options.skip);
    for parameter in generics.type_params_mut() {
        let name = parameter.ident.clone();
        if displayed.contains(&name) {
            parameter.bounds.push(parse_quote!(::core::fmt::Display));
        }
        if encoded.contains(&name) || !(displayed.contains(&name) || skipped.contains(&name)) {
            parameter.bounds.push(parse_quote!(#runtime::KeyPart));
        }
    }
    let (generics, arguments, condition) = generics.split_for_impl();
    let key = hidden("key");
    let allowed = errors.is_some().then(|| quote_spanned!(Span::mixed_site()=> unused_variables,));
    quote_spanned! {Span::mixed_site()=>
        #errors
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        #[allow(#allowed deprecated)]
        impl #generics #runtime::KeyPart for #name #arguments #condition {
            fn encode(&self, #key: &mut #runtime::key::KeyWriter) {
                #body
            }
        }
    }
}

/// Help for a union: an implementation that takes its first field.
fn by_hand(input: &DeriveInput, fields: &FieldsNamed) -> String {
    let (header, arguments, condition) = input.generics.split_for_impl();
    let header = format!("impl{}", signature_source(&header));
    let ty =
        format!("{}{}{}", input.ident, signature_source(&arguments), signature_source(&condition));
    let field = fields.named.iter().find_map(|field| field.ident.as_ref());
    let field = field.map_or_else(String::new, ToString::to_string);
    format!(
        "in place of the derive, with a field that is always set: `{header} idempotent_runtime::KeyPart for {ty} {{ fn \
         encode(&self, key: &mut idempotent_runtime::key::KeyWriter) {{ \
         idempotent_runtime::KeyPart::encode(unsafe {{ &self.{field} }}, key) }} }}`"
    )
}

fn encode_struct(
    runtime: &Path,
    name: &Ident,
    fields: &Fields,
    mistakes: &mut Mistakes,
) -> TokenStream {
    let key = hidden("key");
    let kept = kept_fields(runtime, fields, mistakes);
    match (fields, kept.as_slice()) {
        // Wrong options have been reported, and may have been meant for the missing field.
        (_, []) if mistakes.is_empty() => {
            let what =
                format!("`{name}` has no field in its key, so all its values are the same key");
            let help = match fields.is_empty() {
                true => {
                    "leave it out of the key, and remove `KeyPart` from its derives; a key that is the same in \
                         every call is `key = const \"nightly\"`"
                }
                false => {
                    "remove `#[key_part(skip)]` from a field that tells two values apart; or leave it out of the key, remove \
                     `KeyPart` from its derives and `#[key_part(skip)]` from its fields; a key that is the same in every call \
                     is `key = const \"nightly\"`"
                }
            };
            mistakes.push(mistake(name, what, help));
            TokenStream::new()
        }
        (Fields::Unnamed(all), [field]) if all.unnamed.len() == 1 => {
            let value = field.newtype(name, &field.of_self());
            quote_spanned!(field.span()=> #runtime::KeyPart::encode(#value, #key);)
        }
        (_, kept) => {
            let parts = kept.iter().map(|field| field.part(&field.of_self()));
            // Borrowed already, so that a trait of the user's with a method `part` for every type comes later.
            quote_spanned!(Span::mixed_site()=> (&mut #key.tuple()) #(#parts)*;)
        }
    }
}

fn encode_enum(runtime: &Path, variants: &[&Variant], mistakes: &mut Mistakes) -> TokenStream {
    let span = Span::mixed_site();
    let mut names = Vec::new();
    for variant in variants {
        let own = variant.ident.unraw().to_string();
        let renamed = mistakes.take(variant_name(variant)).flatten();
        names.push((renamed.as_ref().map_or(own, LitStr::value), renamed));
    }
    let mut arms = Vec::new();
    for (at, (variant, (name, renamed))) in variants.iter().zip(&names).enumerate() {
        if let Some(first) = names[..at].iter().position(|(known, _)| known == name) {
            let (of_first, first) = (&names[first].1, &variants[first].ident);
            let what = format!("`{first}` and `{}` are both `{name}` in a key", variant.ident);
            // One of them is renamed: no two variants have the same name.
            let (at, of) = match renamed.as_ref().or(of_first.as_ref()) {
                Some(at) if renamed.is_some() => (at.to_token_stream(), &variant.ident),
                Some(at) => (at.to_token_stream(), first),
                None => (variant.ident.to_token_stream(), &variant.ident),
            };
            let help =
                format!("remove `rename = \"{name}\"` from `{of}`, or give it a name of its own");
            mistakes.push(mistake(at, what, help));
        }
        arms.push(encode_variant(runtime, variant, name, mistakes));
    }
    match arms.as_slice() {
        [] => quote_spanned!(span=> match *self {}),
        _ => quote_spanned!(span=> match self { #(#arms)* }),
    }
}

fn encode_variant(
    runtime: &Path,
    variant: &Variant,
    name: &str,
    mistakes: &mut Mistakes,
) -> TokenStream {
    let span = Span::mixed_site();
    let key = hidden("key");
    let kept = kept_fields(runtime, &variant.fields, mistakes);
    let parts = kept.iter().map(|field| field.part(&field.binding().to_token_stream()));
    let ident = &variant.ident;
    let pattern = match &variant.fields {
        Fields::Unit => quote_spanned!(span=> Self::#ident),
        Fields::Named(all) => {
            let bindings = kept.iter().map(|field| {
                let (member, binding) = (&field.member, field.binding());
                quote_spanned!(span=> #member: #binding)
            });
            let rest = (kept.len() < all.named.len()).then(|| quote_spanned!(span=> ..));
            quote_spanned!(span=> Self::#ident { #(#bindings,)* #rest })
        }
        Fields::Unnamed(_) => {
            let bindings = variant.fields.members().map(|member| {
                match kept.iter().find(|field| field.member == member) {
                    Some(field) => field.binding().to_token_stream(),
                    None => quote_spanned!(span=> _),
                }
            });
            quote_spanned!(span=> Self::#ident(#(#bindings),*))
        }
    };
    let variant = quote_spanned!(span=> #key.variant(#name));
    match kept.is_empty() {
        true => quote_spanned!(span=> #pattern => { #variant; }),
        false => quote_spanned!(span=> #pattern => { (&mut #variant) #(#parts)*; }),
    }
}

fn hidden(name: &str) -> Ident {
    format_ident!("__idempotent_{name}", span = Span::mixed_site())
}
