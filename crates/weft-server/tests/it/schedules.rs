//! Schedules over HTTP, with a clock that the test sets.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use weft_app::config::LimitsConfig;
use weft_app::schedule::{OPEN_MAX, Terms};
use weft_app::{App, Auth, Config, Worker, WorkerConfig, assemble};
use weft_core::access::MemberRole;
use weft_core::journal::Ending;
use weft_core::seam::canvas_store::CanvasHead;
use weft_core::seam::run_store::RunFilter;
use weft_core::seam::schedule_store::{Misfire, Schedule, SessionPolicy, Timing};
use weft_core::seam::work_queue::WorkFilter;
use weft_core::{CanvasId, CanvasKey, TurnInput};
use weft_testkit::memory_store::MemoryStore;
use weft_testkit::{Script, ScriptedModel};

use crate::support::{Bench, HandClock, component, default_tenant, echo_canvas, process_at};

/// Friday, 27 March 2026, 12:00 UTC.
const NOW: i64 = 1_774_612_800_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// A server with the echo agent, and its clock.
struct Served {
    bench: Bench,
    clock: Arc<HandClock>,
    agent: String,
}

impl Served {
    async fn new() -> Self {
        let clock = HandClock::at(NOW);
        let settings = (Auth::On, LimitsConfig::default());
        let model = ScriptedModel::new(Script::new());
        let bench = process_at(Arc::new(MemoryStore::new()), model, settings, clock.clone());
        let token = bench.app.first_token().await.unwrap().unwrap().reveal().to_owned();
        let bench = Bench { token, ..bench };
        let agent = bench.store("Echo", echo_canvas()).await;
        Self { bench, clock, agent }
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/agents/{}/schedules{rest}", self.agent)
    }

    async fn add(&self, body: Json) -> String {
        let added = self.bench.post(&self.path(""), body).await.data();
        added["id"].as_str().unwrap().to_owned()
    }

    async fn get(&self, id: &str) -> Json {
        self.bench.get(&self.path(&format!("/{id}"))).await.data()
    }

    /// The runs it has queued, earliest first: minutes since the start, and status.
    async fn fires(&self, id: &str) -> Vec<(i64, String)> {
        let data = self.bench.get(&self.path(&format!("/{id}/runs?page_size=1000"))).await.data();
        let runs = data["runs"].as_array().unwrap();
        assert_eq!(data["total"], runs.len());
        let fire = |run: &Json| {
            let minutes = (run["due_time"].as_i64().unwrap() - NOW) / MINUTE;
            (minutes, run["status"].as_str().unwrap().to_owned())
        };
        runs.iter().rev().map(fire).collect()
    }

