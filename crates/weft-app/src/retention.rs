//! Removal of old runs and other data by the retention settings.

use std::time::Duration;

use weft_core::seam::run_store::{Retention, StoredRun};
use weft_core::{Result, RunKey};

use crate::app::App;
use crate::config::RetentionConfig;

/// Interval for removing old data.
// Retention is configured in days, so an hour more does not matter.
const EVERY: Duration = Duration::from_secs(3_600);
/// Number of runs removed in one batch.
const AT_ONCE: u64 = 500;
const DAY_MS: i64 = 86_400_000;
/// Number of days that a budget of a month looks back at most, besides today.
const MONTH_DAYS: i64 = 31;

impl RetentionConfig {
    /// Returns the rules as of this moment; `None` if all runs are kept.
    pub fn rules(&self, now_ms: i64) -> Option<Retention> {
        let days = i64::try_from(self.runs_days).unwrap_or(i64::MAX).saturating_mul(DAY_MS);
        let rules = Retention {
            ended_before_ms: (self.runs_days > 0).then(|| now_ms.saturating_sub(days)),
            per_session_max: (self.runs_per_session > 0).then_some(self.runs_per_session),
        };
        (rules != Retention::default()).then_some(rules)
    }
}

impl RetentionConfig {
    /// Returns the time before which files of conversations are removed; `None` if none are.
    fn files_before(&self, now_ms: i64) -> Option<i64> {
        let days = i64::try_from(self.files_days).unwrap_or(i64::MAX).saturating_mul(DAY_MS);
        (self.files_days > 0).then(|| now_ms.saturating_sub(days))
    }
}

