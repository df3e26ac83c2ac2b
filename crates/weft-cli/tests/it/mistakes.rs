//! Every mistake in a canvas is named before it runs, with its place and what to do: one mistake at a time in a canvas
//! that is right, and the samples with names, outputs, braces and targets misspelled by a program.

use std::path::Path;

use serde_json::{Value as Json, json};
use weft_dsl::{CompileOptions, Problem, compile, load};

/// Everything that is found in a canvas.
fn found(canvas: &Json) -> Vec<Problem> {
    let canvas = match load(canvas.to_string().as_bytes()) {
        Ok(canvas) => canvas,
        Err(problems) => return problems,
    };
    match compile(&canvas, &weft_components::catalog(), &CompileOptions::default()) {
        Ok(compiled) => compiled.warnings,
        Err(problems) => problems,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "canvases are written down in place")]
fn part(kind: &str, params: Json, downstream: &[&str]) -> Json {
    json!({"obj": {"component_name": kind, "params": params}, "downstream": downstream})
}

fn inside(parent: &str, mut part: Json) -> Json {
    part["parent_id"] = parent.into();
    part
}

/// A canvas with a bit of everything and nothing wrong in it.
fn right() -> Json {
    let field = json!({"type": "line", "name": "City", "optional": true});
    let schema = json!({"structured": {"type": "object", "properties": {"title": {"type": "string"}}}});
    let collects = json!({"all": {"ref": "StringTransform:Each@result", "type": "Array<string>"}});
    let case = json!({"logical_operator": "and", "to": ["Message:Yes"],
        "items": [{"cpn_id": "Agent:A@content", "operator": "contains", "value": "x"}]});
    json!({"components": {
        "begin": part("Begin", json!({"mode": "conversational", "prologue": "Hi", "inputs": {"city": field}}),
            &["Agent:A"]),
        "Agent:A": part("Agent", json!({"llm_id": "m", "sys_prompt": "Be kind to {begin@city}.",
            "prompts": [{"role": "user", "content": "{sys.query}"}], "max_rounds": 3}), &["LLM:S"]),
        "LLM:S": part("LLM", json!({"llm_id": "m", "prompts": "{Agent:A@content}", "outputs": schema}),
            &["StringTransform:Cut"]),
        "StringTransform:Cut": part("StringTransform", json!({"method": "split", "split_ref": "Agent:A@content",
            "delimiters": [","]}), &["Iteration:I"]),
        "Iteration:I": part("Iteration", json!({"items_ref": "StringTransform:Cut@result", "outputs": collects}),
            &["ListOperations:L"]),
        "IterationItem:X": inside("Iteration:I", part("IterationItem", json!({}), &["StringTransform:Each"])),
        "StringTransform:Each": inside("Iteration:I", part("StringTransform",
            json!({"method": "merge", "script": "<{item}> of {begin@city}"}), &[])),
        "ListOperations:L": part("ListOperations", json!({"query": "Iteration:I@all", "operations": "head", "n": 2}),
            &["CodeExec:C"]),
        "CodeExec:C": part("CodeExec", json!({"lang": "javascript", "script": "function main({n}) { return n }",
            "arguments": {"n": "ListOperations:L@first"}, "outputs": {"total": {"type": "Any"}}}),
            &["VariableAggregator:V"]),
        "VariableAggregator:V": part("VariableAggregator", json!({"groups": [{"group_name": "any", "type": "string",
            "variables": [{"value": "CodeExec:C@total"}, {"value": "LLM:S@structured"}]}]}), &["Switch:W"]),
        "Switch:W": part("Switch", json!({"conditions": [case], "end_cpn_ids": ["Message:No"]}),
            &["Message:Yes", "Message:No"]),
        "Message:Yes": part("Message", json!({"content": ["{LLM:S@structured.title}: {VariableAggregator:V@any}"]}), &[]),
        "Message:No": part("Message", json!({"content": ["{ListOperations:L@last} {CodeExec:C@stdout} {Agent:A@_ERROR}"]}),
            &[]),
    }})
}

fn params(node: &str) -> String {
    format!("/components/{node}/obj/params")
}

/// The right canvas with the value at a place replaced, or put there.
fn wrong(at: &str, value: Json) -> Json {
    let mut canvas = right();
    let (parent, key) = at.rsplit_once('/').unwrap();
    match canvas.pointer_mut(parent).unwrap_or_else(|| panic!("there is no {parent}")) {
        Json::Object(members) => drop(members.insert(key.to_owned(), value)),
        Json::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        other => panic!("{parent} is {other}"),
    }
    canvas
}

