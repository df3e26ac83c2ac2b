//! Messages to runs, with injected faults.

use futures::FutureExt as _;
use weft_core::id::{ProcessId, RunKey};
use weft_core::seam::RunMessages;
use weft_core::seam::run_messages::RunMessage;
use weft_core::{Result, async_trait};

use super::{CallEffect, FaultyStore};

#[async_trait]
impl RunMessages for FaultyStore {
    async fn leave_message(&self, message: &RunMessage) -> Result<bool> {
        let message = message.clone();
        self.call(CallEffect::Something, |s| async move { s.leave_message(&message).await }.boxed()).await
    }

    async fn messages_for(&self, owner: &ProcessId, count_max: u64) -> Result<Vec<RunMessage>> {
        let owner = owner.clone();
        self.call(CallEffect::Nothing, |s| async move { s.messages_for(&owner, count_max).await }.boxed())
            .await
    }

    async fn message_waits(&self, run: &RunKey, id: &str) -> Result<bool> {
        let (run, id) = (run.clone(), id.to_owned());
        self.call(CallEffect::Nothing, |s| async move { s.message_waits(&run, &id).await }.boxed()).await
    }

    async fn remove_messages(&self, run: &RunKey, ids: &[String]) -> Result<u64> {
        let (run, ids) = (run.clone(), ids.to_vec());
        self.call(CallEffect::Something, |s| async move { s.remove_messages(&run, &ids).await }.boxed()).await
    }
}
