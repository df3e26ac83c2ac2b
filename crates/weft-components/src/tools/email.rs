//! The Email component: sends a mail.
//!
//! A mail is submitted only once: if it was submitted to a server and it is unknown whether the server accepted it, the
//! node fails and says so, even after a crash.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use weft_core::effect::Delivery;
use weft_core::seam::mailer::{Mail, MailServer};
use weft_core::secret::Secret;
use weft_core::{
    Component, ComponentSpec, Error, ErrorKind, Finished, Json, NodeContext, OutputSpec, Outputs,
    ParamProblem, Reads, Result, Role, Shape, Template, ToolSpec, async_trait,
};

use crate::params::{Field, FieldGroup, Params, fields, more_than_a_host, unfilled, written_out};
use crate::web::{DELAY_AFTER_ERROR, MAX_RETRIES, page_text};

/// Time limit for submitting a mail.
// Servers check a mail before they accept it, some for half a minute. Giving up sooner leaves it unknown whether the
// mail was sent.
const TIME_LIMIT: Duration = Duration::from_secs(60);

static TO_EMAIL: Field<Template> = Field::template("to_email", "the recipients' addresses, comma-separated")
    .or("sys.query")
    .by_model("the addresses of the recipients, with commas between them");
static CC_EMAIL: Field<Template> =
    Field::template("cc_email", "the addresses that get a copy, comma-separated")
        .by_model_if_wanted("the addresses of who gets a copy, with commas between them");
static SUBJECT: Field<Template> =
    Field::template("subject", "the subject").by_model_if_wanted("the subject of the mail");
static CONTENT: Field<Template> = Field::template("content", "the text, plain or as HTML")
    .by_model_if_wanted("the text of the mail, plain or as HTML");
static ALLOWED: Field<Vec<String>> = Field::texts(
    "allowed_recipients",
    "the permitted recipients: addresses, or domains such as `@example.org`; any if empty",
);
static SMTP_SERVER: Field<Template> = Field::template("smtp_server", "the SMTP server");
static SMTP_PORT: Field<usize> =
    Field::count("smtp_port", 465, &(1..=65_535), "the port; 465 for implicit TLS, any other for STARTTLS");
static EMAIL: Field<Template> = Field::template("email", "the address of the sender");
static SMTP_USERNAME: Field<Template> =
    Field::template("smtp_username", "the user name for the server, if it is not the sender's address");
static PASSWORD: Field<Template> = Field::template(
    "password",
    "the password, preferably as `{secret.NAME}`; empty to send without authentication",
)
.secret();
static SENDER_NAME: Field<Template> = Field::template("sender_name", "the sender name that recipients see");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Email",
    role: Role::Step,
    summary: "Sends an e-mail.",
    fields: &[
        fields(&[&TO_EMAIL, &CC_EMAIL, &SUBJECT, &CONTENT, &ALLOWED]),
        FieldGroup {
            title: "Sender",
            fields: &[&SMTP_SERVER, &SMTP_PORT, &EMAIL, &SMTP_USERNAME, &PASSWORD, &SENDER_NAME],
        },
        FieldGroup { title: "Retries", fields: &[&MAX_RETRIES, &DELAY_AFTER_ERROR] },
    ],
    outputs: &[OutputSpec::new("success", "boolean", "whether the server accepted it")],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "email", idempotent: false, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let email = Email {
            to: params.take(&TO_EMAIL),
            cc: params.take(&CC_EMAIL),
            subject: params.take(&SUBJECT),
            content: params.take(&CONTENT),
            // Addresses are compared case-insensitively, as most servers do.
            allowed: params
                .take(&ALLOWED)
                .iter()
                .map(|one| one.trim().to_lowercase())
                .filter(|one| !one.is_empty())
                .collect(),
            server: params.take(&SMTP_SERVER),
            port: params.take(&SMTP_PORT),
            from: params.take(&EMAIL),
            user: params.take(&SMTP_USERNAME),
            password: params.take(&PASSWORD),
            name: params.take(&SENDER_NAME),
            retries: params.take(&MAX_RETRIES),
            delay: Duration::from_secs_f64(params.take(&DELAY_AFTER_ERROR)),
            warnings: params.warnings(),
        };
        params.finish(email)
    },
};

