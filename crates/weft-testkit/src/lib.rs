//! What tests stand on: models and servers that play a script, an `Http` that never dials, stores in
//! memory, and the contracts that every implementation of a seam keeps.

pub mod around;
pub mod contracts;
pub mod dice;
pub mod fake_http;
pub mod faulty_store;
pub mod hash_embedder;
pub mod memory_datasets;
pub mod memory_files;
pub mod memory_folders;
pub mod memory_secrets;
pub mod memory_store;
pub mod memory_tool_servers;
pub mod memory_workspace;
pub mod mock_wires;
pub mod open_task;
pub mod scripted_reranker;
pub mod scripted_sandbox;
pub mod scripted_server;
pub mod search_server;
pub mod skip;
pub mod steady;
pub mod voice;
pub mod wasm_tool;

pub use dice::Dice;
pub use fake_http::FakeHttp;
pub use faulty_store::{FaultRates, FaultyStore};
pub use hash_embedder::HashEmbedder;
pub use memory_datasets::{MemoryBlobs, MemoryDatasets};
pub use memory_files::MemoryFiles;
pub use memory_folders::MemoryFolders;
pub use memory_secrets::MemorySecrets;
pub use memory_tool_servers::MemoryToolServers;
pub use memory_workspace::MemoryWorkspace;
pub use mock_wires::Wire;
pub use open_task::open_task;
pub use scripted_reranker::ScriptedReranker;
pub use scripted_sandbox::ScriptedSandbox;
pub use scripted_server::{ScriptedServer, SeenRequest};
pub use search_server::{SearchServer, SeenSearch};
pub use skip::skipped;
pub use steady::steady;
pub use voice::{Voice, WithVoice};
pub use wasm_tool::WasmToolText;
pub use weft_models::{Reply, Script, ScriptedModel, Step};
