//! canvas JSON → plan → run → components → events → API: **what outlives a process**
//!
//! Canvases, sessions, runs with their journals, and tokens, in SQLite, PostgreSQL or MariaDB: one
//! set of tables, one set of queries. [`Store::open`] is the one door.

mod failure;
mod ids;
mod journal;
mod lane;
mod migration;
mod open;
mod pack;
mod place;
mod rows;
mod sqlite;
mod turn;

pub use open::Store;
