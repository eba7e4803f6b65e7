//! The topics of a consumer: those that it is for, and those of copies.

/// The topics of a consumer.
#[derive(Clone, Debug, Default)]
pub(super) struct Topics {
    pub(super) main: Vec<String>,
    pub(super) retries: Retries,
    pub(super) dead_letters: Option<String>,
    pub(super) parked: Option<String>,
}

/// The way in which messages come again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Retries {
    /// As a copy on another topic: this one, or one of its own for each topic.
    Topic(Option<String>),
    /// From memory, where the message keeps its place in the partition.
    InPlace,
}

impl Default for Retries {
    fn default() -> Self {
        Self::Topic(None)
    }
}

impl Topics {
    /// The topic of copies that come again. `None` if they do so in place.
    pub(super) fn retry(&self, home: &str) -> Option<String> {
        match &self.retries {
            Retries::Topic(name) => Some(name.clone().unwrap_or_else(|| format!("{home}.retry"))),
            Retries::InPlace => None,
        }
    }

    pub(super) fn dead_letters(&self, home: &str) -> String {
        self.dead_letters.clone().unwrap_or_else(|| format!("{home}.dead"))
    }

    pub(super) fn parked(&self, home: &str) -> String {
        self.parked.clone().unwrap_or_else(|| format!("{home}.parked"))
    }

    /// The topic has copies that come again.
    pub(super) fn is_retry(&self, topic: &str) -> bool {
        self.main.iter().any(|home| self.retry(home).as_deref() == Some(topic))
    }

    /// The topic that a message belongs to: its own, or that which a copy names.
    pub(super) fn home<'a>(&'a self, topic: &'a str, named: Option<&'a str>) -> &'a str {
        if !self.is_retry(topic) {
            return topic;
        }
        let is_its_retry = |home: &&String| self.retry(home).as_deref() == Some(topic);
        let named = named.filter(|named| self.main.iter().any(|home| home == named));
        named.or_else(|| self.main.iter().find(is_its_retry).map(String::as_str)).unwrap_or(topic)
    }

    /// The topics to read.
    pub(super) fn consumed(&self) -> Vec<String> {
        let retries = self.main.iter().filter_map(|home| self.retry(home));
        once_each(self.main.iter().cloned().chain(retries))
    }

    /// All topics, each of which has to exist.
    pub(super) fn all(&self) -> Vec<String> {
        let aside = self.main.iter().flat_map(|home| [self.dead_letters(home), self.parked(home)]);
        once_each(self.consumed().into_iter().chain(aside))
    }

    /// # Errors
    /// The topics do not go together.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.main.is_empty() {
            return Err(
                "there is no topic; help: kafka::deliveries(&config, [\"orders\"])".to_owned()
            );
        }
        if let Some(pattern) = self.main.iter().find(|name| name.starts_with('^')) {
            return Err(format!(
                "`{pattern}` is a pattern, and each topic needs topics for its copies; help: name every topic"
            ));
        }
        let consumed = self.consumed();
        for home in &self.main {
            let copies = [self.dead_letters(home), self.parked(home)];
            if let Some(topic) = copies.iter().find(|topic| consumed.contains(topic)) {
                return Err(format!(
                    "`{topic}` is consumed, and messages are put aside there; help: choose another name with dead_letter_topic or parked_topic"
                ));
            }
            if self.retry(home).is_some_and(|topic| self.main.contains(&topic)) {
                return Err(format!(
                    "the retry topic of `{home}` is one of the topics that are consumed; help: choose another name with retry_topic"
                ));
            }
        }
        Ok(())
    }
}

fn once_each(names: impl Iterator<Item = String>) -> Vec<String> {
    names.fold(vec![], |mut known, name| {
        if !known.contains(&name) {
            known.push(name);
        }
        known
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(main: &[&str]) -> Topics {
        Topics { main: main.iter().map(|&name| name.to_owned()).collect(), ..Topics::default() }
    }

    #[test]
    fn each_topic_has_topics_of_its_own_for_copies() {
        let topics = topics(&["orders", "refunds"]);
        assert_eq!(topics.consumed(), ["orders", "refunds", "orders.retry", "refunds.retry"]);
        assert_eq!(topics.all().len(), 8);
        assert_eq!(topics.dead_letters("orders"), "orders.dead");
        assert_eq!(topics.parked("refunds"), "refunds.parked");
        assert_eq!(topics.home("orders", Some("refunds")), "orders");
        assert_eq!(topics.home("orders.retry", Some("orders")), "orders");
        assert_eq!(topics.home("refunds.retry", None), "refunds");
        topics.check().unwrap();
    }

    #[test]
    fn topics_may_share_those_of_copies() {
        let mut topics = topics(&["orders", "refunds"]);
        topics.retries = Retries::Topic(Some("later".to_owned()));
        topics.dead_letters = Some("dead".to_owned());
        topics.parked = Some("parked".to_owned());
        assert_eq!(topics.all(), ["orders", "refunds", "later", "dead", "parked"]);
        assert_eq!(topics.home("later", Some("refunds")), "refunds");
        assert_eq!(topics.home("later", Some("elsewhere")), "orders");
        topics.retries = Retries::InPlace;
        assert_eq!(topics.consumed(), ["orders", "refunds"]);
        assert_eq!(topics.retry("orders"), None);
    }

    #[test]
    fn topics_that_do_not_go_together_are_refused() {
        let mut loops = topics(&["orders"]);
        loops.dead_letters = Some("orders".to_owned());
        let mut retries = topics(&["orders", "later"]);
        retries.retries = Retries::Topic(Some("later".to_owned()));
        for (topics, text) in [
            (topics(&[]), "no topic"),
            (topics(&["^orders"]), "a pattern"),
            (loops, "put aside there"),
            (retries, "retry topic of `orders`"),
        ] {
            let error = topics.check().unwrap_err();
            assert!(error.contains(text) && error.contains("help: "), "{error}");
        }
    }
}