struct Email {
    to: Template,
    cc: Template,
    subject: Template,
    content: Template,
    /// In lower case.
    allowed: Vec<String>,
    server: Template,
    port: usize,
    from: Template,
    user: Template,
    password: Template,
    name: Template,
    retries: usize,
    delay: Duration,
    warnings: Vec<ParamProblem>,
}

impl Email {
    fn texts(&self) -> [&Template; 9] {
        let Self { to, cc, subject, content, server, from, user, password, name, .. } = self;
        [to, cc, subject, content, server, from, user, password, name]
    }

    fn lacks(&self) -> Option<ParamProblem> {
        let needed = [
            (&SMTP_SERVER, &self.server, "enter the name of the SMTP server"),
            (&EMAIL, &self.from, "enter the sender's address"),
        ];
        let (field, _, help) = needed.into_iter().find(|(_, text, _)| text.source().trim().is_empty())?;
        Some(ParamProblem::new(format!("/{}", field.name()), "is empty, so no mail can be sent").help(help))
    }

    /// Returns literal recipients to which no mail may go: the mail fails.
    fn refused(&self) -> impl Iterator<Item = ParamProblem> {
        let all = [(&TO_EMAIL, &self.to), (&CC_EMAIL, &self.cc)];
        all.into_iter().filter_map(|(field, text)| {
            let other = addresses(written_out(text)?)
                .into_iter()
                .find(|one| is_address(one) && !self.may_go_to(one))?;
            let message = format!("`allowed_recipients` does not allow mail to `{other}`: the node fails");
            let problem = ParamProblem::new(format!("/{}", field.name()), message);
            Some(problem.help("add the address or its domain there, or choose another recipient"))
        })
    }

    /// Returns literal addresses that are invalid: the mail fails.
    fn unsendable(&self) -> impl Iterator<Item = ParamProblem> {
        let all = [(&TO_EMAIL, &self.to), (&CC_EMAIL, &self.cc), (&EMAIL, &self.from)];
        all.into_iter().filter_map(|(field, text)| {
            let wrong = addresses(written_out(text)?).into_iter().find(|one| !is_address(one))?;
            let message = format!("`{wrong}` is not a valid e-mail address, and the node fails");
            let problem = ParamProblem::new(format!("/{}", field.name()), message);
            Some(problem.help("write it as `name@example.org`"))
        })
    }

    async fn mail(&self, ctx: &NodeContext) -> Result<Mail> {
        if let Some(lacks) = self.lacks() {
            let error =
                Error::invalid(format!("`{}` {}", lacks.pointer.trim_start_matches('/'), lacks.message));
            return Err(lacks.help.into_iter().fold(error, Error::help));
        }
        let text = |template: &Template| Ok::<_, Error>(template.render(&ctx.inputs)?.trim().to_owned());
        let (to, cc) = (addresses(&text(&self.to)?), addresses(&text(&self.cc)?));
        if to.is_empty() {
            return Err(Error::invalid("the mail has no recipient").help("enter an address in `to_email`"));
        }
        // Before anything is sent: a mail goes to all of its recipients or to none.
        if let Some(other) = to.iter().chain(&cc).find(|address| !self.may_go_to(address)) {
            return Err(Error::new(ErrorKind::Denied, format!("mail may not go to `{other}`"))
                .help("`allowed_recipients` says where mail may go"));
        }
        let from = text(&self.from)?;
        // Not trimmed: a space at the end of a password is part of it.
        let password = self.password.render(&ctx.inputs)?;
        let user = match (password.is_empty(), text(&self.user)?) {
            (true, _) => String::new(),
            (false, user) if user.is_empty() => from.clone(),
            (false, user) => user,
        };
        let content = text(&self.content)?;
        let html = html(&content);
        // For readers that do not show markup. A text without any is used as it is; converting it would break its long
        // lines, and addresses in them.
        let plain = if has_markup(&content) { page_text(content).await? } else { content };
        let port = u16::try_from(self.port).unwrap_or(u16::MAX);
        Ok(Mail {
            server: MailServer { host: text(&self.server)?, port, user, password: Secret::new(password) },
            from: (text(&self.name)?, from),
            to,
            cc,
            subject: text(&self.subject)?,
            html,
            text: plain,
            // Lets a server recognise a mail that is submitted a second time.
            id: name_of(ctx),
            time_limit: TIME_LIMIT,
        })
    }

