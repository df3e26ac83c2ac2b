//! Tenants, users, memberships, sign-ins and invitations. Tenants that were only names until now get a row.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};
use sea_orm_migration::sea_orm::ConnectionTrait as _;

use super::columns::Columns;

/// Tables with data of a tenant as soon as it exists.
const OF_TENANTS: [&str; 6] = ["token", "canvas", "dataset", "chat", "memory", "secret"];

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let tenant = c
        .table("tenant")
        .col(c.id("id").primary_key().take())
        .col(c.long_text("name"))
        .col(c.number("revision"))
        .col(c.number("created_ms"))
        .take();
    // `user` is a reserved word in SQL.
    let account = c
        .table("account")
        .col(c.id("id").primary_key().take())
        .col(c.id("email"))
        .col(c.long_text("nickname"))
        .col(c.long_text("password_hash"))
        .col(c.number("enabled"))
        .col(c.number("created_ms"))
        .col(c.number("signed_in_ms"))
        .take();
    let membership = c
        .table("membership")
        .col(c.id("tenant_id"))
        .col(c.id("user_id"))
        .col(c.id("role"))
        .col(c.number("created_ms"))
        .primary_key(Index::create().col("tenant_id").col("user_id"))
        .take();
    let login = c
        .table("login")
        .col(c.id("hash").primary_key().take())
        .col(c.id("user_id"))
        .col(c.id("tenant_id"))
        .col(c.number("created_ms"))
        .col(c.number("expires_ms"))
        .col(c.number("last_used_ms"))
        .take();
    let invitation = c
        .table("invitation")
        .col(c.id("hash").primary_key().take())
        .col(c.id("tenant_id"))
        .col(c.id("email"))
        .col(c.id("role"))
        .col(c.long_text("invited_by"))
        .col(c.number("created_ms"))
        .col(c.number("expires_ms"))
        .take();
    for table in [tenant, account, membership, login, invitation] {
        manager.create_table(table).await?;
    }
    indexes(manager).await?;
    for table in OF_TENANTS {
        let known = format!(
            "INSERT INTO tenant (id, name, revision, created_ms) SELECT DISTINCT tenant_id, tenant_id, 0, 0 \
             FROM {table} WHERE tenant_id NOT IN (SELECT id FROM tenant)"
        );
        manager.get_connection().execute_unprepared(&known).await?;
    }
    Ok(())
}

async fn indexes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    for (name, table, columns, unique) in [
        ("account_email", "account", &["email"][..], true),
        ("membership_user", "membership", &["user_id"], false),
        ("login_user", "login", &["user_id"], false),
        ("invitation_email", "invitation", &["email"], false),
        // Due tasks are searched across all tenants.
        ("task_due", "task", &["status", "due_ms"], false),
        ("invitation_once", "invitation", &["tenant_id", "email"], true),
    ] {
        // MariaDB commits each of these immediately: after an interrupted migration some already exist.
        if manager.has_index(table, name).await? {
            continue;
        }
        let mut index = Index::create();
        index.name(name).table(table);
        for column in columns {
            index.col(*column);
        }
        if unique {
            index.unique();
        }
        manager.create_index(index.take()).await?;
    }
    Ok(())
}
