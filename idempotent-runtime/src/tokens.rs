//! One-time tokens: issued for a business type, consumed exactly once.
//!
//! An issued token is a key with the record of a failed attempt. Consuming the token begins the
//! next attempt as a window, which keeps the key taken. So tokens work on every store, and the rule
//! that grants one of two attempts also accepts one of two clicks.

use crate::config::Abandon;
use crate::engine::{Resend, Underway};
use crate::error::{Error, ErrorKind};
use crate::instance::Idempotency;
use crate::key::{Encoded, KeyPart, RecordKey, Scope, hex};
use crate::operation_name::OperationName;
use crate::options::whole_millis;
use crate::protocol::{BeginRequest, Begun, Binding, Failure, StoreExt as _, Updated};
use crate::store::{Answer, AttemptId, Claim, StoreError, Token};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Issues one-time tokens and consumes them, on the store of an instance.
///
/// A form carries a token; the handler consumes it before it acts. A double click sends the same
/// token twice, and the second request is refused.
///
/// ```
/// use idempotent_runtime::Idempotency;
/// use idempotent_runtime::tokens::{Consumed, Tokens};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotent_runtime::Error> {
/// let idem = Idempotency::in_memory().unwrap();
/// let tokens = Tokens::new(&idem).bound_to("session-17");
///
/// let token = tokens.issue("order").await?.to_string(); // goes into the form
/// assert!(matches!(tokens.consume("order", &token).await?, Consumed::Accepted(_)));
/// assert!(matches!(tokens.consume("order", &token).await?, Consumed::Used));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Tokens {
    instance: Idempotency,
    binding: Encoded,
    expire: Duration,
}

/// The default lifetime of a token.
const EXPIRE: Duration = Duration::from_secs(600);
/// The lease of a token that is being issued. The token cannot be used before it is issued, when no
/// caller has it yet.
const ISSUING: Duration = Duration::from_secs(10);

/// A token, to be handed out as its text: 48 hexadecimal digits.
///
/// Anyone who has the text can use it once, for its business type and binding. `Debug` does not
/// show it.
#[derive(Clone, PartialEq, Eq)]
pub struct OneTimeToken {
    secret: [u8; 16],
    /// A digest of the secret and the binding, to tell a token with another binding from one that
    /// was never issued. Bindings are kept apart by the name of the record, not by this digest.
    binding: [u8; 8],
}

/// The result of [`Tokens::consume`].
#[derive(Debug)]
#[must_use = "only an accepted token may be acted on"]
#[non_exhaustive]
pub enum Consumed {
    /// The token was issued for this business type and binding, and had not been used.
    Accepted(UsedToken),
    /// The token was used before.
    Used,
    /// The token was never issued for this business type, has expired, or is malformed.
    Unknown,
    /// The token is bound to another session, user or tenant. It can still be used there.
    BoundElsewhere,
}

/// A token that was used up by this call.
///
/// Keep it until the work for which the token was consumed is done: [`Idempotency::shutdown`] waits
/// until it is dropped.
#[derive(Debug)]
pub struct UsedToken {
    underway: Underway,
    tokens: Tokens,
    business_type: String,
    key: RecordKey,
    attempt: AttemptId,
}

/// The result of [`Tokens::exchange`].
#[derive(Debug)]
#[must_use = "only an accepted token may be acted on"]
pub enum Exchanged {
    /// The token was accepted and is used up; this is the next one.
    Next(OneTimeToken),
    /// The token was not accepted, for this reason. No token was issued.
    Refused(Consumed),
}

impl Tokens {
    /// Creates tokens on the store of `instance`, valid for ten minutes and without a binding.
    pub fn new(instance: &Idempotency) -> Self {
        Self { instance: instance.clone(), binding: Encoded::of(&()), expire: EXPIRE }
    }

    /// The name under which tokens of a business type are recorded, logged and counted.
    pub fn operation_name(business_type: &str) -> String {
        format!("token:{business_type}")
    }

    /// Binds tokens to a session, user or tenant. They are not accepted elsewhere.
    #[must_use]
    pub fn bound_to(mut self, binding: impl KeyPart) -> Self {
        self.binding = Encoded::of(&binding);
        self
    }

    /// Sets the time for which a token can be used, and for which a used token is known as used.
    #[must_use]
    pub fn expire(mut self, expire: Duration) -> Self {
        self.expire = whole_millis(expire);
        self
    }

