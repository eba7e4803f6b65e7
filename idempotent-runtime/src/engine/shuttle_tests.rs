//! Callers, leases and whole calls that race, under the concurrency checker.
//!
//! Time stands still unless a scenario moves it, so whoever is not woken waits for ever, which the
//! checker reports.

mod calls;
mod counting;
mod flights;
mod registry;
mod remote;
