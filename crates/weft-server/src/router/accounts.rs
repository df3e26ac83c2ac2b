//! Routes for API keys, users, tenants, share tokens and the audit log.

use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;

use super::methods::{DELETE, GET, PATCH, POST, PUT};
use crate::handler::{BoxedHandler, ResponseFuture};
use crate::openapi::Routes;
use crate::openapi::accounts as of_account;
use crate::openapi::runs as of_run;
use crate::routes::{audit, notifications, oidc, older_tokens, shares, tenants, tokens, users};
use crate::state::ServerState;

/// Maximum size of a body that anyone may send without a token, in bytes: an address, a name and a password, or the
/// secret of an invitation.
const OPEN_BODY_BYTES_MAX: usize = 64 << 10;

/// A route that needs no token.
fn open<H, T>(handler: H) -> BoxedHandler
where
    H: Handler<T, ServerState, Future = ResponseFuture>,
{
    BoxedHandler::limited(DefaultBodyLimit::max(OPEN_BODY_BYTES_MAX), handler)
}

pub(super) fn of_tokens() -> Routes {
    Routes::new("Tokens")
        .on(GET, "/api/v1/system/tokens", tokens::list, &of_run::LIST_TOKENS)
        .on(POST, "/api/v1/system/tokens", tokens::create, &of_run::CREATE_TOKEN)
        .on(DELETE, "/api/v1/system/tokens/{token}", tokens::remove, &of_run::DELETE_TOKEN)
        // Older names.
        .on(POST, "/v1/system/new_token", tokens::create, &of_run::CREATE_TOKEN)
        .on(GET, "/v1/system/token_list", tokens::list, &of_run::LIST_TOKENS)
        .on(DELETE, "/v1/system/token/{token}", tokens::remove, &of_run::DELETE_TOKEN)
}

pub(super) fn of_users() -> Routes {
    let own_identity = "/api/v1/users/me/identities/{identity}";
    Routes::new("Users")
        .on(POST, "/api/v1/auth/login", open(users::sign_in), &of_account::SIGN_IN)
        .on(POST, "/api/v1/auth/logout", users::sign_out, &of_account::SIGN_OUT)
        .on(
            POST,
            "/api/v1/auth/invitations/accept",
            open(tenants::accept_with_secret),
            &of_account::ACCEPT_WITH_SECRET,
        )
        .on(GET, "/api/v1/auth/providers", oidc::providers, &of_account::PROVIDERS)
        .on(GET, "/api/v1/auth/oidc/{provider}", oidc::begin, &of_account::BEGIN_OIDC)
        .on(GET, "/api/v1/auth/oidc/{provider}/callback", oidc::finish, &of_account::FINISH_OIDC)
        .on(POST, "/api/v1/users", open(users::register), &of_account::REGISTER)
        .on(GET, "/api/v1/users/me", users::me, &of_account::ME)
        .on(PATCH, "/api/v1/users/me", users::change_me, &of_account::CHANGE_ME)
        .on(DELETE, "/api/v1/users/me", users::erase_me, &of_account::ERASE_ME)
        .on(GET, "/api/v1/users/me/export", users::export_me, &of_account::EXPORT_ME)
        .on(GET, "/api/v1/users/me/logins", users::logins, &of_account::LOGINS)
        .on(DELETE, "/api/v1/users/me/logins", users::end_logins, &of_account::END_LOGINS)
        .on(DELETE, "/api/v1/users/me/logins/{login}", users::end_login, &of_account::END_LOGIN)
        .on(GET, "/api/v1/users/me/identities", oidc::identities, &of_account::IDENTITIES)
        .on(POST, "/api/v1/users/me/identities", oidc::add_identity, &of_account::ADD_IDENTITY)
        .on(DELETE, own_identity, oidc::remove_identity, &of_account::REMOVE_IDENTITY)
        .on(PUT, "/api/v1/users/me/tenant", tenants::switch, &of_account::SWITCH)
        .on(DELETE, "/api/v1/users/me/tenants/{tenant}", tenants::leave, &of_account::LEAVE)
        // Older names.
        .on(POST, "/v1/user/login", open(users::sign_in), &of_account::SIGN_IN)
        .on(GET, "/v1/user/logout", users::sign_out, &of_account::SIGN_OUT)
        .on(POST, "/v1/user/register", open(users::register), &of_account::REGISTER)
        .on(GET, "/v1/user/info", users::me, &of_account::ME)
        .on(POST, "/v1/user/setting", users::change_me, &of_account::CHANGE_ME)
}

