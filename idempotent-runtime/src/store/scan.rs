//! Listing of records: the filter, the page and the cursor of a [`scan`](super::Store::scan).

use super::{Head, State};
use crate::key::{Encoded, KeyPart, RecordKey, RecordParts, written_name, written_part};
use std::fmt;
use std::time::Duration;

/// The most records that one call of a store in this crate looks at, whatever the limit.
pub(crate) const LIMIT_MAX: usize = 10_000;

/// A choice of records. One without any condition admits all of them; conditions go together.
///
/// ```
/// use idempotent_runtime::store::{Filter, State};
///
/// let blocked = Filter::new().operation("payments.create").scope("acme").blocked();
/// let answered = Filter::new().operation("payments.create").state(State::Succeeded);
/// ```
///
/// `Debug` does not show the scope.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Each as a key holds it.
    prefix: Option<String>,
    operation: Option<String>,
    scope: Option<String>,
    state: Option<State>,
    blocked: bool,
}

impl Filter {
    /// A filter that admits all records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Admits records with this prefix only, which is the setting
    /// [`key_prefix`](crate::Config::key_prefix) of the instance that wrote them.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = Some(written_name(prefix));
        self
    }

    /// Admits records of this operation only.
    #[must_use]
    pub fn operation(mut self, operation: &str) -> Self {
        self.operation = Some(written_name(operation));
        self
    }

    /// Admits records whose ambient scope, or whose operation's own scope, is this one. A scope that
    /// is so long that keys hold its hash is found by that hash.
    #[must_use]
    pub fn scope(mut self, scope: impl KeyPart) -> Self {
        self.scope = Some(written_part(Encoded::of(&scope).as_str()));
        self
    }

    /// Admits records in this state only. It is the state that is written: a
    /// [`Processing`](State::Processing) record whose lease is over is still one. The records that
    /// wait for an operator are in two states; [`blocked`](Self::blocked) admits both.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self
    }

    /// Admits records only that keep callers away until an operator
    /// [resolves](crate::Operation::resolve) them: those of attempts with
    /// [`Abandon::Block`](crate::Abandon::Block) that were [`Abandoned`](State::Abandoned), and those
    /// that are still [`Processing`](State::Processing) although the lease is over, because the
    /// process died.
    #[must_use]
    pub fn blocked(mut self) -> Self {
        self.blocked = true;
        self
    }

    /// `true` if records with this key are admitted, in whichever state. A key that could not be
    /// [parsed](RecordKey#impl-FromStr-for-RecordKey) never is.
    pub fn admits_key(&self, key: &RecordKey) -> bool {
        key.parts().is_ok_and(|parts| self.admits_parts(&parts))
    }

    /// `true` if records with this head are admitted that still live for `ttl`, with whichever key.
    pub fn admits_head(&self, head: &Head, ttl: Duration) -> bool {
        let in_state = self.state.is_none_or(|wanted| wanted == head.state);
        in_state && (!self.blocked || head.is_blocked(ttl))
    }

    pub(crate) fn admits_parts(&self, parts: &RecordParts<'_>) -> bool {
        let is = |wanted: &Option<String>, part: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == part)
        };
        let scope = self.scope.as_deref();
        let in_scope = scope.is_none_or(|scope| [parts.ambient, parts.own].contains(&scope));
        in_scope && is(&self.operation, parts.operation) && self.admits_prefix(parts)
    }

    /// A prefix that begins with braces looks like a hash tag and a prefix.
    fn admits_prefix(&self, parts: &RecordParts<'_>) -> bool {
        let Some(wanted) = self.prefix.as_deref() else { return true };
        let after_tag = || {
            let tag = parts.hash_tag?;
            wanted.strip_prefix('{')?.strip_prefix(tag)?.strip_prefix('}')
        };
        wanted == parts.prefix || after_tag() == Some(parts.prefix)
    }

    /// The beginning of the keys that are admitted, as far as it is known: prefix and operation.
    #[cfg(feature = "redis")]
    pub(crate) fn names(&self) -> [Option<&str>; 2] {
        [self.prefix.as_deref(), self.operation.as_deref()]
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Filter")
            .field("prefix", &self.prefix)
            .field("operation", &self.operation)
            .field("scoped", &self.scope.is_some())
            .field("state", &self.state)
            .field("blocked", &self.blocked)
            .finish()
    }
}

/// A part of a listing.
///
/// ```
/// use idempotent_runtime::store::{Cursor, Filter, StoreError};
/// use idempotent_runtime::Idempotency;
///
/// /// Counts the records that wait for an operator.
/// async fn blocked(idem: &Idempotency) -> Result<usize, StoreError> {
///     let (filter, mut count) = (Filter::new().blocked(), 0);
///     let mut next: Option<Cursor> = None;
///     loop {
///         let page = idem.store().scan(&filter, next.as_ref(), 500).await?;
///         count += page.records.len();
///         next = page.next;
///         if next.is_none() {
///             return Ok(count);
///         }
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # assert_eq!(blocked(&Idempotency::in_memory()?).await?, 0);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The records. There may be none although a further page has some.
    pub records: Vec<Listed>,
    /// The number of keys on the way that are not records, or that this version cannot read.
    pub skipped: u64,
    /// The place at which the next page begins; `None` if this is the last.
    pub next: Option<Cursor>,
}

