//! Real NATS servers.
