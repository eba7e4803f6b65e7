//! A function whose name is not unique is refused before it replays another function's answers.

use async_trait::async_trait;
use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Error, ErrorKind, idempotent};
use std::sync::atomic::{AtomicU32, Ordering};
use support::local;

/// Bodies of functions that must not run.
static BODIES: AtomicU32 = AtomicU32::new(0);

fn ran() -> Result<u64, Error> {
    BODIES.fetch_add(1, Ordering::SeqCst);
    Ok(0)
}

/// Refused at the first call and at every other, with `name`.
async fn refused<F>(call: impl Fn() -> F, name: &str)
where
    F: Future<Output = Result<u64, Error>>,
{
    for _ in 0..2 {
        let error = call().await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Misconfigured, false));
        let help = format!("help: add `name = \"{name}\"`");
        assert!(error.message().ends_with(&help), "{}", error.message());
        assert!(error.message().contains(file!()), "{}", error.message());
    }
}

struct Card;
struct Wrap<T>(std::marker::PhantomData<T>);

impl Card {
    #[idempotent(key = "id", mode = "strong")]
    async fn pay(id: u64) -> Result<u64, Error> {
        let _ = id;
        ran()
    }
}

impl<T> Wrap<T> {
    #[idempotent(key = "id", mode = "strong")]
    async fn pay(id: u64) -> Result<u64, Error> {
        let _ = id;
        ran()
    }
}

trait Pay {
    async fn refund(id: u64) -> Result<u64, Error>;

    #[idempotent(key = "id", mode = "strong")]
    async fn by_default(id: u64) -> Result<u64, Error> {
        let _ = id;
        ran()
    }
}

impl Pay for Card {
    #[idempotent(key = "id", mode = "strong", detach)]
    async fn refund(id: u64) -> Result<u64, Error> {
        let _ = id;
        ran()
    }
}

#[async_trait]
trait Boxed {
    async fn boxed(id: u64) -> Result<u64, Error>;
}

#[async_trait]
impl Boxed for Card {
    #[idempotent(key = "id", mode = "strong")]
    async fn boxed(id: u64) -> Result<u64, Error> {
        let _ = id;
        ran()
    }
}

#[tokio::test]
async fn functions_of_a_type_are_refused_at_their_first_call_with_the_name_to_type() {
    scoped(local().idem, async {
        let module = module_path!();
        refused(|| Card::pay(1), &format!("{module}::Card::pay")).await;
        refused(|| Wrap::<u8>::pay(1), &format!("{module}::Wrap::pay")).await;
        refused(|| Card::refund(1), &format!("{module}::Card::Pay::refund")).await;
        refused(|| Card::by_default(1), &format!("{module}::Pay::by_default")).await;
        refused(|| Card::boxed(1), &format!("{module}::Card::Boxed::boxed")).await;
        assert_eq!(BODIES.load(Ordering::SeqCst), 0);
    })
    .await;
}

#[tokio::test]
async fn functions_inside_functions_are_refused_at_their_first_call() {
    #[idempotent(key = "id", mode = "strong")]
    async fn inner(id: u64) -> Result<u64, Error> {
        let _ = id;
        ran()
    }
    mod deeper {
        use super::{Error, idempotent, ran};

        #[idempotent(key = "id", mode = "strong")]
        pub(super) async fn inner(id: u64) -> Result<u64, Error> {
            let _ = id;
            ran()
        }
    }
    scoped(local().idem, async {
        let outer = "functions_inside_functions_are_refused_at_their_first_call";
        let outer = format!("{}::{outer}", module_path!());
        refused(|| inner(1), &format!("{outer}::inner")).await;
        refused(|| deeper::inner(1), &format!("{outer}::deeper::inner")).await;
        assert_eq!(BODIES.load(Ordering::SeqCst), 0);
    })
    .await;
}

