//! Kafka, by the mock cluster of librdkafka.
