//! Names of tables and columns.
//!
//! They are part of the text of statements, so they are checked once and quoted always: a reserved
//! word such as `order` is a good name, and nothing else gets into a statement.

use crate::client::Database;

/// A name, or names joined by dots: `orders`, `shop.orders`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identifier(&'static str);

impl Identifier {
    /// The longest name that PostgreSQL and MySQL both keep.
    const MOST: usize = 63;

    /// Checks a name, at compile time where it is a constant.
    ///
    /// # Panics
    ///
    /// Panics if it is none.
    pub(crate) const fn new(name: &'static str) -> Self {
        match Self::check(name) {
            Some(identifier) => identifier,
            None => panic!(
                "not the name of a table or column: letters, digits and `_`, no digit first, at \
                 most 63 bytes; a table may have a schema before it, as in `shop.orders`"
            ),
        }
    }

    /// Checks a name.
    pub(crate) const fn check(name: &'static str) -> Option<Self> {
        let bytes = name.as_bytes();
        let (mut at, mut length) = (0, 0);
        while at < bytes.len() {
            let byte = bytes[at];
            if byte == b'.' {
                if length == 0 {
                    return None;
                }
                length = 0;
            } else {
                let letter = byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80;
                if !letter && (length == 0 || !byte.is_ascii_digit()) {
                    return None;
                }
                length += 1;
                if length > Self::MOST {
                    return None;
                }
            }
            at += 1;
        }
        if length == 0 { None } else { Some(Self(name)) }
    }

    /// The name as it was given.
    pub(crate) const fn as_str(self) -> &'static str {
        self.0
    }

    /// The name in a statement.
    pub(crate) fn quoted(self, database: Database) -> String {
        let mark = if database == Database::MySql { '`' } else { '"' };
        let names: Vec<_> = self.0.split('.').map(|name| format!("{mark}{name}{mark}")).collect();
        names.join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_and_underscores() {
        for name in ["orders", "order", "_1", "shop.orders", "größe", &"a".repeat(63)] {
            assert!(Identifier::check(name.to_owned().leak()).is_some(), "{name}");
        }
        for name in ["", ".", "a.", ".a", "1a", "a b", "a\"b", "a`b", "a$1", "a?", "a;", "a\0"] {
            assert!(Identifier::check(name).is_none(), "{name}");
        }
        assert!(Identifier::check("a".repeat(64).leak()).is_none());
    }

    #[test]
    fn every_name_is_quoted() {
        let orders = Identifier::new("shop.order");
        assert_eq!(orders.quoted(Database::Postgres), "\"shop\".\"order\"");
        assert_eq!(orders.quoted(Database::MySql), "`shop`.`order`");
    }

    #[test]
    #[should_panic(expected = "not the name of a table or column")]
    fn anything_else_is_refused() {
        Identifier::new("orders; DROP TABLE orders");
    }
}
