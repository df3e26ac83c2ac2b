//! `weft schedule` and `weft worker`.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::weft::{Home, sample};

/// The JSON lines that a command prints.
fn printed(home: &Home, arguments: &[&str]) -> Vec<Json> {
    home.weft(arguments).with(0).json_lines()
}

fn add(home: &Home, arguments: &[&str]) -> String {
    let greet = sample("greet");
    let added = home.weft(
        &[&["schedule", "add", &greet, "--input", "name=Ada", "--input", "town=Oslo"], arguments].concat(),
    );
    added.with(0).stdout.trim().to_owned()
}

/// The finished runs of the data folder, with their endings.
fn ended(home: &Home) -> Vec<(String, String)> {
    let runs = printed(home, &["runs", "list", "--json", "--limit", "1000"]);
    let text = |run: &Json, key: &str| run[key].as_str().unwrap().to_owned();
    let all = runs.iter().map(|run| (text(run, "id"), text(run, "status")));
    all.filter(|(_, status)| status != "unfinished").collect()
}

#[test]
fn a_schedule_is_created_shown_changed_and_removed() {
    let home = Home::quoting();
    home.weft(&["schedule", "list"]).with(0).says(&["there are no schedules"]);
    let id = add(
        &home,
        &["--cron", "30 8 * * MON-FRI", "--zone", "Europe/Berlin", "--name", "Morning", "--query", "hello"],
    );
    let listed = home.weft(&["schedule", "list"]).with(0).stdout;
    assert!(listed.starts_with(&id) && listed.contains("30 8 * * MON-FRI (Europe/Berlin)"), "{listed}");
    let shown = printed(&home, &["schedule", "show", &id, "--json"]).remove(0);
    assert_eq!(
        (&shown["name"], &shown["query"], &shown["inputs"]["name"]),
        (&"Morning".into(), &"hello".into(), &"Ada".into())
    );
    assert!(
        shown["upcoming"]
            .as_array()
            .unwrap()
            .iter()
            .all(|time| time.as_str().unwrap().contains("T08:30:00+0"))
    );
    home.weft(&["schedule", "disable", &id]).with(0).says(&["disabled"]);
    assert!(home.weft(&["schedule", "show", &id]).with(0).stdout.contains("never: it is disabled"));
    home.weft(&["schedule", "enable", &id]).with(0).says(&["fires next at", "T08:30:00+0"]);
    home.weft(&["schedule", "remove", &id]).with(0);
    home.weft(&["schedule", "show", &id]).with(2).says(&[&id, "weft schedule list"]);
}

#[test]
fn invalid_schedules_are_refused_with_a_reason() {
    let home = Home::quoting();
    let add = |arguments: &[&str]| home.weft(&[&["schedule", "add"], arguments].concat()).with(2);
    let greet = sample("greet");
    add(&[&greet]).says(&["--cron", "--every"]);
    for wrong in ["1w", "99999999999999999999h"] {
        let told = add(&[&greet, "--every", wrong]).says(&[wrong, "15m"]).stderr;
        assert!(!told.contains("parse") && !told.contains("ISO"), "{told}");
    }
    add(&[&greet, "--cron", "soon"]).says(&["`soon`", "MON-FRI"]);
    add(&[&greet, "--cron", "0 8 * * *", "--zone", "Berlin"]).says(&["`Berlin`", "Europe/Berlin"]);
    add(&[&greet, "--every", "often"]).says(&["`often`", "15m"]);
    add(&[&greet, "--every", "1h", "--zone", "Europe/Berlin"]).says(&["--zone", "--every"]);
    for other in [&["--misfire-max", "5"] as &[&str], &["--misfire-max", "5", "--misfire", "skip"]] {
        add(&[&[&*greet, "--every", "1h"], other].concat()).says(&["--misfire-max", "--misfire all"]);
    }
    for max in ["0", "1001"] {
        let all = ["--misfire", "all", "--misfire-max", max];
        add(&[&[&*greet, "--every", "1h"], &all[..]].concat()).says(&["--misfire-max", "1..=1000"]);
    }
    add(&["absent.json", "--every", "1h"]).says(&["absent.json"]);
    home.write("c.json", "{\"components\": {}}");
    add(&["c.json", "--every", "1h"]).says(&["c.json"]);
    home.weft(&["schedule", "run", "none"]).with(2).says(&["none"]);
    home.weft(&["schedule", "list"]).with(0).says(&["there are no schedules"]);
}

#[test]
fn inputs_that_a_canvas_does_not_read_are_reported() {
    let home = Home::quoting();
    let greet = sample("greet");
    let named = ["schedule", "add", &greet, "--every", "1h", "--input", "name=Ada", "--input", "twon=Oslo"];
    let told = home.weft(&named).with(0).says(&["the canvas reads no input `twon`"]).stderr;
    assert!(!told.contains("`name`"), "{told}");
}

#[test]
fn a_text_field_of_a_schedule_takes_what_was_typed() {
    let home = Home::quoting();
    let greet = sample("greet");
    let added = home.weft(&["schedule", "add", &greet, "--every", "1h", "--input", "name=1.10"]).with(0);
    let shown = printed(&home, &["schedule", "show", added.stdout.trim(), "--json"]).remove(0);
    assert_eq!(shown["inputs"]["name"], "1.10");
}

/// Two workers, one folder: each queued run is executed once, by either worker.
#[test]
fn workers_run_each_queued_run_once() {
    let home = Home::quoting();
    let id = add(&home, &["--cron", "0 0 1 1 *", "--query", "good morning"]);
    let mut asked = BTreeSet::new();
    let mut ask = || {
        let run = home.weft(&["schedule", "run", &id]).with(0).stdout.trim().to_owned();
        assert!(asked.insert(run), "each run has its own id");
    };
    // Some are queued while no worker is running.
    (0..3).for_each(|_| ask());
    let mut workers = [home.start(&["worker"]), home.start(&["worker"])];
    for worker in &mut workers {
        worker.told("Ctrl-C stops it");
    }
    (0..3).for_each(|_| ask());
    while ended(&home).len() < asked.len() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for worker in workers {
        worker.signal("TERM");
        let ended = worker.end().with(0);
        assert!(ended.stderr.contains("Stopped."), "{}", ended.stderr);
    }
    let runs = ended(&home);
    assert!(runs.iter().all(|(_, status)| status == "succeeded"), "{runs:?}");
    assert_eq!(runs.iter().map(|(id, _)| id.clone()).collect::<BTreeSet<_>>(), asked);
    assert_eq!(runs.len(), asked.len());
    let shown = home.weft(&["schedule", "show", &id]).with(0).stdout;
    assert!(shown.contains("runs: 6") && shown.matches("succeeded").count() == 6, "{shown}");
}

#[test]
fn a_server_fires_schedules_too() {
    let home = Home::quoting();
    let id = add(&home, &["--every", "1s", "--query", "good morning"]);
    let mut server = home.start(&["serve", "--listen", "127.0.0.1:0", "--no-auth"]);
    server.told("listens on");
    while ended(&home).len() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    home.weft(&["schedule", "disable", &id]).with(0);
    server.signal("TERM");
    server.end().with(0);
    assert!(home.weft(&["schedule", "show", &id]).with(0).stdout.contains("succeeded"));
}
