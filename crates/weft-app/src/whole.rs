//! Work that goes to its end, also when whoever has asked for it is gone by then: what it keeps for a while it removes itself, and
//! what it has begun to store is there or is not.

use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use weft_core::{Error, Result};

use crate::app::App;

impl App {
    /// Does work that nothing cuts off in the middle. What it is given says when nobody waits for its outcome any more; it may end
    /// sooner then.
    ///
    /// # Errors
    /// `Internal` when it stops unexpectedly.
    pub async fn whole<T, F>(&self, work: impl FnOnce(CancellationToken) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let given_up = CancellationToken::new();
        let _gone = given_up.clone().drop_guard();
        let done = self.unfinished.spawn(work(given_up).in_current_span()).await;
        done.map_err(|cause| Error::internal("a request stopped unexpectedly").because(cause))
    }
}
