//! One-time tokens: issued for a business type, consumed exactly once.
//!
//! A token is a record that is taken for its lifetime and released by whoever knows it. So every
//! store has them, and what keeps records apart keeps tokens apart.

use crate::error::{Error, ErrorKind};
use crate::instance::Idempotency;
use crate::key::{Encoded, KeyPart, RecordKey, Scope, hex};
use crate::operation_name::OperationName;
use crate::options::whole_millis;
use crate::store::{
    AttemptId, BeginRequest, Begun, Claim, Settled, StoreError, StoreErrorKind, Token,
};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Issues one-time tokens and consumes them, on the store of an instance.
///
/// A form carries a token; the handler consumes it before it acts. A double click sends the same
/// token twice, and the second one is refused.
///
/// ```
/// use idempotent_runtime::{Consumed, Idempotency, Tokens};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotent_runtime::Error> {
/// let idem = Idempotency::in_memory().unwrap();
/// let tokens = Tokens::new(&idem).bound_to("session-17");
///
/// let token = tokens.issue("order").await?.to_string(); // goes into the form
/// assert_eq!(tokens.consume("order", &token).await?, Consumed::Accepted);
/// assert_eq!(tokens.consume("order", &token).await?, Consumed::Refused);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Tokens {
    instance: Idempotency,
    binding: Encoded,
    expire: Duration,
}

/// How long a token can be used if nothing else is said.
const EXPIRE: Duration = Duration::from_secs(600);
/// How often a store that does not answer is asked.
const SENDS: u32 = 3;

/// A token, to be handed out as its text: 32 hexadecimal digits.
///
/// Whoever has it can use it once. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct OneTimeToken(Token);

/// Whether a token was good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a refused token must not be acted on"]
pub enum Consumed {
    /// It was issued for this business type and binding, and nobody used it before.
    Accepted,
    /// It was never issued, has expired, was used, or belongs to another type or binding. In the
    /// last case it can still be used where it belongs.
    Refused,
}

/// What became of a token that was to be replaced by the next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a refused token must not be acted on"]
pub enum Exchanged {
    /// It was good and is used up; this is the next one.
    Next(OneTimeToken),
    /// As [`Consumed::Refused`]. No token was issued.
    Refused,
}

impl Tokens {
    /// Tokens on the store of `instance`, good for ten minutes, bound to nobody.
    pub fn new(instance: &Idempotency) -> Self {
        Self { instance: instance.clone(), binding: Encoded::of(&()), expire: EXPIRE }
    }

    /// Tokens that only work for this session, user or tenant.
    #[must_use]
    pub fn bound_to(mut self, binding: impl KeyPart) -> Self {
        self.binding = Encoded::of(&binding);
        self
    }

    /// How long a token can be used.
    #[must_use]
    pub fn expire(mut self, expire: Duration) -> Self {
        self.expire = whole_millis(expire);
        self
    }

    /// A token that can be consumed once, for this business type.
    ///
    /// # Errors
    /// The store does not answer or has no room.
    pub async fn issue(&self, business_type: &str) -> Result<OneTimeToken, Error> {
        let token = Token::random();
        let key = self.record_key(business_type, token)?;
        let request = self.request(token);
        let mut sends = 0;
        loop {
            sends += 1;
            match self.instance.store().begin(&key, &request).await {
                Ok(Begun::Fresh(_)) => return Ok(OneTimeToken(token)),
                // Nobody else makes this token.
                Ok(_) => return Err(self.error(business_type, ErrorKind::StoreUnavailable)),
                Err(error) if may_be_repeated(&error) && sends < SENDS => {}
                Err(error) => return Err(self.store_error(business_type, error)),
            }
        }
    }

