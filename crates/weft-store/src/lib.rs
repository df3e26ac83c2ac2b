//! canvas JSON → plan → run → components → events → API: **persistent storage**
//!
//! Stores canvases, sessions, runs with their journals, datasets, tokens, secrets and accepted tools in SQLite,
//! PostgreSQL or MariaDB, with one set of tables and one set of queries. [`Store::open`] is the only entry point. The
//! files of agents are in a folder ([`FolderWorkspace`]), and so are uploads ([`FolderBlobs`]). Files of
//! conversations use both a folder and the database ([`Files`]); [`Folders`] are those of the file manager.

mod attempts;
mod batch;
mod blobs;
mod compact;
mod compress;
mod datasets;
mod failure;
mod ids;
mod journal;
mod known_runs;
mod lane;
mod memory_blobs;
mod migration;
mod open;
mod opened_file;
mod pace;
mod pack;
mod pieces;
mod place;
pub mod private;
mod quotas;
mod reader;
mod rows;
mod session_dictionary;
mod sqlite;
mod sqlite_writer;
mod tenant_folder;
mod vault;
mod workspace;
mod write_gate;

pub use blobs::FolderBlobs;
pub use failure::failures;
pub use memory_blobs::MemoryBlobs;
pub use open::Store;
pub use rows::file::{FileLimits, Files};
pub use rows::folder_entry::Folders;
pub use tenant_folder::tenant_folder;
pub use vault::{KeyPlace, SealedCredentials, SealedToolServers, Vault, VaultKey};
pub use workspace::FolderWorkspace;
