//! Flags of `weft tenant`.

use clap::{Args, Subcommand};

/// What to do with tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// List the tenants
    List(TenantListArgs),
    /// Remove a tenant and all its data: agents, conversations, datasets, files, members, keys
    Remove(TenantRemoveArgs),
}

/// Flags of `weft tenant list`.
#[derive(Debug, Args)]
pub(crate) struct TenantListArgs {
    /// Print a line of JSON for each tenant
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft tenant remove`.
#[derive(Debug, Args)]
pub(crate) struct TenantRemoveArgs {
    /// The tenant
    #[arg(value_name = "TENANT")]
    pub tenant: String,
    /// Repeat the tenant to confirm: this cannot be undone
    #[arg(long, value_name = "TENANT")]
    pub confirm: Option<String>,
}

/// Whose data a command is about.
#[derive(Debug, Args)]
pub(crate) struct TenantArgs {
    /// Tenant whose data the command is about
    #[arg(long, value_name = "TENANT", global = true, default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
}
