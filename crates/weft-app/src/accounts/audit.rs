//! The audit log: who did what, and who was refused.

use weft_core::access::Permission;
use weft_core::seam::audit_store::AuditEntry;
use weft_core::{TenantId, id};

use crate::app::App;
use crate::config::AuditLevel;

/// Outcome of a request for which its caller has no permission.
pub const REFUSED: u16 = 103;

/// Actor of the command line.
pub const CLI: &str = "cli";

/// Maximum length of the action, the target and the address of an entry, in characters. Longer ones are cut: a caller
/// chooses some of them, and need not even have the permission for what it asks for.
const NOTED_CHARS_MAX: usize = 1_000;

/// An action to log.
#[derive(Clone, Copy, Debug)]
pub struct Audited<'a> {
    /// The tenant whose data it concerns.
    pub tenant: &'a TenantId,
    /// The actor, as in [`AuditEntry::actor`].
    pub actor: &'a str,
    /// The action.
    pub action: &'a str,
    /// Its target.
    pub target: &'a str,
    /// 0, or the code of the failure.
    pub outcome: u16,
    /// The network address.
    pub address: &'a str,
}

/// Returns whether a request is logged. A refused one always is, unless the log is off.
pub fn is_noted(level: AuditLevel, permission: Permission, outcome: u16) -> bool {
    match level {
        AuditLevel::Off => false,
        AuditLevel::All => true,
        AuditLevel::Changes => permission >= Permission::Edit || outcome == REFUSED,
    }
}

impl App {
    /// Adds to the audit log, unless it is off. A failure to write it is only reported in the program's log, and does
    /// not fail the action.
    pub async fn note(&self, noted: Audited<'_>) {
        if self.accounts.config.audit == AuditLevel::Off {
            return;
        }
        let entry = AuditEntry {
            tenant: noted.tenant.clone(),
            at_ms: self.clock.now_ms(),
            id: id::generate(),
            actor: noted.actor.to_owned(),
            action: cut(noted.action),
            target: cut(noted.target),
            outcome: noted.outcome,
            address: cut(noted.address),
        };
        if let Err(error) = self.accounts.stores.audit.add_audit(&entry).await {
            tracing::error!(
                error = error.detail(),
                audit.actor = entry.actor,
                audit.action = entry.action,
                audit.target = entry.target,
                audit.outcome = entry.outcome,
                "the audit log could not be written"
            );
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(NOTED_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use weft_core::seam::audit_store::AuditFilter;

    use super::*;
    use crate::{Config, assemble_in_memory};

    #[tokio::test]
    async fn an_entry_has_a_maximum_size() {
        let app = assemble_in_memory(&Config::default()).await.unwrap();
        let (tenant, long) = (TenantId::new("t"), "é".repeat(NOTED_CHARS_MAX + 1));
        let noted = Audited {
            tenant: &tenant,
            actor: CLI,
            action: &long,
            target: &long,
            outcome: REFUSED,
            address: "",
        };
        app.note(noted).await;
        let all = AuditFilter { limit: 9, ..AuditFilter::default() };
        let entries = app.accounts.stores.audit.audit(&tenant, &all).await.unwrap();
        let lengths = entries.iter().map(|one| (one.action.chars().count(), one.target.chars().count()));
        assert_eq!(lengths.collect::<Vec<_>>(), [(NOTED_CHARS_MAX, NOTED_CHARS_MAX)]);
    }

    #[test]
    fn the_audit_level_decides_which_requests_are_recorded() {
        use Permission::{Administer, Edit, Read, Run};
        let noted = |level, outcome| Permission::ALL.map(|permission| is_noted(level, permission, outcome));
        assert_eq!([Read, Run, Edit, Administer], Permission::ALL);
        assert_eq!(noted(AuditLevel::Changes, 0), [false, false, true, true]);
        assert_eq!(noted(AuditLevel::Changes, 102), [false, false, true, true]);
        assert_eq!(noted(AuditLevel::Changes, 103), [true; 4]);
        assert_eq!(noted(AuditLevel::All, 0), [true; 4]);
        assert_eq!(noted(AuditLevel::Off, 103), [false; 4]);
    }
}
