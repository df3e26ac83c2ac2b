//! The tenant that a command is for.

use std::sync::OnceLock;

use weft_app::DEFAULT_TENANT;
use weft_core::TenantId;

use crate::args::TenantArgs;
use crate::failure::Outcome;
use crate::words::quoted;

/// The tenant of the command, once it is set.
static CHOSEN: OnceLock<TenantId> = OnceLock::new();

/// Returns the tenant of the command: the default tenant, unless the command names another one.
pub(crate) fn tenant() -> TenantId {
    CHOSEN.get().cloned().unwrap_or_else(|| TenantId::new(DEFAULT_TENANT))
}

/// Sets the tenant of the command. Only the first call has an effect, because a process executes one command.
///
/// # Errors
/// For a name that is not valid.
pub(crate) fn choose(args: &TenantArgs) -> Outcome<()> {
    let chosen = crate::token::tenant(&args.tenant)?;
    CHOSEN.get_or_init(|| chosen);
    Ok(())
}

/// Returns the flag that selects the same tenant in another command, with a space before it; empty for the default
/// one.
pub(crate) fn same_tenant() -> String {
    match tenant().as_str() {
        DEFAULT_TENANT => String::new(),
        other => format!(" --tenant {}", quoted(other)),
    }
}
