//! Notifications: sent once, signed, retried until delivered, and only for the own tenant.

use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use weft_app::config::{Auth, LimitsConfig, NotificationsConfig};
use weft_app::notifications::{Notifications, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use weft_core::budget::{BudgetLimits, PeriodLimits, Spent};
use weft_core::seam::http::{HttpBody, HttpRequest};
use weft_core::seam::mailer::Mail;
use weft_core::seam::run_store::RunLease;
use weft_core::seam::spending_store::DaySpent;
use weft_core::seam::{Mailer, SpendingStore};
use weft_core::webhook::HmacAlgorithm;
use weft_core::{CanvasId, Error, ErrorKind, Result, TenantId, async_trait};
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{FakeHttp, Reply, Script, ScriptedModel};

use crate::support::{Bench, HandClock, chat_canvas, component, form_canvas, process_at};

const NOW: i64 = 1_700_000_000_000;
const HOUR_MS: i64 = 3_600_000;

/// A mailer that keeps the mails.
#[derive(Clone, Debug, Default)]
struct Post(Arc<Mutex<Vec<Mail>>>);

#[async_trait]
impl Mailer for Post {
    async fn send(&self, _: &TenantId, mail: Mail) -> Result<()> {
        let to = mail.to.join(" ");
        self.0.lock().unwrap().push(mail);
        match to.split_once('@').unwrap_or_default().0 {
            "nobody" => Err(Error::new(ErrorKind::Invalid, "there is nobody of this name")),
            "late" => Err(Error::new(ErrorKind::Timeout, "nobody says whether it is taken")),
            "busy" => Err(Error::new(ErrorKind::Unavailable, "nothing was handed in")),
            _ => Ok(()),
        }
    }
}

struct Told {
    bench: Bench,
    clock: Arc<HandClock>,
    http: FakeHttp,
    post: Post,
}

/// A server with these settings, whose webhook receiver responds like this.
async fn told(settings: &str, http: FakeHttp, limits: LimitsConfig) -> Told {
    let clock = HandClock::at(NOW);
    let model = ScriptedModel::new(Script::new().reply(Reply::text("Hello").usage(700, 100).always()));
    let bench = process_at(Arc::new(MemoryStore::new()), model, (Auth::On, limits), clock.clone());
    let token = bench.app.first_token().await.unwrap().unwrap().reveal().to_owned();
    let told = Told { bench: Bench { token, ..bench }, clock, http, post: Post::default() };
    told.in_process(settings)
}

impl Told {
    /// The same store in a process with these settings.
    fn in_process(self, settings: &str) -> Self {
        let config: NotificationsConfig = toml::from_str(settings).unwrap();
        let mut bench = process_at(
            self.bench.store.clone(),
            self.bench.model.clone(),
            (Auth::On, self.bench.app.limits.clone()),
            self.clock.clone(),
        );
        let (http, post) = (Arc::new(self.http.clone()), Arc::new(self.post.clone()));
        let notifications = Notifications::new(self.bench.store.clone(), config, http, post);
        bench.app = bench.app.with_parts(|parts| parts.notifications = notifications);
        Self { bench: Bench { token: self.bench.token.clone(), ..bench }, ..self }
    }

    /// Calls an agent, whatever the result.
    async fn asked(&self, title: &str, canvas: Json) -> String {
        let agent = self.bench.store(title, canvas).await;
        let path = format!("/api/v1/agents/{agent}/completions");
        self.bench.post(&path, json!({"query": "q", "stream": false})).await;
        agent
    }

    async fn delivered(&self) -> usize {
        self.bench.app.deliver_notices().await.unwrap()
    }

    async fn listed(&self) -> Vec<Json> {
        let listed = self.bench.get("/api/v1/notifications").await.data();
        listed["notifications"].as_array().unwrap().clone()
    }
}

/// A canvas that fails when it runs.
pub(crate) fn failing() -> Json {
    json!({"components": {
        "begin": component("Begin", &json!({"mode": "conversational"}), &["Invoke:I"]),
        "Invoke:I": component("Invoke", &json!({"url": "http://nobody.example/<b>", "method": "get", "timeout": 1}), &[]),
    }})
}

const WEBHOOK: &str = "[tenants.default]\nwebhook = \"https://ops.example/weft\"\nsecret = \"s3cret\"\n";

fn header<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
    &request.headers.iter().find(|(one, _)| one == name).unwrap().1
}

fn body(request: &HttpRequest) -> &Json {
    let HttpBody::Json(body) = &request.body else { panic!("{request:?}") };
    body
}

