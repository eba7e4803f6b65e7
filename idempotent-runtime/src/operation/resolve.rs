//! Answers that operators read and write, encoded as the engine encodes them.

use super::Operation;
use crate::answer_policy::AnswerPolicy;
use crate::error::Error;
use crate::protocol::{Resolution, Resolved};
use crate::store::Record;
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
        self.record()?.resolve(resolution).await
    }

    /// Like [`resolve`](Self::resolve), with [`AnswerPolicy`] to choose how the value is kept.
    ///
    /// # Errors
    /// The key is invalid, the value cannot be kept, or the store does not answer.
    pub async fn resolve_as<T, E>(
        &self,
        answers: AnswerPolicy<T, E>,
        resolution: Resolution<Option<&T>>,
    ) -> Result<Resolved, Error> {
        self.record()?.resolve_as(answers, resolution).await
    }

    /// The value in a record of this key, read as a replay reads it; `None` if the record has none.
    ///
    /// ```
    /// use idempotent_runtime::{AnswerPolicy, Error, Idempotency, Mode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let idem = Idempotency::in_memory().unwrap();
    /// let order = idem.operation("orders.create").key(42).mode(Mode::Strong);
    /// order.clone().run(async { Ok::<u64, Error>(7) }).await?;
    /// let record = order.get().await?.expect("it was run");
    /// assert_eq!(order.value_of(&record, AnswerPolicy::<u64, Error>::kept())?, Some(7));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The key is invalid, or the bytes are not a value of this type.
    pub fn value_of<T, E>(
        &self,
        record: &Record,
        answers: AnswerPolicy<T, E>,
    ) -> Result<Option<T>, Error> {
        self.record()?.value_of(record, answers)
    }
}