#[idempotent(key = "id", mode = "strong")]
async fn free(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong")]
async fn generic<T: Send>(id: u64, value: T) -> Result<u64, Error> {
    drop(value);
    Ok(id)
}

#[idempotent(key = "id", mode = "strong", detach)]
async fn r#loop(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[tracing::instrument]
#[idempotent(key = "id", mode = "strong")]
async fn instrumented_above(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", mode = "strong")]
#[tracing::instrument]
async fn instrumented_below(id: u64) -> Result<u64, Error> {
    Ok(id)
}

macro_rules! written {
    ($name:ident) => {
        #[idempotent(key = "id", mode = "strong")]
        async fn $name(id: u64) -> Result<u64, Error> {
            Ok(id)
        }
    };
}

written!(first);
written!(second);

mod r#mod {
    pub(super) mod same {
        use idempotent_runtime::{Error, idempotent};

        #[idempotent(key = "id", mode = "strong")]
        pub(crate) async fn same(id: u64) -> Result<u64, Error> {
            Ok(id)
        }
    }
}

#[tokio::test]
async fn all_other_functions_keep_the_module_path_and_their_name() {
    let bench = local();
    scoped(bench.idem.clone(), async {
        assert_eq!(free(1).await.unwrap(), 1);
        assert_eq!(generic(1, "text").await.unwrap(), 1);
        // One operation, whatever its type arguments.
        assert_eq!(generic(1, 5_u8).await.unwrap(), 1);
        assert_eq!(r#loop(1).await.unwrap(), 1);
        assert_eq!(instrumented_above(1).await.unwrap(), 1);
        assert_eq!(instrumented_below(1).await.unwrap(), 1);
        assert_eq!(first(1).await.unwrap(), 1);
        assert_eq!(second(1).await.unwrap(), 1);
        assert_eq!(r#mod::same::same(1).await.unwrap(), 1);
    })
    .await;
    for name in [
        "free",
        "generic",
        "loop",
        "instrumented_above",
        "instrumented_below",
        "first",
        "second",
        "r#mod::same::same",
    ] {
        let name = format!("{}::{name}", module_path!());
        let record = bench.idem.operation(name.clone()).key(1_u64).get().await.unwrap();
        assert!(record.is_some(), "{name}");
    }
}

macro_rules! one_of_two {
    ($function:ident, $($argument:tt)*) => {
        #[idempotent(key = "id", mode = "strong", $($argument)*)]
        async fn $function(id: u64) -> Result<String, Error> {
            Ok(format!("{} {id}", stringify!($function)))
        }
    };
}

one_of_two!(ours, name = "names.taken");
one_of_two!(theirs, name = "names.taken");
one_of_two!(writes, name = "names.shared", shared_name);
one_of_two!(reads, name = "names.shared", shared_name);
one_of_two!(claims, name = "names.shared");
one_of_two!(owns, name = "names.owned");
one_of_two!(joins, name = "names.owned", shared_name);

fn same_name(refused: &Error) {
    assert_eq!((refused.kind(), refused.body_ran()), (ErrorKind::Misconfigured, false));
    let text = refused.message();
    assert!(text.contains("has the same name") && text.contains("`shared_name`"), "{text}");
    assert!(text.contains(file!()), "{text}");
}

#[tokio::test]
async fn a_name_that_another_function_was_given_is_refused() {
    scoped(local().idem, async {
        assert_eq!(ours(1).await.unwrap(), "ours 1");
        same_name(&theirs(1).await.unwrap_err());
        same_name(&theirs(2).await.unwrap_err());
        assert_eq!(ours(2).await.unwrap(), "ours 2");
    })
    .await;
}

#[tokio::test]
async fn functions_that_all_say_so_share_a_name_and_its_answers() {
    scoped(local().idem, async {
        assert_eq!(writes(1).await.unwrap(), "writes 1");
        assert_eq!(reads(1).await.unwrap(), "writes 1");
        assert_eq!(reads(2).await.unwrap(), "reads 2");
        assert_eq!(writes(2).await.unwrap(), "reads 2");
        same_name(&claims(1).await.unwrap_err());
        assert_eq!(owns(1).await.unwrap(), "owns 1");
        same_name(&joins(1).await.unwrap_err());
    })
    .await;
}

#[idempotent(key = "id", mode = "strong")]
async fn plain(id: u64) -> Result<String, Error> {
    Ok(format!("plain {id}"))
}

one_of_two!(poses, name = "behaviour::names::plain");

#[tokio::test]
async fn a_derived_name_that_another_function_was_given_is_refused() {
    assert_eq!(module_path!(), "behaviour::names");
    scoped(local().idem, async {
        assert_eq!(poses(1).await.unwrap(), "poses 1");
        same_name(&plain(1).await.unwrap_err());
    })
    .await;
}
