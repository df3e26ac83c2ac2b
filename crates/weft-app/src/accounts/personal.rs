//! The personal data of a user: its export and its removal.

use std::collections::BTreeSet;

use futures::Stream;
use futures::channel::mpsc;
use serde_json::json;
use weft_core::access::MemberRole;
use weft_core::error::found;
use weft_core::id::{FileId, UserId};
use weft_core::seam::audit_store::{AuditFilter, AuditPosition};
use weft_core::seam::file_store::StoredFile;
use weft_core::seam::memory_store::MessageFilter;
use weft_core::seam::session_store::{MessagePosition, Session, SessionFilter, SessionOrder};
use weft_core::seam::tenant_store::Membership;
use weft_core::seam::token_store::TokenFilter;
use weft_core::seam::user_store::{Login, User};
use weft_core::{Error, ErrorKind, Json, Result, SessionId, SessionKey, TenantId};
use weft_engine::session::date;

use super::LISTED_MAX;
use crate::app::App;
use crate::schedule::timing_text;

/// Number of conversations, messages or entries read in one batch. The next batch starts after the last of these, so
/// that concurrent changes neither hide nor repeat any.
const AT_ONCE: u64 = 100;

/// Maximum number of messages of a conversation in one item. A longer conversation is split into several items.
const MESSAGES_AT_ONCE: u64 = 1_000;

/// Sends the found items to the reader; it fails when the reader has left.
type Sink = mpsc::Sender<Result<Json>>;

impl App {
    /// Returns all stored data of a user, in one tenant or in all of theirs, one item at a time: the account,
    /// memberships, sign-ins, identities at providers and API keys without their secrets, conversations, metadata of
    /// attached files, schedules that run in their name, messages in memories, and entries of the audit log.
    pub fn personal_data(
        &self,
        user: User,
        tenant: Option<TenantId>,
    ) -> impl Stream<Item = Result<Json>> + use<> {
        let app = self.clone();
        // One item at a time: the search waits until the last item was read.
        let (mut sink, found) = mpsc::channel(1);
        let gathering = async move {
            if let Err(error) = app.gather(&user, tenant.as_ref(), &mut sink).await {
                // The send fails if the reader has left; then nobody needs the error.
                let _ = futures::SinkExt::send(&mut sink, Err(error)).await;
            }
        };
        // The search and its results are one stream, so dropping the stream stops the search.
        futures::stream::select(
            futures::StreamExt::filter_map(futures::stream::once(gathering), |()| async { None }),
            found,
        )
    }

    async fn gather(&self, user: &User, tenant: Option<&TenantId>, sink: &mut Sink) -> Result<()> {
        if tenant.is_none() {
            self.gather_account(user, sink).await?;
        }
        for membership in self.memberships_in(&user.id, tenant).await? {
            give(
                sink,
                json!({"kind": "membership", "tenant": membership.tenant, "role": membership.role,
                "since": date(membership.created_ms)}),
            )
            .await?;
            let tenant = &membership.tenant;
            self.gather_keys(tenant, &user.id, sink).await?;
            self.gather_sessions(tenant, &user.id, sink).await?;
            self.gather_files(tenant, &user.id, sink).await?;
            self.gather_schedules(tenant, &user.id, sink).await?;
            self.gather_memories(tenant, &user.id, sink).await?;
            self.gather_audit(tenant, &user.id, sink).await?;
        }
        Ok(())
    }

    /// Sends the data that belongs to the user and to no tenant.
    async fn gather_account(&self, user: &User, sink: &mut Sink) -> Result<()> {
        give(
            sink,
            json!({"kind": "user", "id": user.id, "email": user.email, "nickname": user.nickname,
            "enabled": user.enabled, "created": date(user.created_ms),
            "signed_in": user.signed_in_ms.map(date)}),
        )
        .await?;
        self.gather_logins(&user.id, sink).await?;
        for one in self.identities(&user.id).await? {
            give(
                sink,
                json!({"kind": "identity", "id": one.id(), "provider": one.provider, "issuer": one.issuer,
                "subject": one.subject, "email": one.email, "created": date(one.created_ms),
                "last_used": one.used_ms.map(date)}),
            )
            .await?;
        }
        Ok(())
    }

