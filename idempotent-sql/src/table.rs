//! Names of tables.

use idempotent_runtime::store::{StoreError, StoreErrorKind};

#[cfg(any(feature = "postgres", feature = "sqlite"))]
/// The name of a table, and of its index.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// As it is written in statements.
    pub(crate) quoted: String,
    /// The name of its index on `expires_at`, as it is written in statements.
    pub(crate) index: String,
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Table {
    /// A table by its name, or by its schema and its name.
    pub(crate) fn new(name: &str) -> Result<Self, StoreError> {
        let parts = parts(name)?;
        let quoted: Vec<_> = parts.iter().map(|part| format!("\"{part}\"")).collect();
        let index = format!("\"{}_expires_at\"", parts.last().unwrap_or(&name));
        Ok(Self { quoted: quoted.join("."), index })
    }
}

/// The parts of a table's name: the schema, if there is one, and the name.
pub(crate) fn parts(name: &str) -> Result<Vec<&str>, StoreError> {
    let is_name = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|it| it.is_ascii_lowercase() || it == '_')
            && letters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_')
            && part.len() <= 48
    };
    let parts: Vec<_> = name.split('.').collect();
    if parts.len() > 2 || !parts.iter().copied().all(is_name) {
        let text = format!(
            "`{name}` cannot be the name of the table\nhelp: up to 48 lower-case letters, digits and \
             underscores, after a schema and a dot if need be"
        );
        return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
    }
    Ok(parts)
}

#[cfg(all(test, any(feature = "postgres", feature = "sqlite")))]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_checked() {
        assert_eq!(Table::new("records").unwrap().quoted, r#""records""#);
        let table = Table::new("shop.records").unwrap();
        assert_eq!(
            (&*table.quoted, &*table.index),
            (r#""shop"."records""#, r#""records_expires_at""#)
        );
        for name in ["", "Records", "a.b.c", "a;", "1a", "a\"b", ".a", "a."] {
            assert!(Table::new(name).is_err(), "{name}");
        }
    }
}
