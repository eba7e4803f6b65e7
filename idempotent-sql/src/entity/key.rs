//! Keys of rows.

use super::EntityError;
use crate::client::{Database, Param};
use std::borrow::Cow;
use std::fmt;

/// The key of a row: an integer, a text or a byte string.
///
/// Anything that a call takes as a key converts into it; a UUID takes one of two ways, depending on
/// its column:
///
/// ```
/// use idempotent_sql::entity::EntityKey;
///
/// let _ = EntityKey::from(42);
/// let _ = EntityKey::from("A-42");
/// let _ = EntityKey::from(&[0x2a][..]);
///
/// let id = "0191e2c4-7f2e-7c4d-8d2c-5f1f0a3b6c7d";
/// let _ = EntityKey::from(id); // A text column.
/// let _ = EntityKey::uuid(id); // A column of type `uuid`.
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct EntityKey<'a>(Kind<'a>);

#[derive(Clone, PartialEq, Eq)]
enum Kind<'a> {
    Integer(i64),
    TooLarge(u64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Uuid(Cow<'a, str>),
}

impl<'a> EntityKey<'a> {
    /// The most bytes of a key, and of a transition's id.
    pub const MOST_BYTES: usize = 700;

    /// The text of a UUID, for a column of type `uuid`. In SQLite and MySQL, which have no such
    /// type, it is a text.
    pub fn uuid(text: impl Into<Cow<'a, str>>) -> Self {
        Self(Kind::Uuid(text.into()))
    }

    /// The parameter of a statement.
    pub(crate) fn param(&self) -> Param<'_> {
        match &self.0 {
            Kind::Integer(value) => Param::Integer(Some(*value)),
            // Refused by `check`.
            Kind::TooLarge(_) => Param::Integer(None),
            Kind::Text(text) | Kind::Uuid(text) => Param::Text(Some(text)),
            Kind::Bytes(bytes) => Param::Bytes(Some(bytes)),
        }
    }

    /// The place of the parameter in a statement, as its `number`th.
    ///
    /// PostgreSQL is told the type, or a literal of another one could decide it.
    pub(crate) fn placeholder(&self, database: Database, number: usize) -> String {
        match (database, &self.0) {
            (Database::Postgres, Kind::Integer(_) | Kind::TooLarge(_)) => {
                format!("${number}::bigint")
            }
            (Database::Postgres, Kind::Text(_)) => format!("${number}::text"),
            (Database::Postgres, Kind::Bytes(_)) => format!("${number}::bytea"),
            (Database::Postgres, Kind::Uuid(_)) => format!("${number}::text::uuid"),
            (Database::Sqlite, _) => format!("?{number}"),
            (Database::MySql, _) => "?".to_owned(),
        }
    }

    /// The key as a text, of which there is one for each key of a column.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            Kind::Integer(value) => value.to_string().into(),
            Kind::TooLarge(value) => value.to_string().into(),
            Kind::Text(text) => Cow::Borrowed(text),
            Kind::Bytes(bytes) => {
                bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
            }
            // A `uuid` column takes it in several spellings.
            Kind::Uuid(text) => {
                let digits = text.chars().filter(|it| !matches!(it, '-' | '{' | '}'));
                digits.map(|it| it.to_ascii_lowercase()).collect::<String>().into()
            }
        }
    }

    /// Refuses keys that no database of the three would take as they are.
    pub(crate) fn check(&self) -> Result<(), EntityError> {
        match &self.0 {
            Kind::TooLarge(value) => {
                Err(EntityError::invalid(format!("the key {value} does not fit into 64 bits")))
            }
            Kind::Integer(_) => Ok(()),
            _ => check_text("the key", &self.text()),
        }
    }
}

/// Refuses texts that a database would cut off or not take.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), EntityError> {
    let most = EntityKey::MOST_BYTES;
    if text.is_empty() {
        return Err(EntityError::invalid(format!("{what} is empty")));
    }
    if text.len() > most {
        let length = text.len();
        return Err(EntityError::invalid(format!("{what} has {length} bytes, more than {most}")));
    }
    if text.contains('\0') {
        return Err(EntityError::invalid(format!("{what} contains NUL")));
    }
    Ok(())
}

/// Shows the kind of the key, and not the key.
impl fmt::Debug for EntityKey<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::Integer(_) | Kind::TooLarge(_) => "integer",
            Kind::Text(_) => "text",
            Kind::Bytes(_) => "bytes",
            Kind::Uuid(_) => "uuid",
        };
        write!(formatter, "EntityKey({kind})")
    }
}

macro_rules! from_integers {
    ($($integer:ty)*) => {$(
        impl From<$integer> for EntityKey<'_> {
            fn from(value: $integer) -> Self {
                Self(Kind::Integer(value.into()))
            }
        }

        impl From<&$integer> for EntityKey<'_> {
            fn from(value: &$integer) -> Self {
                Self::from(*value)
            }
        }
    )*};
}

from_integers!(u8 u16 u32 i8 i16 i32 i64);

impl From<u64> for EntityKey<'_> {
    fn from(value: u64) -> Self {
        Self(i64::try_from(value).map_or(Kind::TooLarge(value), Kind::Integer))
    }
}

impl From<&u64> for EntityKey<'_> {
    fn from(value: &u64) -> Self {
        Self::from(*value)
    }
}

impl<'a> From<&'a str> for EntityKey<'a> {
    fn from(text: &'a str) -> Self {
        Self(Kind::Text(text.into()))
    }
}

impl<'a> From<&'a String> for EntityKey<'a> {
    fn from(text: &'a String) -> Self {
        Self(Kind::Text(text.into()))
    }
}

impl From<String> for EntityKey<'_> {
    fn from(text: String) -> Self {
        Self(Kind::Text(text.into()))
    }
}

impl<'a> From<&'a [u8]> for EntityKey<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Kind::Bytes(bytes.into()))
    }
}

impl<'a> From<&'a Vec<u8>> for EntityKey<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self(Kind::Bytes(bytes.into()))
    }
}

impl From<Vec<u8>> for EntityKey<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Kind::Bytes(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_column_have_different_texts() {
        assert_eq!(EntityKey::from(-7).text(), "-7");
        assert_eq!(EntityKey::from("a ").text(), "a ");
        assert_eq!(EntityKey::from(&[0, 255][..]).text(), "00ff");
        assert_eq!(EntityKey::uuid("{0191E2C4-7f2e}").text(), "0191e2c47f2e");
    }

    #[test]
    fn keys_that_a_database_would_change_are_refused() {
        assert!(EntityKey::from(i64::MAX as u64).check().is_ok());
        assert!(EntityKey::from(u64::MAX).check().is_err());
        assert!(EntityKey::from("").check().is_err());
        assert!(EntityKey::from("a\0").check().is_err());
        assert!(EntityKey::from("a".repeat(700)).check().is_ok());
        assert!(EntityKey::from("a".repeat(701)).check().is_err());
    }
}
