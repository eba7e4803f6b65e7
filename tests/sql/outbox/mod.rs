//! The outbox on PostgreSQL and MariaDB.

mod killed;
mod mariadb;
mod postgres;
#[allow(dead_code)]
mod receiver;
mod scenarios;
