//! Work that blocks its thread.

use crate::error::{Error, Result};

/// Runs work that computes for long or waits for a disk on a thread of its own, because the asynchronous worker threads
/// serve every run. If it panics, the error says that `what` stopped.
///
/// # Errors
/// Those of the work; `Internal` when it panics.
pub async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::internal(format!("{what} stopped unexpectedly")).because(cause))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[tokio::test]
    async fn a_panic_is_an_error_that_says_what_stopped() {
        let error = blocking("the sum", || -> Result<()> { panic!("it broke") }).await.unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::Internal, "the sum stopped unexpectedly")
        );
        assert_eq!(blocking("the sum", || Ok(3)).await.unwrap(), 3);
    }
}
