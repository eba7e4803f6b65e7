#![deny(warnings)]
#![allow(dead_code, non_camel_case_types)]

use std::marker::PhantomData;

use idempotent_runtime::key::Encoded;
use idempotent_runtime::{Error, Idempotency, KeyPart, idempotent};
use serde::{Deserialize, Serialize};

mod answers {
    pub(crate) type Vec<T> = Result<T, idempotent_runtime::Error>;
    pub(crate) type Option<T> = Result<T, idempotent_runtime::Error>;
    pub(crate) type String = Result<u64, idempotent_runtime::Error>;
    pub(crate) type u8 = Result<u64, idempotent_runtime::Error>;
    pub(crate) type u1 = Result<u64, idempotent_runtime::Error>;
    pub(crate) type Created = Result<u64, idempotent_runtime::Error>;

    #[allow(non_snake_case)]
    pub(crate) fn Created(id: u64) -> Created {
        Ok(id)
    }
}

mod returned {
    use super::answers::*;
    use super::idempotent;

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn vec(id: u64) -> Vec<u64> {
        Ok(id)
    }

    #[idempotent(key = "id", mode = "reject")]
    pub(crate) async fn option(id: u64) -> Option<u64> {
        Ok(id)
    }

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn string(id: u64) -> String {
        Ok(id)
    }

    #[idempotent(key = "id", mode = "strong", detach)]
    pub(crate) async fn number(id: u64) -> u8 {
        Ok(id)
    }

    #[idempotent(key = "id", mode = "window", expire = "5m")]
    pub(crate) async fn bit(id: u64) -> u1 {
        Ok(id)
    }

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn created(id: u64) -> Created {
        Created(id)
    }

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn nested(id: u64) -> Option<Result<u64, std::string::String>> {
        Ok(Ok(id))
    }

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn generic<T>(id: u64, value: T) -> Vec<T>
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
    {
        let _ = id;
        Ok(value)
    }
}

mod errors {
    use super::{Error, idempotent};

    #[derive(Debug, PartialEq)]
    pub(crate) struct u32;

    impl From<Error> for u32 {
        fn from(_: Error) -> Self {
            Self
        }
    }

    #[derive(Debug)]
    pub(crate) struct Around<E>(std::marker::PhantomData<E>);

    impl<E> From<Error> for Around<E> {
        fn from(_: Error) -> Self {
            Self(std::marker::PhantomData)
        }
    }

    type Result<T, E> = std::result::Result<T, Around<E>>;

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn create(id: u64) -> std::result::Result<u64, u32> {
        Ok(id)
    }

    #[idempotent(key = "id", mode = "reject")]
    pub(crate) async fn reject(id: u64) -> Result<u64, &'static str> {
        Ok(id)
    }

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn generic<T>(id: u64, value: T) -> Result<T, ()>
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
    {
        let _ = id;
        Ok(value)
    }

    #[idempotent(key = "id", mode = "reject")]
    pub(crate) async fn opaque(id: u64) -> Result<impl Iterator<Item = u64>, bool> {
        Ok(std::iter::once(id))
    }
}

mod outcomes {
    use super::{Deserialize, Error, Serialize, idempotent};

    pub(crate) trait Either {}

    impl<T, E> Either for Result<T, E> {}

    /// Of nothing else than a `Result`.
    #[derive(Serialize, Deserialize)]
    pub(crate) struct Outcome<R: Either>(pub(crate) R);

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn create(id: u64) -> Result<Outcome<Result<u64, String>>, Error> {
        Ok(Outcome(Ok(id)))
    }
}

/// A collection with an order.
#[derive(KeyPart)]
struct HashMap<T>(T);

#[derive(KeyPart)]
struct HashSet<'a, T: ?Sized>(&'a T);

/// Fixed point.
#[derive(KeyPart)]
struct f64(u64);

mod parts {
    use super::{Error, HashMap, HashSet, KeyPart, f64, idempotent};

    #[derive(KeyPart)]
    pub(crate) enum Option {
        First,
    }

