//! Names that other libraries give to the same things, and what to write for them here.

/// The answer to a name from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Synonym {
    /// An argument that takes the same value under another name.
    Of(&'static str),
    /// Something that is said in another way.
    Say(&'static str),
    /// A time limit, which may be one of several arguments.
    Limit,
}

/// Names of the answer in expressions of other libraries.
pub(crate) const ANSWERS: [&str; 10] = [
    "result",
    "response",
    "answer",
    "returned",
    "output",
    "ret",
    "res",
    "return_value",
    "retval",
    "reply",
];

const RETRIES: &str = "`wait = \"300ms\"` is how long a duplicate waits for the answer, in place of retries and their \
                       interval; `#[idempotent]` does not call again, its caller does, with the same key: \
                       `for _ in 0..3 { if create_order(req).await.is_ok() { break; } }`";
const HTTP: &str = "leave `key` out to use the token of the request; the layer of `idempotent-http` reads it: \
                    `.headers([HeaderName::from_static(\"idempotency-key\")])`, `.query_parameter(\"token\")`";
const ERRORS: &str = "every error frees the key, except those that `final_errors = OrderError::is_final` keeps, with \
     `impl OrderError { fn is_final(&self) -> bool { true } }`";
const DELETED: &str =
    "remove it: every error frees the key, and an answer is kept for `expire = \"5m\"`";
const MISSING: &str = "remove it: a call without a key is refused, as in `key = \"req.token?\"`";
/// For conditions of the call.
pub(crate) const CONDITION: &str =
    "remove it: every call is protected; call a function without `#[idempotent]` for the others";
/// For conditions of the value. The function follows.
pub(crate) const UNLESS: &str =
    "a value for which `expire_with` returns zero is not kept: `expire_with = retention`, with ";
const UNIT: &str = "write the unit into the duration: `expire = \"5m\"`";
pub(crate) const STRONG: &str = "`mode = \"strong\"` answers a duplicate with the stored value";
const PREFIX: &str = "`name = \"orders.create\"` is part of the keys of one function; `Config::with_key_prefix` \
                      sets a prefix for all";
const STORE: &str = "remove it: an instance has the store, for all functions, or for those with `with = instance`: \
                     `idempotent_runtime::Idempotency::builder().store(idempotent_runtime::store::RedisStore::connect(\
                     \"redis://127.0.0.1/\").await?).build()?.install()?` at the start";
const CODEC: &str = "remove it: an instance has the codec, for all functions: \
                     `idempotent_runtime::Idempotency::builder().codec(idempotent_runtime::codec::Json).build()?.install()?`";
const ALWAYS: &str =
    "remove it: an `Err` always frees the key, and of calls at the same time one runs the body";
const SIZE: &str = "remove it: the store has the records, each for `expire = \"5m\"`";
const LOGS: &str = "remove it: calls are traced already; `#[tracing::instrument]` beside `#[idempotent]` \
                    records arguments and errors";
const SKIP: &str =
    "remove it: only what `key` names is part of the key, as in `key = \"req.order_id\"`";
const CONVERT: &str = "remove it; `key` is made from the parameters, with text around them: `key = \"order:{req.order_id}\"`";

const STATUS: &str = "remove it: the handler makes a response of the error, as in \
                      `error.kind() == ErrorKind::Duplicate`; `idempotent-http` answers with 409 itself";
const ASYNC: &str = "remove it: the function is async itself; `detach` finishes the body even if its \
                     caller goes away";
const NOTE: &str = "remove it: a comment stands above the function; a refused caller reads \
                    `message = \"already submitted\"`";
const VERSION: &str = "make it part of the name: `name = \"orders.create.v2\"`";
const FALLBACK: &str = "remove it: a refused call returns an error, and its caller goes on from there; it reads \
                        `message = \"already submitted\"`";
const HOOK: &str = "`on_replay = count_replay` is called with every replayed value; what each run does belongs in \
                    the body";
const ONE: &str = "remove it: of all calls with one key, one runs at a time";
const BLOCKING: &str = "`mode = \"strong\", wait = \"5s\"` lets a duplicate wait for the answer";

/// Looks a name up, in the spelling of any language.
pub(crate) fn find(name: &str) -> Option<Synonym> {
    use Synonym::{Limit, Of, Say};
    Some(match snake_case(name).as_str() {
        "ttl" | "ttl_seconds" | "ttl_secs" | "expiration" | "expiry" | "expires"
        | "expire_time" | "expires_in" | "expires_after" | "expire_after" | "expire_in"
        | "expire_seconds" | "expire_secs" | "retention" | "keep" | "keep_for" | "max_age"
        | "cache_time" | "time" | "duration" | "validity" => Of("expire"),
        "msg" | "info" | "text" | "error_message" | "error_msg" | "err_msg" | "tip" | "reason"
        | "reject_message" => Of("message"),
        "wait_time" | "wait_timeout" | "max_wait" | "wait_for" | "block_for" => Of("wait"),
        "lock" | "lock_time" | "lock_timeout" | "lock_ttl" | "lock_for" | "lease_time"
        | "lock_lease" | "heartbeat" => Of("lease"),
        "max_runtime" | "run_timeout" | "max_duration" | "deadline" => Of("max_run"),
        "operation" | "operation_name" | "op" | "action" | "method" | "business_type" | "biz"
        | "group" | "namespace" => Of("name"),
        "tenant" | "principal" | "tenant_id" | "per" => Of("scope"),
        "payload" | "body" | "hash" | "checksum" | "digest" | "params" => Of("fingerprint"),
        "instance" | "idempotency" | "using" | "client" | "backend" | "persistence_layer" => {
            Of("with")
        }
        "key_expression" | "key_expr" | "expression" | "expr" | "spel" | "idempotency_key"
        | "idempotent_key" | "idem_key" | "lock_key" | "cache_key" | "param" | "field" | "by"
        | "args" | "id" | "unique_by" | "value" => Of("key"),
        "strategy" | "policy" | "kind" | "type" | "on_duplicate" | "behavior" | "behaviour" => {
            Of("mode")
        }
        "tx" | "transactional" | "conn" => Of("transaction"),
        "spawn" | "detached" | "background" => Of("detach"),
        "on_hit" | "on_cached" => Of("on_replay"),
        "on_abandon" | "on_crash" => Of("abandon"),
        "on_redis_error" | "fail_open" | "on_store_failure" => Of("on_store_error"),
        "retry" | "retries" | "max_retries" | "max_retry" | "max_retry_count" | "retry_count"
        | "max_attempts" | "retry_interval" | "retry_interval_ms" | "retry_delay" | "backoff" => {
            Say(RETRIES)
        }
        "time_unit" | "unit" | "units" => Say(UNIT),
        "return_cached_result"
        | "cached"
        | "cache"
        | "cache_result"
        | "cache_results"
        | "return_cached"
        | "replay" => Say(STRONG),
        "on_error" | "on_failure" | "release_on_error" | "delete_on_error" | "errors"
        | "retry_on" | "rollback_for" | "no_rollback_for" | "cache_errors" => Say(ERRORS),
        "del_key" | "delete_key" | "delete_key_when_finish" => Say(DELETED),
        "token_name" | "token" | "header" | "header_name" | "param_name" | "allow_param"
        | "parameter_name" | "query" | "token_param" | "token_key" => Say(HTTP),
        "prefix" | "key_prefix" => Say(PREFIX),
        "store" | "redis" | "storage" | "repository" => Say(STORE),
        "timeout" => Limit,
        "codec" | "serializer" | "serialization" | "format" | "encoding" => Say(CODEC),
        "result" | "option" | "sync_writes" | "sync" | "with_cached_flag" => Say(ALWAYS),
        "size" | "max_size" | "capacity" | "max_entries" => Say(SIZE),
        "log" | "level" | "err" | "ret" | "fields" | "trace" => Say(LOGS),
        "skip" | "skip_all" | "ignore" | "exclude" => Say(SKIP),
        "convert" | "key_generator" | "key_fn" => Say(CONVERT),
        "unless" | "condition" | "only_if" | "skip_if" | "cache_if" | "store_if" | "keep_if"
        | "save_if" | "cache_when" | "unless_exception" | "filter" | "predicate" | "cache_null"
        | "cache_none" => Say(UNLESS),
        "when" | "enabled" | "disabled" | "active" => Say(CONDITION),
        "on_conflict" | "on_duplicates" | "duplicates" | "conflict" | "duplicate" => Of("mode"),
        "cache_name" | "cache_names" | "queue" | "topic" | "resource" | "event" | "task" => {
            Of("name")
        }
        "is_final" | "is_terminal" | "terminal" | "permanent" | "non_retryable"
        | "no_retry_for" | "keep_errors" => Of("final_errors"),
        "status" | "status_code" | "http_status" | "code" | "error_code" => Say(STATUS),
        "async" | "asynchronous" | "is_async" => Say(ASYNC),
        "description" | "desc" | "comment" | "doc" | "label" | "tags" | "author" | "remark"
        | "title" | "note" => Say(NOTE),
        "version" => Say(VERSION),
        "fallback" | "fallback_method" | "on_reject" | "on_refused" | "recover" | "handler"
        | "block_handler" | "error_handler" | "default" => Say(FALLBACK),
        "callback" | "hook" | "listener" | "after" | "before" | "on_success" | "on_complete"
        | "then" => Say(HOOK),
        "concurrency" | "max_concurrency" | "limit" | "permits" | "rate" | "rate_limit" => Say(ONE),
        "blocking" | "block" | "synchronized" => Say(BLOCKING),
        "strong_mode" | "is_strong" | "strict" | "exactly_once" | "consistent" | "memoize"
        | "memo" => Say(STRONG),
        "debug" | "verbose" | "metrics" | "span" => Say(LOGS),
        _ => return None,
    })
}

/// The meaning of a longer name, from a word in it: `event_key_jmespath`.
pub(crate) fn by_a_word_of_it(name: &str) -> Option<Synonym> {
    let has = |words: &[&str]| name.split('_').any(|word| words.contains(&word));
    Some(match () {
        () if has(&["raise", "require", "required", "missing", "no"]) && has(&["key", "token"]) => {
            Synonym::Say(MISSING)
        }
        () if has(&["payload", "fingerprint", "checksum"]) => Synonym::Of("fingerprint"),
        () if has(&["retry", "retries"]) => Synonym::Say(RETRIES),
        () if has(&["timeout"]) => Synonym::Limit,
        () if has(&["wait", "waiting"]) => Synonym::Of("wait"),
        () if has(&["store", "storage", "persistence", "redis"]) => Synonym::Say(STORE),
        () if has(&["lock", "lease"]) => Synonym::Of("lease"),
        () if has(&["ttl", "expire", "expires", "expiry", "expiration"]) => Synonym::Of("expire"),
        () if has(&["message", "msg"]) => Synonym::Of("message"),
        () if has(&["header", "token"]) => Synonym::Say(HTTP),
        () if has(&["key", "keys"]) => Synonym::Of("key"),
        () => return None,
    })
}

/// `expire_time` for `expireTime`, `expire-time` and `ExpireTime`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut after_small = false;
    for letter in name.chars() {
        if letter.is_uppercase() && after_small {
            snake.push('_');
        }
        after_small = letter.is_lowercase() || letter.is_ascii_digit();
        match letter {
            '-' => snake.push('_'),
            _ => snake.extend(letter.to_lowercase()),
        }
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn names_are_found_in_any_spelling() {
        for name in ["expireTime", "expire_time", "ExpireTime", "expire-time", "ttl", "TTL"] {
            assert_eq!(find(name), Some(Synonym::Of("expire")), "{name}");
        }
        assert_eq!(find("returnCachedResult"), Some(Synonym::Say(STRONG)));
        assert_eq!(by_a_word_of_it("event_key_jmespath"), Some(Synonym::Of("key")));
        let missing = by_a_word_of_it("raise_on_no_idempotency_key");
        assert_eq!(missing, Some(Synonym::Say(MISSING)));
        assert_eq!(find("sync_writes"), Some(Synonym::Say(ALWAYS)));
        assert_eq!(find("time"), Some(Synonym::Of("expire")));
        assert_eq!(find("colour"), None);
    }

    #[test]
    fn what_is_proposed_exists() {
        for name in ["ttl", "msg", "lock", "op", "tenant", "payload", "using", "spel", "kind", "tx"]
        {
            let Some(Synonym::Of(argument)) = find(name) else { panic!("{name}") };
            assert!(args::find(argument).is_some(), "{argument}");
        }
    }
}
