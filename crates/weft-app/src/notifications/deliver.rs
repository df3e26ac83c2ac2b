//! Delivery of notifications: takes waiting ones, and retries until they are delivered or given up.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::json;
use weft_core::seam::http::{HttpBody, HttpRequest};
use weft_core::seam::mailer::{Mail, MailServer};
use weft_core::seam::notice_store::{NoticeLease, NoticeOutcome, NoticeState, StoredNotice};
use weft_core::webhook::{HmacAlgorithm, Rate};
use weft_core::{ErrorKind, Result, TenantId};

use super::message::NotificationMessage;
use crate::app::App;
use crate::config::Receivers;
use crate::hmac::sign;

/// The header with the signature of a call: the hex-encoded HMAC-SHA-256 of the time, a dot and the body.
pub const SIGNATURE_HEADER: &str = "X-Signature-256";
/// The header with the signed time, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "X-Timestamp";

/// How often a process looks for waiting notifications.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Lease on a notification, after which another process may take it. Longer than all ways of delivery may take
/// together.
const LEASE_MS: i64 = 120_000;
/// Time limit of a webhook call.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for submitting a mail.
const MAIL_LIMIT: Duration = Duration::from_secs(30);
/// Maximum size of the response to a call, in bytes. Its content is ignored.
const ANSWER_MAX: usize = 64 << 10;
/// Number of notifications that are taken and delivered concurrently.
const AT_ONCE: usize = 8;
/// The pause after the first attempt; it doubles with each further one.
const FIRST_PAUSE_MS: i64 = 30_000;
/// The longest pause.
const PAUSE_MAX_MS: i64 = 3_600_000;
/// Age after which a notification without any attempt is given up.
// After a long outage people should not get a flood of notifications about what is long over.
const STALE_MS: i64 = 86_400_000;
/// How long notifications are kept.
const KEPT_MS: i64 = 30 * 86_400_000;
/// How often old ones are removed.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);
/// Period of [`crate::config::NotificationsConfig::per_hour`].
const HOUR: Duration = Duration::from_secs(3_600);

/// Outcome of one way of delivery.
enum DeliveryOutcome {
    Done,
    /// It may succeed later.
    Later(String),
    /// It will not succeed.
    Never(String),
}

impl App {
    /// Delivers notifications, periodically. Never returns. An interrupted delivery is started again by the next
    /// process that takes it.
    pub async fn keep_people_told(&self) {
        futures::join!(self.keep_watching(), self.keep_delivering());
    }

