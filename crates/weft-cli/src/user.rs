//! `weft user`: managing users and their roles.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::time::Duration;

use futures::TryStreamExt as _;
use serde_json::json;
use weft_app::App;
use weft_app::accounts::password::{BYTES_MAX, check_new};
use weft_app::accounts::{Audited, CLI, LISTED_MAX, NewUser};
use weft_core::access::MemberRole;
use weft_core::seam::user_store::User;
use weft_core::{ErrorKind, Secret, TenantId};
use weft_engine::session::date;

use crate::args::{
    UserArgs, UserCommand, UserCreateArgs, UserInviteArgs, UserListArgs, UserRemoveArgs, UserRoleArgs,
};
use crate::failure::{Exit, Failure, Outcome};
use crate::listed::first;
use crate::screen::{Data, Notes, harmless};
use crate::setup::Setup;
use crate::token::{check_known, tenant};
use crate::words::{must_be_confirmed, quoted};

/// Creates, changes, lists and removes users. A server on the same store looks up the user for each request, so it
/// need not be restarted.
///
/// # Errors
/// When there is no such user, or the store cannot be used.
pub(crate) async fn run(command: &UserCommand, setup: &Setup) -> Outcome {
    // Before the store is opened, so that slow typing blocks no other process.
    let password = match command {
        UserCommand::Create(_) | UserCommand::Password(_) => Some(typed()?),
        _ => None,
    };
    let password = password.unwrap_or_default();
    let app = setup.open().await?;
    let done = match command {
        UserCommand::Create(args) => create(args, &password, &app).await,
        UserCommand::Invite(args) => invite(args, &app).await,
        UserCommand::List(args) => list(args, &app).await,
        UserCommand::Role(args) => role(args, &app).await,
        UserCommand::Password(args) => set_password(args, &password, &app).await,
        UserCommand::Disable(args) => disable(args, &app).await,
        UserCommand::Enable(args) => enable(args, &app).await,
        UserCommand::Export(args) => export(args, &app).await,
        UserCommand::Remove(args) => remove(args, &app).await,
    };
    app.shut_down(Duration::ZERO).await?;
    done
}

/// Reads the password from the first line of standard input.
fn typed() -> Outcome<Secret> {
    let input = std::io::stdin();
    if input.is_terminal() {
        Notes::line("type the password, then Enter; it is visible while you type");
    }
    let mut line = String::new();
    // A byte and a line end more than the limit, so that a longer one is noticed.
    let read = input.lock().take(BYTES_MAX as u64 + 3).read_line(&mut line);
    read.map_err(|error| Failure::usage(format!("cannot read the password: {error}")))?;
    let password = Secret::new(line.trim_end_matches(['\n', '\r']));
    check_new(&password).map_err(|error| {
        Failure::usage(error.full()).help("give it on standard input, such as `weft user create … < file`")
    })?;
    Ok(password)
}

async fn note(app: &App, tenant: &TenantId, action: &str, target: &str) {
    app.note(Audited { tenant, actor: CLI, action, target, outcome: 0, address: "" }).await;
}

/// Returns the user with this e-mail address or id.
async fn found(named: &str, app: &App) -> Outcome<User> {
    app.find_user(named).await.map_err(|error| match error.kind {
        ErrorKind::NotFound => Failure::from(error).help("`weft user list` lists the users"),
        _ => Failure::from(error),
    })
}

/// Logs an action on a user in all of their tenants.
async fn note_everywhere(app: &App, user: &User, action: &str) -> Outcome<()> {
    for one in app.accounts.stores.tenants.memberships(&user.id).await? {
        note(app, &one.tenant, action, &user.email).await;
    }
    Ok(())
}

async fn create(args: &UserCreateArgs, password: &Secret, app: &App) -> Outcome {
    let (tenant, role) = (tenant(&args.tenant)?, MemberRole::from(args.role));
    let user = NewUser { email: &args.email, nickname: &args.name, password: Some(password) };
    let user = app.create_user(user, &tenant, role).await.map_err(|error| match error.kind {
        // The address is taken, so the caller has to choose another one.
        ErrorKind::Conflict => Failure::before_running(&error)
            .help("`weft user list` lists the users; `weft user role` changes a role"),
        _ => error.into(),
    })?;
    note(app, &tenant, "create user", &user.email).await;
    let mut data = Data::stdout();
    if args.json {
        data.line(&as_json(&user, Some(role)).to_string())?;
    } else {
        Notes::line(format!("created {} ({role} of {tenant})", quoted(&user.email)));
    }
    data.flush()?;
    Ok(Exit::Done)
}

async fn invite(args: &UserInviteArgs, app: &App) -> Outcome {
    let (tenant, role) = (tenant(&args.tenant)?, MemberRole::from(args.role));
    let invited = app.invite(&tenant, &args.email, role, CLI).await?;
    note(app, &tenant, "invite", &invited.invitation.email).await;
    let mut data = Data::stdout();
    if args.json {
        let line = json!({"email": invited.invitation.email, "tenant": tenant, "role": role,
            "invitation": invited.secret.reveal(), "expires": date(invited.invitation.expires_ms)});
        data.line(&line.to_string())?;
    } else {
        data.line(invited.secret.reveal())?;
        Notes::line(
            "Give it to them: it is shown only now. They accept it at POST /api/v1/auth/invitations/accept.",
        );
    }
    data.flush()?;
    Ok(Exit::Done)
}

