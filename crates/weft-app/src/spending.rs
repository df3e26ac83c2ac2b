//! Usage of runs, by canvas and day.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use weft_core::seam::spending_store::DaySpent;
use weft_core::seam::usage_store::{UsageBy, UsageFilter, UsageLine};
use weft_core::{Result, TenantId};

use crate::app::App;

/// Milliseconds in a day.
const DAY_MS: i64 = 86_400_000;

/// Maximum number of lines in one answer.
const LINES_MAX: u64 = 10_000;

impl App {
    /// Returns the usage of a tenant's runs in the last days, including today; latest day first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn spending(&self, tenant: &TenantId, days: u32) -> Result<Vec<DaySpent>> {
        let today = self.clock.now_ms().div_euclid(DAY_MS);
        let since = today.saturating_sub(i64::from(days).saturating_sub(1));
        self.spending.days(tenant, since, LINES_MAX).await
    }
}

/// Maximum number of days in a report; older usage is removed by default.
pub const USAGE_DAYS_MAX: u32 = 3_660;

impl App {
    /// Returns the usage of models by a tenant's runs in the last days, including today: a line per combination of
    /// these dimensions, the most expensive first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn usage(
        &self,
        tenant: &TenantId,
        by: Vec<UsageBy>,
        only: Vec<(UsageBy, String)>,
        days: u32,
    ) -> Result<Vec<UsageLine>> {
        let today = self.clock.now_ms().div_euclid(DAY_MS);
        let since_day = today.saturating_sub(i64::from(days.min(USAGE_DAYS_MAX)).saturating_sub(1));
        self.uses.usage(tenant, &UsageFilter { since_day, only, by, limit: LINES_MAX }).await
    }
}

/// Parses a date such as `2026-01-31` into the number of the day.
pub fn day_number(date: &str) -> Option<i64> {
    let date: jiff::civil::Date = date.parse().ok()?;
    let midnight = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some(midnight.as_millisecond().div_euclid(DAY_MS))
}

/// Formats a day as `2026-01-31`; empty outside the calendar.
pub fn day(day: i64) -> String {
    let time = day.checked_mul(DAY_MS).and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map(|time| time.to_zoned(TimeZone::UTC).date().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_numbers_and_dates_convert_both_ways() {
        assert_eq!(day_number("2024-02-29"), Some(19_782));
        assert_eq!(["", "2024-02-30", "yesterday"].map(day_number), [None; 3]);
        assert_eq!([day(0), day(19_782), day(i64::MAX)], ["1970-01-01", "2024-02-29", ""]);
    }
}