#[test]
fn nothing_is_wrong_in_what_is_right() {
    assert_eq!(found(&right()), []);
}

/// Insists that what is wrong with this value at this place is named by this code, with this in its remedy.
#[track_caller]
fn check(at: &str, value: Json, code: &str, help: &str) {
    let told = value.to_string();
    let found = found(&wrong(at, value));
    let named = found.iter().find(|problem| problem.code == code && problem.pointer.starts_with(at));
    let Some(named) = named else { panic!("{at} = {told}: no {code} there in {found:#?}") };
    assert!(named.help.clone().unwrap_or_default().contains(help), "{at} = {told}: {named}");
}

fn of(node: &str, rest: &str) -> String {
    format!("{}{rest}", params(node))
}

#[test]
fn outputs_that_are_not_there_are_named() {
    let output = |at: &str, text: &str, help: &str| check(at, json!(text), "unknown-output", help);
    let said = [
        ("{Agent:A@contnt}", "did you mean `content`?"),
        ("{Agent:A@answer}", "its outputs are `content`, `use_tools`, `stop_reason`"),
        ("{Agent:A@use_tool}", "did you mean `use_tools`?"),
        ("{Agent:A@_EROR}", "did you mean `_ERROR`?"),
        ("{begin@ctiy}", "did you mean `city`?"),
        ("{begin@country}", "its outputs are `city`"),
        ("{Agent:A@structured.title}", "the answer as the schema in `outputs` has it"),
        ("{LLM:S@structured.titel}", "did you mean `title`?"),
        ("{LLM:S@structured.body}", "the members are `title`"),
        ("{LLM:S@structure}", "did you mean `structured`?"),
        ("{StringTransform:Cut@resutl}", "did you mean `result`?"),
        ("{StringTransform:Cut@results.0}", "did you mean `result`?"),
        ("{Iteration:I@al}", "did you mean `all`?"),
        ("{Iteration:I@result}", "its outputs are `all`"),
        ("{IterationItem:X@item} {IterationItem:X@idnex}", "did you mean `index`?"),
        ("{ListOperations:L@frist}", "did you mean `first`?"),
        ("{CodeExec:C@totl}", "did you mean `total`?"),
        ("{CodeExec:C@result}", "its outputs are"),
        ("{CodeExec:C@stdot}", "did you mean `stdout`?"),
        ("{VariableAggregator:V@none}", "its outputs are `any`"),
        ("{Switch:W@nxt}", "did you mean `next`?"),
    ];
    for (text, help) in said {
        output(&of("Message:Yes", "/content/0"), text, help);
    }
    output(&of("Message:No", "/content/0"), "{Message:Yes@contents}", "did you mean `content`?");
    output(&of("LLM:S", "/prompts"), "{Agent:A@contents}", "did you mean `content`?");
    output(&of("Agent:A", "/sys_prompt"), "In {begin@town}.", "its outputs are `city`");
    output(&of("Agent:A", "/prompts/0/content"), "{begin@citty}", "did you mean `city`?");
    output(&of("StringTransform:Cut", "/split_ref"), "Agent:A@contnet", "did you mean `content`?");
    output(&of("Iteration:I", "/items_ref"), "StringTransform:Cut@results", "did you mean `result`?");
    output(&of("Iteration:I", "/outputs/all/ref"), "StringTransform:Each@reslt", "did you mean `result`?");
    output(&of("StringTransform:Each", "/script"), "{IterationItem:X@itm}", "did you mean `item`?");
    output(&of("ListOperations:L", "/query"), "Iteration:I@alll", "did you mean `all`?");
    output(&of("CodeExec:C", "/arguments/n"), "ListOperations:L@fist", "did you mean `first`?");
    output(&of("Switch:W", "/conditions/0/items/0/cpn_id"), "Agent:A@conten", "did you mean `content`?");
    output(&of("VariableAggregator:V", "/groups/0/variables/0/value"), "CodeExec:C@totals", "did you mean");
}

