//! Records in PostgreSQL.

mod claims;
mod commits;
mod connections;
mod errors;
mod faults;
mod last_statement;
mod looks;
mod marks;
mod new_keys;
mod pgbouncer;
mod processes;
mod records;
mod round_trips;
mod savepoints;
mod shop;
mod site;
mod store;
mod subject;
mod tokio_transact;
mod transact;
mod waiters;
mod within;
