//! `weft runs`: stored runs and their journals.

use crate::weft::{Home, sample};

#[test]
fn runs_are_listed_newest_first() {
    let home = Home::quoting();
    home.weft(&["runs", "list"]).with(0).says(&["there are no runs"]);
    for query in ["first", "second"] {
        home.weft(&["run", &sample("greet"), "--query", query, "--input", "name=Ada"]).with(0);
    }
    let runs = home.weft(&["runs", "list", "--json"]).with(0).json_lines();
    let queries: Vec<&str> = runs.iter().map(|run| run["query"].as_str().unwrap()).collect();
    assert_eq!(queries, ["second", "first"]);
    assert_eq!(runs[0]["status"], "succeeded");
    let all = home.weft(&["runs", "list", "--limit", "2"]).with(0);
    assert!(all.stdout.lines().count() == 2 && all.stderr.is_empty(), "{}", all.stderr);
    let cut = home.weft(&["runs", "list", "--limit", "1"]).with(0);
    let lines = cut.says(&["there are more than 1", "--limit shows more"]).stdout;
    assert!(lines.lines().count() == 1 && lines.contains("succeeded") && lines.contains("greet-"), "{lines}");
    let session = runs[1]["session"].as_str().unwrap();
    assert_eq!(home.weft(&["runs", "list", "--session", session]).with(0).stdout.lines().count(), 1);
}

#[test]
fn a_journal_is_shown_from_start_to_end() {
    let home = Home::quoting();
    home.weft(&["run", &sample("switch_any_of_join"), "--query", "good morning"]).with(0);
    let id = home.weft(&["runs", "list", "--json"]).json_lines()[0]["id"].as_str().unwrap().to_owned();
    let shown = home.weft(&["runs", "show", &id]).with(0).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].contains("    1  +0.000 s  run of switch_any_of_join-"), "{shown}");
    assert!(lines.last().unwrap().contains("the run ended: succeeded"), "{shown}");
    for part in ["started ", "finished ", " → ", "skipped "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let entries = home.weft(&["runs", "show", &id, "--json"]).with(0).json_lines();
    let numbers: Vec<u64> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>());
    assert_eq!(entries.len(), lines.len());
    let events: Vec<u64> = entries.iter().filter_map(|entry| entry["event"].as_u64()).collect();
    assert_eq!(events, (1..=events.len() as u64).collect::<Vec<_>>());
}

#[test]
fn the_tenant_flag_selects_the_data_that_is_shown() {
    let home = Home::quoting();
    home.weft(&["dataset", "add", "Theirs", "--embedder", "none", "--tenant", "shop"]).with(0);
    let list = |flags: &[&str]| home.weft(&[&["dataset", "list"], flags].concat()).with(0).stdout;
    assert!(list(&["--tenant", "shop"]).contains("Theirs") && !list(&[]).contains("Theirs"));
    let add = ["schedule", "add", &sample("greet"), "--every", "1h", "--tenant", "shop"];
    home.weft(&add).with(0);
    let schedules = |flags: &[&str]| home.weft(&[&["schedule", "list"], flags].concat()).with(0).stdout;
    assert_eq!((schedules(&["--tenant", "shop"]).lines().count(), schedules(&[]).lines().count()), (1, 0));
    home.weft(&["run", &sample("greet"), "--query", "ours", "--input", "name=Ada"]).with(0);
    let id = home.weft(&["runs", "list", "--json"]).json_lines()[0]["id"].as_str().unwrap().to_owned();
    home.weft(&["runs", "list", "--tenant", "shop"]).with(0).says(&["there are no runs"]);
    home.weft(&["runs", "show", &id, "--tenant", "shop"]).with(2);
    home.weft(&["runs", "show", &id, "--tenant", "default"]).with(0);
    home.weft(&["tasks", "--tenant", "shop"]).with(0).says(&["there are no tasks"]);
    home.weft(&["spending", "--tenant", "shop"]).with(0).says(&["no model or tool"]);
}

