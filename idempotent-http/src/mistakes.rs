//! Validation of a layer's settings.

use crate::settings::{Settings, Usage};
use idempotent_runtime::Config;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Error of a layer whose settings cannot work, with all mistakes in them.
///
/// ```
/// use idempotent_http::IdempotencyLayer;
/// use idempotent_runtime::Idempotency;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// let layer = IdempotencyLayer::new(&idem, "shop").lease(Duration::from_millis(1)).headers([]);
/// let error = layer.validate().unwrap_err();
/// assert_eq!(error.mistakes().len(), 2);
/// assert!(error.to_string().starts_with("the layer `shop` is misconfigured: "));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    layer: Cow<'static, str>,
    mistakes: Vec<String>,
}

impl SettingsError {
    /// The mistakes: each names a setting, its value, and what is accepted.
    pub fn mistakes(&self) -> &[String] {
        &self.mistakes
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mistakes = self.mistakes.join("; and ");
        write!(formatter, "the layer `{}` is misconfigured: {mistakes}", self.layer)
    }
}

impl Error for SettingsError {}

pub(crate) fn check(settings: &Settings) -> Result<(), SettingsError> {
    let mut mistakes = Vec::new();
    mistakes.extend(names(settings));
    mistakes.extend(keys(settings));
    mistakes.extend(settings.payload.mistake());
    mistakes.extend(settings.header_choices.as_ref().and_then(|choices| choices.mistake()));
    mistakes.extend(times(settings));
    mistakes.extend(limits(settings));
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(SettingsError { layer: settings.operation.clone(), mistakes })
}

fn names(settings: &Settings) -> Option<String> {
    let text = "the name cannot be empty; accepted: the name of the service, such as \"shop\"";
    settings.operation.is_empty().then(|| text.to_owned())
}

fn keys(settings: &Settings) -> Vec<String> {
    let mut mistakes = Vec::new();
    let sources = &settings.sources;
    if sources.is_empty() {
        let text = "there is no place for keys; help: .headers([..]), .query_parameter(..) or \
                    .key_from(..)";
        mistakes.push(text.to_owned());
    }
    if sources.query.as_deref() == Some("") {
        let text = "`query_parameter` cannot be empty; accepted: the name of a parameter";
        mistakes.push(text.to_owned());
    }
    mistakes.extend(sources.body.iter().filter_map(|source| source.mistake()));
    if sources.reads_body() && settings.max_request_bytes == 0 {
        let text =
            "`max_request_bytes` cannot be 0 where the body carries the key; accepted: 1 or more";
        mistakes.push(text.to_owned());
    }
    if !settings.methods.iter().any(|method| settings.guards(method)) {
        let text = "`methods` names none that is guarded; accepted: methods that are not safe, such \
                    as POST";
        mistakes.push(text.to_owned());
    }
    mistakes
}

/// Checks the times of the record. An ambient layer writes no records.
fn times(settings: &Settings) -> Vec<String> {
    if settings.usage == Usage::AmbientToken {
        return Vec::new();
    }
    let mut mistakes = Vec::new();
    if settings.retention.is_some_and(|retention| retention.is_zero()) {
        let text = "`retention` cannot be 0s; accepted: more than that; help: to store nothing, \
                    .ambient_only() or .store_statuses(|_| false)";
        mistakes.push(text.to_owned());
    }
    let lease = settings.lease.map(whole_millis);
    if let Some(lease) = lease {
        // With a `max_run` of the same length, only the lease can be wrong.
        let config = Config::new().with_lease(lease).with_max_run(lease);
        mistakes.extend(config.validate().err().map(|error| error.to_string()));
    }
    let lease = lease.unwrap_or_else(|| settings.instance.config().lease);
    if let Some(max_run) = settings.max_run.filter(|max_run| *max_run < lease) {
        mistakes.push(format!(
            "`max_run` cannot be {max_run:?}; accepted: at least the lease, {lease:?}"
        ));
    }
    mistakes
}

/// Checks for limits with which no handler would ever start, or which limit nothing.
fn limits(settings: &Settings) -> Vec<String> {
    if settings.usage == Usage::AmbientToken {
        return Vec::new();
    }
    let mut mistakes = Vec::new();
    if settings.max_orphans == 0 {
        let text =
            "`max_orphaned_handlers` cannot be 0: no handler would start; accepted: 1 or more";
        mistakes.push(text.to_owned());
    }
    mistakes.extend(settings.quota.as_ref().and_then(|quota| quota.mistake()));
    mistakes
}

