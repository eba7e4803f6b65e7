//! Values that go to a database and come from it.

use super::SqlError;
use std::fmt;

/// A parameter of a statement. `Debug` shows its type and size only.
///
/// An adapter binds each of these types. The enum is exhaustive, so that one that does not is an
/// error of the compiler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Param<'a> {
    /// A 64-bit integer.
    Integer(Option<i64>),
    /// A byte string.
    Bytes(Option<&'a [u8]>),
    /// A text without NUL.
    Text(Option<&'a str>),
}

impl fmt::Debug for Param<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let null = |is_null| if is_null { "null" } else { "set" };
        match self {
            Self::Integer(value) => write!(formatter, "Integer({})", null(value.is_none())),
            Self::Bytes(Some(bytes)) => write!(formatter, "Bytes({} bytes)", bytes.len()),
            Self::Text(Some(text)) => write!(formatter, "Text({} bytes)", text.len()),
            Self::Bytes(None) => formatter.write_str("Bytes(null)"),
            Self::Text(None) => formatter.write_str("Text(null)"),
        }
    }
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(Some(value))
    }
}

impl From<Option<i64>> for Param<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Integer(value)
    }
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(Some(value))
    }
}

impl<'a> From<Option<&'a [u8]>> for Param<'a> {
    fn from(value: Option<&'a [u8]>) -> Self {
        Self::Bytes(value)
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

/// A value of a row.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cell {
    /// No value.
    Null,
    /// An integer.
    Integer(i64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A text.
    Text(String),
}

#[cfg(feature = "postgres")]
impl From<&Param<'_>> for Cell {
    fn from(param: &Param<'_>) -> Self {
        match *param {
            Param::Integer(value) => value.map_or(Self::Null, Self::Integer),
            Param::Bytes(value) => value.map_or(Self::Null, |value| Self::Bytes(value.to_vec())),
            Param::Text(value) => value.map_or(Self::Null, |value| Self::Text(value.to_owned())),
        }
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("Null"),
            Self::Integer(value) => write!(formatter, "Integer({value})"),
            Self::Bytes(bytes) => write!(formatter, "Bytes({} bytes)", bytes.len()),
            Self::Text(text) => write!(formatter, "Text({} bytes)", text.len()),
        }
    }
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row(std::vec::IntoIter<Cell>);

impl Row {
    /// A row of these values, in the order of the columns.
    pub fn new(cells: Vec<Cell>) -> Self {
        Self(cells.into_iter())
    }

    /// The same row behind an integer.
    #[cfg(feature = "postgres")]
    pub(crate) fn prefixed(self, first: i64) -> Self {
        Self::new([Cell::Integer(first)].into_iter().chain(self.0).collect())
    }

    /// The last value, which is an integer or missing.
    #[cfg(feature = "postgres")]
    pub(crate) fn last_integer(&self) -> Option<i64> {
        match self.0.as_slice().last() {
            Some(Cell::Integer(value)) => Some(*value),
            _ => None,
        }
    }

    /// Takes the next value, which is an integer or missing.
    ///
    /// # Errors
    /// Another type of value is there, or none.
    pub fn integer(&mut self) -> Result<Option<i64>, SqlError> {
        match self.0.next() {
            Some(Cell::Integer(value)) => Ok(Some(value)),
            Some(Cell::Null) => Ok(None),
            other => Err(unexpected("an integer", other.as_ref())),
        }
    }

    /// Takes the next value, which is a byte string or missing.
    ///
    /// # Errors
    /// Another type of value is there, or none.
    pub fn bytes(&mut self) -> Result<Option<Vec<u8>>, SqlError> {
        match self.0.next() {
            Some(Cell::Bytes(value)) => Ok(Some(value)),
            Some(Cell::Null) => Ok(None),
            other => Err(unexpected("a byte string", other.as_ref())),
        }
    }

    /// Takes the next value, which is a text or missing. MySQL gives some texts as bytes.
    ///
    /// # Errors
    /// Another type of value is there, or none.
    pub fn text(&mut self) -> Result<Option<String>, SqlError> {
        match self.0.next() {
            Some(Cell::Text(value)) => Ok(Some(value)),
            Some(Cell::Bytes(value)) => match String::from_utf8(value) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(SqlError::unexpected("a text is not UTF-8")),
            },
            Some(Cell::Null) => Ok(None),
            other => Err(unexpected("a text", other.as_ref())),
        }
    }
}

impl IntoIterator for Row {
    type Item = Cell;
    type IntoIter = std::vec::IntoIter<Cell>;

    /// The values, in the order of the columns.
    fn into_iter(self) -> Self::IntoIter {
        self.0
    }
}

fn unexpected(wanted: &str, found: Option<&Cell>) -> SqlError {
    let found = match found {
        None => "the row is too short",
        Some(Cell::Null) => "there is none",
        Some(Cell::Integer(_)) => "an integer is there",
        Some(Cell::Bytes(_)) => "a byte string is there",
        Some(Cell::Text(_)) => "a text is there",
    };
    SqlError::unexpected(format!("{wanted} was expected, {found}"))
}
