//! Real RabbitMQ servers.
