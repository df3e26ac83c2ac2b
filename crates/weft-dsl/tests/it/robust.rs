//! No input causes a panic or a hang.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use weft_dsl::{CompileOptions, compile, load};

use crate::catalog::catalog;
use crate::samples;

fn swallow(text: &[u8]) {
    if let Ok(canvas) = load(text) {
        let _ = compile(&canvas, &catalog(), &CompileOptions::default());
        let _ = canvas.to_json();
    }
}

/// Keys and texts with a meaning in a canvas, so that random documents reach the deep parts.
const WORDS: [&str; 46] = [
    "components",
    "graph",
    "dsl",
    "nodes",
    "edges",
    "id",
    "data",
    "label",
    "form",
    "name",
    "source",
    "target",
    "sourceHandle",
    "targetHandle",
    "obj",
    "component_name",
    "params",
    "downstream",
    "parent_id",
    "parentId",
    "variables",
    "globals",
    "history",
    "path",
    "begin",
    "Begin",
    "Message",
    "content",
    "Switch",
    "conditions",
    "to",
    "end_cpn_ids",
    "Iteration",
    "IterationItem",
    "ExitLoop",
    "Loop",
    "agentTop",
    "Agent",
    "PDFGenerator:x",
    "PDFGenerator",
    "{begin@x}",
    "{sys.query}",
    "{env.x}",
    "api_key",
    "exception_goto",
    "File",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![8 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => ".{0,6}"]
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        word().prop_map(Json::from)
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::vec((word(), inner), 0..6)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Components of real types, with random edges.
fn any_canvas() -> impl Strategy<Value = Json> {
    let kinds = [
        "Begin",
        "Message",
        "Switch",
        "Iteration",
        "IterationItem",
        "Loop",
        "LoopItem",
        "ExitLoop",
        "Agent",
        "Nope",
    ];
    let ids = || prop::sample::select(vec!["begin", "a", "b", "c", "d", "e", "gone"]);
    let component = (
        prop::sample::select(kinds.to_vec()),
        prop::collection::vec(ids(), 0..3),
        prop::option::of(ids()),
        prop::collection::vec(ids(), 0..2),
        ids(),
    );
    let component = component.prop_map(|(kind, downstream, parent, to, read)| {
        let params = json!({"content": [format!("{{{read}@x}}")], "end_cpn_ids": to, "exception_method": "goto", "exception_goto": to});
        json!({"obj": {"component_name": kind, "params": params}, "downstream": downstream, "parent_id": parent})
    });
    prop::collection::vec(component, 1..7).prop_map(|components| {
        let ids = ["begin", "a", "b", "c", "d", "e"];
        let components: Map<_, _> = ids.into_iter().map(str::to_owned).zip(components).collect();
        json!({"components": components})
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        swallow(&bytes);
    }

    #[test]
    fn arbitrary_json(json in any_json()) {
        swallow(json.to_string().as_bytes());
        swallow(json!({"components": json}).to_string().as_bytes());
        swallow(json!({"graph": json}).to_string().as_bytes());
        swallow(json!({"components": {"begin": {"obj": {"component_name": "Begin", "params": json}}, "m": json}}).to_string().as_bytes());
    }

    #[test]
    fn arbitrary_wiring(canvas in any_canvas()) {
        swallow(canvas.to_string().as_bytes());
    }

    #[test]
    fn a_loaded_canvas_is_saved_unchanged(json in any_json()) {
        let document = json!({"components": {"begin": {}}, "dsl": 1, "x": json});
        let text = document.to_string();
        prop_assert_eq!(load(text.as_bytes()).unwrap().to_json().to_string(), text);
    }

    #[test]
    fn spans_lie_inside_the_text(canvas in any_canvas()) {
        let text = serde_json::to_string_pretty(&canvas).unwrap();
        for problem in crate::problems(&text, &CompileOptions::default()) {
            prop_assert!(problem.span.clone().is_some_and(|span| text.get(span).is_some()), "{}", problem);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_real_canvases(file in any::<prop::sample::Index>(), edits in prop::collection::vec((any::<prop::sample::Index>(), 0..6_u8, any_json()), 1..6), cut in any::<prop::sample::Index>()) {
        let files = samples::files();
        if files.is_empty() {
            return Ok(());
        }
        let (_, text) = file.get(&files);
        let mut document: Json = serde_json::from_str(text).unwrap();
        for (place, _, json) in &edits {
            mutate(&mut document, place, json);
        }
        let mutated = document.to_string();
        swallow(mutated.as_bytes());
        swallow(&mutated.as_bytes()[..cut.index(mutated.len())]);
        let mut bytes = text.clone().into_bytes();
        for (place, byte, _) in &edits {
            let at = place.index(bytes.len());
            bytes[at] = b"{}[]\",:"[usize::from(*byte)];
        }
        swallow(&bytes);
    }
}

/// Puts `json` somewhere into the document.
fn mutate(document: &mut Json, place: &prop::sample::Index, json: &Json) {
    let mut pointers = Vec::new();
    walk(document, "", &mut pointers);
    if let Some(target) = document.pointer_mut(place.get(&pointers).as_str()) {
        *target = json.clone();
    }
}

fn walk(json: &Json, pointer: &str, pointers: &mut Vec<String>) {
    pointers.push(pointer.to_owned());
    match json {
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| walk(item, &format!("{pointer}/{i}"), pointers));
        }
        Json::Object(map) => {
            for (key, value) in map {
                walk(value, &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), pointers);
            }
        }
        _ => {}
    }
}

fn chain(count: usize, text: &str) -> Json {
    let mut components = Map::new();
    let link = |i: usize| if i < count { json!([format!("Message:{i}")]) } else { json!([]) };
    components.insert(
        "begin".to_owned(),
        json!({"obj": {"component_name": "Begin", "params": {}}, "downstream": link(0)}),
    );
    for i in 0..count {
        let content = if i == 0 { text.to_owned() } else { format!("{{Message:{}@content}}", i - 1) };
        let params = json!({"content": [content]});
        components.insert(
            format!("Message:{i}"),
            json!({"obj": {"component_name": "Message", "params": params}, "downstream": link(i + 1)}),
        );
    }
    json!({"components": components})
}

#[test]
fn five_thousand_components() {
    assert_eq!(crate::compiled(&chain(5_000, "hi")).plan.nodes.len(), 5_001);
}

#[test]
fn a_text_of_ten_megabytes() {
    let text = format!("{} {{sys.query}}", "{x} ".repeat(2_500_000));
    let compiled = crate::compiled(&chain(1, &text));
    assert_eq!(compiled.plan.nodes[1].reads.len(), 1);
}

/// Without limits this would take minutes, or all memory.
const MOMENTS: Duration = Duration::from_secs(20);

#[test]
fn a_drawing_with_many_edges_and_conditions() {
    let began = Instant::now();
    let edges: Vec<Json> = (1..=100_000)
        .map(|n| json!({"source": "s", "target": "m", "sourceHandle": format!("Case {n:06}")}))
        .collect();
    let conditions = vec![json!({}); 100_000];
    let nodes = json!([{"id": "s", "data": {"label": "Switch", "form": {"conditions": conditions}}}]);
    swallow(json!({"nodes": nodes, "edges": edges}).to_string().as_bytes());
    assert!(began.elapsed() < MOMENTS, "{:?}", began.elapsed());
}

#[test]
fn categories_that_share_a_handle_do_not_multiply_its_edges() {
    let edges = vec![json!({"source": "c", "target": "m", "sourceHandle": "u"}); 1_000];
    let items: Vec<Json> = (0..200).map(|n| json!({"name": n.to_string(), "uuid": "u"})).collect();
    let nodes = json!([{"id": "c", "data": {"label": "Categorize", "form": {"items": items}}}]);
    let canvas = load(json!({"nodes": nodes, "edges": edges}).to_string().as_bytes()).unwrap();
    let categories = canvas.nodes["c"].params["category_description"].as_object().unwrap();
    let targets: usize = categories.values().map(|category| category["to"].as_array().unwrap().len()).sum();
    assert_eq!(targets, 50_001, "one more than a canvas may have edges");
}

#[test]
fn old_ids_in_a_drawing_with_many_edges() {
    let began = Instant::now();
    let id = |n: usize| format!("Splitter:{n}");
    let nodes: Vec<Json> = (0..9_000).map(|n| json!({"id": id(n), "data": {"label": "Note"}})).collect();
    let edge = |n: usize| {
        let (from, to) = (id(n % 9_000), id(n * 7 % 9_000));
        json!({"id": format!("xy-edge__{from}start-{to}end"), "source": from, "target": to})
    };
    let edges: Vec<Json> = (0..60_000).map(edge).collect();
    let canvas = load(json!({"nodes": nodes, "edges": edges}).to_string().as_bytes()).unwrap();
    let last = &canvas.dsl()["graph"]["edges"][59_999];
    assert_eq!(last["id"], "xy-edge__TokenChunker:5999start-TokenChunker:5993end");
    assert!(began.elapsed() < MOMENTS, "{:?}", began.elapsed());
}

#[test]
fn typo_checks_of_member_names_are_bounded() {
    let members: Map<_, _> = (0..60).map(|n| (format!("{}{n:02}", "member".repeat(9)), json!(1))).collect();
    let text: String = (0..300).map(|n| format!("{{env.v.{}{n:03}}}", "member".repeat(9))).collect();
    let mut document = chain(1, &text);
    document["variables"] = json!({"v": {"type": "object", "value": members}});
    let problems = crate::problems(&document.to_string(), &CompileOptions::default());
    let slips = problems.iter().filter(|problem| problem.message.contains("has no member")).count();
    assert!((1..=64).contains(&slips), "{slips}");
}

#[test]
fn names_of_nothing_but_dots() {
    let began = Instant::now();
    let dots = "a.".repeat(500_000);
    for text in [format!("{{{dots}"), format!("{{env.{dots}x}}"), format!("{{begin@{dots}x}}"), dots] {
        swallow(chain(1, &text).to_string().as_bytes());
    }
    assert!(began.elapsed() < MOMENTS, "{:?}", began.elapsed());
}

/// A Message with this text, and its successors.
fn message(content: &str, next: Json) -> Json {
    json!({"obj": {"component_name": "Message", "params": {"content": [content]}}, "downstream": next})
}

/// References between nodes outside of many large loops.
#[test]
fn many_large_loops_and_many_references() {
    let began = Instant::now();
    let (long, loops, reads) = (9_000, 200, 100);
    let mut components = Map::from_iter([(
        "begin".to_owned(),
        json!({"obj": {"component_name": "Begin", "params": {}}, "downstream": ["c0"]}),
    )]);
    for n in 0..long {
        let next = if n + 1 < long { format!("c{}", n + 1) } else { "s".to_owned() };
        components.insert(format!("c{n}"), message("x", json!([next])));
    }
    let mut ways: Vec<String> = (0..loops).map(|n| format!("c{n}")).collect();
    ways.push("t0".to_owned());
    let switch = json!({"component_name": "Switch", "params": {"conditions": [], "end_cpn_ids": ways}});
    components.insert("s".to_owned(), json!({"obj": switch, "downstream": []}));
    let later: String = (reads..2 * reads).map(|n| format!("{{t{n}@content}}")).collect();
    for n in 0..2 * reads {
        let next = if n + 1 < 2 * reads { json!([format!("t{}", n + 1)]) } else { json!([]) };
        components.insert(format!("t{n}"), message(if n < reads { &later } else { "x" }, next));
    }
    let compiled = crate::compiled(&json!({"components": components}));
    assert_eq!(compiled.plan.scopes[0].loops.len(), loops);
    assert!(compiled.warnings.iter().any(|problem| problem.code == "reads-nothing"));
    assert!(began.elapsed() < MOMENTS, "{:?}", began.elapsed());
}

/// References in the last of many frames.
#[test]
fn many_frames_and_many_references() {
    let began = Instant::now();
    let reads = 160;
    let mut components = Map::from_iter([(
        "begin".to_owned(),
        json!({"obj": {"component_name": "Begin", "params": {}}, "downstream": ["it"]}),
    )]);
    for n in 0..8_500 {
        let frame = json!({"obj": {"component_name": "Loop", "params": {}}});
        components.insert(format!("f{n}"), frame);
    }
    components.insert("it".to_owned(), json!({"obj": {"component_name": "Iteration", "params": {}}}));
    let item = json!({"obj": {"component_name": "IterationItem", "params": {}}, "parent_id": "it", "downstream": ["m0"]});
    components.insert("item".to_owned(), item);
    let all: String = (0..reads).map(|n| format!("{{m{n}@content}}")).collect();
    for n in 0..reads {
        let mut node = message(&all, json!([format!("m{}", n + 1)]));
        node["parent_id"] = "it".into();
        components.insert(format!("m{n}"), node);
    }
    swallow(json!({"components": components}).to_string().as_bytes());
    assert!(began.elapsed() < MOMENTS, "{:?}", began.elapsed());
}

#[test]
fn hopeless_names_among_many_variables() {
    let began = Instant::now();
    let variables: Map<_, _> =
        (0..60_000).map(|n| (format!("{n:06}{}", "v".repeat(54)), json!({"value": 1}))).collect();
    let unknown =
        |kind: &str| -> String { (0..40).map(|n| format!("{{{kind}.{}{n:03}}}", "w".repeat(57))).collect() };
    let mut document = chain(1, &format!("{} {}", unknown("env"), unknown("evn")));
    document["variables"] = json!(variables);
    swallow(document.to_string().as_bytes());
    assert!(began.elapsed() < MOMENTS, "{:?}", began.elapsed());
}

#[test]
fn branches_to_many_missing_components() {
    let began = Instant::now();
    // An invalid id shifts all others by one place.
    let ids: Vec<Json> =
        std::iter::once(json!(7)).chain((0..100_000).map(|n| json!(format!("x{n}")))).collect();
    let mut document = chain(1, "hi");
    let switch = json!({"component_name": "Switch", "params": {"conditions": [], "end_cpn_ids": ids}});
    document["components"]["s"] = json!({"obj": switch, "downstream": []});
    let problems = crate::problems(&document.to_string(), &CompileOptions::default());
    assert_eq!(problems.len(), weft_dsl::problem::PROBLEMS_MAX + 1);
    let first = problems.iter().find(|problem| problem.code == "unknown-target").unwrap();
    assert_eq!(first.pointer, "/components/s/obj/params/end_cpn_ids/1");
    assert!(began.elapsed() < MOMENTS, "{:?}", began.elapsed());
}

#[test]
fn a_long_text_around_many_components() {
    let began = Instant::now();
    let mut document = chain(1, "hi");
    let note = "{x} ".repeat(1_000_000);
    let frame = json!({"component_name": "Iteration", "params": {"note": note}});
    document["components"]["it"] = json!({"obj": frame, "downstream": []});
    for n in 0..2_000 {
        let mut node = message("{gone@content}", json!([]));
        node["parent_id"] = "it".into();
        document["components"][format!("m{n}")] = node;
    }
    let problems = crate::problems(&document.to_string(), &CompileOptions::default());
    assert!(problems.iter().any(|problem| problem.pointer == "/components/m7/obj/params/content/0"));
    assert!(began.elapsed() < MOMENTS, "{:?}", began.elapsed());
}

#[test]
fn thousands_of_problems_are_cut_off() {
    let mut document = chain(2_000, "hi");
    for (id, component) in document["components"].as_object_mut().unwrap() {
        component["downstream"] = json!((0..10).map(|i| format!("{id}{i}x")).collect::<Vec<_>>());
    }
    let problems = crate::problems(&document.to_string(), &CompileOptions::default());
    assert_eq!(problems.len(), weft_dsl::problem::PROBLEMS_MAX + 1);
    assert_eq!(problems.last().unwrap().code, "more-problems");
}

#[test]
fn components_nested_in_a_cycle() {
    let frame =
        |parent: &str| json!({"obj": {"component_name": "Iteration", "params": {}}, "parent_id": parent});
    let mut components: Map<_, _> =
        (0..2_000).map(|i| (format!("f{i}"), frame(&format!("f{}", (i + 1) % 2_000)))).collect();
    components.insert("begin".to_owned(), json!({"obj": {"component_name": "Begin", "params": {}}}));
    let problems =
        crate::problems(&json!({"components": components}).to_string(), &CompileOptions::default());
    assert!(problems.iter().any(|problem| problem.code == "endless-nesting"));
}
