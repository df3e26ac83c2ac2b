//! `weft audit`: prints the audit log.

use std::time::Duration;

use serde_json::json;
use weft_app::App;
use weft_core::seam::audit_store::{AuditEntry, AuditFilter, AuditPosition};
use weft_engine::session::date;

use crate::args::AuditArgs;
use crate::failure::{Exit, Outcome};
use crate::screen::{Data, Notes, harmless};
use crate::setup::Setup;
use crate::token::tenant;

/// Number of entries read in one batch.
const AT_ONCE: u64 = 500;

/// Prints the audit log of a tenant, the oldest entry first.
///
/// # Errors
/// When the store cannot be used.
pub(crate) async fn run(args: &AuditArgs, setup: &Setup) -> Outcome {
    let app = setup.open().await?;
    let done = print(args, &app).await;
    // Even after a failure, so that pending writes are completed.
    app.shut_down(Duration::ZERO).await?;
    done
}

async fn print(args: &AuditArgs, app: &App) -> Outcome {
    let tenant = tenant(&args.tenant)?;
    let mut data = Data::stdout();
    let mut filter =
        AuditFilter { actor: args.actor.clone(), ascending: true, limit: AT_ONCE, ..AuditFilter::default() };
    loop {
        let entries = app.accounts.stores.audit.audit(&tenant, &filter).await?;
        let Some(last) = entries.last() else { break };
        // By position rather than by offset, because entries are added meanwhile.
        filter.after = Some(AuditPosition { at_ms: last.at_ms, id: last.id.clone() });
        for entry in &entries {
            data.line(&harmless(&if args.json { as_json(entry).to_string() } else { as_text(entry) }))?;
        }
    }
    if filter.after.is_none() {
        Notes::line("no matching entries in the audit log");
    }
    data.flush()?;
    Ok(Exit::Done)
}

fn as_json(entry: &AuditEntry) -> serde_json::Value {
    json!({
        "time": date(entry.at_ms),
        "actor": entry.actor,
        "action": entry.action,
        "target": entry.target,
        "code": entry.outcome,
        "address": entry.address,
    })
}

/// Formats an entry: `2026-01-31 …  user:4f…  PUT /api/v1/agents/{id}  /api/v1/agents/shop  0  ::1`
fn as_text(entry: &AuditEntry) -> String {
    let AuditEntry { at_ms, actor, action, target, outcome, address, .. } = entry;
    format!("{}  {actor}  {action}  {target}  {outcome}  {address}", date(*at_ms))
}
