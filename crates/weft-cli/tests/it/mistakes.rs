//! Every mistake in a canvas is reported before it runs, with its place and a remedy.
//!
//! The mistakes are in `tests/mistakes`, one per line: what is changed where in a valid canvas, and the expected
//! diagnostic. Places are parameters of a component, or whole pointers. Diagnostics that follow from a mistake are
//! listed in `also` by code, unless there are many (`cascade`). Nothing else may be reported.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use weft_dsl::{CompileOptions, PluginTools, Problem, compile, load};

/// The minimum number of mistakes.
const MISTAKES_MIN: usize = 150;

/// One mistake, and its expected diagnostic.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    /// Where the change is made; the diagnostic is there as well unless `place` names another place.
    at: Option<String>,
    /// The value that is set there.
    #[serde(default)]
    put: Json,
    /// The path that is removed.
    remove: Option<String>,
    /// What else is set in the canvas so that this is a mistake.
    #[serde(default)]
    more: Map<String, Json>,
    /// The whole document, where the mistake is in its text.
    text: Option<String>,
    place: Option<String>,
    /// Severity and code.
    says: String,
    /// A part of the message.
    #[serde(default)]
    message: String,
    /// A part of the help; empty if the message contains the remedy.
    #[serde(default)]
    help: String,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    cascade: bool,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes")
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All diagnostics of a document, where these resources exist.
fn found(text: &str) -> Vec<Problem> {
    let models = |llm_id: &str| match llm_id {
        "m" | "" => Ok(None),
        "other" => Ok(Some("`m` stands in for `other`".to_owned())),
        id => Err(format!("there is no model `{id}`; there is `m`")),
    };
    let names = |name: &str| [name.to_owned()];
    let options = CompileOptions {
        models: Some(&models),
        rerankers: Some(&models),
        sql: Some(&weft_app::sql_refusals),
        programs: None,
        no_voice: Some("no model is configured for that"),
        tool_servers: Some(&["files".to_owned(), "weather".to_owned()]),
        left_out_tools: &[],
        plugin_tools: &[PluginTools { plugin: "weather".to_owned(), tools: vec!["forecast".to_owned()] }],
        datasets: Some(&names("manuals")),
        memories: Some(&names("support")),
        secrets: Some(&names("KEY")),
        measuring: false,
    };
    let canvas = match load(text.as_bytes()) {
        Ok(canvas) => canvas,
        Err(problems) => return problems,
    };
    match compile(&canvas, &weft_components::catalog(), &options) {
        Ok(compiled) => compiled.warnings,
        Err(problems) => problems,
    }
}

/// The JSON pointer for a place such as `Agent:A/params/top_n`.
fn pointer(canvas: &Json, place: &str) -> String {
    if place.starts_with('/') || place.is_empty() {
        return place.to_owned();
    }
    let dsl = if canvas.get("dsl").is_some() { "/dsl" } else { "" };
    let (id, rest) = place.split_once('/').unwrap_or((place, ""));
    let object = matches!(rest.split('/').next(), Some("params" | "component_name"));
    let object = if object { "/obj" } else { "" };
    let rest = if rest.is_empty() { String::new() } else { format!("/{rest}") };
    format!("{dsl}/components/{id}{object}{rest}")
}

fn put(canvas: &mut Json, at: &str, value: Json) {
    let at = pointer(canvas, at);
    let (parent, key) = at.rsplit_once('/').unwrap();
    match canvas.pointer_mut(parent).unwrap_or_else(|| panic!("there is no {parent}")) {
        Json::Object(members) => drop(members.insert(key.to_owned(), value)),
        Json::Array(items) => match key.parse::<usize>().unwrap() {
            place if place == items.len() => items.push(value),
            place => items[place] = value,
        },
        other => panic!("{parent} is {other}"),
    }
}

fn take_out(canvas: &mut Json, at: &str) {
    let at = pointer(canvas, at);
    let (parent, key) = at.rsplit_once('/').unwrap();
    let parent = canvas.pointer_mut(parent).and_then(Json::as_object_mut).unwrap();
    assert!(parent.remove(key).is_some(), "there is no {at}");
}

impl Mistake {
    fn document(&self, right: &Json) -> String {
        if let Some(text) = &self.text {
            return text.clone();
        }
        let mut canvas = right.clone();
        for (at, value) in &self.more {
            put(&mut canvas, at, value.clone());
        }
        self.remove.iter().for_each(|at| take_out(&mut canvas, at));
        self.at.iter().for_each(|at| put(&mut canvas, at, self.put.clone()));
        canvas.to_string()
    }

