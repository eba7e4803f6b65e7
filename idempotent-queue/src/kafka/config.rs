//! Settings of librdkafka: those that this adapter needs, and those that contradict it.

use rdkafka::ClientConfig;

/// The time for which a message is tried to be sent, unless the user sets another one. It is five minutes with
/// librdkafka, for which a settlement would hang.
const SENT_WITHIN_MILLIS: &str = "30000";

/// Settings that a producer knows nothing of, and would warn of.
const OF_CONSUMERS: [&str; 24] = [
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "coordinator.query.interval.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "queued.max.messages.kbytes",
    "session.timeout.ms",
];

/// The settings of a consumer.
///
/// # Errors
/// A setting is missing, or contradicts what the adapter does.
pub(super) fn of_consumer(config: &ClientConfig) -> Result<ClientConfig, String> {
    has_servers(config)?;
    if config.get("group.id").is_none_or(str::is_empty) {
        return Err(
            "`group.id` is not set, and offsets are committed for a group; help: config.set(\"group.id\", \"billing\")"
                .to_owned(),
        );
    }
    let mut config = config.clone();
    for name in ["enable.auto.commit", "enable.auto.offset.store"] {
        if config.get(name).is_some_and(|value| value != "false") {
            return Err(format!(
                "`{name}` commits messages that are not settled; help: config.remove(\"{name}\")"
            ));
        }
        config.set(name, "false");
    }
    config.set("enable.partition.eof", "false");
    // Otherwise a group that starts, or was away for longer than its offsets are kept, leaves out messages.
    if config.get("auto.offset.reset").is_none() {
        config.set("auto.offset.reset", "earliest");
    }
    Ok(config)
}

/// The settings of a producer whose messages are written once and confirmed by all replicas in sync. Those of
/// consumers are left out.
///
/// # Errors
/// A setting is missing, or contradicts that.
pub(super) fn of_producer(config: &ClientConfig) -> Result<ClientConfig, String> {
    has_servers(config)?;
    let mut config = config.clone();
    for name in OF_CONSUMERS {
        config.remove(name);
    }
    if config.get("enable.idempotence").is_some_and(|value| value != "true") {
        return Err("`enable.idempotence` is switched off, so a message may be written twice or change its place; help: config.remove(\"enable.idempotence\")".to_owned());
    }
    for name in ["acks", "request.required.acks"] {
        if config.get(name).is_some_and(|value| !["all", "-1"].contains(&value)) {
            return Err(format!(
                "`{name}` confirms messages that not all replicas have; help: config.set(\"{name}\", \"all\")"
            ));
        }
        config.remove(name);
    }
    if config.get("transactional.id").is_some() {
        return Err(
            "`transactional.id` is set, and no transactions are used; help: config.remove(\"transactional.id\")"
                .to_owned(),
        );
    }
    config.set("enable.idempotence", "true").set("acks", "all");
    if ["message.timeout.ms", "delivery.timeout.ms"].iter().all(|name| config.get(name).is_none()) {
        config.set("message.timeout.ms", SENT_WITHIN_MILLIS);
    }
    Ok(config)
}

fn has_servers(config: &ClientConfig) -> Result<(), String> {
    let names = ["bootstrap.servers", "metadata.broker.list", "test.mock.num.brokers"];
    if names.iter().any(|name| config.get(name).is_some_and(|value| !value.is_empty())) {
        return Ok(());
    }
    Err("`bootstrap.servers` is not set; help: config.set(\"bootstrap.servers\", \"localhost:9092\")".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", "localhost:9092").set("group.id", "billing");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        config
    }

    #[test]
    fn a_consumer_commits_by_hand_and_starts_at_the_beginning() {
        let settings = of_consumer(&config(&[("session.timeout.ms", "6000")])).unwrap();
        for (name, value) in [
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "earliest"),
            ("session.timeout.ms", "6000"),
        ] {
            assert_eq!(settings.get(name), Some(value), "{name}");
        }
        let latest = of_consumer(&config(&[("auto.offset.reset", "latest")])).unwrap();
        assert_eq!(latest.get("auto.offset.reset"), Some("latest"));
        of_consumer(&config(&[("enable.auto.commit", "false")])).unwrap();
    }

    #[test]
    fn a_producer_is_idempotent_confirmed_and_knows_no_settings_of_consumers() {
        let user = config(&[("session.timeout.ms", "6000"), ("acks", "-1"), ("linger.ms", "1")]);
        let settings = of_producer(&user).unwrap();
        let all: Vec<_> = settings.config_map().into_iter().collect();
        assert_eq!(
            all,
            [
                ("acks", "all"),
                ("bootstrap.servers", "localhost:9092"),
                ("enable.idempotence", "true"),
                ("linger.ms", "1"),
                ("message.timeout.ms", "30000"),
            ]
        );
        let own = of_producer(&config(&[("delivery.timeout.ms", "1000")])).unwrap();
        assert_eq!(own.get("message.timeout.ms"), None);
    }

    #[test]
    fn a_contradiction_is_refused_with_what_to_type() {
        for (name, value) in [("enable.auto.commit", "true"), ("enable.auto.offset.store", "true")]
        {
            let error = of_consumer(&config(&[(name, value)])).unwrap_err();
            assert!(error.contains(name) && error.contains("help: "), "{error}");
        }
        for (name, value) in [
            ("enable.idempotence", "false"),
            ("acks", "1"),
            ("request.required.acks", "0"),
            ("transactional.id", "x"),
        ] {
            let error = of_producer(&config(&[(name, value)])).unwrap_err();
            assert!(error.contains(name) && error.contains("help: "), "{error}");
        }
        let groupless = of_consumer(config(&[]).remove("group.id")).unwrap_err();
        assert!(groupless.contains("`group.id` is not set"), "{groupless}");
        for read in [of_consumer, of_producer] {
            let nowhere = read(config(&[]).remove("bootstrap.servers")).unwrap_err();
            assert!(nowhere.contains("`bootstrap.servers` is not set"), "{nowhere}");
        }
    }
}
