//! `weft tenant`: managing tenants, which have separate agents, datasets and keys.

use std::time::Duration;

use serde_json::json;
use weft_app::accounts::{Audited, CLI};
use weft_app::{App, DEFAULT_TENANT};
use weft_core::{ErrorKind, TenantId};

use crate::args::{TenantCommand, TenantListArgs, TenantRemoveArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes, harmless};
use crate::setup::Setup;
use crate::words::{must_be_confirmed, quoted};

/// Lists and removes tenants, even while a server runs on the same store.
///
/// # Errors
/// When there is no such tenant, or the store cannot be used.
pub(crate) async fn run(command: &TenantCommand, setup: &Setup) -> Outcome {
    let app = setup.open().await?;
    let done = match command {
        TenantCommand::List(args) => list(args, &app).await,
        TenantCommand::Remove(args) => remove(args, &app).await,
    };
    app.shut_down(Duration::ZERO).await?;
    done
}

async fn list(args: &TenantListArgs, app: &App) -> Outcome {
    let mut data = Data::stdout();
    for tenant in app.all_tenants().await? {
        if args.json {
            data.line(&json!({"id": tenant}).to_string())?;
        } else {
            data.line(&harmless(tenant.as_str()))?;
        }
    }
    data.flush()?;
    Ok(Exit::Done)
}

async fn remove(args: &TenantRemoveArgs, app: &App) -> Outcome {
    // An existing tenant can be removed even if its name would not be allowed for a new one.
    let id = TenantId::new(args.tenant.as_str());
    let unknown = || {
        Failure::usage(format!("there is no tenant {}", quoted(id.as_str())))
            .help("`weft tenant list` lists the tenants")
    };
    // An unknown tenant needs no confirmation.
    if args.confirm.as_deref() != Some(id.as_str()) && !app.all_tenants().await?.contains(&id) {
        return Err(unknown());
    }
    must_be_confirmed("the tenant", id.as_str(), args.confirm.as_deref())?;
    app.remove_tenant(&id).await.map_err(|error| match error.kind {
        ErrorKind::NotFound => unknown(),
        _ => error.into(),
    })?;
    // Its own log was removed with it.
    let (log, target) = (TenantId::new(DEFAULT_TENANT), id.as_str());
    let action = "remove tenant";
    app.note(Audited { tenant: &log, actor: CLI, action, target, outcome: 0, address: "" }).await;
    Notes::line(format!("removed the tenant {} and everything that it had", quoted(id.as_str())));
    Ok(Exit::Done)
}