    #[derive(KeyPart)]
    pub(crate) struct Cart {
        pub(crate) tags: HashMap<u64>,
        pub(crate) price: f64,
    }

    #[derive(KeyPart)]
    pub(crate) struct Price(pub(crate) Vec<f64>);

    #[idempotent(key = "(tags, price, option)", scope = set, fingerprint = "{prices}", mode = "strong")]
    pub(crate) async fn create(
        tags: HashMap<u64>,
        price: &f64,
        option: Option,
        set: HashSet<'_, str>,
        prices: Vec<f64>,
    ) -> Result<u64, Error> {
        let _ = (option, set, prices);
        Ok(tags.0 + price.0)
    }

    #[idempotent(key = "(cart, price)", mode = "strong")]
    pub(crate) async fn derived(cart: Cart, price: Price) -> Result<u64, Error> {
        Ok(cart.tags.0 + cart.price.0 + price.0.len() as u64)
    }
}

mod mine {
    use super::KeyPart;

    /// Always there.
    #[derive(KeyPart)]
    pub(crate) struct Option<T>(pub(crate) T);

    #[derive(KeyPart)]
    pub(crate) struct PathBuf(pub(crate) u64);

    /// One value for all.
    #[derive(KeyPart)]
    pub(crate) struct PhantomData<T>(pub(crate) T);

    #[derive(KeyPart)]
    pub(crate) struct Ghost {
        pub(crate) of: PhantomData<u64>,
    }

    #[derive(KeyPart)]
    pub(crate) struct Amount<T>(pub(crate) T);

    pub(crate) type Note = std::option::Option<String>;

    /// A method of every type, with the name of one that generated code may have.
    #[allow(dead_code)]
    pub(crate) trait Parts {
        fn part(&self) -> f32 {
            0.5
        }
        fn checked(&self) -> f32 {
            0.5
        }
    }

    impl<T: ?Sized> Parts for T {}
}

mod optional {
    use super::mine::{Amount, Note, Option, Parts, PathBuf};
    use super::{Error, KeyPart, f64, idempotent};

    #[derive(KeyPart)]
    pub(crate) struct Fields {
        pub(crate) always: Option<u64>,
        pub(crate) note: Note,
        #[key_part(display)]
        pub(crate) shown: Note,
        pub(crate) file: PathBuf,
        pub(crate) amount: Amount<f64>,
        pub(crate) notes: Vec<Option<u64>>,
    }

    #[derive(KeyPart)]
    pub(crate) struct Newtype(pub(crate) Option<u64>);

    #[idempotent(key = "(fields, newtype, files, amount)", mode = "strong")]
    pub(crate) async fn create(
        fields: Fields,
        newtype: Newtype,
        files: Vec<Option<PathBuf>>,
        amount: Amount<f64>,
    ) -> Result<u64, Error> {
        let _ = (fields.part(), newtype.checked(), files);
        Ok(amount.0.0)
    }
}

/// A response that can be kept.
#[derive(Serialize, Deserialize)]
struct Json<T: ?Sized> {
    text: String,
    of: PhantomData<T>,
}

#[idempotent(key = "id", mode = "strong")]
async fn response(id: u64) -> Result<Json<str>, Error> {
    Ok(Json { text: id.to_string(), of: PhantomData })
}

/// An error of this crate.
#[derive(Debug, Serialize, Deserialize)]
struct StatusCode(u16);

impl From<Error> for StatusCode {
    fn from(_: Error) -> Self {
        Self(409)
    }
}

impl StatusCode {
    fn is_final(&self) -> bool {
        self.0 == 404
    }
}

#[idempotent(key = "id", mode = "strong", final_errors = StatusCode::is_final)]
async fn status(id: u64) -> Result<u64, StatusCode> {
    match id {
        0 => Err(StatusCode(404)),
        id => Ok(id),
    }
}

/// A pointer that may move to another thread.
struct Rc<T>(T);

#[idempotent(key = "id", detach)]
async fn detached(id: u64, fee: Rc<u64>) -> Result<u64, Error> {
    Ok(id + fee.0)
}