impl Page {
    /// A page of a listing that continues at `next`.
    pub fn new(records: Vec<Listed>, next: Option<Cursor>) -> Self {
        Self { records, skipped: 0, next }
    }
}

/// A record in a listing: all but its value.
///
/// ```
/// use idempotent_runtime::store::Filter;
/// use idempotent_runtime::{Error, Idempotency};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// idem.operation("orders.create").key(42).run(async { Ok::<_, Error>(()) }).await?;
///
/// let page = idem.store().scan(&Filter::new().operation("orders.create"), None, 100).await?;
/// for record in &page.records {
///     println!("{} is {:?} for {:?}", record.key.as_str(), record.head.state, record.ttl);
///     idem.record(&record.key).forget(false).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The key, which [`Idempotency::record`](crate::Idempotency::record) takes.
    pub key: RecordKey,
    /// The record without its value.
    pub head: Head,
    /// The time that the record still lives.
    pub ttl: Duration,
    /// The bytes of the value; `None` if the record has none.
    pub value_bytes: Option<u64>,
}

impl Listed {
    /// A record as a store lists it.
    pub fn new(key: RecordKey, head: Head, ttl: Duration, value_bytes: Option<u64>) -> Self {
        Self { key, head, ttl, value_bytes }
    }

    /// Returns `true` if the record keeps callers away until an operator resolves it: see
    /// [`Head::is_blocked`].
    pub fn is_blocked(&self) -> bool {
        self.head.is_blocked(self.ttl)
    }

    /// The bytes of the key.
    pub fn key_bytes(&self) -> u64 {
        self.key.as_str().len() as u64
    }
}

/// A place in a listing. Its text is the store's own, and can be handed out and taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(String);

impl Cursor {
    /// A cursor with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Abandon;
    use crate::key::Scope;
    use crate::store::{AttemptId, Claim, Token};

    fn key(prefix: &str, operation: &str, scope: [&str; 2]) -> RecordKey {
        let [ambient, own] = scope.map(|scope| match scope {
            "" => String::new(),
            scope => Encoded::of(scope).text,
        });
        let scope = Scope { ambient: &ambient, own: &own };
        RecordKey::compose(prefix, operation, scope, "42").unwrap()
    }

    #[test]
    fn conditions_are_on_whole_parts_of_a_key() {
        let plain = key("p:", "orders", ["", ""]);
        let admits = |filter: Filter| filter.admits_key(&plain);
        assert!(admits(Filter::new()));
        assert!(admits(Filter::new().operation("orders").prefix("p:")));
        for other in ["order", "orders|", "", "p:"] {
            assert!(!admits(Filter::new().operation(other)), "{other}");
        }
        assert!(!admits(Filter::new().prefix("p")));
        assert!(!admits(Filter::new().scope("")));
        assert!(!Filter::new().admits_key(&RecordKey::from("foreign")));
    }

    #[test]
    fn escaped_names_tags_and_hashed_scopes_are_found() {
        let long = "x".repeat(600);
        let key = key(r"p\", "a|b", ["", &long]);
        let tagged = key.with_hash_tag("t").unwrap();
        for key in [&key, &tagged] {
            let filter = Filter::new().prefix(r"p\").operation("a|b");
            assert!(filter.clone().scope(long.as_str()).admits_key(key));
            assert!(!filter.scope("x").admits_key(key));
        }
    }

    #[test]
    fn either_scope_counts() {
        let both = key("p", "o", ["acme", "7"]);
        assert!(Filter::new().scope("acme").admits_key(&both));
        assert!(Filter::new().scope("7").admits_key(&both));
        assert!(!Filter::new().scope(7).admits_key(&both), "a number is not a text");
    }

    #[test]
    fn blocked_records_are_those_that_only_an_operator_frees() {
        let lease = Duration::from_secs(10);
        let linger = Duration::from_secs(60);
        let head = |state, abandon| {
            let claim = Claim::Lease { lease, linger, abandon };
            let token = Token::random();
            Head {
                attempt: AttemptId { token, number: 1, fence: 1, fingerprint: None, claim },
                state,
            }
        };
        let blocked = Filter::new().blocked();
        let (alive, over) = (linger + Duration::from_millis(1), linger);
        let processing = head(State::Processing, Abandon::Block);
        assert!(blocked.admits_head(&processing, over));
        assert!(!blocked.admits_head(&processing, alive), "its attempt runs");
        assert!(!blocked.admits_head(&head(State::Processing, Abandon::Retry), over), "is free");
        assert!(blocked.admits_head(&head(State::Abandoned, Abandon::Block), over));
        for state in [State::FailedFree, State::FailedFinal, State::Succeeded, State::Taken] {
            assert!(!blocked.admits_head(&head(state, Abandon::Block), over), "{state:?}");
        }
        let abandoned = blocked.state(State::Abandoned);
        assert!(!abandoned.admits_head(&processing, over), "conditions go together");
    }

    #[test]
    fn a_prefix_with_braces_is_found() {
        let key = key("{acme}p", "o", ["", ""]);
        assert!(Filter::new().prefix("{acme}p").operation("o").admits_key(&key));
        assert!(!Filter::new().prefix("{other}p").admits_key(&key));
    }
}
