//! Names that other libraries give to the same things, and what to write for them here.

mod said;

pub(crate) use self::said::*;

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

/// Looks a name up, in the spelling of any language.
pub(crate) fn find(name: &str) -> Option<Synonym> {
    use Synonym::{Limit, Of, Say};
    Some(match snake_case(name).as_str() {
        "lock_at_least_for"
        | "unique_for"
        | "unique_period"
        | "by_period"
        | "period"
        | "interval"
        | "window_size"
        | "dedup_window"
        | "deduplication_window"
        | "dedupe_window"
        | "cool_down"
        | "cooldown"
        | "cache_ttlms"
        | "cache_ttl"
        | "time_to_live"
        | "expire_after_write"
        | "lock_expiration"
        | "release_time" => Of("expire"),
        "workflow_id_reuse_policy"
        | "id_reuse_policy"
        | "workflow_id_conflict_policy"
        | "id_conflict_policy"
        | "job_key_mode"
        | "unique_mode"
        | "lock_strategy" => Of("mode"),
        "response_hook" | "on_replayed" | "replay_hook" | "on_response" | "on_repeat" => {
            Of("on_replay")
        }
        "data_keyword_argument"
        | "message_deduplication_id"
        | "deduplication_id"
        | "dedup_id"
        | "dedupe_id"
        | "message_id"
        | "request_id"
        | "job_id"
        | "workflow_id"
        | "activity_id"
        | "unique_id"
        | "unique_args"
        | "unique_keys"
        | "lock_args"
        | "by_args"
        | "identity"
        | "event_key"
        | "event_id"
        | "dedupe_by"
        | "path" => Of("key"),
        "visibility_timeout" | "heartbeat_timeout" => Of("lease"),
        "lock_at_most_for" | "lock_at_most" | "max_lock_time" | "max_lock_duration" => Say(HELD),
        "acks_late"
        | "task_acks_late"
        | "ack_late"
        | "reject_on_worker_lost"
        | "task_reject_on_worker_lost"
        | "requests_recovery"
        | "request_recovery"
        | "recover_on_crash"
        | "requeue_on_crash" => Say(CRASHED),
        "start_to_close_timeout" | "schedule_to_close_timeout" | "max_execution_time" => Say(ENDED),
        "message_group_id" | "partition_key" => Of("scope"),
        "attempts"
        | "tries"
        | "max_tries"
        | "delays_in_seconds"
        | "on_attempts_exceeded"
        | "release_after"
        | "dont_release" => Say(RETRIES),
        "config" | "configuration" | "options" | "settings" | "idempotency_config" => Say(CONFIG),
        "use_local_cache" | "local_cache" | "local_cache_max_items" | "in_memory_cache" => {
            Say(CACHE)
        }
        "hash_function" | "hash_algorithm" | "hasher" | "hash_key" | "custom_hasher" => Say(HASH),
        "key_max_length"
        | "max_key_length"
        | "minimum_idempotency_key_length"
        | "key_min_length"
        | "min_key_length"
        | "key_length" => Say(HASH),
        "debounce" | "throttle" | "rate_limited" | "deduplication" | "dedup" | "dedupe" => {
            Say(WINDOW)
        }
        "delay" | "run_at" | "schedule_at" | "schedule_in" | "priority" | "cron" | "repeat"
        | "lifo" | "perform_in" => Say(AT_ONCE),
        "states" | "by_state" | "unique_until" | "unlock_before_run" | "remove_on_complete"
        | "lock_type" | "refresh" | "time_refresh" | "time_to_idle" => Say(STATES),
        "remove_on_fail" | "map_error" => Say(ERRORS),
        "graceful" => Say(FALLBACK),
        "data_index_argument"
        | "key_resolver"
        | "key_provider"
        | "key_extractor"
        | "idempotency_key_extractor"
        | "key_builder"
        | "lock_args_method"
        | "separator"
        | "delimiter"
        | "suffix"
        | "key_separator" => Say(CONVERT),
        "enforce_idempotency" | "enforce" | "key_required" | "mandatory" => Say(MISSING),
        "lambda_context" => Of("max_run"),
        "output_serializer" | "result_serializer" | "response_serializer" => Say(CODEC),
        "cache_key_prefix" | "lock_prefix" | "cache_prefix_block" => Say(PREFIX),
        "unique_via" | "unbound" | "disk" | "disk_dir" | "shared_cache" | "sql_executor" => {
            Say(STORE)
        }
        "max_capacity" | "weigher" | "eviction_policy" => Say(SIZE),
        "lock_limit"
        | "disallow_concurrent_execution"
        | "disable_concurrent_execution"
        | "without_overlapping"
        | "unique"
        | "exclusive" => Say(ONE),
        "lock_info" => Say(LOGS),
        "permanent_errors"
        | "non_retryable_errors"
        | "non_retryable_error_types"
        | "non_retryable_exceptions"
        | "final_error"
        | "keep_failures" => Of("final_errors"),
        "retryable_errors"
        | "retryable_exceptions"
        | "ignore_exceptions"
        | "retry_exceptions"
        | "is_retryable" => Say(ERRORS),
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
        "instance" | "idempotency" | "using" => Of("with"),
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
        "store" | "redis" | "storage" | "repository" | "client" | "backend"
        | "persistence_layer" => Say(STORE),
        "timeout" => Limit,
        "codec" | "serializer" | "serialization" | "format" | "encoding" => Say(CODEC),
        "result" | "option" | "with_cached_flag" => Say(ALWAYS),
        "sync_writes" | "sync" | "sync_lock" => Say(BLOCKING),
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
        assert_eq!(find("sync_writes"), Some(Synonym::Say(BLOCKING)));
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
