//! `#[derive(KeyPart)]`: newtypes as their field, structs as tuples, enums as named variants.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Data, DeriveInput, Field, Fields, Member, Path, Variant, parse_quote};

use crate::mistake::{Mistakes, mistake};
use crate::suggest::nearest;

pub(crate) fn key_part(item: TokenStream) -> TokenStream {
    syn::parse2(item)
        .and_then(|input| implementation(&input))
        .unwrap_or_else(|error| error.to_compile_error())
}

fn implementation(input: &DeriveInput) -> syn::Result<TokenStream> {
    let mut mistakes = Mistakes::default();
    let options = mistakes.take(TypeOptions::read(&input.attrs)).unwrap_or_default();
    let runtime = options.runtime.unwrap_or_else(|| parse_quote!(::idempotent_runtime));
    let body = match &input.data {
        Data::Struct(data) => encode_struct(&runtime, &data.fields, &mut mistakes),
        Data::Enum(data) => encode_enum(&data.variants.iter().collect::<Vec<_>>(), &mut mistakes),
        Data::Union(data) => {
            let what = format!(
                "`{}` is a union, and nothing tells which of its fields is there",
                input.ident
            );
            mistakes.push(mistake(data.union_token, what, "use a struct or an enum"));
            TokenStream::new()
        }
    };
    let body = mistakes.or(body)?;

    let name = &input.ident;
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#runtime::KeyPart));
    }
    let (generics, arguments, condition) = generics.split_for_impl();
    let key = hidden("key");
    Ok(quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        #[allow(deprecated)]
        impl #generics #runtime::KeyPart for #name #arguments #condition {
            fn encode(&self, #key: &mut #runtime::key::KeyWriter) {
                #body
            }
        }
    })
}

fn encode_struct(runtime: &Path, fields: &Fields, mistakes: &mut Mistakes) -> TokenStream {
    let key = hidden("key");
    let kept = kept_fields(fields, mistakes);
    if let (Fields::Unnamed(all), [field]) = (fields, kept.as_slice())
        && all.unnamed.len() == 1
    {
        let value = field.of_self();
        return quote_spanned!(field.span()=> #runtime::KeyPart::encode(#value, #key););
    }
    let parts = kept.iter().map(|field| field.part(&field.of_self()));
    quote_spanned!(Span::mixed_site()=> #key.tuple() #(#parts)*;)
}

fn encode_enum(variants: &[&Variant], mistakes: &mut Mistakes) -> TokenStream {
    let span = Span::mixed_site();
    let arms: Vec<_> = variants.iter().map(|variant| encode_variant(variant, mistakes)).collect();
    match arms.as_slice() {
        [] => quote_spanned!(span=> match *self {}),
        _ => quote_spanned!(span=> match self { #(#arms)* }),
    }
}

fn encode_variant(variant: &Variant, mistakes: &mut Mistakes) -> TokenStream {
    let span = Span::mixed_site();
    let key = hidden("key");
    let kept = kept_fields(&variant.fields, mistakes);
    let parts = kept.iter().map(|field| field.part(&field.binding().to_token_stream()));
    let ident = &variant.ident;
    let name = ident.unraw().to_string();
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
    quote_spanned! {span=>
        #pattern => {
            #key.variant(#name) #(#parts)*;
        }
    }
}

/// A field that is part of the key.
struct Kept<'a> {
    field: &'a Field,
    member: Member,
}

impl Kept<'_> {
    /// Span of the field's name, or of its type if it has none.
    fn span(&self) -> Span {
        let at = match &self.field.ident {
            Some(name) => name.span(),
            None => syn::spanned::Spanned::span(&self.field.ty),
        };
        Span::mixed_site().located_at(at)
    }

    fn of_self(&self) -> TokenStream {
        let member = &self.member;
        quote_spanned!(self.span()=> &self.#member)
    }

    fn binding(&self) -> Ident {
        let member = match &self.member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        format_ident!("__idempotent_{member}", span = self.span())
    }

    fn part(&self, value: &TokenStream) -> TokenStream {
        quote_spanned!(self.span()=> .part(#value))
    }
}

fn kept_fields<'a>(fields: &'a Fields, mistakes: &mut Mistakes) -> Vec<Kept<'a>> {
    let mut kept = Vec::new();
    for (member, field) in fields.members().zip(fields) {
        match mistakes.take(is_skipped(&field.attrs)) {
            Some(true) => {}
            Some(false) | None => kept.push(Kept { field, member }),
        }
    }
    kept
}

#[derive(Default)]
struct TypeOptions {
    runtime: Option<Path>,
}

impl TypeOptions {
    fn read(attrs: &[Attribute]) -> syn::Result<Self> {
        let mut options = Self::default();
        each_option(attrs, "crate", |option| {
            if options.runtime.is_some() {
                return Err(mistake(&option.path, "`crate` is given twice", "remove one `crate`"));
            }
            let path = option.value().and_then(|value| value.call(Path::parse_mod_style));
            options.runtime = Some(path.map_err(|_| {
                mistake(
                    &option.path,
                    "`crate` takes a path",
                    "`#[key_part(crate = my_crate::runtime)]`",
                )
            })?);
            Ok(())
        })?;
        Ok(options)
    }
}

fn is_skipped(attrs: &[Attribute]) -> syn::Result<bool> {
    let mut skipped = false;
    each_option(attrs, "skip", |option| {
        if !option.input.is_empty() && !option.input.peek(syn::Token![,]) {
            return Err(mistake(&option.path, "`skip` takes no value", "`#[key_part(skip)]`"));
        }
        skipped = true;
        Ok(())
    })?;
    Ok(skipped)
}

/// Calls `read` for each option of `#[key_part(..)]`; only `known` may be there.
fn each_option(
    attrs: &[Attribute],
    known: &str,
    mut read: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<()>,
) -> syn::Result<()> {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("key_part")) {
        attr.parse_nested_meta(|option| {
            if option.path.is_ident(known) {
                return read(&option);
            }
            let name = option.path.to_token_stream().to_string();
            let (place, example) = match known {
                "skip" => ("a field", "`#[key_part(skip)]`"),
                _ => ("the type", "`#[key_part(crate = my_crate::runtime)]`"),
            };
            let help = match nearest(&name, [known]) {
                Some(near) => format!("did you mean `{near}`?"),
                None => example.to_owned(),
            };
            Err(mistake(&option.path, format!("unknown option `{name}` on {place}"), help))
        })?;
    }
    Ok(())
}

fn hidden(name: &str) -> Ident {
    format_ident!("__idempotent_{name}", span = Span::mixed_site())
}