    /// The difference between the expected and the found diagnostics.
    fn differs(&self, right: &Json) -> Option<String> {
        let found = found(&self.document(right));
        let place = self.place.as_ref().or(self.at.as_ref()).map_or("", String::as_str);
        let place = pointer(right, place);
        let is_it = |problem: &&Problem| {
            let help = problem.help.as_deref().unwrap_or_default();
            format!("{} {}", problem.severity, problem.code) == self.says
                && problem.pointer == place
                && problem.message.contains(&self.message)
                && help.contains(&self.help)
        };
        let mut rest: Vec<&str> = found.iter().map(|problem| problem.code).collect();
        let named = found.iter().position(|problem| is_it(&problem));
        if let Some(named) = named {
            rest.remove(named);
        }
        let mut also = self.also.clone();
        also.sort_unstable();
        rest.sort_unstable();
        if named.is_some() && (self.cascade || rest == also) {
            return None;
        }
        let told: Vec<String> = found.iter().map(|problem| format!("    found {problem}")).collect();
        Some(format!(
            "{place} = {}\n    expected {} … {:?} … {:?}, also {also:?}\n{}",
            self.put,
            self.says,
            self.message,
            self.help,
            told.join("\n")
        ))
    }
}

#[test]
fn valid_canvases_have_no_diagnostics() {
    for name in ["canvas.json", "pipeline.json"] {
        assert_eq!(found(&read::<Json>(name).to_string()), [], "{name}");
    }
}

/// Other spellings of what is right.
#[test]
fn nothing_is_wrong_in_what_other_editors_write() {
    let canvas: Json = read("canvas.json");
    for (at, value) in [
        (
            "UserFillUp:Ask/params/inputs/ok/options",
            serde_json::json!(["yes", 2, {"label": "No", "value": "no"}]),
        ),
        ("UserFillUp:Ask/params/enable_tips", "".into()),
        ("Message:No/params/stream", " ".into()),
        ("StringTransform:Each/params/script", "{{ item.title }}".into()),
        (
            "Switch:W/params/conditions/0/items/0",
            serde_json::json!({"cpn_id": "UserFillUp:Ask@ok", "operator": "in", "value": ["yes", "y"]}),
        ),
        ("Invoke:Web/params/variables/0", serde_json::json!({"key": "q", "value": {"words": ["a"]}})),
    ] {
        let mut canvas = canvas.clone();
        put(&mut canvas, at, value);
        assert_eq!(found(&canvas.to_string()), [], "{at}");
    }
}

/// The LoopItem reads the conditions of its Loop, but they are written at the Loop.
#[test]
fn a_condition_of_a_loop_is_reported_at_the_loop() {
    let mut canvas: Json = read("canvas.json");
    put(&mut canvas, "Loop:R/params/loop_termination_condition/0/variable", "Loop:R@rounds".into());
    let found = found(&canvas.to_string());
    let about: Vec<_> = found.iter().filter_map(|problem| problem.component.as_ref()).collect();
    assert!(about.iter().all(|id| id.as_str() == "Loop:R") && about.len() == 1, "{found:#?}");
}

/// All is reported at once: an author should not correct one mistake only to be told of the next.
#[test]
fn a_wrong_parameter_hides_no_other_mistake() {
    let right: Json = read("canvas.json");
    let case = "Switch:W/params/conditions/0";
    let unknown = serde_json::json!({"cpn_id": "CodeExec:Z@a", "operator": "=", "value": "x"});
    for (wrong, put_there, code, at, value, place) in [
        (
            "logical_operator",
            "andd".into(),
            "unknown-target",
            "to",
            serde_json::json!(["Message:Yess"]),
            "to/0",
        ),
        ("items/1", unknown, "unknown-global", "items/0/cpn_id", "sys.qury".into(), "items/0/cpn_id"),
    ] {
        let mut canvas = right.clone();
        put(&mut canvas, &format!("{case}/{wrong}"), put_there);
        put(&mut canvas, &format!("{case}/{at}"), value);
        let (found, place) = (found(&canvas.to_string()), pointer(&right, &format!("{case}/{place}")));
        assert!(found.iter().any(|problem| problem.code == "invalid-parameter"), "{found:#?}");
        assert!(found.iter().any(|problem| problem.code == code && problem.pointer == place), "{found:#?}");
    }
    let mut canvas = right;
    put(&mut canvas, "CodeExec:C/params/lang", "javascritp".into());
    put(&mut canvas, "Message:Yes/params/content/0", "{CodeExec:C@totl}".into());
    let codes: Vec<_> = found(&canvas.to_string()).iter().map(|problem| problem.code).collect();
    assert!(codes.contains(&"invalid-parameter") && codes.contains(&"unknown-output"), "{codes:?}");
}

