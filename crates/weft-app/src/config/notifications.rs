//! Settings of what people are told without having asked.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use weft_core::Secret;
use weft_core::seam::notice_store::NoticeKind;

/// Who is told when a run fails, a budget is nearly used up or a task is overdue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NotificationsConfig {
    /// From how many per cent on a budget of a canvas or a tenant is told of.
    pub budget_percent: u32,
    /// Hours after which a task without a time limit of its own is overdue; 0: it never is.
    pub task_hours: u32,
    /// How often a delivery is tried.
    pub attempts: u32,
    /// Notices of one tenant that each process delivers in an hour.
    pub per_hour: u32,
    /// Where mail is handed in.
    pub mail: MailConfig,
    /// Who is told, by tenant.
    pub tenants: BTreeMap<String, Receivers>,
}

/// The server that takes mail.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MailConfig {
    /// Its name; empty: no mail is sent.
    pub host: String,
    /// 465 for TLS from the first byte on, any other for TLS by `STARTTLS`.
    pub port: u16,
    /// Who signs in there; empty: nobody.
    pub user: String,
    /// Their password.
    pub password: Secret,
    /// The address that mail comes from.
    pub from: String,
}

/// Who is told of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Receivers {
    /// An address that is called with `POST`; empty: none is.
    pub webhook: String,
    /// What the calls are signed with.
    pub secret: Secret,
    /// Addresses that get mail.
    pub mail: Vec<String>,
    /// What they are told of; absent: everything.
    pub events: Option<BTreeSet<NoticeKind>>,
}

impl Receivers {
    /// Whether they are told of this.
    pub fn want(&self, kind: NoticeKind) -> bool {
        self.events.as_ref().is_none_or(|events| events.contains(&kind))
    }
}

impl Default for NotificationsConfig {
    fn default() -> Self {
        Self {
            budget_percent: 80,
            task_hours: 24,
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
            port: 587,
            user: String::new(),
            password: Secret::default(),
            from: String::new(),
        }
    }
}

impl NotificationsConfig {
    /// Settings with which somebody who is to be told could not be.
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
    fn who_is_to_be_told_can_be() {
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
    fn they_are_told_of_what_they_want() {
        let some = Receivers { events: Some([NoticeKind::Budget].into()), ..Receivers::default() };
        assert!(Receivers::default().want(NoticeKind::RunFailed));
        assert!(some.want(NoticeKind::Budget) && !some.want(NoticeKind::RunFailed));
    }
}
