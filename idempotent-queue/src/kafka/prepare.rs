//! The topics of a consumer, as the broker has them.

use super::poller::Context;
use super::publisher::create_topic;
use crate::{PrepareError, QueueError};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode as Code;
use std::sync::Arc;
use std::time::Duration;

/// The time for one question to the broker.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Looks for the topics.
///
/// # Errors
/// One of them does not exist, or may not be looked at; or the broker does not answer.
pub(super) async fn find_topics(
    consumer: Arc<BaseConsumer<Context>>,
    topics: Vec<String>,
) -> Result<(), PrepareError> {
    let found = tokio::task::spawn_blocking(move || {
        topics.iter().try_for_each(|topic| find_topic(&consumer, topic))
    });
    found.await.map_err(|error| PrepareError::Unavailable(QueueError::new(error)))?
}

fn find_topic(consumer: &BaseConsumer<Context>, topic: &str) -> Result<(), PrepareError> {
    let answer = consumer.fetch_metadata(Some(topic), ANSWERED_WITHIN);
    let metadata = answer.map_err(|error| PrepareError::Unavailable(QueueError::new(error)))?;
    let found = metadata.topics().iter().find(|it| it.name() == topic);
    let error = match found.map(|found| found.error().map(Code::from)) {
        Some(None) => return Ok(()),
        Some(Some(error)) => error,
        None => Code::UnknownTopicOrPartition,
    };
    let refused = |text: String| Err(PrepareError::Refused(QueueError::new(text)));
    match error {
        Code::UnknownTopicOrPartition | Code::UnknownTopic => {
            refused(format!("the topic `{topic}` does not exist; {}", create_topic(topic)))
        }
        Code::InvalidTopic => refused(format!(
            "`{topic}` cannot be the name of a topic; help: use letters, digits, `.`, `_` and `-`"
        )),
        Code::TopicAuthorizationFailed => refused(format!(
            "the user may not look at the topic `{topic}`; help: kafka-acls.sh --add --topic {topic} --operation Describe --operation Read --operation Write"
        )),
        error => Err(PrepareError::Unavailable(QueueError::new(error))),
    }
}

/// The longest time for which one of these topics keeps a message. `None` if that has no end, or is not told.
pub(super) async fn retention(config: &ClientConfig, topics: &[String]) -> Option<Duration> {
    let admin: AdminClient<DefaultClientContext> = config.create().ok()?;
    let options = AdminOptions::new().request_timeout(Some(ANSWERED_WITHIN));
    let topics: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let described = admin.describe_configs(&topics, &options).await;
    // Its end waits for a thread.
    drop(tokio::task::spawn_blocking(move || drop(admin)));
    match described {
        Ok(described) => {
            let retentions = described.iter().map(|it| it.as_ref().ok().and_then(retention_of));
            longest(retentions)
        }
        Err(error) => {
            tracing::debug!(target: "idempotent", %error, "the retention of topics is not known");
            None
        }
    }
}

fn retention_of(topic: &ConfigResource) -> Option<Duration> {
    let value = |name| topic.get(name).and_then(|entry| entry.value.as_deref());
    // A topic that is only compacted keeps the last message of each key.
    if value("cleanup.policy").is_some_and(|policy| !policy.contains("delete")) {
        return None;
    }
    // -1 is without end.
    value("retention.ms")?.parse().ok().map(Duration::from_millis)
}

/// The longest of these, if all are known.
fn longest(retentions: impl Iterator<Item = Option<Duration>>) -> Option<Duration> {
    let known: Option<Vec<_>> = retentions.collect();
    known?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::admin::{ConfigEntry, ConfigSource, OwnedResourceSpecifier};

    fn topic(settings: &[(&str, &str)]) -> ConfigResource {
        let entries = settings.iter().map(|(name, value)| ConfigEntry {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
            source: ConfigSource::Default,
            is_read_only: false,
            is_default: true,
            is_sensitive: false,
        });
        let specifier = OwnedResourceSpecifier::Topic("orders".to_owned());
        ConfigResource { specifier, entries: entries.collect() }
    }

    #[test]
    fn retention_is_known_where_messages_are_deleted_in_time() {
        let week = Duration::from_secs(7 * 24 * 3_600);
        let deleted =
            |retention| topic(&[("cleanup.policy", "delete"), ("retention.ms", retention)]);
        assert_eq!(retention_of(&deleted("604800000")), Some(week));
        assert_eq!(retention_of(&deleted("-1")), None, "without end");
        let compacted = topic(&[("cleanup.policy", "compact"), ("retention.ms", "604800000")]);
        assert_eq!(retention_of(&compacted), None);
        assert_eq!(retention_of(&topic(&[])), None);
    }

    #[test]
    fn the_longest_retention_counts_and_one_that_is_not_known_hides_it() {
        let [day, week] = [1, 7].map(|days| Some(Duration::from_secs(days * 24 * 3_600)));
        assert_eq!(longest([day, week, day].into_iter()), week);
        assert_eq!(longest([day, None].into_iter()), None);
    }
}