#[test]
fn parameters_that_are_not_there_are_named() {
    let parameter = |node: &str, name: &str, value: Json, meant: &str| {
        check(
            &of(node, &format!("/{name}")),
            value,
            "unknown-parameter",
            &format!("did you mean `{meant}`?"),
        );
    };
    parameter("Agent:A", "max_paralel_tools", json!(2), "max_parallel_tools");
    parameter("Agent:A", "maxRetries", json!(2), "max_retries");
    parameter("Agent:A", "usr_prompt", json!("x"), "user_prompt");
    parameter("Agent:A", "tolos", json!([]), "tools");
    parameter("Agent:A", "mpc", json!([]), "mcp");
    parameter("Agent:A", "buget", json!({"rounds": 3}), "budget");
    parameter("LLM:S", "sys_promt", json!("x"), "sys_prompt");
    parameter("LLM:S", "temperatur", json!(0.5), "temperature");
    parameter("LLM:S", "ctie", json!(false), "cite");
    parameter("LLM:S", "message_history_windowsize", json!(3), "message_history_window_size");
    parameter("StringTransform:Each", "delimitrs", json!([";"]), "delimiters");
    parameter("StringTransform:Cut", "scirpt", json!("x"), "script");
    parameter("Iteration:I", "paralelism", json!(2), "parallelism");
    parameter("ListOperations:L", "sort_mehtod", json!("asc"), "sort_method");
    parameter("begin", "enable_prologue", json!(false), "enablePrologue");
    parameter("Message:Yes", "exception_metod", json!("comment"), "exception_method");
    parameter("Switch:W", "exceptiongoto", json!([]), "exception_goto");
}

#[test]
fn references_and_braces_that_are_wrong_are_named() {
    let yes = of("Message:Yes", "/content/0");
    let text = |text: &str, code: &str, help: &str| check(&yes, json!(text), code, help);
    text("so {Agent:A@content and on", "unclosed-reference", "write `{Agent:A@content}`");
    text(
        "{LLM:S@structured.title. {Agent:A@content}",
        "unclosed-reference",
        "write `{LLM:S@structured.title}`",
    );
    text("{{ Agent:A@content, {begin@city}", "unclosed-reference", "write `{Agent:A@content}`");
    text("this is {item}", "outside-iteration", "put the component into the Iteration");
    text("number {index}", "outside-iteration", "put the component into the Iteration");
    text("{Agnet:A@content}", "unknown-reference", "did you mean `Agent:A`?");
    text("{Agent:B@content}", "unknown-reference", "did you mean `Agent:A`?");
    text("{sys.qeury}", "unknown-global", "did you mean `sys.query`?");
    text("{sys.nothing}", "unknown-global", "the names are sys.query");
    text("{env.key}", "unknown-global", "declare `key` under `variables`");
    let later = of("Agent:A", "/sys_prompt");
    check(&later, json!("as {Message:Yes@content} has it"), "reads-nothing", "");
}

#[test]
fn values_and_drawings_that_are_wrong_are_named() {
    let value = |at: &str, wrong: Json, help: &str| check(at, wrong, "invalid-parameter", help);
    value(&of("StringTransform:Cut", "/method"), json!("splt"), "use `split` or `merge`");
    value(&of("StringTransform:Cut", "/split_ref"), json!("nothing at all"), "write the id of a component");
    value(&of("StringTransform:Cut", "/delimiters"), json!([""]), "add one");
    value(&of("StringTransform:Each", "/script"), json!("{% for %}"), "");
    value(&of("Iteration:I", "/items_ref"), json!("some text"), "write the id of a component");
    value(&of("Iteration:I", "/parallelism"), json!("many"), "");
    value(&of("Switch:W", "/conditions/0/logical_operator"), json!("xor"), "use `and` or `or`");
    value(&of("Switch:W", "/conditions/0/items/0/operator"), json!("containz"), "");
    value(&of("ListOperations:L", "/operations"), json!("hed"), "");
    value(&of("ListOperations:L", "/n"), json!("many"), "");
    value(&of("CodeExec:C", "/lang"), json!("cobol"), "");
    value(&of("Agent:A", "/max_rounds"), json!(-1), "");
    value(&of("Agent:A", "/prompts/0/role"), json!("narrator"), "use `user`, `assistant` or `system`");
    value(&of("Agent:A", "/driver"), json!("manual"), "use `auto`, `native` or `planner`");
    value(&of("LLM:S", "/prompts"), json!(7), "");

    let at = |rest: &str| format!("/components/{rest}");
    check(&at("begin/downstream/0"), json!("Agent:B"), "unknown-target", "did you mean `Agent:A`?");
    check(&at("Agent:A/downstream/0"), json!("LLM:T"), "unknown-target", "did you mean `LLM:S`?");
    check(&at("Agent:A/obj/component_name"), json!("Agnet"), "unknown-component", "did you mean `Agent`?");
    check(&at("IterationItem:X/parent_id"), json!("Iteration:J"), "unknown-parent", "");
    check(&at("IterationItem:X/parent_id"), json!("Agent:A"), "parent-without-body", "");
    check(&at("Message:No/obj/params/exception_method"), json!("goto"), "failure-not-handled", "name one");
    check(&at("Message:No/obj/params/on_missing_credential"), json!("wait"), "unknown-choice", "\"ask\"");
}