#[tokio::test]
async fn a_failed_run_is_notified_once_by_a_signed_call() {
    let told = told(WEBHOOK, FakeHttp::new().on("ops.example", 204, ""), LimitsConfig::default()).await;
    let agent = told.asked("Failing", failing()).await;
    told.asked("Chat", chat_canvas()).await;
    assert_eq!((told.delivered().await, told.delivered().await), (1, 0));
    let requests = told.http.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let (request, said) = (&requests[0], body(&requests[0]));
    assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "https://ops.example/weft"));
    assert_eq!((&said["event"], &said["tenant_id"]), (&json!("run_failed"), &json!("default")));
    assert_eq!(said["text"], "A run of `Failing` has failed");
    assert_eq!(said["data"]["agent_id"], json!(agent));
    assert!(said["data"]["error"].as_str().unwrap().len() > 5, "{said}");
    assert_eq!(said["id"], header(request, "Idempotency-Key"));
    let time = header(request, TIMESTAMP_HEADER);
    assert_eq!(time, (NOW / 1000).to_string());
    let bytes = serde_json::to_vec(said).unwrap();
    let expected = weft_app::hmac::sign(HmacAlgorithm::Hs256, b"s3cret", &[time.as_bytes(), b".", &bytes]);
    assert_eq!(header(request, SIGNATURE_HEADER), weft_core::hex(&expected));
    let listed = told.listed().await;
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &json!("delivered")));
    assert_eq!(listed[0]["done"], json!(["webhook"]));
}

#[tokio::test]
async fn a_failed_notification_is_retried_by_any_process() {
    let http = FakeHttp::new()
        .fails_once("ops.example", ErrorKind::Unavailable, "no answer")
        .once("ops.example", 503, "")
        .on("ops.example", 200, "");
    let told = told(WEBHOOK, http, LimitsConfig::default()).await;
    told.asked("Failing", failing()).await;
    assert_eq!(told.delivered().await, 1);
    let waiting = told.listed().await;
    assert_eq!((&waiting[0]["state"], &waiting[0]["attempts"]), (&json!("waiting"), &json!(1)));
    assert_eq!(waiting[0]["state_time"], json!(NOW + 30_000));
    assert_eq!(told.delivered().await, 0, "not before the retry is due");
    told.clock.go_on(30_000);
    let told = told.in_process(WEBHOOK);
    assert_eq!(told.delivered().await, 1);
    assert!(told.listed().await[0]["reason"].as_str().unwrap().contains("503"));
    told.clock.go_on(60_000);
    assert_eq!(told.delivered().await, 1);
    let ids: std::collections::HashSet<_> =
        told.http.requests().iter().map(|one| body(one)["id"].clone()).collect();
    assert_eq!((told.http.requests().len(), ids.len()), (3, 1), "retries have the same message id");
    assert_eq!(told.listed().await[0]["state"], "delivered");
}

#[tokio::test]
async fn an_undeliverable_notification_is_abandoned_with_its_reason() {
    let settings = format!("attempts = 2\n{WEBHOOK}");
    let http = FakeHttp::new().once("ops.example", 404, "").on("ops.example", 500, "");
    let told = told(&settings, http, LimitsConfig::default()).await;
    told.asked("One", failing()).await;
    told.delivered().await;
    let reason = |listed: &[Json]| listed[0]["reason"].as_str().unwrap().to_owned();
    let gone = told.listed().await;
    assert_eq!(
        (gone[0]["state"].as_str(), reason(&gone).as_str()),
        (Some("given_up"), "webhook: it responded with status 404")
    );
    told.clock.go_on(HOUR_MS);
    told.asked("Two", failing()).await;
    for _ in 0..3 {
        told.delivered().await;
        told.clock.go_on(HOUR_MS);
    }
    let gone = told.listed().await;
    assert_eq!((&gone[0]["state"], &gone[0]["attempts"]), (&json!("given_up"), &json!(2)));
    // A notification older than a day is not sent any more.
    told.asked("Three", failing()).await;
    told.clock.go_on(25 * HOUR_MS);
    let calls = told.http.requests().len();
    told.delivered().await;
    assert_eq!(told.http.requests().len(), calls);
    assert!(reason(&told.listed().await).contains("more than a day"));
}

#[tokio::test]
async fn notifications_are_rate_limited() {
    let settings = format!("per_hour = 2\n{WEBHOOK}");
    let told = told(&settings, FakeHttp::new().on("ops.example", 200, ""), LimitsConfig::default()).await;
    for title in ["a", "b", "c", "d"] {
        told.asked(title, failing()).await;
    }
    assert_eq!((told.delivered().await, told.http.requests().len()), (4, 2));
    told.clock.go_on(HOUR_MS);
    told.asked("e", failing()).await;
    assert_eq!((told.delivered().await, told.http.requests().len()), (1, 3));
}

