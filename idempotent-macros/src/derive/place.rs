//! The places at which `#[key_part(..)]` can stand, and help for an option that is wrong there.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Data, DeriveInput, Expr, Field, Fields, Meta, Variant, parse_quote};

use super::case;
use crate::function;
use crate::mistake::mistake;
use crate::source::{signature_source, source, type_source};
use crate::suggest::nearest;
use crate::synonyms::snake_case;

#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Type(&'a DeriveInput),
    Variant(&'a Variant),
    Field(&'a Field),
}

impl Place<'_> {
    pub(super) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Type(_) => &["crate"],
            Self::Variant(_) => &["rename"],
            Self::Field(_) => &["skip", "display"],
        }
    }

    pub(super) fn examples(self) -> &'static str {
        match self {
            Self::Type(_) => "`#[key_part(crate = my_crate::runtime)]`",
            Self::Variant(_) => "`#[key_part(rename = \"OldName\")]`",
            Self::Field(_) => {
                "`#[key_part(skip)]` leaves the field out, `#[key_part(display)]` takes the text that it displays"
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Type(_) => "the type",
            Self::Variant(_) => "a variant",
            Self::Field(_) => "a field",
        }
    }

    /// The error for `#[key_part]` and `#[key_part = "skip"]`.
    pub(super) fn without_parentheses(self, attr: &Attribute) -> syn::Error {
        let option = match &attr.meta {
            Meta::NameValue(meta) => source(&meta.value).trim_matches('"').to_owned(),
            _ => String::new(),
        };
        let help = match self.options().iter().find(|known| **known == option) {
            Some(option) if matches!(self, Self::Field(_)) => format!("`#[key_part({option})]`"),
            _ if matches!(self, Self::Type(_)) => {
                format!("remove it; the one option of a type is its runtime: {}", self.examples())
            }
            _ => self.examples().to_owned(),
        };
        mistake(&attr.meta, "options of `key_part` stand in parentheses", help)
    }

    /// The error for an option that there is not at this place.
    pub(super) fn unknown(self, option: &ParseNestedMeta<'_>) -> syn::Error {
        let name = option.path.to_token_stream().to_string();
        let text = || {
            let value = option.value().and_then(|value| value.parse::<Expr>()).ok()?;
            Some(source(&value).trim_matches('"').to_owned())
        };
        let meant = match (self, name.as_str()) {
            (Self::Type(input), "rename_all") => Some(renamed_all(input, text().as_deref())),
            (Self::Type(input), "display" | "to_string") => Some(displayed(input)),
            (Self::Type(input), _) => on_type(input, &name),
            (Self::Variant(variant), _) => on_variant(variant, &name),
            (Self::Field(field), _) => on_field(field, &name, text),
        };
        let help = match (meant, nearest(&name, self.options().iter().copied())) {
            (Some(meant), _) => meant,
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => match self {
                Self::Type(_) => {
                    format!(
                        "remove it; the one option of a type is its runtime: {}",
                        self.examples()
                    )
                }
                _ => self.examples().to_owned(),
            },
        };
        mistake(&option.path, format!("unknown option `{name}` on {}", self.name()), help)
    }
}

/// Help for `rename_all`: the same for each variant that would be called otherwise.
fn renamed_all(input: &DeriveInput, style: Option<&str>) -> String {
    let Data::Enum(data) = &input.data else {
        return "remove it: a field has no name in a key, only its position".to_owned();
    };
    let renamed = data.variants.iter().filter_map(|variant| {
        let own = variant.ident.unraw().to_string();
        let name = case::renamed(&own, style?)?;
        (name != own).then(|| format!("`#[key_part(rename = \"{name}\")] {own}`"))
    });
    let renamed: Vec<_> = renamed.collect();
    match renamed.is_empty() {
        true => "remove it: variants keep their names in keys".to_owned(),
        false => format!(
            "in its place, rename each variant: {}; or remove it, and they keep their names in keys",
            renamed.join(", ")
        ),
    }
}

/// Help for `display` on the type: an implementation, and for a newtype the option on its field.
fn displayed(input: &DeriveInput) -> String {
    let (ty, key) = (&input.ident, "idempotent_runtime::key::KeyWriter");
    let mut generics = input.generics.clone();
    if generics.type_params().next().is_some() {
        generics.make_where_clause().predicates.push(parse_quote!(Self: std::fmt::Display));
    }
    let (header, arguments, condition) = generics.split_for_impl();
    let [header, arguments, condition] =
        [source_of(&header), source_of(&arguments), source_of(&condition)];
    let own = format!(
        "if it displays itself, in place of the derive: `impl{header} idempotent_runtime::KeyPart for \
         {ty}{arguments}{condition} {{ fn encode(&self, key: &mut {key}) {{ key.display(self) }} }}`; or in a key: \
         `key = \"{}.to_string()\"`",
        snake_case(&ty.to_string())
    );
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                format!(
                    "put it on the field: `#[key_part(display)] {}`; {own}",
                    type_source(&fields.unnamed[0].ty)
                )
            }
            _ => own,
        },
        _ => own,
    }
}