async fn list(args: &UserListArgs, app: &App) -> Outcome {
    let mut data = Data::stdout();
    let mut any = false;
    let mut show = |user: &User, role: Option<MemberRole>| -> Outcome<()> {
        any = true;
        let line = if args.json { as_json(user, role).to_string() } else { as_text(user, role) };
        data.line(&harmless(&line))
    };
    match &args.tenant {
        Some(name) => {
            let of = tenant(name)?;
            check_known(app, &of).await?;
            // One more than is shown, to detect whether there are others.
            let members = app.accounts.stores.tenants.members(&of, 0, LISTED_MAX + 1).await?;
            let help = "`weft user list` without --tenant shows all users";
            for (membership, user) in first(members, LISTED_MAX, help) {
                show(&user, Some(membership.role))?;
            }
        }
        None => {
            let mut after = String::new();
            loop {
                let page = app.accounts.stores.users.users(&after, LISTED_MAX).await?;
                let Some(last) = page.last() else { break };
                // The users are ordered by their addresses.
                after.clone_from(&last.email);
                page.iter().try_for_each(|user| show(user, None))?;
            }
        }
    }
    if !any {
        Notes::line("there are no users; `weft user create EMAIL --role owner` creates one");
    }
    data.flush()?;
    Ok(Exit::Done)
}

async fn role(args: &UserRoleArgs, app: &App) -> Outcome {
    let (tenant, role) = (tenant(&args.tenant)?, MemberRole::from(args.role));
    let user = found(&args.user, app).await?;
    app.set_role(&tenant, &user.id, role).await.map_err(|error| match error.kind {
        ErrorKind::NotFound => {
            let (email, tenant) = (quoted(&user.email), quoted(tenant.as_str()));
            Failure::usage(format!("{email} is not a member of the tenant {tenant}"))
                .help("name another one with --tenant; `weft user list --tenant` lists its members")
        }
        _ => error.into(),
    })?;
    note(app, &tenant, &format!("set role {role}"), &user.email).await;
    Notes::line(format!("{} is now {role} of the tenant {}", quoted(&user.email), quoted(tenant.as_str())));
    Ok(Exit::Done)
}

async fn set_password(args: &UserArgs, password: &Secret, app: &App) -> Outcome {
    let user = found(&args.user, app).await?;
    app.set_password(&user.id, password, None).await?;
    note_everywhere(app, &user, "set password").await?;
    Notes::line(format!("the password of {} is set; all their sign-ins have ended", quoted(&user.email)));
    Ok(Exit::Done)
}

async fn disable(args: &UserArgs, app: &App) -> Outcome {
    let user = found(&args.user, app).await?;
    app.disable_user(&user.id).await?;
    note_everywhere(app, &user, "disable user").await?;
    Notes::line(format!("{} is disabled", quoted(&user.email)));
    Ok(Exit::Done)
}

async fn enable(args: &UserArgs, app: &App) -> Outcome {
    let user = found(&args.user, app).await?;
    app.enable_user(&user.id).await?;
    note_everywhere(app, &user, "enable user").await?;
    Notes::line(format!("{} is enabled", quoted(&user.email)));
    Ok(Exit::Done)
}

async fn export(args: &UserArgs, app: &App) -> Outcome {
    let user = found(&args.user, app).await?;
    // Logged before anything is shown.
    note_everywhere(app, &user, "export user").await?;
    let mut data = Data::stdout();
    let mut data_of_user = Box::pin(app.personal_data(user, None));
    while let Some(one) = data_of_user.try_next().await? {
        data.line(&one.to_string())?;
    }
    data.flush()?;
    Ok(Exit::Done)
}

async fn remove(args: &UserRemoveArgs, app: &App) -> Outcome {
    // An unknown user needs no confirmation.
    let user = found(&args.user, app).await?;
    must_be_confirmed("the user", &args.user, args.confirm.as_deref())?;
    // Looked up before they are erased with the user.
    let theirs = app.accounts.stores.tenants.memberships(&user.id).await?;
    app.erase_user(&user.id).await?;
    for one in theirs {
        // Their address is erased, so the log only has the id.
        note(app, &one.tenant, "remove user", user.id.as_str()).await;
    }
    Notes::line(format!("removed {} and all their data", quoted(&user.email)));
    Ok(Exit::Done)
}

fn as_json(user: &User, role: Option<MemberRole>) -> serde_json::Value {
    json!({
        "id": user.id,
        "email": user.email,
        "name": user.nickname,
        "role": role,
        "enabled": user.enabled,
        "created": date(user.created_ms),
        "signed_in": user.signed_in_ms.map(date),
    })
}

/// Formats a user: `ann@example.com  "Ann"  owner  created 2026-01-31 …  signed in 2026-02-01 …`
fn as_text(user: &User, role: Option<MemberRole>) -> String {
    let role = role.map(|role| format!("  {role}")).unwrap_or_default();
    let disabled = if user.enabled { "" } else { "  disabled" };
    let seen = user
        .signed_in_ms
        .map_or_else(|| "never signed in".to_owned(), |at| format!("signed in {}", date(at)));
    format!(
        "{}  {}{role}{disabled}  created {}  {seen}",
        user.email,
        quoted(&user.nickname),
        date(user.created_ms)
    )
}
