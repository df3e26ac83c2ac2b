//! canvas → components → **databases of others**: statements that read, within limits.
//!
//! Three things keep a statement from changing anything, each on its own: it is parsed and has to be one that reads,
//! to call nothing that does more, and to be read by its server as it is here (`statements`, `rewrites`, `effects`, `misreadings`); it is handed over in a way that takes one statement only; and it is carried out in a transaction
//! that the server lets read and nothing else. Servers are reached by way of `weft-net`, which checks and pins the
//! address and ends what sends too much.

mod cell;
mod chains;
mod clients;
mod effects;
mod misreadings;
mod mysql;
mod postgres;
mod reply;
mod rewrites;
mod sqlite;
mod statements;

pub use clients::{DatabaseClients, OwnDatabase, SqliteFolder};
