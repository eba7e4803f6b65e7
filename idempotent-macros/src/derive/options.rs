//! `#[key_part(..)]` on the type and on its fields.

use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Path};

use crate::mistake::mistake;
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

#[derive(Clone, Copy)]
enum Place {
    Type,
    Field,
}

impl Place {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Type => &["crate"],
            Self::Field => &["skip", "display"],
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

fn unknown(path: &Path, place: Place) -> syn::Error {
    let name = path.to_token_stream().to_string();
    let (place_name, other, examples) = match place {
        Place::Field => {
            let examples = "`#[key_part(skip)]` leaves the field out, `#[key_part(display)]` takes the \
                            text that it displays";
            ("a field", Place::Type, examples)
        }
        Place::Type => ("the type", Place::Field, "`#[key_part(crate = my_crate::runtime)]`"),
    };
    let help = match nearest(&name, place.options().iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if matches!(name.as_str(), "ignore" | "skipped" | "exclude") => {
            "did you mean `skip`?".to_owned()
        }
        None if matches!(name.as_str(), "rename" | "name" | "alias") => {
            "remove it: a field has no name in a key, only its position".to_owned()
        }
        None if matches!(name.as_str(), "with" | "serialize_with" | "format") => {
            "`#[key_part(display)]` takes the text that the field displays; for another text, \
             give it a type of its own with `Display`"
                .to_owned()
        }
        None if matches!(name.as_str(), "to_string" | "string" | "as_string" | "text") => {
            "did you mean `display`?".to_owned()
        }
        None if other.options().contains(&name.as_str()) => match other {
            Place::Field => format!("put `#[key_part({name})]` on a field"),
            Place::Type => format!("put `#[key_part({name} = ..)]` on the type"),
        },
        None => examples.to_owned(),
    };
    mistake(path, format!("unknown option `{name}` on {place_name}"), help)
}
