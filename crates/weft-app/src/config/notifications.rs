//! Settings of notifications.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use weft_core::Secret;
use weft_core::seam::notice_store::NoticeKind;

/// Who is notified when a run fails, a budget is nearly used up or a task is overdue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NotificationsConfig {
    /// Used percentage of a canvas or tenant budget that triggers a notification.
    pub budget_percent: u32,
    /// Hours after which a task without its own time limit is overdue; 0: never.
    pub task_hours: u32,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// Maximum number of notifications of one tenant that each process delivers per hour.
    pub per_hour: u32,
    /// The mail server.
    pub mail: MailConfig,
    /// Receivers, by tenant.
    pub tenants: BTreeMap<String, Receivers>,
}

/// A server for outgoing mail.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MailConfig {
    /// Its host name; empty: no mail is sent.
    pub host: String,
    /// 465 for implicit TLS, any other for `STARTTLS`.
    pub port: u16,
    /// User name; empty: no authentication.
    pub user: String,
    /// Password.
    pub password: Secret,
    /// Sender address.
    pub from: String,
}

/// Receivers of a tenant's notifications.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Receivers {
    /// A URL that is called with `POST`; empty for none.
    pub webhook: String,
    /// Secret for signing the calls.
    pub secret: Secret,
    /// Mail addresses.
    pub mail: Vec<String>,
    /// Events to report; absent: all.
    pub events: Option<BTreeSet<NoticeKind>>,
}

impl Receivers {
    /// Returns whether they want this event.
    pub fn want(&self, kind: NoticeKind) -> bool {
        self.events.as_ref().is_none_or(|events| events.contains(&kind))
    }
}

impl Default for NotificationsConfig {
    fn default() -> Self {
        Self {
            budget_percent: 80,
            task_hours: 24,
            // With the growing pauses between them, these take about five hours.
            attempts: 12,
            per_hour: 100,
            mail: MailConfig::default(),
            tenants: BTreeMap::new(),
        }
    }
}

impl Default for MailConfig {
    fn default() -> Self {
        Self {
            host: String::new(),
            // The port for submitting mail (RFC 6409).
            port: 587,
            user: String::new(),
            password: Secret::default(),
            from: String::new(),
        }
    }
}

impl NotificationsConfig {
    /// Returns settings with which a notification could not be delivered.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut need = |fits: bool, what: String| wrong.extend((!fits).then_some(what));
        need(
            (1..=100).contains(&self.budget_percent),
            "notifications.budget_percent must be between 1 and 100".into(),
        );
        need(self.attempts > 0, "notifications.attempts must be at least 1".into());
        need(self.per_hour > 0, "notifications.per_hour must be at least 1".into());
        let mail = &self.mail;
        need(
            mail.host.is_empty() || mail.from.contains('@'),
            "notifications.mail.from must be the address that mail comes from".into(),
        );
        for (tenant, one) in &self.tenants {
            let name = format!("notifications.tenants.{tenant}");
            need(
                !one.webhook.is_empty() || !one.mail.is_empty(),
                format!("{name} must have a `webhook` or `mail`"),
            );
            let is_web = one.webhook.starts_with("https://") || one.webhook.starts_with("http://");
            need(
                one.webhook.is_empty() || is_web,
                format!("{name}.webhook must begin with https:// or http://"),
            );
            need(
                one.webhook.is_empty() || !one.secret.reveal().trim().is_empty(),
                format!("{name}.secret must be set: calls are signed with it"),
            );
            need(
                one.mail.is_empty() || !mail.host.is_empty(),
                format!("{name}.mail needs notifications.mail.host"),
            );
            need(
                one.mail.iter().all(|address| address.contains('@')),
                format!("{name}.mail must be a list of addresses, such as [\"ann@example.com\"]"),
            );
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        toml::from_str::<NotificationsConfig>(text).unwrap().problems()
    }

    #[test]
    fn receivers_are_checked() {
        let check = |text: &str, parts: &[&str]| {
            let found = problems(text);
            assert_eq!(found.len(), parts.len(), "{text}: {found:?}");
            for (problem, part) in found.iter().zip(parts) {
                assert!(problem.contains(part), "{problem}");
            }
        };
        check("", &[]);
        check("[tenants.shop]\nwebhook = \"https://x\"\nsecret = \"s\"\nevents = [\"run_failed\"]", &[]);
        check("[tenants.shop]", &["shop must have"]);
        check("[tenants.shop]\nwebhook = \"x\"", &["shop.webhook must begin", "shop.secret must be set"]);
        check("[tenants.shop]\nmail = [\"ann\"]", &["needs notifications.mail.host", "list of addresses"]);
        check("[mail]\nhost = \"h\"", &["mail.from"]);
        check(
            "budget_percent = 101\nattempts = 0\nper_hour = 0",
            &["budget_percent", "attempts", "per_hour"],
        );
    }

    #[test]
    fn receivers_get_the_events_they_chose() {
        let some = Receivers { events: Some([NoticeKind::Budget].into()), ..Receivers::default() };
        assert!(Receivers::default().want(NoticeKind::RunFailed));
        assert!(some.want(NoticeKind::Budget) && !some.want(NoticeKind::RunFailed));
    }
}
