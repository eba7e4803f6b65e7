//! Answers that operators read and write, encoded as the engine encodes them.

use super::Operation;
use crate::answers::{Answers, Encoding};
use crate::codec::Codecs;
use crate::engine::Kind;
use crate::error::{Error, ErrorKind};
use crate::options::whole_millis;
use crate::protocol::{Resolution, Resolved, StoreExt as _};
use crate::store::{Record, State};
use serde::Serialize;

impl Operation<'_> {
    /// Ends an attempt whose outcome is unknown.
    ///
    /// # Errors
    /// The key is invalid, the value cannot be kept, or the store does not answer.
    pub async fn resolve<T: Serialize>(
        &self,
        resolution: Resolution<Option<&T>>,
    ) -> Result<Resolved, Error> {
        self.resolve_encoded(resolution, |codecs, value| Some(codecs.encode(value))).await
    }

    /// Like [`resolve`](Self::resolve), with [`Answers`] to choose how the value is kept.
    ///
    /// # Errors
    /// The key is invalid, the value cannot be kept, or the store does not answer.
    pub async fn resolve_as<T, E>(
        &self,
        answers: Answers<T, E>,
        resolution: Resolution<Option<&T>>,
    ) -> Result<Resolved, Error> {
        let encode = |codecs: &Codecs, value: &T| answers.encode_value(codecs, value);
        self.resolve_encoded(resolution, encode).await
    }

    /// The value in a record of this key, read as a replay reads it; `None` if the record has none.
    ///
    /// ```
    /// use idempotent_runtime::{Answers, Error, Idempotency, Mode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let idem = Idempotency::in_memory().unwrap();
    /// let order = idem.operation("orders.create").key(42).mode(Mode::Strong);
    /// order.clone().run(async { Ok::<u64, Error>(7) }).await?;
    /// let record = order.get().await?.expect("it was run");
    /// assert_eq!(order.value_of(&record, Answers::<u64, Error>::kept())?, Some(7));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The key is invalid, or the bytes are not a value of this type.
    pub fn value_of<T, E>(
        &self,
        record: &Record,
        answers: Answers<T, E>,
    ) -> Result<Option<T>, Error> {
        let (State::Succeeded, Some(value)) = (record.head.state, &record.value) else {
            return Ok(None);
        };
        let key = self.record_key()?;
        let read = |codecs: &Codecs, bytes: &[u8]| answers.decode_value(codecs, bytes);
        let values = &self.instance.core().values;
        values.read(Kind::Value, &key, value, read).map(Some).map_err(|error| {
            let text = error.to_string();
            Error::new(ErrorKind::Undecodable, &self.name).with_message(text).with_source(error)
        })
    }

    async fn resolve_encoded<T>(
        &self,
        resolution: Resolution<Option<&T>>,
        encode: impl Fn(&Codecs, &T) -> Option<Encoding>,
    ) -> Result<Resolved, Error> {
        let key = self.record_key()?;
        let core = self.instance.core();
        let config = core.config.load_full();
        let resolution = match resolution {
            Resolution::Retry => Resolution::Retry,
            Resolution::Succeeded(value) => {
                let encoded = value.and_then(|value| encode(&core.values.codecs, value));
                let keep = |it| core.values.keep(Kind::Value, &key, it, config.max_value_bytes);
                let kept = encoded.map(keep).transpose().map_err(|reason| {
                    let text = format!("the value cannot be kept: {reason}");
                    Error::new(ErrorKind::ResultUnavailable, &self.name).with_message(text)
                })?;
                Resolution::Succeeded(kept)
            }
        };
        let retention = whole_millis(self.options.expire.unwrap_or(config.expire));
        self.answer(core.store.resolve(&key, resolution, retention).await)
    }
}
