//! `#[key_part(..)]` on the type, its variants and its fields.

use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Ident, LitStr, Meta, Path};

use crate::mistake::mistake;
use crate::source::source;
use crate::suggest::nearest;

#[derive(Default)]
pub(super) struct TypeOptions {
    pub(super) runtime: Option<Path>,
}

impl TypeOptions {
    pub(super) fn read(attrs: &[Attribute]) -> syn::Result<Self> {
        let mut options = Self::default();
        each_option(attrs, Place::Type, |option, _| {
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

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldOptions {
    /// Not part of the key.
    pub(super) skip: bool,
    /// Encoded as the text that it displays.
    pub(super) display: bool,
}

impl FieldOptions {
    pub(super) fn read(attrs: &[Attribute]) -> syn::Result<Self> {
        let mut options = Self::default();
        // The compiler reports it, too: `key` is no attribute of this derive.
        if let Some(attr) = attrs.iter().find(|attr| attr.path().is_ident("key"))
            && let Ok(option) = attr.parse_args::<syn::Ident>()
            && Place::Field.options().iter().any(|known| option == known)
        {
            let what = format!("`#[key({option})]` is written `#[key_part({option})]`");
            return Err(mistake(attr.path(), what, format!("`#[key_part({option})]`")));
        }
        each_option(attrs, Place::Field, |option, name| {
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
pub(super) fn variant_name(attrs: &[Attribute]) -> syn::Result<Option<LitStr>> {
    let mut renamed = None;
    each_option(attrs, Place::Variant, |option, _| {
        if renamed.is_some() {
            return Err(mistake(&option.path, "`rename` is given twice", "remove one `rename`"));
        }
        let what = "`rename` takes the name of a variant in quotes";
        let example = || Place::Variant.examples();
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

#[derive(Clone, Copy)]
enum Place {
    Type,
    Variant,
    Field,
}

impl Place {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Type => &["crate"],
            Self::Variant => &["rename"],
            Self::Field => &["skip", "display"],
        }
    }

    fn examples(self) -> &'static str {
        match self {
            Self::Type => "`#[key_part(crate = my_crate::runtime)]`",
            Self::Variant => "`#[key_part(rename = \"OldName\")]`",
            Self::Field => {
                "`#[key_part(skip)]` leaves the field out, `#[key_part(display)]` takes the text that it displays"
            }
        }
    }
}

/// Calls `read` for each option of `#[key_part(..)]`, with its name; only those of `place` may be
/// there.
fn each_option(
    attrs: &[Attribute],
    place: Place,
    mut read: impl FnMut(&ParseNestedMeta<'_>, &'static str) -> syn::Result<()>,
) -> syn::Result<()> {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("key_part")) {
        if !matches!(attr.meta, Meta::List(_)) {
            return Err(without_parentheses(attr, place));
        }
        attr.parse_nested_meta(|option| {
            let known = place.options().iter().find(|known| option.path.is_ident(known));
            if let Some(known) = known {
                return read(&option, known);
            }
            Err(unknown(&option.path, place))
        })?;
    }
    Ok(())
}

/// The error for `#[key_part]` and `#[key_part = "skip"]`.
fn without_parentheses(attr: &Attribute, place: Place) -> syn::Error {
    let option = match &attr.meta {
        Meta::NameValue(meta) => source(&meta.value).trim_matches('"').to_owned(),
        _ => String::new(),
    };
    let help = match place.options().iter().find(|known| **known == option) {
        Some(option) if matches!(place, Place::Field) => format!("`#[key_part({option})]`"),
        _ => place.examples().to_owned(),
    };
    mistake(&attr.meta, "options of `key_part` stand in parentheses", help)
}

fn unknown(path: &Path, place: Place) -> syn::Error {
    let name = path.to_token_stream().to_string();
    let place_name = match place {
        Place::Type => "the type",
        Place::Variant => "a variant",
        Place::Field => "a field",
    };
    let has = |place: Place| place.options().contains(&name.as_str());
    let help = match nearest(&name, place.options().iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if has(Place::Field) => match place {
            Place::Variant => format!("put `#[key_part({name})]` on its fields"),
            _ => format!("put `#[key_part({name})]` on a field"),
        },
        None if has(Place::Type) => format!("put `#[key_part({name} = ..)]` on the type"),
        None => match (place, name.as_str()) {
            (Place::Field, "ignore" | "skipped" | "exclude") => "did you mean `skip`?".to_owned(),
            (Place::Field, "rename" | "name" | "alias") => {
                "remove it: a field has no name in a key, only its position".to_owned()
            }
            (Place::Variant, "name" | "alias") => "did you mean `rename`?".to_owned(),
            (Place::Field, "with" | "serialize_with" | "format") => {
                "`#[key_part(display)]` takes the text that the field displays; for another text, \
                 give it a type of its own with `Display`"
                    .to_owned()
            }
            (Place::Field, "to_string" | "string" | "as_string" | "text") => {
                "did you mean `display`?".to_owned()
            }
            _ => place.examples().to_owned(),
        },
    };
    mistake(path, format!("unknown option `{name}` on {place_name}"), help)
}
