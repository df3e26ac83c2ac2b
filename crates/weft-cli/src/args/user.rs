//! Flags of `weft user` and `weft audit`.

use clap::{Args, Subcommand, ValueEnum};
use weft_core::access::MemberRole;

/// What to do with users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Create a user; the password is read from standard input
    Create(UserCreateArgs),
    /// Invite a person, who chooses a password on acceptance; prints the token to accept with
    Invite(UserInviteArgs),
    /// List the users, or the members of a tenant
    List(UserListArgs),
    /// Change the role of a member of a tenant
    Role(UserRoleArgs),
    /// Set a password, read from standard input, and end all sign-ins of the user
    Password(UserArgs),
    /// Disable a user: no sign-in, and their API keys are rejected
    Disable(UserArgs),
    /// Enable a disabled user
    Enable(UserArgs),
    /// Print all data stored about a user, a line of JSON for each item
    Export(UserArgs),
    /// Remove a user, their conversations, sign-ins and API keys
    Remove(UserRemoveArgs),
}

/// What a member of a tenant may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Read
    Viewer,
    /// Also run agents
    User,
    /// Also change agents and datasets
    Editor,
    /// Also administer members, API keys and secrets
    Owner,
}

impl From<RoleArg> for MemberRole {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Viewer => Self::Viewer,
            RoleArg::User => Self::User,
            RoleArg::Editor => Self::Editor,
            RoleArg::Owner => Self::Owner,
        }
    }
}

/// Flags of `weft user create`.
#[derive(Debug, Args)]
pub(crate) struct UserCreateArgs {
    /// Email address to sign in with
    #[arg(value_name = "EMAIL")]
    pub email: String,
    /// Display name; default: the part before the @
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub name: String,
    /// Tenant of the user
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Role in the tenant
    #[arg(long, value_name = "ROLE", default_value = "user")]
    pub role: RoleArg,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft user invite`.
#[derive(Debug, Args)]
pub(crate) struct UserInviteArgs {
    /// Email address of the person
    #[arg(value_name = "EMAIL")]
    pub email: String,
    /// Tenant that the person is invited to
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Role in the tenant
    #[arg(long, value_name = "ROLE", default_value = "user")]
    pub role: RoleArg,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft user list`.
#[derive(Debug, Args)]
pub(crate) struct UserListArgs {
    /// Only the members of this tenant, with their roles
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Print a line of JSON for each user
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft user role`.
#[derive(Debug, Args)]
pub(crate) struct UserRoleArgs {
    /// Email address or id of the user
    #[arg(value_name = "USER")]
    pub user: String,
    /// New role
    #[arg(value_name = "ROLE")]
    pub role: RoleArg,
    /// Tenant in which the user has the role
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
}

/// Flags of commands that are about one user.
#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    /// Email address or id of the user
    #[arg(value_name = "USER")]
    pub user: String,
}

/// Flags of `weft user remove`.
#[derive(Debug, Args)]
pub(crate) struct UserRemoveArgs {
    /// Email address or id of the user
    #[arg(value_name = "USER")]
    pub user: String,
    /// Repeat the user to confirm: this cannot be undone
    #[arg(long, value_name = "USER")]
    pub confirm: Option<String>,
}

/// Flags of `weft audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Tenant of the log
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Only actions of this actor: `user:ID`, `key:ID`, `share:ID`, `cli` or `nobody`
    #[arg(long, value_name = "ACTOR")]
    pub actor: Option<String>,
    /// Print a line of JSON for each entry
    #[arg(long)]
    pub json: bool,
}
