//! Flags of `weft tenant`.

use clap::{Args, Subcommand};

/// What to do with tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// List the tenants
    List(TenantListArgs),
    /// Remove a tenant with everything that it has: agents, conversations, datasets, files, members, keys
    Remove(TenantRemoveArgs),
}

/// Flags of `weft tenant list`.
#[derive(Debug, Args)]
pub(crate) struct TenantListArgs {
    /// A line of JSON for each tenant
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft tenant remove`.
#[derive(Debug, Args)]
pub(crate) struct TenantRemoveArgs {
    /// The tenant
    #[arg(value_name = "TENANT")]
    pub tenant: String,
    /// The tenant once more: nothing of it comes back
    #[arg(long, value_name = "TENANT")]
    pub confirm: Option<String>,
}

/// Whose data a command is about.
#[derive(Debug, Args)]
pub(crate) struct TenantArgs {
    /// Of which tenant
    #[arg(long, value_name = "TENANT", global = true, default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
}
