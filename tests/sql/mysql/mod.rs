//! Records in MariaDB, with the statements that MySQL takes too.

mod errors;
mod faults;
mod processes;
mod records;
mod round_trips;
mod settings;
mod site;
mod store;
mod subject;
mod transact;
mod within;
