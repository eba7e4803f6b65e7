//! The attribute, used from the 2021 edition.