    async fn keep_delivering(&self) {
        let mut forgotten: Option<tokio::time::Instant> = None;
        loop {
            if forgotten.is_none_or(|then| then.elapsed() >= FORGET_EVERY) {
                let before_ms = self.clock.now_ms().saturating_sub(KEPT_MS);
                if let Err(error) = self.notifications.store.prune_notices(before_ms).await {
                    tracing::warn!(error = error.detail(), "old notifications could not be removed");
                }
                forgotten = Some(tokio::time::Instant::now());
            }
            if let Err(error) = self.deliver_notices().await {
                tracing::warn!(error = error.detail(), "cannot look for pending notifications");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Delivers the notifications that are due, a few concurrently. Returns how many were attempted.
    ///
    /// # Errors
    /// When the store cannot be read or written. The failure of a single one is stored with it.
    pub async fn deliver_notices(&self) -> Result<usize> {
        if self.notifications.config.tenants.is_empty() {
            // Another process may be configured with receivers.
            return Ok(0);
        }
        let mut tried = 0;
        loop {
            let now_ms = self.clock.now_ms();
            let until_ms = now_ms.saturating_add(LEASE_MS);
            let taken = self.notifications.store.take_notices(now_ms, until_ms, AT_ONCE as u64).await?;
            let count = taken.len();
            tried += count;
            let mut telling = FuturesUnordered::new();
            for (lease, stored) in &taken {
                telling.push(self.tell(lease, stored));
            }
            while telling.next().await.is_some() {}
            // A full batch: more may be waiting.
            if count < AT_ONCE {
                return Ok(tried);
            }
        }
    }

    async fn tell(&self, lease: &NoticeLease, stored: &StoredNotice) {
        let outcome = self.outcome(stored).await;
        if let NoticeState::GivenUp { .. } = outcome.state {
            tracing::warn!(
                kind = lease.key.kind.as_str(),
                subject = lease.key.subject,
                reason = outcome.reason,
                "a notification was not delivered"
            );
        }
        // If the outcome is not stored, the notification is delivered again when its lease expires, with the same id.
        if let Err(error) = self.notifications.store.settle_notice(lease, &outcome).await {
            tracing::warn!(
                subject = lease.key.subject,
                error = error.detail(),
                "the outcome of a notification could not be stored"
            );
        }
    }

    async fn outcome(&self, stored: &StoredNotice) -> NoticeOutcome {
        let key = &stored.notice.key;
        let now_ms = self.clock.now_ms();
        let ended = |state, reason: &str| NoticeOutcome {
            done: stored.done.clone(),
            state,
            reason: reason.to_owned(),
        };
        let given_up = NoticeState::GivenUp { at_ms: now_ms };
        let receivers = self.notifications.config.tenants.get(key.tenant.as_str());
        let Some(receivers) = receivers.filter(|receivers| receivers.want(key.kind)) else {
            return ended(NoticeState::Delivered { at_ms: now_ms }, "the settings name no receiver");
        };
        // Only a first attempt is rejected: after that, delivery is tried to the end.
        if stored.attempts <= 1 {
            if now_ms.saturating_sub(stored.notice.at_ms) > STALE_MS {
                return ended(given_up, "it was more than a day old before anybody could be notified");
            }
            let rate = Rate { limit: self.notifications.config.per_hour, per: HOUR };
            if !self.notifications.rates.take(&key.tenant, rate, self.clock.running()) {
                return ended(given_up, "too many notices in this hour: see notifications.per_hour");
            }
        }
        let message = self.message(&stored.notice).await;
        let (mut done, mut later) = (stored.done.clone(), Vec::new());
        for way in ways(receivers, &stored.done) {
            let told = match way {
                WEBHOOK => self.call(stored, receivers, &message).await,
                _ => self.mail(&key.tenant, receivers, &message).await,
            };
            match told {
                DeliveryOutcome::Later(reason) => later.push(format!("{way}: {reason}")),
                DeliveryOutcome::Done => done.push(way.to_owned()),
                DeliveryOutcome::Never(reason) => done.push(format!("{way}: {reason}")),
            }
        }
        let never: Vec<String> = done.iter().filter(|done| way_of(done) != done.as_str()).cloned().collect();
        let last = stored.attempts >= self.notifications.config.attempts;
        let state = match (later.as_slice(), never.as_slice()) {
            ([], []) => NoticeState::Delivered { at_ms: now_ms },
            ([_, ..], _) if !last => {
                NoticeState::Waiting { from_ms: now_ms.saturating_add(pause_ms(stored.attempts)) }
            }
            _ => given_up,
        };
        NoticeOutcome { done, state, reason: [never, later].concat().join("; ") }
    }

    /// Calls the tenant's URL.
    async fn call(
        &self,
        stored: &StoredNotice,
        receivers: &Receivers,
        message: &NotificationMessage,
    ) -> DeliveryOutcome {
        let notice = &stored.notice;
        let body = json!({
            "id": message.id, "event": notice.key.kind, "tenant_id": notice.key.tenant, "time": notice.at_ms,
            "text": message.title, "data": message.data,
        });
        // The time of this attempt, so that a receiver can refuse a recorded call that is sent again.
        let time = self.clock.now_ms().div_euclid(1_000).to_string();
        // The client serializes it in the same way: a JSON value has one serialized form.
        let text = body.to_string();
        let parts = [time.as_bytes(), b".", text.as_bytes()];
        let signature = sign(HmacAlgorithm::Hs256, receivers.secret.reveal().trim().as_bytes(), &parts);
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: receivers.webhook.clone(),
            headers: vec![
                (TIMESTAMP_HEADER.to_owned(), time),
                (SIGNATURE_HEADER.to_owned(), weft_core::hex(&signature)),
                ("Idempotency-Key".to_owned(), message.id.clone()),
            ],
            body: HttpBody::Json(body),
            time_limit: CALL_LIMIT,
            body_max: ANSWER_MAX,
            proxy: None,
        };
        match self.notifications.http.send(&notice.key.tenant, request).await.map(|answer| answer.status) {
            Ok(200..=299) => DeliveryOutcome::Done,
            // These may be temporary; any other status is a definite answer to this call.
            Ok(status @ (408 | 425 | 429 | 500..)) => {
                DeliveryOutcome::Later(format!("it responded with status {status}"))
            }
            Ok(status) => DeliveryOutcome::Never(format!("it responded with status {status}")),
            // A retry would have the same address and response.
            Err(error) if matches!(error.kind, ErrorKind::Denied | ErrorKind::Invalid) => {
                DeliveryOutcome::Never(error.full())
            }
            Err(error) => DeliveryOutcome::Later(error.full()),
        }
    }

    /// Sends a mail to the tenant's addresses.
    async fn mail(
        &self,
        tenant: &TenantId,
        receivers: &Receivers,
        message: &NotificationMessage,
    ) -> DeliveryOutcome {
        let config = &self.notifications.config.mail;
        let server = MailServer {
            host: config.host.clone(),
            port: config.port,
            user: config.user.clone(),
            password: config.password.clone(),
        };
        let mail = Mail {
            server,
            from: ("Weft".to_owned(), config.from.clone()),
            to: receivers.mail.clone(),
            cc: Vec::new(),
            subject: format!("Weft: {}", message.title),
            html: message.html(),
            text: message.text(),
            id: message.id.clone(),
            time_limit: MAIL_LIMIT,
        };
        match self.notifications.mailer.send(tenant, mail).await {
            Ok(()) => DeliveryOutcome::Done,
            Err(error) if error.kind == ErrorKind::Unavailable => DeliveryOutcome::Later(error.full()),
            // It was rejected, or may have been accepted: a log entry is better than a second mail.
            Err(error) => DeliveryOutcome::Never(error.full()),
        }
    }
}

/// Delivery by a webhook call.
const WEBHOOK: &str = "webhook";
/// Delivery by mail.
const MAIL: &str = "mail";

/// Returns the configured ways of delivery that are not done.
fn ways(receivers: &Receivers, done: &[String]) -> Vec<&'static str> {
    let webhook = (!receivers.webhook.is_empty()).then_some(WEBHOOK);
    let wanted = webhook.into_iter().chain((!receivers.mail.is_empty()).then_some(MAIL));
    wanted.filter(|way| !done.iter().any(|done| way_of(done) == *way)).collect()
}

/// Returns the way that is done: an entry starts with it, followed by the reason if it has failed.
fn way_of(done: &str) -> &str {
    done.split_once(": ").map_or(done, |(way, _)| way)
}

/// Returns the pause after this many attempts.
fn pause_ms(attempts: u32) -> i64 {
    let doubled = 1_i64.checked_shl(attempts.saturating_sub(1).min(30)).unwrap_or(i64::MAX);
    FIRST_PAUSE_MS.saturating_mul(doubled).min(PAUSE_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_pauses_grow_up_to_a_maximum() {
        assert_eq!(
            [1, 2, 3, 8, 100, u32::MAX].map(pause_ms),
            [30_000, 60_000, 120_000, PAUSE_MAX_MS, PAUSE_MAX_MS, PAUSE_MAX_MS]
        );
    }
}