mod error {
    pub(crate) trait Error: From<idempotent_runtime::Error> {}

    impl Error for idempotent_runtime::Error {}
}

#[idempotent(key = "id", mode = "strong")]
async fn own_error<E: self::error::Error>(id: u64) -> Result<u64, E> {
    Ok(id)
}

/// A builder that always has an instance.
struct Instances(Idempotency);

struct Builder<'a>(&'a Instances);

impl Instances {
    fn builder(&self) -> Builder<'_> {
        Builder(self)
    }
}

impl<'a> Builder<'a> {
    fn build(self) -> &'a Idempotency {
        &self.0.0
    }
}

#[idempotent(key = "id", mode = "strong", with = instances.builder().build())]
async fn built(id: u64, instances: &Instances) -> Result<u64, Error> {
    let _ = instances;
    Ok(id)
}

/// A value whose type names a borrow that it does not have.
#[derive(Serialize, Deserialize)]
struct Id<T> {
    number: u64,
    #[serde(skip)]
    of: PhantomData<T>,
}

#[idempotent(key = "id", mode = "strong")]
async fn tagged(id: u64) -> Result<Id<&'static str>, Error> {
    Ok(Id { number: id, of: PhantomData })
}

/// Text that may be borrowed, and is read back as its own.
#[idempotent(key = "id", mode = "strong")]
async fn either(id: &str) -> Result<std::borrow::Cow<'_, str>, Error> {
    Ok(id.into())
}

/// A symbol of a table, of which there is one.
#[derive(PartialEq, Debug)]
struct Symbol;

impl Serialize for &'static Symbol {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for &'static Symbol {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <()>::deserialize(deserializer)?;
        Ok(&Symbol)
    }
}

#[idempotent(key = "id", mode = "strong")]
async fn symbol(id: u64) -> Result<&'static Symbol, Error> {
    let _ = id;
    Ok(&Symbol)
}

type Fallible<E> = Result<u64, E>;

/// An error with a borrow, which is not kept.
struct Refused<T>(Error, PhantomData<T>);

impl<T> From<Error> for Refused<T> {
    fn from(error: Error) -> Self {
        Self(error, PhantomData)
    }
}

#[idempotent(key = "id", mode = "strong")]
async fn fallible(id: u64) -> Fallible<Refused<&'static str>> {
    Ok(id)
}

/// A name in capitals that is a function.
const RETENTION: fn(&u64) -> std::time::Duration = |seconds| std::time::Duration::from_secs(*seconds);

#[idempotent(key = "id", mode = "strong", expire_with = RETENTION)]
async fn kept(id: u64) -> Result<u64, Error> {
    Ok(id)
}

/// A type that is the instance, too.
struct Global;

impl std::ops::Deref for Global {
    type Target = Idempotency;

    fn deref(&self) -> &Idempotency {
        static INSTANCE: std::sync::LazyLock<Idempotency> =
            std::sync::LazyLock::new(|| Idempotency::builder().build().unwrap());
        &INSTANCE
    }
}

/// A lock of one's own that dereferences to what is inside.
struct Mutex(Idempotency);

impl std::ops::Deref for Mutex {
    type Target = Idempotency;

    fn deref(&self) -> &Idempotency {
        &self.0
    }
}

#[idempotent(key = "id", mode = "strong", with = mutex)]
async fn locked(id: u64, mutex: &Mutex) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", with = Global)]
async fn global(id: u64) -> Result<u64, Error> {
    Ok(id)
}

/// A `Result` whose error wraps the one that is written.
mod wrapped_error {
    use super::{Error, idempotent};

    pub(crate) struct SdkError<E> {
        pub(crate) refused: Error,
        pub(crate) of: std::marker::PhantomData<E>,
    }

    impl<E> From<Error> for SdkError<E> {
        fn from(refused: Error) -> Self {
            Self { refused, of: std::marker::PhantomData }
        }
    }