fn source_of(tokens: &impl ToTokens) -> String {
    let source = signature_source(tokens);
    match source.starts_with("where") {
        true => format!(" {source}"),
        false => source,
    }
}

/// Help for an option that a type has in serde, or that belongs on a field.
fn on_type(input: &DeriveInput, name: &str) -> Option<String> {
    let has_fields = match &input.data {
        Data::Struct(data) => !data.fields.is_empty(),
        Data::Enum(data) => data.variants.iter().any(|variant| !variant.fields.is_empty()),
        Data::Union(_) => true,
    };
    let help = match name {
        "skip" if has_fields => "put `#[key_part(skip)]` on a field",
        "skip" => "remove it, and leave the value out of the key",
        "rename" | "name" => "remove it: the name of a type is no part of a key",
        "transparent" => "remove it: a newtype is encoded as its field",
        "tag" | "untagged" | "content" => {
            "remove it: a variant is encoded as its name and its fields"
        }
        _ => return None,
    };
    Some(help.to_owned())
}

/// Help for an option that belongs on a field, or has another name on a variant.
fn on_variant(variant: &Variant, name: &str) -> Option<String> {
    match (name, variant.fields.is_empty()) {
        ("skip", true) => Some("remove it: a variant is always told from the others".to_owned()),
        ("display", true) => {
            Some("remove it: a variant without fields is encoded as its name".to_owned())
        }
        ("skip" | "display", false) => Some(format!("put `#[key_part({name})]` on its fields")),
        ("rename_all", _) => {
            Some("remove it: a field has no name in a key, only its position".to_owned())
        }
        ("crate", _) => Some("put `#[key_part(crate = ..)]` on the type".to_owned()),
        ("name" | "alias", _) => Some("did you mean `rename`?".to_owned()),
        _ => None,
    }
}

/// Help for an option that a field has in serde, or that has another name here.
fn on_field(field: &Field, name: &str, text: impl Fn() -> Option<String>) -> Option<String> {
    let help = match name {
        "crate" => "put `#[key_part(crate = ..)]` on the type",
        "ignore" | "skipped" | "exclude" => "did you mean `skip`?",
        "rename" | "name" | "alias" => "remove it: a field has no name in a key, only its position",
        "to_string" | "string" | "as_string" | "text" => "did you mean `display`?",
        "with" | "serialize_with" | "format" => return Some(encoded_by(field, text().as_deref())),
        _ => return None,
    };
    Some(help.to_owned())
}

/// Help for a function that makes the part of a key from a field: a type that calls it.
fn encoded_by(field: &Field, path: Option<&str>) -> String {
    let text = "`#[key_part(display)]` takes the text that the field displays";
    let path = path.filter(|path| syn::parse_str::<syn::Path>(path).is_ok());
    let (Some(path), None) = (path, function::borrow_in(&field.ty)) else {
        return format!("{text}; for another text, give it a type of its own with `Display`");
    };
    let ty = type_source(&field.ty);
    let (name, typed) = match &field.ident {
        Some(field) => {
            let name = type_named(&field.unraw().to_string(), &ty);
            (name.clone(), format!("{field}: {name}"))
        }
        None => ("Part".to_owned(), "Part".to_owned()),
    };
    format!(
        "give the field a type of its own, in place of the option: `{typed}`, with `struct {name}({ty});` and `impl idempotent_runtime::KeyPart for {name} \
         {{ fn encode(&self, key: &mut idempotent_runtime::key::KeyWriter) {{ \
         idempotent_runtime::KeyPart::encode(&{path}(&self.0), key) }} }}`; or in its place, {text}"
    )
}

/// The name of a field in camel case, for a type around `inside`.
fn type_named(field: &str, inside: &str) -> String {
    let words = field.split('_').filter_map(|word| {
        let first = word.chars().next()?;
        Some(first.to_uppercase().chain(word.chars().skip(1)).collect::<String>())
    });
    let name: String = words.collect();
    match inside.contains(&name) {
        true => name + "Key",
        false => name,
    }
}