#[test]
fn datasets_that_are_not_there_are_named() {
    let retrieval = |dataset: &str| {
        let params = json!({"query": "sys.query", "dataset_ids": ["Manuals", dataset, "{begin@city}"]});
        let as_tool = json!({"tools": [{"component_name": "Retrieval", "name": "R", "params": params}]});
        let mut canvas = wrong(&of("Agent:A", "/tools"), as_tool["tools"].clone());
        canvas["components"]["Retrieval:R"] = part("Retrieval", params, &[]);
        canvas["components"]["begin"]["downstream"] = json!(["Agent:A", "Retrieval:R"]);
        canvas
    };
    let there = ["manuals".to_owned(), "0f3c".to_owned()];
    let named = |dataset: &str| {
        let canvas = load(retrieval(dataset).to_string().as_bytes()).unwrap();
        let options = CompileOptions { datasets: Some(&there), ..CompileOptions::default() };
        compile(&canvas, &weft_components::catalog(), &options).unwrap().warnings
    };
    assert_eq!(named("0f3c"), []);
    let found: Vec<_> = named("manual").into_iter().map(|found| (found.code, found.pointer)).collect();
    let tool = of("Agent:A", "/tools/0/params/dataset_ids/1");
    assert_eq!(found, [("unknown-dataset", tool), ("unknown-dataset", of("Retrieval:R", "/dataset_ids/1"))]);
    assert!(named("manual")[0].help.clone().unwrap().contains("did you mean `manuals`?"));
    // Who does not know the datasets says nothing of them.
    assert_eq!(self::found(&retrieval("manual")), []);
}

#[test]
fn a_component_that_every_run_gets_to_and_that_cannot_run_is_named_as_such() {
    let code = |canvas: &Json| found(canvas).into_iter().map(|found| found.code).collect::<Vec<_>>();
    let unbuilt = |params: Json| part("WenCai", params, &["Message:M"]);
    let canvas = |first: Json, more: Json| {
        let mut canvas = json!({"components": {"begin": first, "WenCai:E": more,
            "Message:M": part("Message", json!({"content": ["{WenCai:E@json}"]}), &[])}});
        canvas["components"]["Switch:S"] = part(
            "Switch",
            json!({"conditions": [{"to": ["WenCai:E"],
            "items": [{"cpn_id": "sys.query", "operator": "=", "value": "x"}]}], "end_cpn_ids": ["Message:M"]}),
            &["WenCai:E", "Message:M"],
        );
        canvas
    };
    let begin = |to: &[&str]| part("Begin", json!({}), to);
    let straight = canvas(begin(&["WenCai:E", "Switch:S"]), unbuilt(json!({})));
    assert_eq!(code(&straight), ["will-fail"]);
    // One branch leads round it.
    assert_eq!(code(&canvas(begin(&["Switch:S"]), unbuilt(json!({})))), ["unsupported-component"]);
    // The failure is caught.
    let caught = json!({"exception_method": "comment", "exception_default_value": "none"});
    assert_eq!(code(&canvas(begin(&["WenCai:E", "Switch:S"]), unbuilt(caught))), ["unsupported-component"]);
}

