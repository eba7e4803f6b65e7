//! `KeyPart` for types of the standard library.

use super::{KeyPart, KeyWriter};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

macro_rules! integers {
    ($($method:ident: $($type:ty)*;)*) => {$($(
        #[diagnostic::do_not_recommend]
        impl KeyPart for $type {
            fn encode(&self, key: &mut KeyWriter) {
                key.$method(*self as _);
            }
        }

        #[diagnostic::do_not_recommend]
        impl KeyPart for NonZero<$type> {
            fn encode(&self, key: &mut KeyWriter) {
                self.get().encode(key);
            }
        }
    )*)*};
}

integers! {
    unsigned: u8 u16 u32 u64 u128 usize;
    signed: i8 i16 i32 i64 i128 isize;
}

#[diagnostic::do_not_recommend]
impl KeyPart for str {
    fn encode(&self, key: &mut KeyWriter) {
        key.text(self);
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for String {
    fn encode(&self, key: &mut KeyWriter) {
        key.text(self);
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for char {
    fn encode(&self, key: &mut KeyWriter) {
        key.text(self.encode_utf8(&mut [0; 4]));
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for bool {
    fn encode(&self, key: &mut KeyWriter) {
        key.boolean(*self);
    }
}

macro_rules! displayed {
    ($($type:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl KeyPart for $type {
            fn encode(&self, key: &mut KeyWriter) {
                key.display(self);
            }
        }
    )*};
}

displayed! { IpAddr Ipv4Addr Ipv6Addr SocketAddr }

macro_rules! transparent {
    ($($type:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<K: KeyPart + ?Sized> KeyPart for $type {
            fn encode(&self, key: &mut KeyWriter) {
                (**self).encode(key);
            }
        }
    )*};
}

transparent! { &K &mut K Box<K> Rc<K> Arc<K> }

#[diagnostic::do_not_recommend]
impl<K: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, K> {
    fn encode(&self, key: &mut KeyWriter) {
        (**self).encode(key);
    }
}

#[diagnostic::do_not_recommend]
impl<K: KeyPart> KeyPart for [K] {
    fn encode(&self, key: &mut KeyWriter) {
        let mut list = key.list();
        for part in self {
            list.part(part);
        }
    }
}

#[diagnostic::do_not_recommend]
impl<K: KeyPart, const N: usize> KeyPart for [K; N] {
    fn encode(&self, key: &mut KeyWriter) {
        self.as_slice().encode(key);
    }
}

#[diagnostic::do_not_recommend]
impl<K: KeyPart> KeyPart for Vec<K> {
    fn encode(&self, key: &mut KeyWriter) {
        self.as_slice().encode(key);
    }
}

#[diagnostic::do_not_recommend]
impl<K: KeyPart> KeyPart for BTreeSet<K> {
    fn encode(&self, key: &mut KeyWriter) {
        let mut list = key.list();
        for part in self {
            list.part(part);
        }
    }
}

#[diagnostic::do_not_recommend]
impl<K: KeyPart, V: KeyPart> KeyPart for BTreeMap<K, V> {
    fn encode(&self, key: &mut KeyWriter) {
        let mut list = key.list();
        for (name, value) in self {
            list.part(&(name, value));
        }
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for () {
    fn encode(&self, key: &mut KeyWriter) {
        key.tuple();
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($name: KeyPart),+> KeyPart for ($($name,)+) {
            fn encode(&self, key: &mut KeyWriter) {
                #[allow(non_snake_case)]
                let ($($name,)+) = self;
                let mut tuple = key.tuple();
                $(tuple.part($name);)+
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
}