#[cfg(unix)]
#[test]
fn a_data_folder_name_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = Home::quoting();
    let name = std::ffi::OsStr::from_bytes(b"d\xff");
    let mut command = home.command(&["runs", "list", "--data"]);
    crate::weft::ended(command.arg(name).stdin(std::process::Stdio::null()))
        .with(2)
        .says(&["UTF-8", "--data"]);
    assert!(!home.path().join(name).exists());
}

#[test]
fn a_missing_run_is_named() {
    let home = Home::quoting();
    for command in [
        &["show", "absent"] as &[&str],
        &["resume", "absent"],
        &["cancel", "absent"],
        &["replay", "absent"],
        &["fork", "absent", "--at", "x"],
        &["diff", "absent", "other"],
    ] {
        home.weft(&[&["runs"], command].concat()).with(2).says(&["absent", "weft runs list"]);
    }
}

#[test]
fn without_an_id_the_flag_for_all_is_named() {
    let home = Home::quoting();
    home.weft(&["runs", "resume"]).with(2).says(&["ID", "--all"]);
    home.weft(&["runs", "resume", "some", "--all"]).with(2).says(&["cannot be used with", "--all"]);
    home.weft(&["runs", "resume", "--all"]).with(0).says(&["no interrupted runs"]);
    home.weft(&["runs", "resume", "--all", "--tenant", "shop"]).with(2).says(&["--all", "--tenant"]);
    // A wrong id is told at once, and not after the processes were observed.
    let wrong = home.weft(&["runs", "resume", "absent"]).with(2).says(&["absent"]).stderr;
    assert!(!wrong.contains("checking"), "{wrong}");
    home.weft(&["dataset", "remove", "birds"]).with(2).says(&["DOCUMENT", "--all"]);
    home.weft(&["dataset", "remove", "birds", "one.txt", "--all"]).with(2).says(&["--all"]);
}

#[test]
fn old_runs_are_removed_on_request() {
    let home = Home::quoting();
    home.weft(&["runs", "prune"]).with(2).says(&["--older-than 30d", "retention.runs_days"]);
    home.weft(&["runs", "prune", "--older-than", "soon"]).with(2).says(&["such as 30d"]);
    home.weft(&["runs", "prune", "--keep", "0"]).with(2).says(&["at least 1"]);
    let canvas = sample("greet");
    for query in ["first", "second", "third"] {
        home.weft(&["run", &canvas, "--session", "s", "--query", query, "--input", "name=Ada"]).with(0);
    }
    let queries = || -> Vec<String> {
        let runs = home.weft(&["runs", "list", "--json"]).with(0).json_lines();
        runs.iter().map(|run| run["query"].as_str().unwrap().to_owned()).collect()
    };
    home.weft(&["runs", "prune", "--older-than", "1d"]).with(0).says(&["0 runs removed"]);
    let dry = home.weft(&["runs", "prune", "--keep", "2", "--dry-run"]).with(0);
    assert!(dry.stdout.contains("first") && dry.stdout.lines().count() == 1, "{}", dry.stdout);
    dry.says(&["1 run would be removed"]);
    assert_eq!(queries(), ["third", "second", "first"]);
    assert!(home.weft(&["runs", "prune", "--keep", "2"]).with(0).stdout.contains("first"));
    assert_eq!(queries(), ["third", "second"]);
    home.settings("[retention]\nruns_per_session = 1\n");
    home.weft(&["runs", "prune"]).with(0).says(&["1 run removed"]);
    assert_eq!(queries(), ["third"]);
    // The session continues.
    home.weft(&["run", &canvas, "--session", "s", "--query", "fourth", "--input", "name=Ada"]).with(0);
    home.weft(&["runs", "prune", "--older-than", "0s"]).with(0).says(&["2 runs removed"]);
}
