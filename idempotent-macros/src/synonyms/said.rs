//! Help for names that stand for no single argument. It names arguments only in backticks, so that those
//! of the user's own can take their places.

/// The names in it are those of `words`, which leaves it out where a call cannot be made twice.
pub(crate) const RETRIES: &str = "remove it: `#[idempotent]` does not call again, its caller does, with the same key: `for _ in 0..3 { \
                       if create_order(req).await.is_ok() { break } }`; a duplicate waits \
                       for the answer with `mode = \"strong\", wait = \"300ms\"`";
pub(crate) const HTTP: &str = "leave `key` out to use the token of the request; the layer of `idempotent-http` reads it: \
                    `.headers([HeaderName::from_static(\"idempotency-key\")])`, `.query_parameter(\"token\")`";
pub(crate) const ERRORS: &str = "every error frees the key, except those that `final_errors = OrderError::is_final` keeps, with \
     `impl OrderError { fn is_final(&self) -> bool { true } }`";
pub(crate) const DELETED: &str =
    "remove it: every error frees the key, and an answer is kept for `expire = \"5m\"`";
pub(crate) const MISSING: &str = "remove it: a call without a key is refused; for a field that may be `None`, end its path with `?`";
/// For conditions of the call.
pub(crate) const CONDITION: &str = "remove it: every call is protected; for the others, move the body into a function without \
     `#[idempotent]` that this one calls, and call it in place of this one";
/// For conditions of the value. The function follows.
pub(crate) const UNLESS: &str =
    "a value for which `expire_with` returns zero is not kept: `expire_with = retention`, with ";
pub(crate) const UNIT: &str = "write the unit into the duration: `expire = \"5m\"`";
pub(crate) const STRONG: &str = "`mode = \"strong\"` answers a duplicate with the stored value";
pub(crate) const PREFIX: &str = "`name = \"orders.create\"` is part of the keys of one function; a prefix for all is set at the start: \
                      `idempotent_runtime::Idempotency::builder().config(idempotent_runtime::Config::new()\
                      .with_key_prefix(\"orders\")).build()?.install()?`";
pub(crate) const STORE: &str = "remove it: an instance has the store, for all functions, or for those with `with = instance`: \
                     `idempotent_runtime::Idempotency::builder().store(idempotent_runtime::store::RedisStore::connect(\
                     \"redis://127.0.0.1/\").await?).build()?.install()?` at the start";
/// For a value that may be an instance. The argument comes before it.
pub(crate) const INSTANCE: &str = " if that is an `idempotent_runtime::Idempotency`; if it is a store, make an instance of it at the start: \
                     `idempotent_runtime::Idempotency::builder().store(store).build()?.install()?`, and leave it out here";
pub(crate) const CODEC: &str = "remove it: an instance has the codec, for all functions: \
                     `idempotent_runtime::Idempotency::builder().codec(idempotent_runtime::codec::Json).build()?.install()?`";
pub(crate) const ALWAYS: &str =
    "remove it: an `Err` always frees the key, and of calls at the same time one runs the body";
pub(crate) const SIZE: &str = "remove it: the store has the records, each for `expire = \"5m\"`";
pub(crate) const LOGS: &str = "remove it: calls are traced already; `#[tracing::instrument]` beside `#[idempotent]` \
                    records arguments and errors";
pub(crate) const SKIP: &str =
    "remove it: only what `key` names is part of the key, as in `key = \"req.order_id\"`";
pub(crate) const CONVERT: &str = "remove it; `key` is made from the parameters, with text around them: `key = \"order:{req.order_id}\"`";

pub(crate) const STATUS: &str = "remove it: the handler makes a response of the error, as in \
                      `error.kind() == ErrorKind::Duplicate`; `idempotent-http` answers with 409 itself";
pub(crate) const ASYNC: &str = "remove it: the function is async itself; `detach` finishes the body even if its \
                     caller goes away";
pub(crate) const NOTE: &str = "remove it: a comment stands above the function; a refused caller reads \
                    `message = \"already submitted\"`";
pub(crate) const VERSION: &str = "make it part of the name: `name = \"orders.create.v2\"`";
pub(crate) const FALLBACK: &str = "remove it: a refused call returns an error, and its caller goes on from there; it reads \
                        `message = \"already submitted\"`";
pub(crate) const HOOK: &str = "`on_replay = count_replay` is called with every replayed value; what each run does belongs in \
                    the body";
pub(crate) const ONE: &str = "remove it: of all calls with one key, one runs at a time";
pub(crate) const CONFIG: &str = "remove it: an instance has the configuration, for all functions: \
                      `idempotent_runtime::Idempotency::builder().config(idempotent_runtime::Config::new()).build()?.install()?`; what differs in one \
                      function is an argument of it, such as `expire = \"5m\"`";
pub(crate) const CACHE: &str = "remove it: an instance has a cache of answers in this process: \
                     `idempotent_runtime::Idempotency::builder().replay_cache(idempotent_runtime::ReplayCache::new()).build()?.install()?`";
pub(crate) const HASH: &str = "remove it: a part of a key that is longer than 512 bytes is stored as its SHA-256, and logs have keys as hashes";
pub(crate) const WINDOW: &str = "`mode = \"window\", expire = \"5s\"` refuses the calls that come within this time of the first";
/// For the end of a body, which is not that of its hold.
pub(crate) const ENDED: &str = "a body that takes longer goes on, and `max_run = \"5m\"` frees its key; to end it, put what it awaits into \
                      `tokio::time::timeout(std::time::Duration::from_secs(300), ..).await`, with the time in seconds";
pub(crate) const AT_ONCE: &str = "remove it: the body runs at once, in the call itself";
pub(crate) const STATES: &str =
    "remove it: a key is taken while its body runs, and for `expire = \"5m\"` after it";
pub(crate) const BLOCKING: &str =
    "`mode = \"strong\", wait = \"5s\"` lets a duplicate wait for the answer";
/// For a limit of a lock, which is meant for bodies that hang and for processes that crash.
pub(crate) const HELD: &str = "`max_run = \"1h\"` frees the key of a body that hangs; that of a process that crashed is free sooner, \
                      after its lease";
pub(crate) const CRASHED: &str = "remove it: a call whose process crashes frees its key after its lease, as `abandon = \"retry\"` says";