    async fn gather_logins(&self, user: &UserId, sink: &mut Sink) -> Result<()> {
        let mut last: Option<Login> = None;
        loop {
            let after = last.as_ref().map(|login| (login.created_ms, login.hash.as_str()));
            let mut logins = self.accounts.stores.users.logins(user, after, 0, AT_ONCE).await?;
            for login in &logins {
                give(
                    sink,
                    json!({"kind": "sign_in", "id": login.id(), "tenant": login.tenant,
                    "created": date(login.created_ms), "expires": date(login.expires_ms),
                    "last_used": login.last_used_ms.map(date)}),
                )
                .await?;
            }
            last = logins.pop();
            if last.is_none() {
                return Ok(());
            }
        }
    }

    async fn gather_keys(&self, tenant: &TenantId, user: &UserId, sink: &mut Sink) -> Result<()> {
        let mut theirs = TokenFilter {
            tenant: Some(tenant.clone()),
            user: Some(user.clone()),
            limit: AT_ONCE,
            ..TokenFilter::default()
        };
        loop {
            let keys = self.tokens.list(&theirs).await?;
            let Some(last) = keys.last() else { return Ok(()) };
            theirs.after = Some((last.created_ms, last.hash.clone()));
            for key in &keys {
                give(
                    sink,
                    json!({"kind": "api_key", "id": key.id(), "tenant": key.tenant, "name": key.name,
                    "role": key.role, "created": date(key.created_ms), "last_used": key.last_used_ms.map(date)}),
                )
                .await?;
            }
        }
    }

    async fn memberships_in(&self, user: &UserId, tenant: Option<&TenantId>) -> Result<Vec<Membership>> {
        let all = self.accounts.stores.tenants.memberships(user).await?;
        Ok(all.into_iter().filter(|one| tenant.is_none_or(|tenant| *tenant == one.tenant)).collect())
    }

    async fn gather_sessions(&self, tenant: &TenantId, user: &UserId, sink: &mut Sink) -> Result<()> {
        let mut after = None;
        loop {
            let sessions = self.sessions_of(tenant, user, after).await?;
            let Some(last) = sessions.last() else { return Ok(()) };
            after = Some((last.created_ms, last.key.id.clone()));
            for session in &sessions {
                self.gather_conversation(session, sink).await?;
            }
        }
    }

    async fn gather_conversation(&self, session: &Session, sink: &mut Sink) -> Result<()> {
        let (tenant, id) = (&session.key.tenant, &session.key.id);
        let (messages, mut last) = self.said_after(&session.key, None).await?;
        give(
            sink,
            json!({"kind": "conversation", "id": id, "tenant": tenant, "agent": session.canvas,
            "name": session.name, "created": date(session.created_ms), "messages": messages}),
        )
        .await?;
        while last.is_some() {
            let (messages, next) = self.said_after(&session.key, last).await?;
            if next.is_some() {
                give(
                    sink,
                    json!({"kind": "messages", "conversation": id, "tenant": tenant, "messages": messages}),
                )
                .await?;
            }
            last = next;
        }
        Ok(())
    }

    /// Returns the messages of a conversation after a position, and the position of the last one; `None` if there are
    /// no more.
    async fn said_after(
        &self,
        key: &SessionKey,
        after: Option<MessagePosition>,
    ) -> Result<(Vec<Json>, Option<MessagePosition>)> {
        let messages = self.sessions.messages_after(key, after, MESSAGES_AT_ONCE).await?;
        let last = messages.last().map(|(at, _)| *at);
        let shown = messages
            .iter()
            .map(|(_, one)| json!({"role": one.role, "content": one.content, "at": date(one.created_ms)}));
        Ok((shown.collect(), last))
    }