    /// Uses a token up. Of many who try the same one, one is accepted.
    ///
    /// # Errors
    /// The store does not answer. The token may have been used up, or not: whoever gets this must
    /// not act on it, and can issue another one.
    pub async fn consume(&self, business_type: &str, token: &str) -> Result<Consumed, Error> {
        let Ok(OneTimeToken(token)) = token.parse() else { return Ok(Consumed::Refused) };
        let key = self.record_key(business_type, token)?;
        let attempt: AttemptId = self.request(token).first_attempt();
        let mut unanswered = None;
        for _ in 0..SENDS {
            match self.instance.store().release(&key, &attempt, self.expire).await {
                Ok(Settled::Done) => return Ok(Consumed::Accepted),
                Ok(Settled::Vanished | Settled::Superseded) => match unanswered {
                    None => return Ok(Consumed::Refused),
                    // It is gone: by this call's own earlier try, or by somebody else's.
                    Some(error) => return Err(self.store_error(business_type, error)),
                },
                Err(error) if may_be_repeated(&error) => unanswered = Some(error),
                Err(error) => return Err(self.store_error(business_type, error)),
            }
        }
        let error = unanswered.unwrap_or_else(|| {
            StoreError::new(StoreErrorKind::Unavailable, "the store does not answer")
        });
        Err(self.store_error(business_type, error))
    }

    /// Uses a token up and issues the next one, for a page that goes on.
    ///
    /// # Errors
    /// As [`consume`](Self::consume) and [`issue`](Self::issue).
    pub async fn exchange(&self, business_type: &str, token: &str) -> Result<Exchanged, Error> {
        match self.consume(business_type, token).await? {
            Consumed::Accepted => Ok(Exchanged::Next(self.issue(business_type).await?)),
            Consumed::Refused => Ok(Exchanged::Refused),
        }
    }

    /// A token that exists is a window that is taken.
    fn request(&self, token: Token) -> BeginRequest {
        let claim = Claim::Window { window: self.expire };
        BeginRequest { token, fingerprint: None, fence_seed: 0, claim }
    }

    /// The record of a token. Its name does not give the token away.
    fn record_key(&self, business_type: &str, token: Token) -> Result<RecordKey, Error> {
        let prefix = &self.instance.core().config.load().key_prefix;
        let digest = hex(&Sha256::digest(token.to_bytes())[..16]);
        let scope = Scope { ambient: "", own: self.binding.as_str() };
        let name = operation(business_type);
        RecordKey::compose(prefix, &name, scope, Encoded::of(&*digest).as_str())
            .map_err(|_| self.error(business_type, ErrorKind::InvalidKey))
    }

    fn error(&self, business_type: &str, kind: ErrorKind) -> Error {
        Error::new(kind, &operation(business_type))
    }

    fn store_error(&self, business_type: &str, error: StoreError) -> Error {
        Error::from_store(error, &operation(business_type))
    }
}

fn operation(business_type: &str) -> OperationName {
    format!("token:{business_type}").into()
}

fn may_be_repeated(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Contended)
}

impl fmt::Display for OneTimeToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(&self.0.to_bytes()))
    }
}

impl fmt::Debug for OneTimeToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OneTimeToken(..)")
    }
}

/// What is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAToken;

impl fmt::Display for NotAToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a token: it must have 32 hexadecimal digits")
    }
}

impl std::error::Error for NotAToken {}

impl FromStr for OneTimeToken {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let digits = text.as_bytes();
        let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 32 || !digits.iter().all(lower) {
            return Err(NotAToken);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| NotAToken)?;
        Ok(Self(Token::from_bytes(number.to_be_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_text() {
        let token = OneTimeToken(Token::random());
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        assert_eq!(token.to_string().len(), 32);
        assert!(!format!("{token:?}").contains(&token.to_string()));
    }

    #[test]
    fn other_texts_are_not_tokens() {
        let good = OneTimeToken(Token::random()).to_string();
        for text in
            ["", "42", "zz", &good[1..], &format!("{good}0"), "+1234567890123456789012345678901"]
        {
            assert_eq!(text.parse::<OneTimeToken>(), Err(NotAToken), "{text}");
        }
        assert_eq!(good.replace(|_: char| true, "A").parse::<OneTimeToken>(), Err(NotAToken));
    }
}
