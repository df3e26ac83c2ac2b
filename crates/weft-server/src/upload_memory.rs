//! Memory for files that are being uploaded: all requests of a process together hold a limited amount of it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, code};

/// The unit in which memory is counted, in bytes.
const UNIT: usize = 64 << 10;

/// Maximum time that an upload waits for memory.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The memory of a process for uploaded files that are not stored yet. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct UploadMemory {
    units: Arc<Semaphore>,
    /// For the one file that may exceed the limit: otherwise incomplete files could use up the memory, and all wait
    /// for each other.
    beyond: Arc<Semaphore>,
}

impl UploadMemory {
    /// Creates a memory of this many bytes, in whole units.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let units = bytes_max.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units)), beyond: Arc::new(Semaphore::new(1)) }
    }

    /// Returns the share of a file of which nothing has arrived yet.
    pub(crate) fn share(&self) -> UploadShare {
        UploadShare { memory: self.clone(), units: None, beyond: None }
    }
}

/// What one file takes of the memory, until this is dropped.
#[derive(Debug)]
pub(crate) struct UploadShare {
    memory: UploadMemory,
    units: Option<OwnedSemaphorePermit>,
    /// Present for the file that may exceed the limit, which takes no more units.
    beyond: Option<OwnedSemaphorePermit>,
}

impl UploadShare {
    /// Takes what is missing for a file that has grown to this many bytes.
    ///
    /// # Errors
    /// 503 when other uploads do not return enough memory in time.
    pub(crate) async fn grow_to(&mut self, bytes: usize) -> Result<(), ApiError> {
        let held = self.units.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(UNIT).saturating_sub(held);
        if missing == 0 || self.beyond.is_some() {
            return Ok(());
        }
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let memory = self.memory.clone();
        let waiting = async move {
            tokio::select! {
                // The limit is only exceeded when there is no other memory.
                biased;
                units = memory.units.acquire_many_owned(missing) => (units.ok(), None),
                beyond = memory.beyond.acquire_owned() => (None, beyond.ok()),
            }
        };
        let (units, beyond) = tokio::time::timeout(WAIT_MAX, waiting).await.map_err(|_| full())?;
        self.beyond = beyond;
        if let Some(more) = units {
            match self.units.as_mut() {
                Some(units) => units.merge(more),
                None => self.units = Some(more),
            }
        }
        Ok(())
    }
}

fn full() -> ApiError {
    let message = "other uploads hold all memory for files that are not stored yet; send the files again later, or \
                   have an operator raise `limits.upload_memory_bytes`";
    ApiError::new(code::TOO_MANY, message).with_status(StatusCode::SERVICE_UNAVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_file_may_exceed_the_limit_and_the_others_wait() {
        let memory = UploadMemory::new(2 * UNIT);
        let [mut a, mut b, mut c] = [(); 3].map(|()| memory.share());
        a.grow_to(UNIT).await.unwrap();
        b.grow_to(1).await.unwrap();
        b.grow_to(UNIT).await.unwrap();
        a.grow_to(100 * UNIT).await.unwrap();
        for waiting in [b.grow_to(UNIT + 1).await, c.grow_to(1).await] {
            assert!(waiting.unwrap_err().message().contains("limits.upload_memory_bytes"));
        }
        let other = async {
            tokio::time::sleep(WAIT_MAX / 2).await;
            drop(a);
        };
        let (grown, ()) = tokio::join!(b.grow_to(2 * UNIT), other);
        grown.unwrap();
        c.grow_to(1).await.unwrap();
        assert_eq!((memory.units.available_permits(), memory.beyond.available_permits()), (0, 0));
        drop((b, c));
        assert_eq!((memory.units.available_permits(), memory.beyond.available_permits()), (2, 1));
    }
}
