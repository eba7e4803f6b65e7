//! Fields that are part of the key, and the code that encodes them.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::visit::Visit;
use syn::{Data, Field, Fields, GenericArgument, Member, Path, PathArguments, Type};

use super::options::FieldOptions;
use crate::condition::Condition;
use crate::key_types::NoKey;
use crate::mistake::Mistakes;
use crate::source::type_source;
use crate::suggest::quoted_list;

/// A field that is part of the key.
pub(super) struct Kept<'a> {
    pub(super) field: &'a Field,
    pub(super) member: Member,
    runtime: &'a Path,
    /// Encoded as the text that it displays.
    display: bool,
    /// The fields of the same type that looks like no part of a key, this one among them: they are one error, at
    /// the first.
    alike: Vec<&'a Field>,
    /// Other fields that are part of the key.
    has_others: bool,
}

impl<'a> Kept<'a> {
    /// Span of the field's type, which is what may be wrong.
    pub(super) fn span(&self) -> Span {
        let first = self.alike.first().copied().unwrap_or(self.field);
        Span::mixed_site().located_at(syn::spanned::Spanned::span(&first.ty))
    }

    /// The reason for which the type looks like no part of a key.
    fn no_key(&self) -> Option<NoKey> {
        // A field may be an `Option`, of which the compiler knows more.
        NoKey::of(&self.field.ty).filter(|_| !self.display && self.option().is_none())
    }

    /// The path of the runtime at the field, where an error in what is called through it belongs.
    fn runtime(&self) -> TokenStream {
        let at = |mut token: TokenTree| {
            token.set_span(token.span().located_at(self.span()));
            token
        };
        self.runtime.to_token_stream().into_iter().map(at).collect()
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
    fn option(&self) -> Option<&'a Type> {
        let Type::Path(path) = &self.field.ty else { return None };
        let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
        let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
        match arguments.args.first() {
            Some(GenericArgument::Type(ty)) if arguments.args.len() == 1 => Some(ty),
            _ => None,
        }
    }

    /// A reference to the part, from a reference to the field.
    fn value(&self, field: &TokenStream) -> TokenStream {
        let runtime = self.runtime();
        let span = self.span();
        match (self.display, self.no_key()) {
            (true, _) => {
                quote_spanned!(span=> &#runtime::__private::display(#field).__idempotent_part())
            }
            (false, None) => {
                quote_spanned!(span=> &#runtime::__private::field(#field).__idempotent_part())
            }
            (false, Some(no_key)) => {
                let names: Vec<_> =
                    self.alike.iter().filter_map(|field| field.ident.as_ref()).collect();
                let (fields, out) = match names.as_slice() {
                    [] | [_] => (String::new(), "the field"),
                    names => (format!(" for each of {}", quoted_list(names)), "them"),
                };
                let help = format!("{}{fields}", no_key.remedy(&self.field.ty));
                let help = match self.has_others && no_key != NoKey::Nothing {
                    true => format!("{help}, or leave {out} out: `#[key_part(skip)]`"),
                    false => help,
                };
                self.on_condition(&no_key.condition(&self.field.ty, help), field)
            }
        }
    }

    /// A reference to the only field of a newtype, from a reference to it.
    pub(super) fn newtype(&self, name: &Ident, field: &TokenStream) -> TokenStream {
        let runtime = self.runtime();
        let span = self.span();
        match (self.display, self.option()) {
            (true, _) => {
                quote_spanned!(span=> &#runtime::__private::display(#field).__idempotent_newtype())
            }
            (false, Some(value)) => {
                let value = type_source(value);
                let condition = Condition {
                    what: "a newtype is encoded as its field, and an `Option` is no key by itself"
                        .to_owned(),
                    label: "may have no value".to_owned(),
                    help: format!(
                        "give the field a name: `struct {name} {{ value: Option<{value}> }}`; or take the `Option` \
                         out: `struct {name}({value});`"
                    ),
                };
                self.on_condition(&condition, field)
            }
            (false, None) if self.no_key().is_none() => {
                quote_spanned!(span=> #runtime::__private::newtype(#field).__idempotent_part())
            }
            (false, None) => self.value(field),
        }
    }

    fn on_condition(&self, condition: &Condition, field: &TokenStream) -> TokenStream {
        let (runtime, span) = (self.runtime(), self.span());
        condition.on_part(&quote_spanned!(span=> #runtime::KeyPart), field, span)
    }

    /// The call that adds the field to a group.
    pub(super) fn part(&self, field: &TokenStream) -> TokenStream {
        let value = self.value(field);
        quote_spanned!(self.span()=> .part(#value))
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
        let Some(options) = mistakes.take(FieldOptions::read(field)) else { continue };
        if !options.skip {
            let (alike, has_others) = (Vec::new(), false);
            kept.push(Kept { field, member, runtime, display: options.display, alike, has_others });
        }
    }
    let suspects: Vec<_> =
        kept.iter().filter(|kept| kept.no_key().is_some()).map(|kept| kept.field).collect();
    let all = kept.len();
    for kept in &mut kept {
        let is_alike = |field: &&&Field| field.ty == kept.field.ty;
        kept.alike = suspects.iter().filter(is_alike).copied().collect();
        kept.has_others = kept.alike.len() < all;
    }
    kept
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
        if FieldOptions::read(field).is_ok_and(&passes) {
            names.visit_type(&field.ty);
        }
    }
    names.0
}
