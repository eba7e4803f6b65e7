//! `#[key_part(..)]` on the type, its variants and its fields.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, DeriveInput, Field, Ident, LitStr, Meta, Path, Variant};

use super::place::Place;
use crate::mistake::{Mistakes, mistake};
use crate::source::source;

#[derive(Default)]
pub(super) struct TypeOptions {
    pub(super) runtime: Option<Path>,
}

impl TypeOptions {
    /// The options, if the path of the runtime is known: an error about another option does not hide it.
    pub(super) fn read(input: &DeriveInput, mistakes: &mut Mistakes) -> Option<Self> {
        let mut options = Self::default();
        let mut names_runtime = false;
        let read = each_option(&input.attrs, Place::Type(input), |option, _| {
            names_runtime = true;
            if options.runtime.is_some() {
                return Err(mistake(&option.path, "`crate` is given twice", "remove one `crate`"));
            }
            let value = option.value();
            let quoted = match &value {
                Ok(value) if value.peek(LitStr) => value.parse::<LitStr>().ok(),
                _ => None,
            };
            let path = match &quoted {
                Some(quoted) => quoted.parse_with(Path::parse_mod_style),
                None => value.and_then(|value| value.call(Path::parse_mod_style)),
            };
            let what = "`crate` takes a path";
            let path = path.map_err(|_| {
                mistake(&option.path, what, "`#[key_part(crate = my_crate::runtime)]`")
            })?;
            let help = format!("`#[key_part(crate = {})]`", source(&path));
            options.runtime = Some(path);
            if let Some(quoted) = quoted {
                return Err(mistake(quoted, "`crate` takes a path without quotes", help));
            }
            Ok(())
        });
        mistakes.take(read);
        (!names_runtime || options.runtime.is_some()).then_some(options)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldOptions {
    /// Not part of the key.
    pub(super) skip: bool,
    /// Encoded as the text that it displays.
    pub(super) display: bool,
}

impl FieldOptions {
    pub(super) fn read(field: &Field) -> syn::Result<Self> {
        let (attrs, place) = (&field.attrs, Place::Field(field));
        let mut options = Self::default();
        // The compiler reports it, too: `key` is no attribute of this derive.
        if let Some(attr) = attrs.iter().find(|attr| attr.path().is_ident("key"))
            && let Ok(option) = attr.parse_args::<syn::Ident>()
            && place.options().iter().any(|known| option == known)
        {
            let what = format!("`#[key({option})]` is written `#[key_part({option})]`");
            return Err(mistake(attr.path(), what, format!("`#[key_part({option})]`")));
        }
        each_option(attrs, place, |option, name| {
            if !option.input.is_empty() && !option.input.peek(syn::Token![,]) {
                let what = format!("`{name}` takes no value");
                return Err(mistake(&option.path, what, format!("`#[key_part({name})]`")));
            }
            match name {
                "skip" => options.skip = true,
                _ => options.display = true,
            }
            if options.skip && options.display {
                let what = "a field that is left out has no text";
                return Err(mistake(&option.path, what, "remove `skip` or `display`"));
            }
            Ok(())
        })?;
        Ok(options)
    }
}

/// The name that a variant has in keys, if it is another one than that of the variant.
pub(super) fn variant_name(variant: &Variant) -> syn::Result<Option<LitStr>> {
    let place = Place::Variant(variant);
    let mut renamed = None;
    each_option(&variant.attrs, place, |option, _| {
        if renamed.is_some() {
            return Err(mistake(&option.path, "`rename` is given twice", "remove one `rename`"));
        }
        let what = "`rename` takes the name of a variant in quotes";
        let example = || place.examples();
        let name = option.value().and_then(|value| value.parse::<LitStr>());
        let name = name.map_err(|_| mistake(&option.path, what, example()))?;
        // As a variant could be called: nothing else is written without quotes in a key.
        if syn::parse_str::<Ident>(&name.value()).is_err() {
            return Err(mistake(&name, what, example()));
        }
        renamed = Some(name);
        Ok(())
    })?;
    Ok(renamed)
}

/// Calls `read` for each option of `#[key_part(..)]`, with its name; only those of `place` may be
/// there.
fn each_option(
    attrs: &[Attribute],
    place: Place<'_>,
    mut read: impl FnMut(&ParseNestedMeta<'_>, &'static str) -> syn::Result<()>,
) -> syn::Result<()> {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("key_part")) {
        if !matches!(attr.meta, Meta::List(_)) {
            return Err(place.without_parentheses(attr));
        }
        attr.parse_nested_meta(|option| {
            let known = place.options().iter().find(|known| option.path.is_ident(known));
            match known {
                Some(known) => read(&option, known),
                None => Err(place.unknown(&option)),
            }
        })?;
    }
    Ok(())
}
