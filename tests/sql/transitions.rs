//! State machines, locks and versions on servers.

mod mariadb;
mod postgres;
