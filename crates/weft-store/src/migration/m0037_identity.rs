//! Users' identities at OpenID providers, and sign-ins that have started there.

use sea_orm_migration::prelude::{DbErr, Index, SchemaManager};

use super::columns::Columns;

pub(super) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let c = Columns::of(manager).await?;
    let identity = c
        .table("identity")
        .col(c.id("hash").primary_key().take())
        .col(c.id("user_id"))
        .col(c.id("provider"))
        .col(c.long_text("issuer"))
        .col(c.long_text("subject"))
        .col(c.long_text("email"))
        .col(c.number("created_ms"))
        .col(c.number("used_ms"))
        .take();
    let request = c
        .table("authorization_request")
        .col(c.id("hash").primary_key().take())
        .col(c.id("browser_hash"))
        .col(c.id("provider"))
        .col(c.long_text("issuer"))
        .col(c.long_text("nonce"))
        .col(c.long_text("verifier"))
        .col(c.long_text("next"))
        .col(c.id("user_id"))
        .col(c.number("expires_ms"))
        .take();
    for table in [identity, request] {
        manager.create_table(table).await?;
    }
    for (name, table, column) in [
        ("identity_user", "identity", "user_id"),
        ("authorization_request_end", "authorization_request", "expires_ms"),
    ] {
        // MariaDB commits each of these immediately: after an interrupted migration some already exist.
        if !manager.has_index(table, name).await? {
            manager.create_index(Index::create().name(name).table(table).col(column).take()).await?;
        }
    }
    Ok(())
}