    /// Lets the workers do all available work.
    async fn work(&self) {
        for _ in 0..3 {
            self.bench.app.fire_due().await.unwrap();
        }
        let (app, now) = (&self.bench.app, self.clock.0.load(std::sync::atomic::Ordering::Relaxed));
        for taken in app.queue.take(now, now + MINUTE, 1_000).await.unwrap() {
            let settled = app.do_work(&taken.stored).await;
            app.queue.settle(&taken.lease, &settled, now).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_schedule_fires_at_its_times_in_its_zone_and_keeps_its_runs() {
    let served = Served::new().await;
    let body = json!({
        "cron": "30 2 * * *", "timezone": "Europe/Berlin", "query": "good morning", "name": "Morning",
        "inputs": {"a": 1},
    });
    let id = served.add(body).await;
    let shown = served.get(&id).await;
    // In the night after the next one, half past two is skipped by the clock change.
    assert_eq!(shown["upcoming"][0], "2026-03-28T02:30:00+01:00");
    assert_eq!(shown["upcoming"][1], "2026-03-29T03:00:00+02:00");
    assert_eq!(shown["upcoming"][2], "2026-03-30T02:30:00+02:00");
    assert_eq!((&shown["enabled"], &shown["misfire"]), (&json!(true), &json!("once")));
    assert_eq!(
        (&shown["query"], &shown["inputs"], &shown["agent_id"]),
        (&json!("good morning"), &json!({"a": 1}), &json!(served.agent))
    );
    served.clock.go_on(13 * HOUR + 29 * MINUTE);
    served.work().await;
    assert_eq!(served.fires(&id).await, []);
    served.clock.go_on(MINUTE);
    served.work().await;
    assert_eq!(served.fires(&id).await, [(810, "succeeded".to_owned())]);
    // A clock that goes back a little fires nothing again.
    served.clock.go_on(-10 * MINUTE);
    served.work().await;
    served.clock.go_on(10 * MINUTE);
    served.work().await;
    served.clock.go_on(23 * HOUR + 30 * MINUTE);
    served.work().await;
    let expected = [(810, "succeeded".to_owned()), (37 * 60, "succeeded".to_owned())];
    assert_eq!(served.fires(&id).await, expected);
    let runs = served.bench.get(&served.path(&format!("/{id}/runs"))).await.data();
    let run = runs["runs"][0]["run_id"].as_str().unwrap();
    let events = served.bench.get(&format!("/api/v1/runs/{run}/events")).await;
    assert!(crate::support::said(&events.frames()).contains("good morning"));
    // Each run has its own session.
    assert_ne!(runs["runs"][0]["session_id"], runs["runs"][1]["session_id"]);
}

#[tokio::test]
async fn a_schedule_runs_in_the_name_of_a_user_only_while_they_may_act_in_the_tenant() {
    let served = Served::new().await;
    let app = &served.bench.app;
    let (editor, user) = served.bench.as_member("default", MemberRole::Editor).await;
    let theirs = editor.post(&served.path(""), json!({"every": "10m", "query": "tick"})).await.data();
    let theirs = theirs["id"].as_str().unwrap();
    // API keys that belong to nobody may choose any name.
    let other = served.add(json!({"every": "10m", "query": "tick", "user_id": "visitor"})).await;
    let ten_minutes = async || {
        served.clock.go_on(10 * MINUTE);
        served.work().await;
    };
    let done = |minutes: i64| (minutes, "succeeded".to_owned());
    ten_minutes().await;
    app.disable_user(&user).await.unwrap();
    ten_minutes().await;
    app.enable_user(&user).await.unwrap();
    ten_minutes().await;
    assert_eq!(served.fires(theirs).await, [done(10), done(30)]);
    let member = format!("/api/v1/tenants/default/users/{user}");
    served.bench.ask("DELETE", &member, Json::Null).await.data();
    ten_minutes().await;
    assert_eq!(served.fires(theirs).await, [done(10), done(30)]);
    assert_eq!(served.get(theirs).await["enabled"], false);
    assert_eq!(served.fires(&other).await, [done(10), done(20), done(30), done(40)]);
}

#[tokio::test]
async fn the_schedules_of_an_erased_user_are_removed() {
    let served = Served::new().await;
    let (editor, user) = served.bench.as_member("default", MemberRole::Editor).await;
    let other = served.add(json!({"every": "10m", "query": "tick"})).await;
    for _ in 0..3 {
        editor.post(&served.path(""), json!({"every": "10m", "query": "my words"})).await.data();
    }
    served.clock.go_on(10 * MINUTE);
    served.work().await;
    let told = editor.get("/api/v1/users/me/export").await.data();
    let told: Vec<&Json> = told.as_array().unwrap().iter().filter(|one| one["kind"] == "schedule").collect();
    assert_eq!((told.len(), &told[0]["query"]), (3, &json!("my words")));
    served.bench.app.erase_user(&user).await.unwrap();
    // Nor does the queue keep the questions of their runs.
    let all = WorkFilter { limit: 99, ..WorkFilter::default() };
    let (queued, _) = served.bench.app.queue.list(&default_tenant(), &all).await.unwrap();
    assert_eq!(queued.iter().map(|one| one.work.source.as_str()).collect::<Vec<_>>(), [other.as_str()]);
    let left = served.bench.get(&served.path("")).await.data();
    assert_eq!((&left["total"], &left["schedules"][0]["id"]), (&json!(1), &json!(other)), "{left}");
    served.clock.go_on(10 * MINUTE);
    served.work().await;
    let filter = RunFilter { limit: 9, ..RunFilter::default() };
    assert_eq!(served.bench.app.runs.list(&default_tenant(), &filter).await.unwrap().len(), 2);
}

#[tokio::test]
async fn inputs_that_the_agent_does_not_read_are_named() {
    let served = Served::new().await;
    let id = served.add(json!({"every": "1h", "inputs": {"town": "Oslo", "twon": "Rome"}})).await;
    let path = served.path(&format!("/{id}"));
    assert_eq!(served.get(&id).await["unread_inputs"], json!(["town", "twon"]));
    // The inputs are checked against the current version of the agent.
    let form = json!({"inputs": {"town": {"name": "Town", "type": "line", "optional": false}}});
    let dsl = json!({"components": {
        "begin": component("Begin", &form, &["Message:M"]),
        "Message:M": component("Message", &json!({"content": ["{begin@town}"]}), &[]),
    }});
    let agent = format!("/api/v1/agents/{}", served.agent);
    served.bench.ask("PUT", &agent, json!({"dsl": dsl})).await.data();
    assert_eq!(served.get(&id).await["unread_inputs"], json!(["twon"]));
    let listed = served.bench.get(&served.path("")).await.data();
    assert_eq!(listed["schedules"][0]["unread_inputs"], json!(["twon"]));
    let changed = served.bench.ask("PATCH", &path, json!({"inputs": {"town": "Rome"}})).await.data();
    assert_eq!(changed["unread_inputs"], json!([]));
}

#[tokio::test]
async fn inputs_that_no_run_accepts_are_refused() {
    let served = Served::new().await;
    let form =
        json!({"kind": {"type": "options", "options": ["a", "b"]}, "f": {"type": "file", "optional": true}});
    let dsl = |form: &Json| {
        json!({"components": {
            "begin": component("Begin", &json!({"inputs": form}), &["Message:M"]),
            "Message:M": component("Message", &json!({"content": ["{begin@kind}"]}), &[]),
        }})
    };
    let agent = format!("/api/v1/agents/{}", served.agent);
    served.bench.ask("PUT", &agent, json!({"dsl": dsl(&form)})).await.data();
    let wrong = json!({"every": "1h", "inputs": {"kind": "zzz"}});
    let refused = served.bench.post(&served.path(""), wrong.clone()).await.json();
    let words = "field `kind` of begin must be one of `a`, `b`";
    let is_told = |answer: &Json| answer["code"] != 0 && answer["message"].as_str().unwrap().contains(words);
    assert!(is_told(&refused), "{refused}");
    assert_eq!(served.bench.get(&served.path("")).await.data()["total"], 0);
    // Files are read when a run begins.
    let id =
        served.add(json!({"every": "1h", "inputs": {"kind": "a", "f": {"id": "x", "name": "x.txt"}}})).await;
    let path = served.path(&format!("/{id}"));
    let refused = served.bench.ask("PATCH", &path, wrong).await.json();
    assert!(is_told(&refused), "{refused}");
    // What a later version does not accept can still be disabled.
    let other = json!({"kind": {"type": "options", "options": ["c"]}});
    served.bench.ask("PUT", &agent, json!({"dsl": dsl(&other)})).await.data();
    let disabled = served.bench.ask("PATCH", &path, json!({"enabled": false})).await.data();
    assert_eq!((&disabled["enabled"], &disabled["inputs"]["kind"]), (&json!(false), &json!("a")));
}

#[tokio::test]
async fn a_schedule_can_continue_one_session() {
    let served = Served::new().await;
    let id = served.add(json!({"every": "10m", "query": "tick", "session_id": "diary"})).await;
    for _ in 0..3 {
        served.clock.go_on(10 * MINUTE);
        served.work().await;
    }
    assert_eq!(served.fires(&id).await.len(), 3);
    let session = served.bench.get(&format!("/api/v1/agents/{}/sessions/diary", served.agent)).await.data();
    let messages = session["messages"].as_array().unwrap();
    assert_eq!(messages.iter().filter(|message| message["role"] == "user").count(), 3);
}

#[tokio::test]
async fn missed_runs_are_skipped_made_up_once_or_all_made_up() {
    let served = Served::new().await;
    let mut ids = Vec::new();
    for misfire in [json!("skip"), json!("once"), json!("all")] {
        let body =
            json!({"every": "10m", "misfire": misfire, "misfire_max": (misfire == "all").then_some(3)});
        ids.push(served.add(body).await);
    }
    served.clock.go_on(55 * MINUTE);
    served.work().await;
    let done =
        |minutes: &[i64]| -> Vec<_> { minutes.iter().map(|at| (*at, "succeeded".to_owned())).collect() };
    assert_eq!(served.fires(&ids[0]).await, done(&[]));
    assert_eq!(served.fires(&ids[1]).await, done(&[50]));
    assert_eq!(served.fires(&ids[2]).await, done(&[30, 40, 50]));
    served.clock.go_on(5 * MINUTE);
    served.work().await;
    assert_eq!(served.fires(&ids[0]).await, done(&[60]));
}

#[tokio::test]
async fn a_schedule_is_changed_disabled_and_removed() {
    let served = Served::new().await;
    let id = served.add(json!({"cron": "0 * * * *", "query": "a"})).await;
    let path = served.path(&format!("/{id}"));
    let change = async |body: Json| served.bench.ask("PATCH", &path, body).await.data();
    let changed = change(json!({"timezone": "Asia/Kolkata", "name": "Hourly"})).await;
    assert_eq!((&changed["cron"], &changed["query"]), (&json!("0 * * * *"), &json!("a")));
    assert_eq!(changed["upcoming"][0], "2026-03-27T18:00:00+05:30");
    let changed = change(json!({"every": "1h", "session_id": "s", "misfire": "all"})).await;
    assert_eq!(
        (&changed["every"], &changed["cron"], &changed["timezone"]),
        (&json!("1h"), &Json::Null, &Json::Null)
    );
    assert_eq!((&changed["session_id"], &changed["misfire_max"]), (&json!("s"), &json!(100)));
    assert_eq!(change(json!({"session_id": ""})).await["session_id"], Json::Null);
    // A queued run that no worker has taken is dropped when the schedule is disabled, unless it was requested.
    served.clock.go_on(HOUR);
    served.bench.app.fire_due().await.unwrap();
    assert_eq!(served.fires(&id).await, [(60, "queued".to_owned())]);
    served.clock.go_on(MINUTE);
    served.bench.post(&format!("{path}/run"), json!({})).await.data();
    served.clock.go_on(-MINUTE);
    let off = change(json!({"enabled": false})).await;
    assert_eq!(
        (&off["enabled"], &off["next_time"], &off["upcoming"]),
        (&json!(false), &Json::Null, &json!([]))
    );
    assert_eq!(served.fires(&id).await, [(61, "queued".to_owned())]);
    served.clock.go_on(24 * HOUR);
    served.work().await;
    assert_eq!(served.fires(&id).await, [(61, "succeeded".to_owned())]);
    // A manual start runs all the same.
    let run = served.bench.post(&format!("{path}/run"), json!({})).await.data();
    served.work().await;
    let runs = served.bench.get(&format!("{path}/runs")).await.data();
    assert_eq!(
        (&runs["runs"][0]["run_id"], &runs["runs"][0]["status"]),
        (&run["run_id"], &json!("succeeded"))
    );
    // Times that passed while it was disabled are not made up.
    assert_eq!(change(json!({"enabled": true})).await["next_time"], NOW + 26 * HOUR);
    let list = served.bench.get(&served.path("")).await.data();
    assert_eq!((&list["total"], &list["schedules"][0]["id"]), (&json!(1), &json!(id)));
    assert_eq!(served.bench.ask("DELETE", &path, Json::Null).await.data(), true);
    assert_eq!(served.bench.get(&path).await.refusal(), (102, "Schedule not found!".into()));
    assert_eq!(served.bench.get(&served.path("")).await.data()["total"], 0);
    // Its run is kept.
    served.bench.get(&format!("/api/v1/runs/{}", run["run_id"].as_str().unwrap())).await.data();
}

#[tokio::test]
async fn invalid_schedules_and_those_of_other_tenants_are_refused() {
    let mut served = Served::new().await;
    let refused = async |body: Json| served.bench.post(&served.path(""), body).await.refusal();
    for (body, word) in [
        (json!({}), "cron or every"),
        (json!({"cron": "x"}), "`x`"),
        (json!({"cron": "0 0 30 2 *"}), "no such day"),
        (json!({"cron": "* * * * *", "timezone": "Mars/Base"}), "Mars/Base"),
        (json!({"cron": "* * * * *", "every": "1m"}), "not both"),
        (json!({"every": "1m", "timezone": "UTC"}), "timezone"),
        (json!({"every": "soon"}), "`soon`"),
        (json!({"every": "1ms"}), "at least a second"),
        (json!({"every": "1m", "misfire": "maybe"}), "`misfire`"),
        (json!({"every": "1m", "misfire": "all", "misfire_max": 0}), "missed runs"),
        (json!({"every": "1m", "misfire": "skip", "misfire_max": 3}), "`misfire_max` has no effect"),
        (json!({"every": "1m", "misfire_max": 3}), "`misfire_max` has no effect"),
        (json!({"every": "1m", "qurey": "x"}), "there is no field `qurey`: did you mean `query`?"),
        (
            json!({"cron": "0 8 * * *", "zone": "Europe/Berlin"}),
            "there is no field `zone`: the fields are cron,",
        ),
        (json!({"every": "1m", "query": 7}), "query"),
        (json!({"every": "1m", "name": "n".repeat(300)}), "too long"),
        (json!({"every": "1m", "user_id": "u".repeat(300)}), "`user_id`"),
        (json!({"every": "1m", "user_id": "u\0"}), "`user_id`"),
        (json!({"every": "1m", "query": "q".repeat(300_000)}), "more than 262144 bytes"),
        (json!({"every": "1m", "inputs": {"a": "q".repeat(300_000)}}), "more than 262144 bytes"),
    ] {
        let (code, message) = refused(body.clone()).await;
        assert!(code == 101 && message.contains(word), "{body}: {code} {message}");
    }
    let id = served.add(json!({"every": "1m"})).await;
    let path = served.path(&format!("/{id}"));
    for wrong in [json!({"timezone": "UTC"}), json!({"enabeld": false}), json!({"misfire_max": 3})] {
        assert_eq!(served.bench.ask("PUT", &path, wrong.clone()).await.refusal().0, 101, "{wrong}");
    }
    // It can be sent as it was shown, and copied.
    let shown = served.get(&id).await;
    assert_eq!(served.bench.ask("PUT", &path, shown.clone()).await.data()["every"], shown["every"]);
    assert_ne!(served.add(shown).await, id);
    assert_eq!(
        served.bench.post("/api/v1/agents/none/schedules", json!({"every": "1m"})).await.refusal().0,
        102
    );
    assert_eq!(served.bench.get("/api/v1/agents/none/schedules").await.refusal().0, 102);
    assert_eq!(served.bench.get(&format!("/api/v1/agents/none/schedules/{id}")).await.refusal().0, 102);
    let own = std::mem::take(&mut served.bench.token);
    assert_eq!(served.bench.get(&path).await.status, 401);
    served.bench.token = served.bench.stranger().await;
    for (method, rest) in [("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/run"), ("GET", "/runs")] {
        assert_eq!(
            served.bench.ask(method, &format!("{path}{rest}"), json!({})).await.refusal().0,
            102,
            "{method}"
        );
    }
    served.bench.token = own;
    served.bench.get(&path).await.data();
    // Removing the agent removes its schedules.
    served.bench.ask("DELETE", &format!("/api/v1/agents/{}", served.agent), Json::Null).await.data();
    assert_eq!(served.bench.get(&path).await.refusal().0, 102);
}

#[tokio::test]
async fn a_schedule_stops_queueing_while_its_runs_do_not_end() {
    let served = Served::new().await;
    let id = served.add(json!({"every": "1s", "misfire": "all", "misfire_max": 1000})).await;
    for _ in 0..5 {
        served.clock.go_on(5 * MINUTE);
        served.bench.app.fire_due().await.unwrap();
    }
    assert_eq!(served.fires(&id).await.len(), 100);
    let path = served.path(&format!("/{id}/run"));
    assert_eq!(served.bench.post(&path, json!({})).await.refusal().0, 429);
    served.work().await;
    served.bench.post(&path, json!({})).await.data();
}

/// Two processes that share only the files here, which contain the echo agent.
async fn two_processes(folder: &Path) -> ([App; 2], CanvasKey) {
    let config = Config { data: folder.to_owned(), ..Config::default() };
    let apps = [assemble(&config).await.unwrap(), assemble(&config).await.unwrap()];
    let canvas = CanvasKey::new(&default_tenant(), CanvasId::new("echo"));
    let head = CanvasHead { title: "Echo".into(), ..CanvasHead::default() };
    apps[0]
        .put_canvas(&canvas.tenant, Some(canvas.id.clone()), head, &echo_canvas().to_string())
        .await
        .unwrap();
    (apps, canvas)
}

/// A schedule that was due this many times, once a second, while no server ran.
async fn overdue(app: &App, canvas: &CanvasKey, query: String, times: i64) -> Schedule {
    let from_ms = app.clock.now_ms() - times * 1_000 - 500;
    let terms = Terms {
        name: query.clone(),
        timing: Timing::Every { every_ms: 1_000, from_ms },
        input: TurnInput { query, ..TurnInput::default() },
        session: SessionPolicy::New,
        misfire: Misfire::All { max: 1_000 },
        enabled: true,
    };
    let schedule = app.add_schedule(canvas, terms).await.unwrap();
    assert!(app.schedules.advance(&schedule, Some(from_ms + 1_000), from_ms).await.unwrap());
    schedule
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_together_respect_the_limit_of_open_runs_of_a_schedule() {
    let folder = tempfile::tempdir().unwrap();
    let (apps, canvas) = two_processes(folder.path()).await;
    let schedule = overdue(&apps[0], &canvas, "tick".into(), 300).await;
    // By the clock and manually, from both processes at the same time.
    let mut asking = tokio::task::JoinSet::new();
    for app in apps.clone() {
        let fired = app.clone();
        asking.spawn(async move { fired.fire_due().await.unwrap() });
        for _ in 0..20 {
            let (app, schedule) = (app.clone(), schedule.clone());
            asking.spawn(async move { drop(app.fire_schedule(&schedule).await) });
        }
    }
    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }
    let (fires, total) = apps[0].fires(&schedule.key, 0, 1_000).await.unwrap();
    assert_eq!((fires.len(), total), (100, OPEN_MAX));
    let runs: BTreeSet<&str> = fires.iter().map(|fire| fire.stored.work.run.id.as_str()).collect();
    assert_eq!(runs.len(), 100);
    for app in apps {
        app.shut_down(Duration::ZERO).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_with_one_store_run_everything_once() {
    const FIRES: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let (apps, canvas) = two_processes(folder.path()).await;
    for n in 0..10 {
        overdue(&apps[0], &canvas, n.to_string(), 20).await;
    }
    let stop = CancellationToken::new();
    let mut workers = tokio::task::JoinSet::new();
    for app in apps.clone() {
        let worker = Worker::new(app, WorkerConfig { concurrency: 8, ..WorkerConfig::default() });
        let stop = stop.clone();
        workers.spawn(async move { worker.run(&stop, Duration::from_secs(60)).await });
    }
    let done = RunFilter { limit: 10_000, ..RunFilter::default() };
    loop {
        let runs = apps[0].runs.list(&canvas.tenant, &done).await.unwrap();
        if runs.iter().filter(|run| run.ending.is_some()).count() >= FIRES {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.cancel();
    while let Some(stopped) = workers.join_next().await {
        stopped.unwrap();
    }
    let runs = apps[0].runs.list(&canvas.tenant, &done).await.unwrap();
    assert!(runs.iter().all(|run| run.ending == Some(Ending::Succeeded)));
    let (schedules, _) = apps[0].schedules.list(&canvas.tenant, &filter_all()).await.unwrap();
    assert_eq!(schedules.len(), 10);
    let mut seen = BTreeSet::new();
    for schedule in &schedules {
        let (fires, total) = apps[0].fires(&schedule.key, 0, 1_000).await.unwrap();
        // The schedules continue to fire while the test runs; none of their times is repeated or missing.
        assert!(total >= 20, "{total}");
        let times: Vec<i64> = fires.iter().rev().map(|fire| fire.stored.work.due_ms).collect();
        assert!(times.windows(2).all(|two| two[1] - two[0] == 1_000), "{times:?}");
        for fire in fires {
            assert!(seen.insert(fire.stored.work.run.id.clone()), "the run was queued twice");
        }
    }
    for run in runs {
        assert!(seen.remove(&run.key.id), "a run that was never queued");
        let session = weft_core::SessionKey::new(&canvas.tenant, run.session.clone());
        let messages = apps[0].sessions.messages(&session, i64::MAX, 10).await.unwrap();
        assert_eq!(messages.iter().filter(|message| message.role == "user").count(), 1);
    }
    for app in apps {
        app.shut_down(Duration::ZERO).await.unwrap();
    }
}

fn filter_all() -> weft_core::seam::schedule_store::ScheduleFilter {
    weft_core::seam::schedule_store::ScheduleFilter { limit: 1_000, ..Default::default() }
}
