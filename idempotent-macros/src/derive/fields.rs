//! Fields that are part of the key, and the code that encodes them.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::visit::Visit;
use syn::{Data, Field, Fields, GenericArgument, Member, Path, PathArguments, Type};

use super::options::FieldOptions;
use crate::key_types::NoKey;
use crate::mistake::{Mistakes, mistake};

/// A field that is part of the key.
pub(super) struct Kept<'a> {
    pub(super) field: &'a Field,
    pub(super) member: Member,
    runtime: &'a Path,
    /// Encoded as the text that it displays.
    display: bool,
}

impl<'a> Kept<'a> {
    /// Span of the field's name, or of its type if it has none.
    pub(super) fn span(&self) -> Span {
        let at = match &self.field.ident {
            Some(name) => name.span(),
            None => syn::spanned::Spanned::span(&self.field.ty),
        };
        Span::mixed_site().located_at(at)
    }

    pub(super) fn of_self(&self) -> TokenStream {
        let member = &self.member;
        quote_spanned!(self.span()=> &self.#member)
    }

    pub(super) fn binding(&self) -> Ident {
        let member = match &self.member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        format_ident!("__idempotent_{member}", span = self.span())
    }

    /// The type in `Option<..>`, if that is how the field is declared.
    pub(super) fn option(&self) -> Option<&'a Type> {
        let Type::Path(path) = &self.field.ty else { return None };
        let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
        let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
        match arguments.args.first() {
            Some(GenericArgument::Type(ty)) if arguments.args.len() == 1 => Some(ty),
            _ => None,
        }
    }

    /// A reference to the part, from a reference to the field.
    pub(super) fn value(&self, field: &TokenStream) -> TokenStream {
        let runtime = self.runtime;
        match self.display {
            true => quote_spanned!(self.span()=> &#runtime::__private::Displayed(#field)),
            false => field.clone(),
        }
    }

    /// The call that adds the field to a group.
    pub(super) fn part(&self, field: &TokenStream) -> TokenStream {
        let runtime = self.runtime;
        match (self.option(), self.display) {
            (None, _) => {
                let value = self.value(field);
                quote_spanned!(self.span()=> .part(#value))
            }
            (Some(_), false) => quote_spanned!(self.span()=> .optional(#field)),
            (Some(_), true) => quote_spanned! {self.span()=>
                .optional(&::core::option::Option::map(
                    ::core::option::Option::as_ref(#field),
                    #runtime::__private::Displayed,
                ))
            },
        }
    }
}

pub(super) fn kept_fields<'a>(
    runtime: &'a Path,
    fields: &'a Fields,
    mistakes: &mut Mistakes,
) -> Vec<Kept<'a>> {
    let mut kept = Vec::new();
    for (member, field) in fields.members().zip(fields) {
        // A wrong option may have been meant to let the type pass.
        let Some(options) = mistakes.take(FieldOptions::read(&field.attrs)) else { continue };
        if !options.skip && !options.display {
            check(field, mistakes);
        }
        if !options.skip {
            kept.push(Kept { field, member, runtime, display: options.display });
        }
    }
    kept
}

/// Refuses a type that is known to be no part of a key.
fn check(field: &Field, mistakes: &mut Mistakes) {
    if let Some(no_key) = NoKey::of(&field.ty).filter(|no_key| *no_key != NoKey::Option) {
        let help = format!("{}, or leave the field out: `#[key_part(skip)]`", no_key.remedy());
        mistakes.push(mistake(&field.ty, no_key.problem(), help));
    }
}

/// The names in the types of the fields whose options pass, among them type parameters.
pub(super) fn names_in(data: &Data, passes: impl Fn(FieldOptions) -> bool) -> Vec<Ident> {
    struct Names(Vec<Ident>);
    impl Visit<'_> for Names {
        fn visit_ident(&mut self, ident: &Ident) {
            self.0.push(ident.clone());
        }
    }
    let fields: Vec<&Field> = match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let mut names = Names(Vec::new());
    for field in fields {
        if FieldOptions::read(&field.attrs).is_ok_and(&passes) {
            names.visit_type(&field.ty);
        }
    }
    names.0
}