pub(super) fn of_tenants() -> Routes {
    let member = "/api/v1/tenants/{tenant}/users/{user}";
    Routes::new("Tenants")
        .on(GET, "/api/v1/tenants", tenants::list, &of_account::TENANTS)
        .on(PATCH, "/api/v1/tenants/{tenant}", tenants::accept, &of_account::ACCEPT)
        .on(DELETE, "/api/v1/tenants/{tenant}", tenants::remove, &of_account::REMOVE_TENANT)
        .on(GET, "/api/v1/tenants/{tenant}/users", tenants::members, &of_account::MEMBERS)
        .on(POST, "/api/v1/tenants/{tenant}/users", tenants::invite, &of_account::INVITE)
        .on(PATCH, member, tenants::set_role, &of_account::SET_ROLE)
        .on(DELETE, member, tenants::remove_member, &of_account::REMOVE_MEMBER)
        .on(
            GET,
            "/api/v1/tenants/{tenant}/users/{user}/export",
            tenants::export_member,
            &of_account::EXPORT_MEMBER,
        )
        // Older names.
        .on(GET, "/v1/tenant/list", tenants::list, &of_account::TENANTS)
        .on(PUT, "/v1/tenant/agree/{tenant}", tenants::accept, &of_account::ACCEPT)
        .on(GET, "/v1/tenant/{tenant}/user/list", tenants::members, &of_account::MEMBERS)
        .on(POST, "/v1/tenant/{tenant}/user", tenants::invite, &of_account::INVITE)
        .on(DELETE, "/v1/tenant/{tenant}/user/{user}", tenants::remove_member, &of_account::REMOVE_MEMBER)
}

pub(super) fn of_shares() -> Routes {
    Routes::new("Pages that show an agent")
        .on(GET, "/api/v1/agents/{id}/shares", shares::list_of_agent, &of_account::SHARES)
        .on(POST, "/api/v1/agents/{id}/shares", shares::make_of_agent, &of_account::MAKE_SHARE)
        .on(DELETE, "/api/v1/agents/{id}/shares/{share}", shares::remove_of_agent, &of_account::REMOVE_SHARE)
        .on(GET, "/api/v1/chats/{id}/shares", shares::list_of_chat, &of_account::SHARES)
        .on(POST, "/api/v1/chats/{id}/shares", shares::make_of_chat, &of_account::MAKE_SHARE)
        .on(DELETE, "/api/v1/chats/{id}/shares/{share}", shares::remove_of_chat, &of_account::REMOVE_SHARE)
        .on(GET, "/api/v1/agentbots/{id}/inputs", shares::agentbot, &of_account::AGENTBOT)
        .on(POST, "/api/v1/agentbots/{id}/completions", shares::ask_agentbot, &of_account::ASK_AGENTBOT)
        // Oldest names.
        .on(POST, "/v1/api/new_token", older_tokens::create, &of_account::OLDER_NEW_TOKEN)
        .on(GET, "/v1/api/token_list", older_tokens::list, &of_account::OLDER_TOKENS)
        .on(POST, "/v1/api/rm", older_tokens::remove, &of_account::OLDER_REMOVE)
        .on(GET, "/v1/api/stats", older_tokens::stats, &of_account::OLDER_STATS)
        .on(GET, "/v1/api/new_conversation", older_tokens::new_conversation, &of_account::NEW_CONVERSATION)
}

pub(super) fn of_audit() -> Routes {
    Routes::new("Audit log and notifications")
        .on(GET, "/api/v1/audit", audit::list, &of_account::AUDIT)
        .on(GET, "/api/v1/audit/export", audit::export, &of_account::EXPORT_AUDIT)
        .on(GET, "/api/v1/notifications", notifications::list, &of_account::NOTICES)
}
