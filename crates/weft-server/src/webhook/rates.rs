//! How often webhooks are called.

use std::time::Duration;

use weft_app::rates::Rates;
use weft_core::CanvasKey;
use weft_core::webhook::Rate;

use super::Refusal;

/// The message for a call that is one too many.
const LIMITED: &str = "Rate limit error: Too many requests (rate limit exceeded)";

/// The rates of all webhooks. Calls that fail their authentication are counted apart: otherwise anyone could use up
/// the calls of those who know the secret.
#[derive(Debug, Default)]
pub struct CallRates {
    calls: Rates<CanvasKey>,
    failed: Rates<CanvasKey>,
}

impl CallRates {
    /// Counts a call whose authentication had this outcome, and returns the outcome if the rate allows it.
    pub(crate) fn count<T>(
        &self,
        canvas: &CanvasKey,
        rate: Rate,
        now: Duration,
        checked: Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let rates = if checked.is_ok() { &self.calls } else { &self.failed };
        if rates.take(canvas, rate, now) { checked } else { Err(LIMITED.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::TenantId;

    use super::*;

    #[test]
    fn failed_calls_use_up_only_their_own_rate() {
        let (rates, rate) = (CallRates::default(), Rate { limit: 2, per: Duration::from_secs(60) });
        let canvas = CanvasKey::new(&TenantId::from("t"), "a");
        let count = |checked: Result<(), Refusal>| rates.count(&canvas, rate, Duration::ZERO, checked);
        let wrong = || count(Err("wrong".to_owned())).unwrap_err();
        assert_eq!([wrong(), wrong(), wrong()], ["wrong", "wrong", LIMITED]);
        assert_eq!((count(Ok(())), count(Ok(()))), (Ok(()), Ok(())));
        assert_eq!(count(Ok(())), Err(LIMITED.to_owned()));
    }
}
