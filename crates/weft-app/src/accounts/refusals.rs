//! What operators learn of sign-ins: counts, and the first refusal of each limit.

use std::time::Duration;

use weft_core::counts::{Counts, Label};

use super::{Accounts, Attempts, SignInRefusal};

/// The outcome of a sign-in, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInResult {
    /// The user is signed in.
    Succeeded,
    /// The account does not exist, or the password is wrong.
    Mismatch,
    /// The account is disabled.
    Disabled,
    /// The user does not belong to the tenant.
    NoTenant,
    /// Too many attempts.
    TooMany,
    /// Another failure.
    Failed,
}

impl Label for SignInResult {
    const ALL: &'static [Self] =
        &[Self::Succeeded, Self::Mismatch, Self::Disabled, Self::NoTenant, Self::TooMany, Self::Failed];

    fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Mismatch => "mismatch",
            Self::Disabled => "disabled",
            Self::NoTenant => "no_tenant",
            Self::TooMany => "too_many",
            Self::Failed => "failed",
        }
    }
}

/// Whether a refusal for too many attempts is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusals {
    /// It is the first one of its limit in this period.
    First,
    /// Others came before, which have been reported.
    Repeated,
}

impl Accounts {
    /// Returns the number of sign-ins that were tried in this process, by outcome.
    pub fn sign_ins(&self) -> &Counts<SignInResult> {
        &self.limits.sign_ins
    }

    pub(super) fn count_sign_in<T>(&self, done: &Result<T, SignInRefusal>) {
        let result = match done {
            Ok(_) => SignInResult::Succeeded,
            Err(SignInRefusal::Mismatch) => SignInResult::Mismatch,
            Err(SignInRefusal::Disabled) => SignInResult::Disabled,
            Err(SignInRefusal::NoTenant) => SignInResult::NoTenant,
            Err(SignInRefusal::TooMany(_)) => SignInResult::TooMany,
            Err(SignInRefusal::Failed(_)) => SignInResult::Failed,
        };
        self.limits.sign_ins.add(result, 1);
    }

    /// Logs the first refusal of a limit in each period: whoever guesses could fill the log with all of them.
    pub(super) fn refused(&self, limit: &Attempts, address: &str, now: Duration) -> Refusals {
        if !self.limits.refusals.take(limit, Self::rate(1), now) {
            return Refusals::Repeated;
        }
        // Without what was typed as the account, which may be a password; the audit log has it.
        let setting = limit.setting();
        tracing::warn!(
            client.address = address,
            setting,
            "sign-ins are refused after too many wrong passwords"
        );
        Refusals::First
    }
}

impl Attempts {
    /// Returns the setting that limits these.
    fn setting(&self) -> &'static str {
        match self {
            Self::Account(..) => "accounts.sign_in_attempts",
            Self::Everywhere(_) => "accounts.sign_in_attempts (from all addresses)",
            Self::Address(_) | Self::Begun(_) => "accounts.sign_in_attempts_per_address",
        }
    }
}