    type Result<T, E> = std::result::Result<T, SdkError<E>>;

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn create<E: Send>(id: u64, error: E) -> Result<u64, E> {
        drop(error);
        Ok(id)
    }

    #[idempotent(key = "id", mode = "reject")]
    pub(crate) async fn foreign(id: u64) -> Result<u64, std::fmt::Error> {
        Ok(id)
    }
}

/// A `Result` whose value wraps the one that is written.
mod wrapped_value {
    use std::marker::PhantomData;

    use super::{Error, Id, idempotent};

    type Result<T, E> = std::result::Result<Id<T>, E>;

    #[idempotent(key = "number", mode = "strong")]
    pub(crate) async fn generic<T: Send>(number: u64, of: T) -> Result<T, Error> {
        drop(of);
        Ok(Id { number, of: PhantomData })
    }

    #[idempotent(key = "number", mode = "strong")]
    pub(crate) async fn borrowed(number: u64) -> Result<&'static str, Error> {
        Ok(Id { number, of: PhantomData })
    }

    #[idempotent(key = "number", mode = "strong")]
    pub(crate) async fn array(number: u64) -> Result<[u8; 64], Error> {
        Ok(Id { number, of: PhantomData })
    }
}

/// A `Result` in which types without a size are boxed.
mod boxed {
    use super::{Error, idempotent};

    #[derive(Debug)]
    pub(crate) struct Failed;

    impl From<Error> for Box<Failed> {
        fn from(_: Error) -> Self {
            Self::new(Failed)
        }
    }

    type Result<T, E> = std::result::Result<Box<T>, Box<E>>;

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn text(id: u64) -> Result<str, Failed> {
        Ok(id.to_string().into())
    }

    #[idempotent(key = "id", mode = "reject")]
    pub(crate) async fn failure(id: u64) -> Result<u64, dyn std::error::Error + Send + Sync> {
        Ok(id.into())
    }
}

/// Traits that imply the bounds of a kept answer.
mod bounds {
    use super::idempotent;

    pub(crate) trait Default: From<idempotent_runtime::Error> {}

    impl Default for idempotent_runtime::Error {}

    pub(crate) trait Debug: serde::Serialize + serde::de::DeserializeOwned {}

    impl Debug for u64 {}

    #[idempotent(key = "id", mode = "strong")]
    pub(crate) async fn create<T: Debug, E: Default>(id: u64, value: T) -> Result<T, E> {
        let _ = id;
        Ok(value)
    }
}

/// A trait of all types, with the names of the runtime's methods.
/// Parameters and methods with names that mean something else elsewhere.
mod words {
    use super::{Error, idempotent};

    pub(crate) struct Number(pub(crate) u64);

    impl Number {
        fn parse(&self) -> u64 {
            self.0
        }

        fn collect(&self) -> u64 {
            self.0
        }
    }

    #[idempotent(key = "(number.parse(), number.collect())")]
    pub(crate) async fn methods(number: Number) -> Result<u64, Error> {
        Ok(number.0)
    }

    #[idempotent(key = "{this}:{key}", scope = "global", message = "{key} is there")]
    pub(crate) async fn parameters(this: u64, key: u64, global: u64) -> Result<u64, Error> {
        Ok(this + key + global)
    }
}

mod methods {
    use super::{Error, idempotent};

    trait Tap: Sized {
        fn kept(self) -> bool {
            true
        }

        fn searched(self) -> bool {
            true
        }

        fn checked(self) -> bool {
            true
        }
    }

    impl<T> Tap for T {}

    #[idempotent(key = "id", mode = "strong", on_replay = drop_reference)]
    pub(crate) async fn create(id: u64) -> Result<bool, Error> {
        Ok(id.kept() && id.searched() && id.checked())
    }