    /// Issues a token that can be consumed once, for this business type.
    ///
    /// # Errors
    /// The store does not answer or has no room.
    pub async fn issue(&self, business_type: &str) -> Result<OneTimeToken, Error> {
        let secret = Token::random().to_bytes();
        let token = OneTimeToken { secret, binding: self.digest(&secret) };
        let key = self.record_key(business_type, &token)?;
        let claim = Claim::Lease { lease: ISSUING, linger: self.expire, abandon: Abandon::Retry };
        let request = request(claim);
        let attempt = request.first_attempt();
        let store = self.instance.store();
        let begun = self.send(business_type, || store.begin(&key, &request)).await?;
        let freed = || store.fail(&key, &attempt, Failure::Free(Binding::Lifted), self.expire);
        match (begun, self.send(business_type, freed).await?) {
            (Begun::Fresh(_), Updated::Done) => Ok(token),
            // No other caller knows the token, so the store has lost its record.
            _ => Err(self.error(business_type, ErrorKind::StoreUnavailable)),
        }
    }

    /// Consumes a token. If several callers try the same one, one of them is accepted.
    ///
    /// If this future is dropped before it ends, the token may be used up although no caller was
    /// told so. Run it in a task of its own if its caller can go away, as the client of a request
    /// can.
    ///
    /// # Errors
    /// The store does not answer: the token may have been used up, and the caller must not act on
    /// it. Or the instance is shutting down, and the token stays valid.
    pub async fn consume(&self, business_type: &str, token: &str) -> Result<Consumed, Error> {
        let Ok(token) = token.parse::<OneTimeToken>() else { return Ok(Consumed::Unknown) };
        if token.binding != self.digest(&token.secret) {
            return Ok(Consumed::BoundElsewhere);
        }
        let key = self.record_key(business_type, &token)?;
        // Counted before it is refused: a shutdown either sees it or is seen by it.
        let underway = Underway::new(self.instance.engine());
        if underway.is_too_late() {
            return Err(self.error(business_type, ErrorKind::ShuttingDown));
        }
        let request = request(Claim::Window { window: self.expire });
        let store = self.instance.store();
        let begun = self.send(business_type, || store.begin(&key, &request)).await;
        match begun.map_err(may_be_used_up)? {
            // A first attempt means that there was no record of an issued token.
            Begun::Fresh(attempt) if attempt.number == 1 => {
                let released = || store.release(&key, &attempt, self.expire, Binding::Lifted);
                self.send(business_type, released).await?;
                Ok(Consumed::Unknown)
            }
            Begun::Fresh(attempt) => {
                let business_type = business_type.to_owned();
                let tokens = self.clone();
                Ok(Consumed::Accepted(UsedToken { underway, tokens, business_type, key, attempt }))
            }
            // Still being issued: its issuer has not handed it out yet.
            Begun::InFlight { .. } => Ok(Consumed::Unknown),
            Begun::Taken { .. } => self.taken(business_type, &key).await,
            _ => Ok(Consumed::Used),
        }
    }

    /// Tells a token that was used up from an unknown one that another caller is trying.
    ///
    /// An unknown token is begun as attempt 1 and then released. In between, or for as long as the
    /// record lives if the release is never sent, other callers find the key taken. The attempt
    /// number tells the two apart: an issued token is consumed as attempt 2 or later. Accepted
    /// tokens never take this extra round trip.
    async fn taken(&self, business_type: &str, key: &RecordKey) -> Result<Consumed, Error> {
        let store = self.instance.store();
        match self.send(business_type, || store.load(key)).await? {
            Some(record) if record.head.attempt.number > 1 => Ok(Consumed::Used),
            // Released since, or about to be. A used token that is gone by now has expired.
            Some(_) | None => Ok(Consumed::Unknown),
        }
    }

    /// Consumes a token and issues the next one, for a page that stays open.
    ///
    /// # Errors
    /// Those of [`consume`](Self::consume) and [`issue`](Self::issue).
    pub async fn exchange(&self, business_type: &str, token: &str) -> Result<Exchanged, Error> {
        match self.consume(business_type, token).await? {
            Consumed::Accepted(_) => Ok(Exchanged::Next(self.issue(business_type).await?)),
            refused => Ok(Exchanged::Refused(refused)),
        }
    }

