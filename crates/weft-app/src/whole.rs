//! Work that runs to completion even if its caller goes away: it removes its own temporary data, and its writes
//! happen completely or not at all.

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use weft_core::{Error, Result};

use crate::app::App;

impl App {
    /// Runs work that is not interrupted. The token is cancelled when the caller no longer waits for the outcome; the
    /// work may then end earlier.
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
        // A task of its own, because the caller's future may be dropped.
        let done = self.unfinished.spawn(work(given_up).in_current_span()).await;
        done.map_err(|cause| Error::internal("a request stopped unexpectedly").because(cause))
    }

    /// Starts work that nobody waits for, except a shutdown within its grace period. Has no effect once the runtime
    /// has ended, so that it can be called while a value is dropped.
    pub fn afterwards(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = Handle::try_current() {
            drop(self.unfinished.spawn_on(work.in_current_span(), &runtime));
        }
    }
}
