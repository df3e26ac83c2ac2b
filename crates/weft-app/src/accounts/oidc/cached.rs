//! A cached response of another server. While that server is unavailable the old response remains valid, and requests
//! are rate-limited.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Mutex;
use weft_core::{Error, ErrorKind, Result};

/// How long a response is fresh, in milliseconds.
const FRESH_MS: i64 = 3_600_000;
/// How long an old response is used if no newer one is available: revoked keys must not remain valid for ever.
const STALE_MS: i64 = 24 * 3_600_000;
/// Pause after a failure before the next request, in milliseconds.
// Otherwise every sign-in would wait for a provider that is down.
const PAUSE_MS: i64 = 5_000;
/// Minimum interval for requesting a response newer than the cached one, in milliseconds.
// Otherwise tokens with invented key ids would cause a request each.
const RENEW_MS: i64 = 60_000;

/// A cached response, or the last failure.
pub(super) struct Cached<T>(Mutex<CachedState<T>>);

struct CachedState<T> {
    value: Option<(Arc<T>, i64)>,
    asked_ms: Option<i64>,
    /// The last failure: its kind, its message, and its remedy.
    failure: Option<(ErrorKind, String, Option<String>)>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::new(CachedState { value: None, asked_ms: None, failure: None }))
    }
}

impl<T> CachedState<T> {
    fn age_ms(&self, now_ms: i64) -> Option<i64> {
        self.value.as_ref().map(|(_, at_ms)| now_ms.saturating_sub(*at_ms))
    }

    fn asked_within(&self, ms: i64, now_ms: i64) -> bool {
        self.asked_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < ms)
    }

    /// Returns the cached result.
    fn known(&self, now_ms: i64) -> Result<Arc<T>> {
        match (&self.value, &self.failure) {
            (Some((value, at_ms)), _) if now_ms.saturating_sub(*at_ms) < STALE_MS => Ok(Arc::clone(value)),
            (_, Some((kind, message, help))) => {
                let error = Error::new(*kind, message.clone());
                Err(Error { help: help.clone(), ..error })
            }
            _ => Err(Error::new(ErrorKind::Unavailable, "the provider has not responded yet")),
        }
    }

    async fn ask(&mut self, asking: impl Future<Output = Result<T>>, now_ms: i64) -> Result<Arc<T>> {
        // Noted before the request, so that one that fails or is dropped counts as well.
        self.asked_ms = Some(now_ms);
        match asking.await {
            Ok(value) => {
                let value = Arc::new(value);
                (self.value, self.failure) = (Some((Arc::clone(&value), now_ms)), None);
                Ok(value)
            }
            Err(error) => {
                tracing::warn!(error = error.detail(), "an OpenID provider could not be reached");
                self.failure = Some((error.kind, error.message.clone(), error.help.clone()));
                self.known(now_ms).map_err(|_| error)
            }
        }
    }
}

impl<T> Cached<T> {
    /// Returns the response, requesting it if there is none that is fresh. Concurrent callers share one request.
    pub(super) async fn get(&self, asking: impl Future<Output = Result<T>>, now_ms: i64) -> Result<Arc<T>> {
        let mut state = self.0.lock().await;
        if state.age_ms(now_ms).is_some_and(|age_ms| age_ms < FRESH_MS)
            || (state.failure.is_some() && state.asked_within(PAUSE_MS, now_ms))
        {
            return state.known(now_ms);
        }
        state.ask(asking, now_ms).await
    }

    /// Returns a new response unless it was requested just before, for callers that have found the cached one to be
    /// insufficient.
    pub(super) async fn renewed(
        &self,
        asking: impl Future<Output = Result<T>>,
        now_ms: i64,
    ) -> Result<Arc<T>> {
        let mut state = self.0.lock().await;
        // A token with an invented key id must not cause a request each time.
        if state.asked_within(RENEW_MS, now_ms) {
            return state.known(now_ms);
        }
        state.ask(asking, now_ms).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn an_answer_is_cached_and_a_failure_is_retried_only_after_a_pause() {
        let (cached, asked) = (Cached::default(), AtomicU32::new(0));
        let answer = async |outcome: Result<u32>| {
            asked.fetch_add(1, Ordering::Relaxed);
            outcome
        };
        let away = || Err(Error::new(ErrorKind::Unavailable, "away"));
        let count = || asked.load(Ordering::Relaxed);
        assert!(cached.get(answer(away()), 0).await.is_err());
        assert!(cached.get(answer(Ok(1)), PAUSE_MS - 1).await.is_err());
        assert_eq!(count(), 1);
        assert_eq!(*cached.get(answer(Ok(1)), PAUSE_MS).await.unwrap(), 1);
        assert_eq!(*cached.get(answer(Ok(2)), FRESH_MS).await.unwrap(), 1);
        assert_eq!(count(), 2);
        assert_eq!(*cached.renewed(answer(Ok(2)), PAUSE_MS + RENEW_MS - 1).await.unwrap(), 1);
        assert_eq!(*cached.renewed(answer(Ok(2)), PAUSE_MS + RENEW_MS).await.unwrap(), 2);
        let then = PAUSE_MS + RENEW_MS;
        assert_eq!(
            *cached.get(answer(away()), then + FRESH_MS).await.unwrap(),
            2,
            "the cached answer is used when a refresh fails"
        );
        assert_eq!(
            *cached.get(answer(Ok(3)), then + FRESH_MS + 1).await.unwrap(),
            2,
            "a failed refresh is not retried at once"
        );
        assert!(cached.get(answer(away()), then + STALE_MS).await.is_err(), "a stale answer expires");
    }
}