/// An assigner may create an output and use it in its next change.
#[test]
fn an_output_that_its_assigner_also_reads_is_known() {
    let variables = serde_json::json!([
        {"variable": "StringTransform:T@note", "operator": "set", "parameter": "x"},
        {"variable": "env.log", "operator": "set", "parameter": "{StringTransform:T@note}"},
    ]);
    let node = |kind: &str, params: Json, to: &[&str]| serde_json::json!({"obj": {"component_name": kind, "params": params}, "downstream": to});
    let script = serde_json::json!({"method": "merge", "script": "{sys.query}"});
    let text = serde_json::json!({"content": ["{StringTransform:T@note}"]});
    let canvas = serde_json::json!({
        "components": {
            "begin": node("Begin", serde_json::json!({}), &["StringTransform:T"]),
            "StringTransform:T": node("StringTransform", script, &["VariableAssigner:V"]),
            "VariableAssigner:V":
                node("VariableAssigner", serde_json::json!({"variables": variables}), &["Message:M"]),
            "Message:M": node("Message", text, &[]),
        },
        "variables": {"log": {"type": "string", "value": ""}},
    });
    let found = found(&canvas.to_string());
    assert!(found.iter().all(|problem| problem.code != "unknown-output"), "{found:#?}");
}

/// A parameter that is not filled in is the most frequent mistake of an unfinished canvas.
#[test]
fn a_missing_parameter_hides_no_other_mistake() {
    let right: Json = read("canvas.json");
    // What is removed, what is set where, and what is reported for that.
    let cases = serde_json::json!([
        ["StringTransform:Cut/params/split_ref", "Message:Yes/params/content/0", "{StringTransform:Cut@results}", "unknown-output"],
        ["Iteration:I/params/items_ref", "ListOperations:L/params/query", "Iteration:I@al", "unknown-output"],
        ["ListOperations:L/params/query", "ListOperations:L/params/n", 0, "parameter-warning"],
        ["Invoke:Web/params/url", "Invoke:Web/params/variables/0/ref", "sys.qery", "unknown-global"],
        ["Invoke:Web/params/variables/0/key", "Invoke:Web/params/headers/Authorization", "{secret.KYE}", "unknown-secret"],
        ["Invoke:Web/params/url", "Invoke:Web/params/retry_if", [{"output": "reslt", "operator": "empty"}], "unknown-output", "/0/output"],
        ["Categorize:K/params/category_description/page/to", "Categorize:K/params/llm_id", "none", "MODEL_NOT_CONFIGURED"],
        ["Switch:W/params/conditions/0/to", "Switch:W/params/conditions/0/items/0/value", "maybe", "parameter-warning"],
        ["Switch:W/params/conditions/0/items/0/operator", "Switch:W/params/conditions/0/items/1",
            {"cpn_id": "sys.qury", "operator": "=", "value": "x"}, "unknown-global", "/cpn_id"],
    ]);
    for case in cases.as_array().unwrap() {
        let text = |place: usize| case.get(place).and_then(Json::as_str).unwrap_or_default();
        let (missing, at, within) = (text(0), text(1), format!("{}{}", text(1), text(4)));
        let mut canvas = right.clone();
        take_out(&mut canvas, missing);
        put(&mut canvas, at, case[2].clone());
        reports_both(&canvas, (missing, "invalid-parameter"), (within.as_str(), text(3)));
    }
}

/// Checks that a place and a code are reported, and another.
fn reports_both(canvas: &Json, first: (&str, &str), second: (&str, &str)) {
    let found = found(&canvas.to_string());
    for (place, code) in [first, second] {
        let pointer = pointer(canvas, place);
        let is_it = |problem: &Problem| problem.code == code && problem.pointer == pointer;
        assert!(found.iter().any(is_it), "{code} at {place}: {found:#?}");
    }
}

#[test]
fn every_mistake_is_reported_with_its_place_and_remedy() {
    let (canvas, pipeline): (Json, Json) = (read("canvas.json"), read("pipeline.json"));
    let (mut count, mut wrong) = (0, Vec::new());
    let mut files: Vec<_> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    for name in files.iter().filter_map(|name| name.to_str()) {
        if matches!(name, "canvas.json" | "pipeline.json") {
            continue;
        }
        let right = if name == "pipelines.json" { &pipeline } else { &canvas };
        let mistakes: Vec<Mistake> = read(name);
        count += mistakes.len();
        wrong.extend(
            mistakes.iter().filter_map(|mistake| Some(format!("{name}: {}", mistake.differs(right)?))),
        );
    }
    assert!(wrong.is_empty(), "{} of {count} mistakes:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= MISTAKES_MIN, "there are only {count}");
}