impl App {
    /// Removes the runs of all tenants that these rules exclude, in batches; calls `told` with each batch before it
    /// is removed. Returns their number.
    ///
    /// # Errors
    /// When the store cannot be read or written, or `told` fails.
    pub async fn prune<E: From<weft_core::Error>>(
        &self,
        rules: &Retention,
        mut told: impl FnMut(&[StoredRun]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut removed = 0;
        for tenant in self.all_tenants().await? {
            loop {
                let runs = self.runs.expired(&tenant, rules, AT_ONCE).await?;
                told(&runs)?;
                let keys: Vec<RunKey> = runs.into_iter().map(|run| run.key).collect();
                let gone = self.runs.remove(&keys).await?;
                removed += gone;
                // Runs that cannot be removed would be found again for ever.
                if gone == 0 || (keys.len() as u64) < AT_ONCE {
                    break;
                }
            }
        }
        Ok(removed)
    }

    /// Removes expired sign-ins, and old entries of the audit log.
    async fn keep_accounts_short(&self) -> Result<()> {
        let (now_ms, stores) = (self.clock.now_ms(), &self.accounts.stores);
        let removed = stores.users.remove_expired_logins(now_ms).await?;
        tracing::debug!(removed, "expired sign-ins are removed");
        let days = i64::try_from(self.accounts.config.audit_days).unwrap_or(i64::MAX);
        if days > 0 {
            let before_ms = now_ms.saturating_sub(days.saturating_mul(DAY_MS));
            let removed = stores.audit.remove_audit_before(before_ms).await?;
            tracing::debug!(removed, "old entries of the audit log are removed");
        }
        Ok(())
    }

    /// Removes the usage of models from more than this many days ago, and adds up that of runs.
    async fn forget_usage(&self, days: u64) -> Result<()> {
        let Some(days) = i64::try_from(days).ok().filter(|days| *days > 0) else { return Ok(()) };
        let today = self.clock.now_ms().div_euclid(DAY_MS);
        let before_day = today.saturating_sub(days);
        let folded_before = today.saturating_sub(days.max(MONTH_DAYS));
        for tenant in self.all_tenants().await? {
            let removed = self.uses.prune_usage(&tenant, before_day).await?;
            let folded = self.spending.fold_days(&tenant, folded_before).await?;
            tracing::debug!(%tenant, removed, folded, "old usage records are removed");
        }
        Ok(())
    }

    /// Removes the outcomes of ingestions from more than this many days ago.
    async fn forget_readings(&self, days: u64) -> Result<()> {
        let Some(days) = i64::try_from(days).ok().filter(|days| *days > 0) else { return Ok(()) };
        let before_ms = self.clock.now_ms().saturating_sub(days.saturating_mul(DAY_MS));
        let removed = self.readings.forget_readings(before_ms).await?;
        tracing::debug!(removed, "old records of document processing are removed");
        Ok(())
    }

    /// Removes versions of assistants' canvases that no run needs any longer.
    async fn forget_versions(&self) -> Result<()> {
        let before_ms = self.clock.now_ms().saturating_sub(DAY_MS);
        for tenant in self.all_tenants().await? {
            let removed = self.versions.remove_unused_versions(&tenant, before_ms).await?;
            tracing::debug!(%tenant, removed, "unused versions of assistants are removed");
        }
        Ok(())
    }

    /// Removes files of the file manager that were never completely stored.
    async fn clear_files_away(&self) -> Result<()> {
        for tenant in self.all_tenants().await? {
            let removed = self.file_manager.clear_away(&tenant).await?;
            tracing::debug!(%tenant, removed, "leftovers of incomplete uploads are removed");
        }
        Ok(())
    }

    /// Periodically removes old data. Never returns.
    pub async fn keep_what_counts(&self, config: &RetentionConfig) {
        loop {
            // A failure of one step must not stop the others.
            if let Some(rules) = config.rules(self.clock.now_ms()) {
                match self.prune(&rules, |_| Ok::<(), weft_core::Error>(())).await {
                    Ok(0) => {}
                    Ok(removed) => tracing::info!(removed, "runs that need not be kept are removed"),
                    Err(error) => {
                        tracing::warn!(
                            error = error.detail(),
                            "runs that need not be kept could not be removed"
                        );
                    }
                }
            }
            if let Some(before_ms) = config.files_before(self.clock.now_ms()) {
                match self.remove_old_files(before_ms).await {
                    Ok(0) => {}
                    Ok(removed) => tracing::info!(removed, "old files of conversations are removed"),
                    Err(error) => {
                        tracing::warn!(
                            error = error.detail(),
                            "old files of conversations could not be removed"
                        );
                    }
                }
            }
            if let Err(error) = self.forget_versions().await {
                tracing::warn!(error = error.detail(), "unused versions could not be removed");
            }
            if let Err(error) = self.forget_usage(config.usage_days).await {
                tracing::warn!(error = error.detail(), "old usage records could not be removed");
            }
            if let Err(error) = self.forget_readings(config.readings_days).await {
                tracing::warn!(
                    error = error.detail(),
                    "old records of document processing could not be removed"
                );
            }
            if let Err(error) = self.clear_files_away().await {
                tracing::warn!(
                    error = error.detail(),
                    "leftovers of incomplete uploads could not be removed"
                );
            }
            if let Err(error) = self.keep_accounts_short().await {
                tracing::warn!(
                    error = error.detail(),
                    "expired sign-ins or old entries of the audit log could not be removed"
                );
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::TenantId;
    use weft_core::budget::Spent;
    use weft_core::seam::run_store::RunLease;
    use weft_core::seam::spending_store::FOLDED_DAY;

    use super::*;
    use crate::{Config, DEFAULT_TENANT, assemble_in_memory};

    #[tokio::test]
    async fn old_usage_of_runs_becomes_a_sum_but_not_that_of_a_month() {
        let app = assemble_in_memory(&Config::default()).await.unwrap();
        let tenant = TenantId::new(DEFAULT_TENANT);
        let run = StoredRun::begun(RunKey::new(&tenant, "r"), "s", "c", 1);
        app.runs.create(&run).await.unwrap();
        let today = app.clock.now_ms().div_euclid(DAY_MS);
        for (days_ago, tokens) in [(500, 1), (40, 2), (20, 3), (0, 4)] {
            let spent = Spent { tokens, ..Spent::default() };
            app.spending.note(&RunLease::of(&run), today - days_ago, spent).await.unwrap();
        }
        let days = async || app.spending.days(&tenant, 0, 9).await.unwrap().len();
        for (kept_days, listed) in [(0, 4), (u64::MAX, 4), (400, 3), (1, 2)] {
            app.forget_usage(kept_days).await.unwrap();
            assert_eq!(days().await, listed, "{kept_days}");
        }
        assert_eq!(app.spending.spent(&tenant, None, FOLDED_DAY).await.unwrap().tokens, 4);
    }

    #[test]
    fn nothing_is_removed_unless_the_settings_say_so() {
        const DAY: i64 = 86_400_000;
        let check = |runs_days, runs_per_session, ended_before_ms, per_session_max| {
            let rules = RetentionConfig { runs_days, runs_per_session, ..RetentionConfig::default() }
                .rules(100 * DAY);
            assert_eq!(rules.unwrap_or_default(), Retention { ended_before_ms, per_session_max });
        };
        assert_eq!(RetentionConfig::default().rules(100 * DAY), None);
        let files =
            |files_days| RetentionConfig { files_days, ..RetentionConfig::default() }.files_before(100 * DAY);
        assert_eq!([0, 90, u64::MAX].map(files), [None, Some(10 * DAY), Some(100 * DAY - i64::MAX)]);
        check(30, 0, Some(70 * DAY), None);
        check(0, 5, None, Some(5));
        check(u64::MAX, 1, Some(100 * DAY - i64::MAX), Some(1));
    }
}
