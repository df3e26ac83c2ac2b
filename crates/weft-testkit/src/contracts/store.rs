//! Contracts of the stores. A suite works in tenants of its own, so it may run against a database with other contents,
//! and repeatedly.

mod canvas;
mod fence;
mod notice;
mod process;
mod run;
mod run_message;
mod schedule;
mod session;
mod spending;
mod task;
mod together;
mod token;
mod tool_pin;
mod usage;
mod version;
mod work;

use std::time::SystemTime;

pub use canvas::canvas_store_keeps_its_contract;
pub use fence::{FencedStores, stores_are_fenced};
pub use notice::notice_store_keeps_its_contract;
pub use process::process_store_keeps_its_contract;
pub use run::run_store_keeps_its_contract;
pub use run_message::run_messages_keep_their_contract;
pub use schedule::schedule_store_keeps_its_contract;
pub use session::session_store_keeps_its_contract;
pub use spending::spending_store_keeps_its_contract;
pub use task::task_store_keeps_its_contract;
pub use together::{stores_keep_large_values, stores_remove_related_data_together};
pub use token::token_store_keeps_its_contract;
pub use tool_pin::pin_store_keeps_its_contract;
pub use usage::usage_store_keeps_its_contract;
pub use version::version_store_keeps_its_contract;
pub use work::work_queue_keeps_its_contract;

use super::{refused, tenant};

/// Longer than the small text types of any database.
const LARGE: usize = 300_000;

/// Waits for the next millisecond of the system clock, so that the next change is later than the last one.
async fn later() {
    let millisecond = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map(|t| t.as_millis()).ok();
    let before = millisecond();
    while millisecond() == before {
        tokio::task::yield_now().await;
    }
}