    fn drop_reference(_: &bool) {}
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() {
    assert_eq!(returned::vec(1).await.unwrap(), 1);
    assert_eq!(returned::option(1).await.unwrap(), 1);
    assert_eq!(returned::string(1).await.unwrap(), 1);
    assert_eq!(returned::number(1).await.unwrap(), 1);
    assert_eq!(returned::bit(1).await.unwrap(), 1);
    assert_eq!(returned::created(1).await.unwrap(), 1);
    assert_eq!(returned::nested(1).await.unwrap(), Ok(1));
    assert_eq!(errors::create(1).await, Ok(1));
    assert_eq!(errors::reject(1).await.unwrap(), 1);
    assert_eq!(errors::generic(1, 2_u8).await.unwrap(), 2);
    assert_eq!(errors::opaque(1).await.unwrap().count(), 1);
    assert!(outcomes::create(1).await.unwrap().0.is_ok());
    assert!(returned::generic(1, true).await.unwrap());

    let text = "a".to_owned();
    for price in [1, 2] {
        let (prices, price_of_one) = (vec![f64(price)], f64(price));
        let option = parts::Option::First;
        let created = parts::create(HashMap(1), &price_of_one, option, HashSet(&*text), prices);
        assert_eq!(created.await.unwrap(), 1 + price);
    }
    let cart = parts::Cart { tags: HashMap(1), price: f64(2) };
    assert_eq!(parts::derived(cart, parts::Price(vec![f64(1)])).await.unwrap(), 4);

    let fields = |note: Option<&str>, shown: Option<&str>| optional::Fields {
        always: mine::Option(1),
        note: note.map(str::to_owned),
        shown: shown.map(str::to_owned),
        file: mine::PathBuf(2),
        amount: mine::Amount(f64(3)),
        notes: vec![mine::Option(4)],
    };
    let text = |fields| Encoded::of(&fields).as_str().to_owned();
    assert_eq!(text(fields(Some("a"), Some("b"))), r#"(1,"a","b",2,3,[4])"#);
    assert_eq!(text(fields(None, None)), "(1,?,?,2,3,[4])");
    let (newtype, files) = (optional::Newtype(mine::Option(1)), vec![]);
    let created = optional::create(fields(None, None), newtype, files, mine::Amount(f64(5)));
    assert_eq!(created.await.unwrap(), 5);

    assert_eq!(response(1).await.unwrap().text, "1");
    assert_eq!(response(1).await.unwrap().text, "1");
    assert_eq!(status(0).await.unwrap_err().0, 404);
    assert_eq!(detached(1, Rc(1)).await.unwrap(), 2);
    assert_eq!(own_error::<Error>(1).await.unwrap(), 1);
    let instances = Instances(Idempotency::builder().build().unwrap());
    assert_eq!(built(1, &instances).await.unwrap(), 1);
    assert_eq!(kept(1).await.unwrap(), 1);
    let mutex = Mutex(Idempotency::builder().build().unwrap());
    assert_eq!(locked(1, &mutex).await.unwrap(), 1);
    assert_eq!(global(1).await.unwrap(), 1);
    assert_eq!(tagged(1).await.unwrap().number, 1);
    assert_eq!(either("a").await.unwrap(), "a");
    assert_eq!(symbol(1).await.unwrap(), &Symbol);
    assert_eq!(fallible(1).await.map_err(|error| error.0).unwrap(), 1);
    assert_eq!(wrapped_error::create(1, "error").await.map_err(|error| error.refused).unwrap(), 1);
    assert!(wrapped_error::foreign(1).await.is_ok_and(|id| id == 1));
    assert_eq!(wrapped_value::generic(1, 1_u8).await.unwrap().number, 1);
    assert_eq!(wrapped_value::borrowed(1).await.unwrap().number, 1);
    assert_eq!(wrapped_value::array(1).await.unwrap().number, 1);
    assert_eq!(&*boxed::text(1).await.unwrap(), "1");
    assert_eq!(*boxed::failure(1).await.unwrap(), 1);
    assert_eq!(bounds::create::<u64, Error>(1, 2).await.unwrap(), 2);
    assert!(methods::create(1).await.unwrap());
    assert_eq!(words::methods(words::Number(7)).await.unwrap(), 7);
    assert_eq!(words::parameters(1, 2, 3).await.unwrap(), 6);
}