    fn may_go_to(&self, address: &str) -> bool {
        // A name may precede the address, as in `Name <address>`.
        let address =
            address.trim().trim_end_matches('>').rsplit(['<', ' ']).next().unwrap_or_default().to_lowercase();
        let allowed = |one: &String| {
            if one.starts_with('@') { address.ends_with(one.as_str()) } else { address == *one }
        };
        self.allowed.is_empty() || self.allowed.iter().any(allowed)
    }
}

/// Splits addresses at commas, semicolons and line breaks. A comma within a quoted name is part of it.
fn addresses(text: &str) -> Vec<String> {
    let mut quoted = false;
    let mut parts = vec![String::new()];
    for c in text.chars() {
        match c {
            ',' | ';' | '\n' if !quoted => parts.push(String::new()),
            _ => {
                quoted ^= c == '"';
                if let Some(last) = parts.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Whether a text may be an address, possibly after a name: `Name <address>`.
fn is_address(text: &str) -> bool {
    let address = text.rsplit_once('<').map_or(text, |(_, address)| address.trim_end_matches('>'));
    address.trim().rsplit_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && !host.is_empty() && !host.contains(char::is_whitespace)
    })
}

/// Whether a text contains HTML markup.
fn has_markup(text: &str) -> bool {
    // Searched for once: otherwise, for each of a million `<`, the search for a missing end would scan the whole text.
    let last_end = text.rfind('>').unwrap_or(0);
    text.match_indices('<').take_while(|(at, _)| *at < last_end).any(|(at, _)| {
        let behind = text[at + 1..].trim_start_matches('/');
        behind.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!')
    })
}

/// Returns a text as HTML: unchanged if it has markup, otherwise with its lines preserved.
fn html(text: &str) -> String {
    if has_markup(text) {
        return text.to_owned();
    }
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\n', "<br>\n")
}

/// Returns the id of the mail: the same when it is submitted again.
fn name_of(ctx: &NodeContext) -> String {
    Sha256::digest(ctx.call_key()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[async_trait]
impl Component for Email {
    fn shape(&self) -> Shape {
        let lacks = self.lacks();
        let wrong =
            self.unsendable().chain(self.refused()).chain(more_than_a_host(&SMTP_SERVER, &self.server));
        Shape {
            reads: Reads::always(self.texts().into_iter().flat_map(Template::references).cloned()),
            main_output: "success",
            warnings: self.warnings.iter().chain(&lacks).cloned().chain(wrong).collect(),
            secrets: self.password.references().cloned().collect(),
            unfilled: unfilled(&CONTENT, &self.content, "the mail has no text", "write what the mail says")
                .into_iter()
                .collect(),
            lacks,
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let mail = self.mail(ctx).await?;
        let mut left = self.retries;
        loop {
            let question = ctx.effects.question("mail", &(&mail.to, &mail.cc, &mail.subject, &mail.html));
            let mut now = false;
            let sending = async {
                now = true;
                ctx.run.seams.mailer.send(&ctx.run.tenant, mail.clone()).await
            };
            let sent = ctx.effect_asking("mail", Delivery::AtMostOnce, question, sending).await;
            match sent {
                Ok(((), _)) => return Ok(Outputs::of("success", Json::from(true)).into()),
                // The mail was not submitted.
                Err(error) if error.kind == ErrorKind::Unavailable && left > 0 => {
                    left -= 1;
                    // For a failure known from the journal, the wait already took place.
                    if now {
                        tokio::time::sleep(self.delay).await;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value as Json, json};
    use weft_core::seam::Mailer;
    use weft_core::seam::mailer::Mail;
    use weft_core::{Error, ErrorKind, Result, TenantId};

    use super::{addresses, html};
    use crate::testing::{Node, Setting, Stage, failure, outputs};

    #[derive(Debug, Default)]
    struct Letterbox {
        fails: Mutex<Vec<ErrorKind>>,
        taken: Mutex<Vec<Mail>>,
    }

    #[weft_core::async_trait]
    impl Mailer for Letterbox {
        async fn send(&self, _: &TenantId, mail: Mail) -> Result<()> {
            if let Some(kind) = self.fails.lock().unwrap().pop() {
                return Err(Error::new(kind, "the server says no"));
            }
            self.taken.lock().unwrap().push(mail);
            Ok(())
        }
    }

    fn setting(
        letterbox: &Arc<Letterbox>,
        values: impl IntoIterator<Item = (&'static str, Json)>,
    ) -> Setting {
        let mailer = Arc::clone(letterbox);
        Setting { seams: Some(Box::new(move |seams| seams.mailer = mailer)), ..Setting::values(values) }
    }

    fn node(more: Json) -> Node {
        let mut node = Node::new(
            "Email",
            json!({"to_email": "ada@example.org, \"Hopper, Grace\" <grace@example.org>", "content": "a < b\n2",
                "subject": "About {Agent:A@topic}", "smtp_server": "smtp.example", "email": "weft@example.org",
                "password": "{Agent:A@key}", "sender_name": "Weft", "delay_after_error": 0}),
        );
        node.add(more);
        node
    }

    #[tokio::test]
    async fn a_mail_is_sent_as_written() {
        let letterbox = Arc::new(Letterbox::default());
        let values = [("Agent:A@topic", json!("looms")), ("Agent:A@key", json!("pass"))];
        assert_eq!(outputs(&node(json!({})), setting(&letterbox, values)).await, json!({"success": true}));
        let mail = letterbox.taken.lock().unwrap().pop().unwrap();
        assert_eq!(mail.to, ["ada@example.org", "\"Hopper, Grace\" <grace@example.org>"]);
        assert_eq!((mail.subject.as_str(), mail.html.as_str()), ("About looms", "a &lt; b<br>\n2"));
        assert!(mail.text.contains("a < b"), "{}", mail.text);
        assert_eq!((mail.server.port, mail.server.user.as_str()), (465, "weft@example.org"));
        assert_eq!(mail.server.password.reveal(), "pass");
        assert_eq!(mail.id.len(), 64);
    }

    #[tokio::test]
    async fn a_text_without_markup_is_the_plain_part_unchanged() {
        let letterbox = Arc::new(Letterbox::default());
        let text = format!("Sums:\n  a    1\nhttps://a.example/?{}", "x".repeat(300));
        outputs(&node(json!({"content": text})), setting(&letterbox, [])).await;
        let mail = letterbox.taken.lock().unwrap().pop().unwrap();
        assert_eq!(mail.text, text);
        assert!(mail.html.starts_with("Sums:<br>\n"), "{}", mail.html);
        outputs(&node(json!({"content": "<h1>Sums</h1><p>a <b>1</b>"})), setting(&letterbox, [])).await;
        let mail = letterbox.taken.lock().unwrap().pop().unwrap();
        assert!(mail.text.starts_with("# Sums") && mail.html.starts_with("<h1>"), "{}", mail.text);
    }

    #[tokio::test]
    async fn only_undelivered_mail_is_resent() {
        let check = async |fails: &[ErrorKind], sent: bool| {
            let letterbox = Arc::new(Letterbox { fails: Mutex::new(fails.to_vec()), ..Letterbox::default() });
            let node = node(json!({"max_retries": 1}));
            let component = node.build();
            let stage = Stage::new(&node, &*component, setting(&letterbox, []));
            assert_eq!(component.run(&stage.ctx).await.is_ok(), sent, "{fails:?}");
        };
        check(&[ErrorKind::Unavailable], true).await;
        check(&[ErrorKind::Unavailable, ErrorKind::Unavailable], false).await;
        check(&[ErrorKind::Interrupted], false).await;
        check(&[ErrorKind::Unauthenticated], false).await;
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_had_failed_are_not_waited_for_again() {
        let letterbox = |fails: &[ErrorKind]| {
            Arc::new(Letterbox { fails: Mutex::new(fails.to_vec()), ..Letterbox::default() })
        };
        let node = node(json!({"max_retries": 1, "delay_after_error": 10}));
        let component = node.build();
        let begun = tokio::time::Instant::now();
        let mut first = Stage::new(&node, &*component, setting(&letterbox(&[ErrorKind::Unavailable]), []));
        component.run(&first.ctx).await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 10);
        let notes = first.notes();
        let second = Stage::new(&node, &*component, setting(&letterbox(&[]), [])).again(&notes[..2]);
        let begun = tokio::time::Instant::now();
        component.run(&second.ctx).await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 0);
    }

    #[tokio::test]
    async fn mail_goes_only_to_allowed_servers() {
        let check = async |to: &str, allowed: Json, good: bool| {
            let letterbox = Arc::new(Letterbox::default());
            let node = node(json!({"to_email": to, "allowed_recipients": allowed}));
            let component = node.build();
            let stage = Stage::new(&node, &*component, setting(&letterbox, []));
            let sent = component.run(&stage.ctx).await;
            assert_eq!(sent.is_ok(), good, "{to}: {sent:?}");
            assert_eq!(letterbox.taken.lock().unwrap().len(), usize::from(good));
        };
        check("Ada <ADA@example.org>", json!(["ada@example.org"]), true).await;
        check("ada@example.org", json!("@example.org"), true).await;
        check("ada@example.org, eve@evil.example", json!(["@example.org"]), false).await;
        check("ada@notexample.org", json!(["example.org"]), false).await;
        check("ada@example.org <eve@evil.example>", json!(["ada@example.org"]), false).await;
        check(" , ", json!([]), false).await;
    }

    #[tokio::test]
    async fn missing_settings_are_named() {
        for (name, value) in [("smtp_server", ""), ("email", " ")] {
            let node = node(json!({name: value}));
            assert_eq!(node.build().shape().lacks.unwrap().pointer, format!("/{name}"));
            assert_eq!(failure(&node, Setting::default()).await.kind, ErrorKind::Invalid);
        }
    }

    #[test]
    fn addresses_and_texts() {
        assert_eq!(addresses(" a@b.c;d@e.f ,\n,\"x, y\" <g@h.i>"), ["a@b.c", "d@e.f", "\"x, y\" <g@h.i>"]);
        assert_eq!(html("<p>x</p>"), "<p>x</p>");
        assert_eq!(html("1 < 2 & 3 > 2"), "1 &lt; 2 &amp; 3 &gt; 2");
        assert_eq!(html("> a <b"), "&gt; a &lt;b");
    }

    #[test]
    fn invalid_addresses_are_named_before_sending() {
        let check = |to: &str, expected: &[&str]| {
            let params = json!({"to_email": to, "smtp_server": "mail.example", "email": "me@here.example"});
            let warnings = Node::new("Email", params).build().shape().warnings;
            let told: Vec<&str> = warnings.iter().map(|warning| warning.pointer.as_str()).collect();
            assert_eq!(told, expected, "{to}: {warnings:?}");
        };
        check("a@b.example; \"X, Y\" <c@d.example>", &[]);
        check("{Agent:A@content}, nobody", &[]);
        check("a@b.example, nobody", &["/to_email"]);
        check("a@ b.example", &["/to_email"]);
    }

    #[test]
    fn unmailable_addresses_are_reported_in_advance() {
        let check = |more: serde_json::Value, expected: &[&str]| {
            let mut params = json!({"to_email": "Ann <ann@b.example>", "smtp_server": "mail.example", "email": "me@here.example"});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let warnings = Node::new("Email", params).build().shape().warnings;
            let told: Vec<&str> = warnings.iter().map(|warning| warning.pointer.as_str()).collect();
            assert_eq!(told, expected, "{more}: {warnings:?}");
        };
        check(json!({"allowed_recipients": ["@b.example"]}), &[]);
        check(json!({"allowed_recipients": ["bob@b.example"]}), &["/to_email"]);
        check(json!({"allowed_recipients": ["@b.example"], "cc_email": "eve@c.example"}), &["/cc_email"]);
        check(json!({"smtp_server": "mail.example:465"}), &["/smtp_server"]);
        check(json!({"smtp_server": "https://mail.example"}), &["/smtp_server"]);
    }

    #[test]
    fn a_text_of_unclosed_tags_is_read_quickly() {
        let begun = std::time::Instant::now();
        assert!(html(&"<a".repeat(1_000_000)).starts_with("&lt;a"));
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
