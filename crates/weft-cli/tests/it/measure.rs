//! `weft run --bench-json`: the contract of the benchmarks.

use serde_json::Value as Json;

use crate::weft::Home;
use crate::workload;

fn measure(canvas: &Json, query: &str, more: &[&str]) -> Json {
    let home = Home::new();
    home.write("c.json", canvas.to_string());
    let url = "http://127.0.0.1:1/v1";
    let mut arguments =
        vec!["run", "c.json", "--query", query, "--repeat", "3", "--warmup", "1", "--llm-base-url", url];
    arguments.extend(["--concurrency", "2", "--bench-json"].iter().chain(more));
    let measured = home.weft(&arguments).with(0);
    assert_eq!(measured.stdout.lines().count(), 1);
    let result: Json = serde_json::from_str(&measured.stdout).unwrap();
    for number in ["load_ms", "total_s", "cpu_s"] {
        assert!(result[number].as_f64().is_some_and(|value| value > 0.0), "{number}: {result}");
    }
    assert!(result["version"].is_string());
    let walls = result["wall_ms"].as_array().unwrap();
    assert!(walls.len() == 3 && walls.iter().all(|wall| wall.as_f64().unwrap() > 0.0), "{result}");
    // The data folder of the measurement is removed.
    assert!(!home.path().join(".local").exists());
    result
}

fn answer(result: &Json) -> &str {
    result["answer"].as_str().unwrap()
}

#[test]
fn benchmark_of_a_line_of_templates() {
    assert_eq!(answer(&measure(&workload::line(10), "hi", &[])), "hi..........");
}

#[test]
fn benchmark_of_a_line_of_templates_with_a_journal() {
    assert_eq!(answer(&measure(&workload::line(10), "hi", &["--with-journal"])), "hi..........");
}

#[test]
fn benchmark_of_a_fan_out() {
    let result = measure(&workload::fan(50), "hi", &[]);
    let lines: Vec<String> = (0..50).map(|at| format!("hi{at}")).collect();
    assert_eq!(answer(&result), lines.join("\n"));
}

#[test]
fn benchmark_of_an_iteration() {
    let result = measure(&workload::iteration(), &workload::items(200), &[]);
    assert_eq!(answer(&result).matches("item i").count(), 200);
}

#[test]
fn what_a_measurement_does_not_use_is_refused() {
    let home = Home::new();
    home.write("c.json", workload::line(1).to_string());
    for (flag, value) in
        [("--input", "a=1"), ("--file", "c.json"), ("--pin", "A={}"), ("--save-files", "out")]
    {
        let told = home.weft(&["run", "c.json", "--bench-json", flag, value]).with(2);
        assert_eq!(told.says(&["--bench-json", flag]).stdout, "");
    }
}

#[test]
fn a_failed_run_gives_no_measurement() {
    let home = Home::scripted(&serde_json::json!({"replies": []}));
    home.write("c.json", crate::weft::ask_a_model().to_string());
    let measured = home.weft(&["run", "c.json", "--query", "x", "--repeat", "2", "--bench-json"]).with(1);
    assert_eq!(measured.stdout, "");
}
