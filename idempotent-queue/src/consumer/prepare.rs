//! The time before the first delivery.

use super::settings::Settings;
use super::status::Status;
use crate::{ConsumerError, Deliveries, PrepareError, Prepared};
use std::future::Future;
use tokio::time::sleep;

/// Prepares a source, again and again while the broker cannot be reached. `None` if the consumer is told to
/// end meanwhile.
pub(super) async fn prepare(
    settings: &Settings,
    status: &Status,
    source: &mut impl Deliveries,
    mut shutdown: impl Future<Output = ()> + Unpin,
) -> Result<Option<Prepared>, ConsumerError> {
    let (consumer, terms): (&str, _) = (&settings.name, settings.terms());
    let mut failures = 0_u32;
    loop {
        let prepared = tokio::select! {
            biased;
            () = &mut shutdown => return Ok(None),
            prepared = async { source.prepare(&terms).await } => prepared,
        };
        let error = match prepared {
            Ok(prepared) => return Ok(Some(prepared)),
            Err(PrepareError::Refused(error)) => {
                status.note(&error);
                return Err(ConsumerError::Refused { consumer: consumer.to_owned(), error });
            }
            Err(PrepareError::Unavailable(error)) => error,
        };
        tracing::warn!(target: "idempotent", consumer, %error, "source not ready");
        status.note(&error);
        failures = failures.saturating_add(1);
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(None),
            () = sleep(settings.pauses.after(failures)) => {}
        }
    }
}