#[tokio::test]
async fn receivers_get_events_of_their_own_tenant_that_they_chose() {
    let settings = "[tenants.another]\nwebhook = \"https://theirs.example\"\nsecret = \"x\"\n\
         [tenants.default]\nwebhook = \"https://ours.example\"\nsecret = \"y\"\nevents = [\"budget\"]";
    let told = told(settings, FakeHttp::new().on("example", 200, ""), LimitsConfig::default()).await;
    let stranger = told.bench.with(&told.bench.stranger().await);
    told.asked("Ours", failing()).await;
    let theirs =
        Told { bench: stranger, clock: told.clock.clone(), http: told.http.clone(), post: told.post.clone() };
    theirs.asked("Theirs", failing()).await;
    assert_eq!(told.delivered().await, 2);
    let urls: Vec<String> = told.http.requests().into_iter().map(|one| one.url).collect();
    assert_eq!(urls, ["https://theirs.example"]);
    assert_eq!(told.http.tenants(), [TenantId::from("another")]);
    // Each tenant lists only its own, too.
    assert_eq!((told.listed().await.len(), theirs.listed().await.len()), (1, 1));
    assert_eq!(told.listed().await[0]["reason"], "the settings name no receiver");
}

#[tokio::test]
async fn mail_has_the_same_content_and_one_channel_does_not_block_the_other() {
    let settings = "[mail]\nhost = \"mail.example\"\nfrom = \"weft@example.com\"\n[tenants.default]\n\
        webhook = \"https://ops.example\"\nsecret = \"x\"\nmail = [\"ann@example.com\"]";
    let http = FakeHttp::new().once("ops.example", 503, "").on("ops.example", 200, "");
    let told = told(settings, http, LimitsConfig::default()).await;
    told.asked("Failing <b>", failing()).await;
    told.delivered().await;
    told.clock.go_on(30_000);
    told.delivered().await;
    {
        let post = told.post.0.lock().unwrap();
        assert_eq!((post.len(), told.http.requests().len()), (1, 2), "the mail is sent once");
        let mail = &post[0];
        assert_eq!(mail.subject, "Weft: A run of `Failing <b>` has failed");
        assert_eq!((mail.to[0].as_str(), mail.from.1.as_str()), ("ann@example.com", "weft@example.com"));
        assert!(mail.html.contains("&lt;b&gt;") && mail.text.contains("error: "), "{}", mail.text);
    }
    assert_eq!(told.listed().await[0]["state"], "delivered");
    // The server's refusal of a mail is a definite answer.
    let told = told.in_process(&settings.replace("ann@", "nobody@"));
    told.asked("Again", failing()).await;
    told.delivered().await;
    let listed = told.listed().await;
    assert_eq!(listed[0]["state"], "given_up");
    assert!(listed[0]["reason"].as_str().unwrap().starts_with("mail: there is nobody"), "{}", listed[0]);
}

#[tokio::test]
async fn a_mail_is_retried_only_if_it_was_not_accepted() {
    for (name, state, mails) in [("late", "given_up", 1), ("busy", "waiting", 2)] {
        let settings = format!(
            "[mail]\nhost = \"mail.example\"\nfrom = \"weft@example.com\"\n[tenants.default]\n\
             mail = [\"{name}@example.com\"]"
        );
        let told = told(&settings, FakeHttp::new(), LimitsConfig::default()).await;
        told.asked("Failing", failing()).await;
        told.delivered().await;
        told.clock.go_on(30_000);
        told.delivered().await;
        assert_eq!(told.post.0.lock().unwrap().len(), mails, "{name}");
        assert_eq!(told.listed().await[0]["state"], state, "{name}");
    }
}

#[tokio::test]
async fn a_budget_is_notified_once_per_period() {
    let day = BudgetLimits { tokens: Some(1_000), model_calls: Some(100), ..BudgetLimits::default() };
    let limits = LimitsConfig {
        tenant_budget: PeriodLimits { day, ..PeriodLimits::default() },
        canvas_budget: PeriodLimits { month: day, ..PeriodLimits::default() },
        ..LimitsConfig::default()
    };
    let told = told(WEBHOOK, FakeHttp::new().on("ops.example", 200, ""), limits).await;
    told.bench.app.watch().await;
    assert_eq!(told.delivered().await, 0);
    let agent = told.asked("Chat", chat_canvas()).await;
    told.bench.app.watch().await;
    // Another process knows the same.
    let told = told.in_process(WEBHOOK);
    told.bench.app.watch().await;
    assert_eq!(told.delivered().await, 2);
    let mut said: Vec<Json> = told.http.requests().iter().map(|one| body(one)["data"].clone()).collect();
    said.sort_by_key(|one| one["period"].to_string());
    assert_eq!(said[0]["agent_id"], Json::Null);
    assert_eq!((&said[0]["limit"], &said[0]["percent"]), (&json!("tokens"), &json!(80.0)));
    assert_eq!((&said[1]["agent_id"], &said[1]["since"]), (&json!(agent), &json!("2023-11-01")));
    let texts: Vec<String> =
        told.http.requests().iter().map(|one| body(one)["text"].as_str().unwrap().to_owned()).collect();
    assert!(texts.contains(&"80 % of the budget of tokens of `Chat` are used up".to_owned()), "{texts:?}");
    // The next day starts a new period, and the month continues.
    told.clock.go_on(24 * HOUR_MS);
    told.asked("Other", chat_canvas()).await;
    told.bench.app.watch().await;
    assert_eq!(told.delivered().await, 2, "the day of the tenant and the month of the other agent");
}