    /// Sends a verb, and repeats it if the store does not answer. Every verb is safe to repeat.
    async fn send<'a, T: Unpin>(
        &self,
        business_type: &str,
        verb: impl Fn() -> Answer<'a, T>,
    ) -> Result<T, Error> {
        let (mut resend, mut unanswered) = (Resend::new(), None);
        loop {
            let error = match verb().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(pause) = resend.after(&error) else {
                // That the last one had no effect says nothing about those before it.
                let error = match unanswered {
                    Some(unanswered) if !error.may_have_taken_effect() => unanswered,
                    _ => error,
                };
                return Err(Error::from_store(error, &operation(business_type)));
            };
            if error.may_have_taken_effect() {
                unanswered = Some(error);
            }
            self.instance.sleep(pause).await;
        }
    }

    fn digest(&self, secret: &[u8; 16]) -> [u8; 8] {
        let digest = Sha256::new_with_prefix(secret).chain_update(self.binding.as_str()).finalize();
        let mut short = [0; 8];
        short.copy_from_slice(&digest[..8]);
        short
    }

    /// The name of a token's record, which does not reveal the token.
    fn record_key(&self, business_type: &str, token: &OneTimeToken) -> Result<RecordKey, Error> {
        let prefix = &self.instance.engine().config.load().key_prefix;
        let digest = hex(&Sha256::digest(token.secret)[..16]);
        let scope = Scope { ambient: "", own: self.binding.as_str() };
        let name = operation(business_type);
        RecordKey::compose(prefix, &name, scope, Encoded::of(&*digest).as_str())
            .map_err(|_| self.error(business_type, ErrorKind::InvalidKey))
    }

    fn error(&self, business_type: &str, kind: ErrorKind) -> Error {
        Error::new(kind, &operation(business_type))
    }
}

impl UsedToken {
    /// Makes the token usable again, because the work for which it was consumed did not happen.
    ///
    /// # Errors
    /// The store does not answer; the token may stay used.
    pub async fn give_back(self) -> Result<(), Error> {
        let Self { underway: _underway, tokens, business_type, key, attempt } = self;
        let store = tokens.instance.store();
        let released = || store.release(&key, &attempt, tokens.expire, Binding::Lifted);
        tokens.send(&business_type, released).await.map(drop)
    }
}

/// A request without a fingerprint. Nothing uses the fence of a token, so its seed is zero.
fn request(claim: Claim) -> BeginRequest {
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 0, claim }
}

/// Adds to the message that the token may have been used up, if that is the case.
fn may_be_used_up(error: Error) -> Error {
    if error.store_error().is_some_and(StoreError::may_have_taken_effect) {
        let text = format!("{}: the token may have been used up", error.message());
        return error.with_message(text + "\nhelp: issue another token");
    }
    error
}

fn operation(business_type: &str) -> OperationName {
    Tokens::operation_name(business_type).into()
}

impl fmt::Display for OneTimeToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", hex(&self.secret), hex(&self.binding))
    }
}

impl fmt::Debug for OneTimeToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OneTimeToken(..)")
    }
}

/// The error of parsing text that is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAToken;

impl fmt::Display for NotAToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a token: it must have 48 hexadecimal digits")
    }
}

impl std::error::Error for NotAToken {}

impl FromStr for OneTimeToken {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let digits = text.as_bytes();
        let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 48 || !digits.iter().all(lower) {
            return Err(NotAToken);
        }
        let (secret, binding) = text.split_at(32);
        let secret = u128::from_str_radix(secret, 16).map_err(|_| NotAToken)?.to_be_bytes();
        let binding = u64::from_str_radix(binding, 16).map_err(|_| NotAToken)?.to_be_bytes();
        Ok(Self { secret, binding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> OneTimeToken {
        OneTimeToken { secret: Token::random().to_bytes(), binding: *b"\x01binding" }
    }

    #[test]
    fn a_token_is_its_text() {
        let token = token();
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        assert_eq!(token.to_string().len(), 48);
        assert!(!format!("{token:?}").contains(&token.to_string()));
    }

    #[test]
    fn other_texts_are_not_tokens() {
        let good = token().to_string();
        let long = format!("{good}0");
        let signed = format!("+{}", &good[1..]);
        let upper = "A".repeat(48);
        for text in ["", "42", "zz", &good[1..], &long, &signed, &upper] {
            assert_eq!(text.parse::<OneTimeToken>(), Err(NotAToken), "{text}");
        }
    }
}
