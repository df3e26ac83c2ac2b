//! Flags of `weft user` and `weft audit`.

use clap::{Args, Subcommand, ValueEnum};
use weft_core::access::MemberRole;

/// What to do with users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Make a user; the password is read from standard input
    Create(UserCreateArgs),
    /// Invite somebody, who chooses a password when they accept; prints what they accept with
    Invite(UserInviteArgs),
    /// List the users, or the members of a tenant
    List(UserListArgs),
    /// Give a member of a tenant another role
    Role(UserRoleArgs),
    /// Set a password, read from standard input, and end all sign-ins of the user
    Password(UserArgs),
    /// Let a user sign in no more; their API keys are worth nothing meanwhile
    Disable(UserArgs),
    /// Let a user sign in again
    Enable(UserArgs),
    /// Print everything that is kept of a user, a line of JSON for each thing
    Export(UserArgs),
    /// Remove a user with their conversations, sign-ins and API keys
    Remove(UserArgs),
}

/// What a member of a tenant may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleArg {
    /// Read
    Viewer,
    /// Run agents, too
    User,
    /// Change agents and datasets, too
    Editor,
    /// Administer members, keys and secrets, too
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
    /// The address to sign in with
    #[arg(value_name = "EMAIL")]
    pub email: String,
    /// What others call them; the part before the @ without it
    #[arg(long, value_name = "NAME", default_value = "")]
    pub name: String,
    /// The tenant that they belong to
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// What they may do there
    #[arg(long, value_name = "ROLE", default_value = "user")]
    pub role: RoleArg,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft user invite`.
#[derive(Debug, Args)]
pub(crate) struct UserInviteArgs {
    /// Whom to invite
    #[arg(value_name = "EMAIL")]
    pub email: String,
    /// Into which tenant
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// What they may do there
    #[arg(long, value_name = "ROLE", default_value = "user")]
    pub role: RoleArg,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft user list`.
#[derive(Debug, Args)]
pub(crate) struct UserListArgs {
    /// The members of this tenant only, with their roles
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Print a line of JSON for each user
    #[arg(long)]
    pub json: bool,
}

/// Flags of `weft user role`.
#[derive(Debug, Args)]
pub(crate) struct UserRoleArgs {
    /// The user: their address or their id
    #[arg(value_name = "USER")]
    pub user: String,
    /// What they may do from now on
    #[arg(value_name = "ROLE")]
    pub role: RoleArg,
    /// In which tenant
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
}

/// Flags of commands that are about one user.
#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    /// The user: their address or their id
    #[arg(value_name = "USER")]
    pub user: String,
}

/// Flags of `weft audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Whose log
    #[arg(long, value_name = "TENANT", default_value = weft_app::DEFAULT_TENANT)]
    pub tenant: String,
    /// Only what this one did: `user:ID`, `key:ID`, `share:ID`, `cli` or `nobody`
    #[arg(long, value_name = "ACTOR")]
    pub actor: Option<String>,
    /// Print a line of JSON for each entry
    #[arg(long)]
    pub json: bool,
}
