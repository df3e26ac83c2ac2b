//! `weft token`: managing API keys.

use std::time::Duration;

use serde_json::json;
use weft_app::accounts::{Audited, CLI};
use weft_app::tokens::NewKey;
use weft_app::{App, DEFAULT_TENANT, tokens};
use weft_core::TenantId;
use weft_core::seam::token_store::{StoredToken, TokenFilter};
use weft_engine::session::date;

use crate::args::{TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::listed::first;
use crate::screen::{Data, Notes, harmless};
use crate::setup::Setup;
use crate::words::{must_be_no_step, quoted};

/// Creates, lists or revokes tokens. A server on the same store looks up the token of each request, so it need not be
/// restarted.
///
/// # Errors
/// When there is no such token, or the store cannot be used.
pub(crate) async fn run(command: &TokenCommand, setup: &Setup) -> Outcome {
    let app = setup.open().await?;
    let done = match command {
        TokenCommand::Create(args) => create(args, &app).await,
        TokenCommand::List(args) => list(args, &app).await,
        TokenCommand::Revoke(args) => revoke(args, &app).await,
    };
    app.shut_down(Duration::ZERO).await?;
    done
}

/// Parses the name of a tenant.
///
/// # Errors
/// When it is not valid.
pub(crate) fn tenant(name: &str) -> Outcome<TenantId> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Failure::usage("the name of a tenant must be one line and not empty"));
    }
    must_be_no_step("a tenant", name)?;
    Ok(TenantId::new(name))
}

/// Checks that a tenant exists: a typing error would look like a tenant without anything.
///
/// # Errors
/// When it does not, or the store cannot be read.
pub(crate) async fn check_known(app: &App, tenant: &TenantId) -> Outcome<()> {
    if app.all_tenants().await?.contains(tenant) {
        return Ok(());
    }
    Err(Failure::usage(format!("there is no tenant {}", quoted(tenant.as_str())))
        .help("`weft tenant list` lists the tenants"))
}

/// Logs an action of the command line.
pub(crate) async fn note(app: &App, tenant: &TenantId, action: &str, target: &str) {
    app.note(Audited { tenant, actor: CLI, action, target, outcome: 0, address: "" }).await;
}

async fn create(args: &TokenCreateArgs, app: &App) -> Outcome {
    if args.name.trim().is_empty() {
        return Err(Failure::usage("a token needs a name").help("say who will use it, such as `ci`"));
    }
    let key = NewKey { role: args.role.into(), ..NewKey::owners(&args.name) };
    let tenant = tenant(&args.tenant)?;
    let is_new = !app.all_tenants().await?.contains(&tenant);
    let made = app.create_key(&tenant, key).await?;
    if is_new {
        // A typing error in the name would give access to an empty tenant.
        Notes::line(format!("note: the tenant {} did not exist and was created", quoted(tenant.as_str())));
    }
    note(app, &tenant, "create key", made.stored.id()).await;
    let mut data = Data::stdout();
    if args.json {
        let mut line = as_json(&made.stored);
        line["token"] = json!(made.reveal());
        data.line(&line.to_string())?;
    } else {
        data.line(made.reveal())?;
        Notes::line("Store it: it is shown only now. Callers send it as `Authorization: Bearer …`.");
    }
    data.flush()?;
    Ok(Exit::Done)
}

async fn list(args: &TokenListArgs, app: &App) -> Outcome {
    let of = args.tenant.as_deref().map(tenant).transpose()?;
    if let Some(tenant) = &of {
        check_known(app, tenant).await?;
    }
    let help = match of {
        None => "--tenant lists the tokens of one tenant",
        Some(_) => "`weft token revoke` also finds the others by name or id",
    };
    // One more than is shown, to detect whether there are others.
    let filter = TokenFilter { tenant: of, limit: tokens::LISTED_MAX + 1, ..TokenFilter::default() };
    let tokens = first(app.tokens.list(&filter).await?, tokens::LISTED_MAX, help);
    if tokens.is_empty() {
        Notes::line("there are no tokens; `weft token create NAME` creates one");
    }
    let mut data = Data::stdout();
    for token in &tokens {
        data.line(&harmless(&if args.json { as_json(token).to_string() } else { as_text(token) }))?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

async fn revoke(args: &TokenRevokeArgs, app: &App) -> Outcome {
    let token = match &args.tenant {
        Some(name) => {
            let tenant = tenant(name)?;
            check_known(app, &tenant).await?;
            tokens::named(&*app.tokens, &tenant, None, &args.token).await?
        }
        None => tokens::named_anywhere(&*app.tokens, &TenantId::new(DEFAULT_TENANT), &args.token).await?,
    };
    app.tokens.remove(&token.tenant, &token.hash).await?;
    note(app, &token.tenant, "revoke key", token.id()).await;
    let mut data = Data::stdout();
    if args.json {
        data.line(&as_json(&token).to_string())?;
    } else {
        let tenant = quoted(token.tenant.as_str());
        Notes::line(format!("revoked {} ({}) of the tenant {tenant}", quoted(&token.name), token.id()));
    }
    data.flush()?;
    Ok(Exit::Done)
}

fn as_json(token: &StoredToken) -> serde_json::Value {
    json!({
        "id": token.id(),
        "name": token.name,
        "tenant": token.tenant,
        "role": token.role,
        "user": token.user,
        "created": date(token.created_ms),
        "last_used": token.last_used_ms.map(date),
    })
}

/// Formats a token: `3f0c9a1b2c3d  ci  default  owner  created 2026-01-31 …  used 2026-02-01 …`
fn as_text(token: &StoredToken) -> String {
    let used = token.last_used_ms.map_or_else(|| "never used".to_owned(), |at| format!("used {}", date(at)));
    format!(
        "{}  {}  {}  {}  created {}  {used}",
        token.id(),
        quoted(&token.name),
        token.tenant,
        token.role,
        date(token.created_ms)
    )
}