/// Rounds up to whole milliseconds, as the instance does.
fn whole_millis(duration: Duration) -> Duration {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use crate::{IdempotencyLayer, KeySource, Payload};
    use http::{Method, header};
    use idempotent_runtime::{Config, Idempotency};
    use std::time::Duration;

    fn layer() -> IdempotencyLayer {
        IdempotencyLayer::new(&Idempotency::in_memory().unwrap(), "shop")
    }

    fn mistakes(layer: IdempotencyLayer) -> Vec<String> {
        layer.validate().map_or_else(|error| error.mistakes().to_vec(), |_| Vec::new())
    }

    #[track_caller]
    fn has_one_mistake(layer: IdempotencyLayer, named: &str) {
        let mistakes = mistakes(layer);
        let [mistake] = &mistakes[..] else { panic!("{mistakes:?}") };
        assert!(mistake.contains(named), "{mistake}");
    }

    #[test]
    fn every_impossible_setting_is_named() {
        let millis = Duration::from_millis;
        has_one_mistake(layer().lease(millis(9)), "`lease` cannot be 9ms");
        has_one_mistake(layer().lease(Duration::from_secs(86_401)), "`lease` cannot be");
        has_one_mistake(layer().lease(Duration::MAX), "`lease` cannot be");
        has_one_mistake(layer().retention(Duration::ZERO), "`retention` cannot be 0s");
        has_one_mistake(layer().max_run(millis(29_999)), "`max_run` cannot be 29.999s");
        has_one_mistake(layer().headers([]), "no place for keys");
        has_one_mistake(layer().query_parameter(""), "`query_parameter` cannot be empty");
        has_one_mistake(layer().key_from(KeySource::json_pointer("id")), "`json_pointer`");
        has_one_mistake(layer().key_from(KeySource::form_field("")), "`form_field`");
        let by_field = layer().key_from(KeySource::form_field("id"));
        has_one_mistake(by_field.max_request_bytes(0), "`max_request_bytes` cannot be 0");
        has_one_mistake(layer().methods([Method::GET]), "`methods`");
        has_one_mistake(layer().methods([]), "`methods`");
        has_one_mistake(layer().payload(Payload::Members(vec!["a".into()])), "`Payload::Members`");
        has_one_mistake(layer().replay_header(header::CONNECTION), "`replay_header`");
        has_one_mistake(layer().name(""), "the name");
        has_one_mistake(layer().max_orphaned_handlers(0), "`max_orphaned_handlers` cannot be 0");
        let quota = |keys, period| layer().new_keys_per_scope(keys, period);
        has_one_mistake(quota(0, millis(1)), "`new_keys_per_scope`: its keys cannot be 0");
        has_one_mistake(quota(1, Duration::ZERO), "`new_keys_per_scope`: its period cannot be 0s");
    }

    #[test]
    fn all_mistakes_are_listed() {
        let layer = layer().headers([]).lease(Duration::ZERO).retention(Duration::ZERO);
        assert_eq!(mistakes(layer).len(), 3);
    }

    #[test]
    fn what_can_work_is_no_mistake() {
        let none: [String; 0] = [];
        let shortest = Duration::from_micros(9_001);
        for layer in [
            layer(),
            layer().lease(shortest).retention(Duration::from_nanos(1)),
            layer().retention(Duration::MAX).wait(Duration::MAX),
            layer().lease(Duration::from_secs(1)).max_run(Duration::from_secs(1)),
            layer().headers([]).query_parameter("token"),
            layer().headers([]).key_from(KeySource::by(|_, _| None)),
            layer().max_request_bytes(0).max_response_bytes(0),
            layer().ambient_only().lease(Duration::ZERO).max_orphaned_handlers(0),
            layer().max_orphaned_handlers(1).new_keys_per_scope(1, Duration::MAX),
        ] {
            assert_eq!(mistakes(layer), none);
        }
    }

    #[test]
    fn a_mistake_that_was_put_right_is_none() {
        let wrong = layer().lease(Duration::ZERO);
        assert_eq!(mistakes(wrong.clone()).len(), 1);
        assert!(wrong.lease(Duration::from_secs(1)).validate().is_ok());
    }

    #[test]
    fn a_run_is_compared_with_the_lease_of_the_instance() {
        let config = Config::new().with_lease(Duration::from_secs(1));
        let idem = Idempotency::builder().config(config).build().unwrap();
        let layer = IdempotencyLayer::new(&idem, "shop").max_run(Duration::from_secs(1));
        assert!(layer.validate().is_ok());
    }
}
