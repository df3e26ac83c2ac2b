//! Limits on how many objects of a kind a tenant may keep, so that one tenant does not fill the store of all.

use crate::error::{Error, ErrorKind, Result};

/// A kind of objects that are limited in number per tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedKind {
    /// API keys.
    ApiKeys,
    /// Canvases: agents, ingestion pipelines, and those that chat assistants run on.
    Canvases,
    /// Chat assistants and search apps.
    Chats,
    /// Datasets.
    Datasets,
    /// Sessions.
    Sessions,
}

impl LimitedKind {
    /// The objects as people call them.
    fn name(self) -> &'static str {
        match self {
            Self::ApiKeys => "API keys",
            Self::Canvases => "canvases",
            Self::Chats => "chat assistants and search apps",
            Self::Datasets => "datasets",
            Self::Sessions => "sessions",
        }
    }

    /// The setting with the limit.
    fn setting(self) -> &'static str {
        match self {
            Self::ApiKeys => "limits.tenant_api_keys",
            Self::Canvases => "limits.tenant_canvases",
            Self::Chats => "limits.tenant_chats",
            Self::Datasets => "limits.tenant_datasets",
            Self::Sessions => "limits.tenant_sessions",
        }
    }
}

/// Maximum numbers of objects per tenant; 0 means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantQuotas {
    /// API keys.
    pub api_keys: u64,
    /// Canvases.
    pub canvases: u64,
    /// Chat assistants and search apps.
    pub chats: u64,
    /// Datasets.
    pub datasets: u64,
    /// Sessions.
    pub sessions: u64,
}

impl TenantQuotas {
    /// Returns the limit of a kind; `None` means unlimited, and nothing has to be counted.
    pub fn limit(self, kind: LimitedKind) -> Option<u64> {
        let limit = match kind {
            LimitedKind::ApiKeys => self.api_keys,
            LimitedKind::Canvases => self.canvases,
            LimitedKind::Chats => self.chats,
            LimitedKind::Datasets => self.datasets,
            LimitedKind::Sessions => self.sessions,
        };
        (limit > 0).then_some(limit)
    }

    /// Checks whether a tenant with `count` objects of a kind may have another one.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn check(self, kind: LimitedKind, count: u64) -> Result<()> {
        match self.limit(kind) {
            Some(limit) if count >= limit => {
                let name = kind.name();
                let message = format!("there are {count} {name} already; the maximum is {limit}");
                let help = format!("remove some, or let an operator raise {}", kind.setting());
                Err(Error::new(ErrorKind::QuotaExceeded, message).help(help))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_refuses_when_it_is_reached_and_not_before() {
        let quotas = TenantQuotas { datasets: 2, ..TenantQuotas::default() };
        for count in [0, 1] {
            assert!(quotas.check(LimitedKind::Datasets, count).is_ok(), "{count}");
        }
        for count in [2, 3, u64::MAX] {
            let refused = quotas.check(LimitedKind::Datasets, count).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::QuotaExceeded);
            let words = refused.full();
            assert!(words.contains("datasets") && words.contains("limits.tenant_datasets"), "{words}");
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let none = TenantQuotas::default();
        for kind in [
            LimitedKind::ApiKeys,
            LimitedKind::Canvases,
            LimitedKind::Chats,
            LimitedKind::Datasets,
            LimitedKind::Sessions,
        ] {
            assert_eq!(none.limit(kind), None);
            assert!(none.check(kind, u64::MAX).is_ok(), "{}", kind.setting());
        }
    }
}