/// A store in which what one tenant has used cannot be read.
struct Unreadable(Arc<MemoryStore>);

impl Unreadable {
    fn check(tenant: &TenantId) -> Result<()> {
        match tenant.as_str() {
            "broken" => Err(Error::new(ErrorKind::Garbled, "it is damaged")),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl SpendingStore for Unreadable {
    async fn note(&self, lease: &RunLease, day: i64, spent: Spent) -> Result<()> {
        SpendingStore::note(&*self.0, lease, day, spent).await
    }

    async fn spent(&self, tenant: &TenantId, canvas: Option<&CanvasId>, since_day: i64) -> Result<Spent> {
        Self::check(tenant)?;
        SpendingStore::spent(&*self.0, tenant, canvas, since_day).await
    }

    async fn days(&self, tenant: &TenantId, since_day: i64, count_max: u64) -> Result<Vec<DaySpent>> {
        Self::check(tenant)?;
        SpendingStore::days(&*self.0, tenant, since_day, count_max).await
    }

    async fn fold_days(&self, tenant: &TenantId, before_day: i64) -> Result<u64> {
        Self::check(tenant)?;
        SpendingStore::fold_days(&*self.0, tenant, before_day).await
    }
}

#[tokio::test]
async fn a_tenant_whose_data_cannot_be_read_keeps_no_other_from_its_notifications() {
    let day = BudgetLimits { tokens: Some(1_000), ..BudgetLimits::default() };
    let limits = LimitsConfig {
        tenant_budget: PeriodLimits { day, ..PeriodLimits::default() },
        ..LimitsConfig::default()
    };
    let settings = format!("{}{WEBHOOK}", WEBHOOK.replace("default", "broken"));
    let mut told = told(&settings, FakeHttp::new().on("ops.example", 200, ""), limits).await;
    told.asked("Chat", chat_canvas()).await;
    let spending = Arc::new(Unreadable(told.bench.store.clone()));
    told.bench.app = told.bench.app.with_parts(|parts| parts.spending = spending);
    told.bench.app.watch().await;
    assert_eq!(told.delivered().await, 1);
}

#[tokio::test]
async fn an_overdue_task_is_notified_once() {
    let told = told(WEBHOOK, FakeHttp::new().on("ops.example", 200, ""), LimitsConfig::default()).await;
    told.asked("Form", form_canvas()).await;
    told.bench.app.watch().await;
    assert_eq!(told.delivered().await, 0);
    told.clock.go_on(24 * HOUR_MS);
    for _ in 0..2 {
        told.bench.app.watch().await;
    }
    let told = told.in_process(WEBHOOK);
    told.bench.app.watch().await;
    assert_eq!(told.delivered().await, 1);
    let said = body(&told.http.requests()[0]).clone();
    assert_eq!(said["event"], "task_overdue");
    assert_eq!(said["text"], "Nobody has answered a task of `Form` in time");
    assert_eq!(said["data"]["status"], "open");
}

#[tokio::test]
async fn a_task_with_a_time_limit_is_overdue_after_the_limit() {
    let told = told(WEBHOOK, FakeHttp::new().on("ops.example", 200, ""), LimitsConfig::default()).await;
    let mut canvas = form_canvas();
    canvas["components"]["UserFillUp:F"]["obj"]["params"]["timeout_seconds"] = json!(60);
    told.asked("Form", canvas).await;
    told.clock.go_on(61_000);
    for mut run in told.bench.app.time_out_tasks().await.unwrap() {
        while run.entries.next().await.unwrap().is_some() {}
    }
    told.delivered().await;
    let requests = told.http.requests();
    // Other events about the run itself do not matter here.
    let late: Vec<&Json> = requests.iter().map(body).filter(|said| said["event"] == "task_overdue").collect();
    assert_eq!(late.len(), 1, "{requests:?}");
    assert_eq!(late[0]["data"]["status"], "timed_out");
}
