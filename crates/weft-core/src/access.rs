//! What the members of a tenant may do, as one table.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::{TenantId, UserId};

/// The role of a member in a tenant. Each role includes the permissions of the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberRole {
    /// May read.
    #[default]
    Viewer,
    /// May also run agents and talk to assistants.
    User,
    /// May also change agents, datasets and what belongs to them.
    Editor,
    /// May also administer members, API keys, secrets and the audit log.
    Owner,
}

/// The membership of a user in a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Membership {
    /// The tenant.
    pub tenant: TenantId,
    /// The user.
    pub user: UserId,
    /// Their role there.
    pub role: MemberRole,
    /// Since when, in milliseconds since 1970.
    pub created_ms: i64,
}

/// The permission that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// To see what exists.
    Read,
    /// To run agents, talk to assistants, answer tasks.
    Run,
    /// To change agents, datasets, memories and what belongs to them.
    Edit,
    /// To decide who may do what, and to manage keys and secrets.
    Administer,
}

impl MemberRole {
    /// All roles, the least privileged first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::User, Self::Editor, Self::Owner];

    /// Returns whether this role includes the permission.
    pub fn may(self, permission: Permission) -> bool {
        self >= permission.least_role()
    }

    /// Returns its name, such as `editor`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::Editor => "editor",
            Self::Owner => "owner",
        }
    }
}

impl Permission {
    /// All permissions, the weakest first.
    pub const ALL: [Self; 4] = [Self::Read, Self::Run, Self::Edit, Self::Administer];

    /// Returns the least privileged role that has it.
    pub fn least_role(self) -> MemberRole {
        match self {
            Self::Read => MemberRole::Viewer,
            Self::Run => MemberRole::User,
            Self::Edit => MemberRole::Editor,
            Self::Administer => MemberRole::Owner,
        }
    }

    /// Returns its name, such as `edit`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Edit => "edit",
            Self::Administer => "administer",
        }
    }
}

impl fmt::Display for MemberRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for MemberRole {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join("`, `");
            Error::invalid(format!("`{text}` is not a role")).help(format!("a role is one of `{names}`"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_adds_one_right_to_the_role_below() {
        let table = MemberRole::ALL.map(|role| {
            let may: Vec<_> = Permission::ALL.into_iter().filter(|one| role.may(*one)).collect();
            (role.as_str(), may)
        });
        use Permission::{Administer, Edit, Read, Run};
        let expected = [
            ("viewer", vec![Read]),
            ("user", vec![Read, Run]),
            ("editor", vec![Read, Run, Edit]),
            ("owner", vec![Read, Run, Edit, Administer]),
        ];
        assert_eq!(table, expected);
    }

    #[test]
    fn names_round_trip() {
        for role in MemberRole::ALL {
            assert_eq!(role.to_string().parse::<MemberRole>().unwrap(), role);
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
        for wrong in ["", "Owner", "admin"] {
            assert!(wrong.parse::<MemberRole>().unwrap_err().full().contains("viewer"), "{wrong}");
        }
    }
}