/// The ways in which a name goes wrong: two letters have changed places, early or late in it; one is missing, one is there
/// twice, or it is another one.
fn misspelled(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let swaps = |at: &usize| {
        let (one, other) = (letters[*at], letters[*at + 1]);
        one != other && one.is_alphabetic() && other.is_alphabetic()
    };
    let inner = || (1..letters.len().saturating_sub(1)).filter(swaps);
    let swapped = |at: usize| {
        let mut letters = letters.clone();
        letters.swap(at, at + 1);
        letters
    };
    let mut made: Vec<Vec<char>> =
        inner().next().into_iter().chain(inner().next_back()).map(swapped).collect();
    let middle = letters.len() / 2;
    if letters.len() > 4 && letters[middle].is_alphabetic() {
        let with = |more: &[char]| [&letters[..middle], more, &letters[middle + 1..]].concat();
        made.extend([with(&[]), with(&[letters[middle], letters[middle]]), with(&['q'])]);
    }
    let mut made: Vec<String> =
        made.into_iter().map(String::from_iter).filter(|other| other != name).collect();
    made.sort_unstable();
    made.dedup();
    made
}

/// Canvases with one mistake each, and where it is.
fn mutants(canvas: &Json) -> Vec<(String, Json)> {
    let mut mutants = Vec::new();
    let components = canvas.pointer("/components").and_then(Json::as_object).unwrap();
    let mut add = |at: &str, value: Json| {
        let mut mutant = canvas.clone();
        *mutant.pointer_mut(at).unwrap() = value.clone();
        mutants.push((format!("{at} = {value}"), mutant));
    };
    for (id, component) in components {
        let node = format!("/components/{}", id.replace('~', "~0").replace('/', "~1"));
        for (place, target) in component["downstream"].as_array().into_iter().flatten().enumerate() {
            for target in target.as_str().map(misspelled).unwrap_or_default() {
                add(&format!("{node}/downstream/{place}"), target.into());
            }
        }
        for kind in component["obj"]["component_name"].as_str().map(misspelled).unwrap_or_default() {
            add(&format!("{node}/obj/component_name"), kind.into());
        }
        let mut texts = Vec::new();
        gather(&component["obj"]["params"], &format!("{node}/obj/params"), &mut texts);
        for (at, text) in
            texts.iter().filter(|(at, text)| !at.ends_with("/script") || !text.contains("function"))
        {
            for other in components.keys() {
                for (found, _) in text.match_indices(&format!("{{{other}@")) {
                    let rest = &text[found + 1..];
                    let Some(end) = rest.find('}') else { continue };
                    let (before, reference, after) = (&text[..found], &rest[..end], &rest[end + 1..]);
                    let (id, path) = reference.split_once('@').unwrap();
                    for id in misspelled(id) {
                        add(at, format!("{before}{{{id}@{path}}}{after}").into());
                    }
                    let (name, more) = path
                        .split_once('.')
                        .map_or((path, String::new()), |(name, more)| (name, format!(".{more}")));
                    for name in misspelled(name) {
                        add(at, format!("{before}{{{id}@{name}{more}}}{after}").into());
                    }
                    if !before.is_empty() || !after.is_empty() {
                        add(at, format!("{before}{{{reference} {after}").into());
                    }
                }
            }
        }
        for (key, value) in component["obj"]["params"].as_object().into_iter().flatten() {
            for other in misspelled(key) {
                let mut params = component["obj"]["params"].clone();
                params.as_object_mut().unwrap().remove(key);
                params[&other] = value.clone();
                add(&format!("{node}/obj/params"), params);
            }
        }
    }
    mutants
}

fn gather(value: &Json, at: &str, texts: &mut Vec<(String, String)>) {
    match value {
        Json::String(text) => texts.push((at.to_owned(), text.clone())),
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| gather(item, &format!("{at}/{place}"), texts));
        }
        Json::Object(members) => members.iter().for_each(|(key, member)| {
            gather(member, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), texts);
        }),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[test]
fn what_a_program_misspells_in_the_samples_is_found() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../canvases");
    let (mut made, mut missed) = (0, Vec::new());
    for folder in std::fs::read_dir(samples).unwrap() {
        let file = folder.unwrap().path().join("canvas.json");
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let canvas: Json = serde_json::from_str(&text).unwrap();
        if canvas.pointer("/components").is_none() {
            continue;
        }
        let before = found(&canvas).len();
        for (what, mutant) in mutants(&canvas) {
            made += 1;
            if found(&mutant).len() <= before {
                missed.push(format!("{}: {what}", file.display()));
            }
        }
    }
    println!("{made} mutants, {} not found", missed.len());
    assert!(missed.is_empty() && made >= 5_000, "{made} mutants, not found:\n{}", missed.join("\n"));
}