    /// Returns the conversations of a user after a position.
    async fn sessions_of(
        &self,
        tenant: &TenantId,
        user: &UserId,
        after: Option<(i64, SessionId)>,
    ) -> Result<Vec<Session>> {
        let filter = SessionFilter {
            user_id: Some(user.to_string()),
            // A conversation that continues between two pages keeps its position in this order.
            order: SessionOrder::Created,
            ascending: true,
            after,
            limit: AT_ONCE,
            ..SessionFilter::default()
        };
        Ok(self.sessions.list(tenant, &filter).await?.0)
    }

    async fn gather_files(&self, tenant: &TenantId, user: &UserId, sink: &mut Sink) -> Result<()> {
        let mut last: Option<StoredFile> = None;
        loop {
            let mut files = self.files_of(tenant, user, last.as_ref()).await?;
            for file in &files {
                give(
                    sink,
                    json!({"kind": "file", "id": file.id, "tenant": tenant, "name": file.name,
                    "mime_type": file.mime_type, "size": file.size, "created": date(file.created_ms)}),
                )
                .await?;
            }
            last = files.pop();
            if last.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns the files that a user has attached, after one of them.
    async fn files_of(
        &self,
        tenant: &TenantId,
        user: &UserId,
        last: Option<&StoredFile>,
    ) -> Result<Vec<StoredFile>> {
        let after = last.map(|file| (file.created_ms, &file.id));
        self.files.of_user(tenant, user, after, AT_ONCE).await
    }

    async fn gather_schedules(&self, tenant: &TenantId, user: &UserId, sink: &mut Sink) -> Result<()> {
        for key in self.schedules_of(tenant, user).await? {
            // It may have been removed in the meantime.
            let Some(one) = found(self.schedules.get(&key).await)? else { continue };
            give(
                sink,
                json!({"kind": "schedule", "id": key.id, "tenant": tenant, "agent": one.canvas, "name": one.name,
                "timing": timing_text(&one.timing), "query": one.input.query, "inputs": one.input.inputs,
                "created": date(one.created_ms)}),
            )
            .await?;
        }
        Ok(())
    }

    async fn gather_memories(&self, tenant: &TenantId, user: &UserId, sink: &mut Sink) -> Result<()> {
        let store = &self.memories.store;
        for memory in store.list(tenant).await? {
            let mut theirs = of_user(user);
            loop {
                let (messages, _) = store.messages(&memory.key, &theirs).await?;
                let Some(last) = messages.last() else { break };
                theirs.after = Some(last.number);
                for one in &messages {
                    give(
                        sink,
                        json!({"kind": "memory", "memory": memory.key.id, "tenant": tenant,
                        "number": one.number, "content": one.message.content}),
                    )
                    .await?;
                }
            }
        }
        Ok(())
    }

    async fn gather_audit(&self, tenant: &TenantId, user: &UserId, sink: &mut Sink) -> Result<()> {
        let mut after = None;
        loop {
            let filter = AuditFilter {
                actor: Some(format!("user:{user}")),
                after,
                ascending: true,
                limit: AT_ONCE,
                ..AuditFilter::default()
            };
            let entries = self.accounts.stores.audit.audit(tenant, &filter).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            after = Some(AuditPosition { at_ms: last.at_ms, id: last.id.clone() });
            for one in &entries {
                give(
                    sink,
                    json!({"kind": "audit", "tenant": tenant, "at": date(one.at_ms), "action": one.action,
                    "target": one.target, "outcome": one.outcome, "address": one.address}),
                )
                .await?;
            }
        }
    }

    /// Removes a user and what is kept of them, in tenants that they have left as well: conversations with their runs
    /// and files, the files that they have attached, what memories have of them, schedules that run in their name,
    /// sign-ins, API keys, memberships. The tenant of their registration loses the name that it has from them. What
    /// the audit log says stays, with an id that leads to nobody any more, also where it had their address; so do the
    /// agents, the datasets and the file manager of their tenants. In the tenant that has their own id everything stays
    /// if they have left it.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for the last owner of a tenant that has other members, or while one of their turns is
    /// running.
    pub async fn erase_user(&self, id: &UserId) -> Result<()> {
        let user = self.accounts.stores.users.user(id).await?;
        let memberships = self.accounts.stores.tenants.memberships(id).await?;
        for membership in &memberships {
            self.check_replaceable(membership).await?;
        }
        // Also in tenants that they have left: their conversations there are still their data. The tenant created by a
        // registration has the id of its first user, and so do conversations that are started there with keys of no
        // user: once this user has left it, these belong to others.
        let is_other = |tenant: &TenantId| tenant.as_str() != id.as_str();
        let mut tenants: BTreeSet<TenantId> =
            self.all_tenants().await?.into_iter().filter(is_other).collect();
        tenants.extend(memberships.into_iter().map(|one| one.tenant));
        for tenant in &tenants {
            self.erase_in(tenant, id).await?;
        }
        // In the logs of all tenants, because those that they have left contain the address as well.
        self.accounts.stores.audit.replace_audit_target(&user.email, id.as_str()).await?;
        // The tenant of a registration is named after its user.
        let own = TenantId::new(id.as_str());
        found(self.accounts.stores.tenants.rename_tenant(&own, id.as_str()).await)?;
        // The user is removed last, so that an interrupted removal can be repeated.
        self.accounts.stores.users.remove_user(id).await
    }

    /// Checks, before a member is removed or disabled, that a tenant with other members keeps an owner who can sign in.
    pub(super) async fn check_replaceable(&self, membership: &Membership) -> Result<()> {
        if membership.role != MemberRole::Owner {
            return Ok(());
        }
        let members = self.accounts.stores.tenants.members(&membership.tenant, 0, LISTED_MAX).await?;
        let mut others = members.iter().filter(|(one, _)| one.user != membership.user).peekable();
        if others.peek().is_none() || others.any(|(one, user)| one.role == MemberRole::Owner && user.enabled)
        {
            return Ok(());
        }
        let message = format!("the tenant `{}` would be left without an owner", membership.tenant);
        Err(Error::new(ErrorKind::Conflict, message).help("make another member an owner first"))
    }

    async fn erase_in(&self, tenant: &TenantId, user: &UserId) -> Result<()> {
        // Before the conversations, because each of their runs would start another one.
        self.stop_schedules_of(tenant, user).await?;
        loop {
            // Always from the beginning, because removed conversations leave the list.
            let sessions = self.sessions_of(tenant, user, None).await?;
            if sessions.is_empty() {
                break;
            }
            for session in sessions {
                self.erase_session(&session.key).await?;
            }
        }
        self.remove_schedules_of(tenant, user).await?;
        self.erase_files(tenant, user).await?;
        // Only after the conversations: a turn that is under way would add to the memories again.
        self.memories.store.remove_of_user(tenant, user.as_str()).await
    }

    async fn erase_files(&self, tenant: &TenantId, user: &UserId) -> Result<()> {
        loop {
            // Always from the beginning: what is removed leaves the list.
            let files = self.files_of(tenant, user, None).await?;
            if files.is_empty() {
                return Ok(());
            }
            let ids: Vec<FileId> = files.into_iter().map(|file| file.id).collect();
            self.files.remove(tenant, &ids).await?;
        }
    }

    async fn erase_session(&self, key: &SessionKey) -> Result<()> {
        found(self.end_session(key).await).map(drop)
    }
}

fn of_user(user: &UserId) -> MessageFilter {
    MessageFilter { user: Some(user.to_string()), limit: AT_ONCE, ..MessageFilter::default() }
}

async fn give(sink: &mut Sink, found: Json) -> Result<()> {
    let given = futures::SinkExt::send(sink, Ok(found)).await;
    given.map_err(|_| Error::new(ErrorKind::Cancelled, "the client has stopped reading"))
}
