//! Handlers in transactions: the response and the rows commit together, as clients see it over real
//! sockets.

mod departures;
mod failures;
mod races;
mod rules;
mod shop;
