//! The shapes of files in use.

use serde_json::{Value as Json, json};
use weft_dsl::container::{Container, Form};
use weft_dsl::load;

use crate::{compiled, parsed};

fn components() -> Json {
    json!({
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Message:M"], "upstream": []},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{sys.query}"]}},
            "downstream": [], "upstream": ["begin"]},
    })
}

/// Loads, compiles, and is saved unchanged.
fn good(document: &Json) -> weft_dsl::Compiled {
    assert_eq!(parsed(document).to_json().to_string(), document.to_string());
    let compiled = compiled(document);
    assert_eq!(compiled.warnings, []);
    compiled
}

#[test]
fn a_canvas_may_be_wrapped_bare_or_text() {
    let dsl = json!({"components": components(), "unknown": [{"x": 1.50, "y": null}]});
    let check = |document: Json, pointer: &str, form: Form| {
        assert_eq!(parsed(&document).container(), &Container { pointer: pointer.to_owned(), form });
        assert_eq!(parsed(&document).dsl(), &dsl);
        assert_eq!(good(&document).plan.nodes.len(), 2);
    };
    check(dsl.clone(), "", Form::Object);
    let row = json!({"id": "41", "title": {"en": "T"}, "dsl": dsl, "avatar": "data:"});
    check(row.clone(), "/dsl", Form::Object);
    check(json!({"title": "T", "dsl": dsl.to_string()}), "/dsl", Form::Text);
    check(json!([row]), "/0/dsl", Form::Object);
    check(json!({"title": "T", "dsl": {"dsl": dsl}}), "/dsl/dsl", Form::Object);
    check(json!({"code": 0, "data": row}), "/data/dsl", Form::Object);
    check(json!({"code": 0, "data": {"canvas": [row], "total": 1}}), "/data/canvas/0/dsl", Form::Object);
    check(json!({"data": [{"dsl": dsl.to_string()}]}), "/data/0/dsl", Form::Text);
}

#[test]
fn a_drawing_alone_is_a_canvas() {
    let node = |id: &str, label: &str, form: Json| json!({"id": id, "data": {"label": label, "name": "N", "form": form}});
    let mut drawing = json!({
        "nodes": [node("begin", "Begin", json!({})), node("PDFGenerator:M", "PDFGenerator", json!({"content": "{env.town}"}))],
        "edges": [{"source": "begin", "target": "PDFGenerator:M"}],
        "variables": {"town": {"type": "string", "value": "Ulm"}}, "kept": 1,
    });
    for (document, place) in [
        (drawing.clone(), "/nodes/1"),
        (json!({"title": "T", "dsl": drawing}), "/dsl/nodes/1"),
        (json!({"dsl": drawing.to_string()}), "/dsl/graph/nodes/1"),
    ] {
        let canvas = parsed(&document);
        assert_eq!(canvas.nodes["DocGenerator:M"].place.node, place);
        assert_eq!(canvas.dsl()["kept"], 1);
        assert_eq!(canvas.as_written(), &document);
        let compiled = compiled(&document);
        assert_eq!((compiled.warnings, compiled.plan.nodes.len()), (vec![], 2));
        assert_eq!(compiled.plan.globals["env.town"], "Ulm");
        let upgraded = canvas.to_json();
        assert_eq!(parsed(&upgraded).to_json(), upgraded);
    }
    drawing["graph"] = json!({"nodes": [], "edges": []});
    assert_eq!(parsed(&drawing).nodes.len(), 0, "a `graph` takes precedence over its siblings");
}

#[test]
fn metadata_of_a_canvas_is_read_from_its_wrapper() {
    let row = json!({"canvas_category": "dataflow_canvas", "dsl": {"components": components()}});
    for document in [row.clone(), json!([row]), json!({"canvas_category": "x", "data": row})] {
        assert_eq!(parsed(&document).category.as_deref(), Some("dataflow_canvas"));
    }
}

#[test]
fn a_file_with_several_canvases_is_refused() {
    let row = json!({"dsl": {"components": components()}});
    let problems = load(json!({"data": [row, row, row]}).to_string().as_bytes()).unwrap_err();
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert_eq!((problem.code, problem.pointer.as_str()), ("several-canvases", "/data/1/dsl"));
    assert_eq!(
        problem.message,
        "there is more than one canvas: at /data/0/dsl, at /data/1/dsl and elsewhere"
    );
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let text = format!("\u{feff}{}", json!({"components": components()}));
    assert_eq!(load(text.as_bytes()).unwrap().nodes.len(), 2);
}

#[test]
fn missing_or_malformed_parts() {
    let with = |extra: Json| {
        let mut document = json!({"components": components()});
        document.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        document
    };
    good(&with(json!({})));
    good(&with(
        json!({"retrieval": {"chunks": [], "doc_aggs": []}, "variables": [], "memory": [["a", "b", "c"]]}),
    ));
    good(&with(
        json!({"reference": {}, "answer": [], "messages": [{"x": 1}], "history": null, "globals": null}),
    ));
    good(&with(json!({"graph": {}, "path": null, "task_id": "t"})));
    for nothing in [json!(""), json!([""]), json!(null)] {
        let mut document = with(json!({}));
        document["components"]["Message:M"]["downstream"] = nothing;
        good(&document);
    }
    let named = with(json!({"variables": [{"name": "city", "type": "string", "value": "Ulm"}]}));
    assert_eq!(good(&named).plan.globals["env.city"], "Ulm");
    let bare = with(json!({"variables": {"city": "Ulm"}}));
    assert_eq!(good(&bare).plan.globals["env.city"], "Ulm");
    let spaced =
        with(json!({"variables": {"k": {"type": " Secret ", "value": "x"}, "n": {"type": "Number "}}}));
    let plan = good(&spaced).plan;
    assert_eq!((&*plan.secrets[0], &plan.globals["env.n"]), ("env.k", &json!(0)));
    let id = "12345678901234567890123";
    let long = with(json!({"variables": {"id": {"type": "number", "value": id}}}));
    assert_eq!(good(&long).plan.globals["env.id"], id);
}

#[test]
fn leftovers_of_a_run_are_not_part_of_the_plan() {
    let document = json!({
        "components": components(),
        "path": ["begin", "gone"], "task_id": "x", "retrieval": [{"chunks": {}, "doc_aggs": {}}],
        "history": [["user", "hi"], ["assistant", {"content": "hello", "_created_time": 1.0}], ["user", null],
            {"role": "assistant", "content": "again"}, ["assistant"], 7],
        "globals": {"sys.query": "hi", "sys.conversation_turns": 3, "env.kept": "v"}
    });
    let globals = good(&document).plan.globals;
    assert_eq!((&globals["sys.query"], &globals["sys.conversation_turns"]), (&json!(""), &json!(0)));
    assert_eq!(globals["env.kept"], "v");
    let history = parsed(&document).history;
    let history: Vec<_> = history.iter().map(|m| (m.role.as_str(), m.content.as_str())).collect();
    assert_eq!(history, [("user", "hi"), ("assistant", "hello"), ("user", ""), ("assistant", "again")]);
}

#[test]
fn components_without_obj_and_with_odd_fields() {
    let document = json!({"components": {
        "begin": {"name": "Begin", "downstream": "Message:M"},
        "Message:M": {"component_name": "Message", "params": {"messages": ["x"]}, "parent_id": ""},
    }});
    let plan = good(&document).plan;
    assert_eq!(plan.scopes[0].edges.len(), 1);
    let document = json!({"components": {
        "begin": {"obj": {"component_name": "begin", "params": null}, "downstream": ["Message:M"], "parent_id": null},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": "x"}}, "downstream": null},
    }});
    assert_eq!(good(&document).plan.scopes[0].edges.len(), 1);
}

#[test]
fn display_names_come_from_the_drawing() {
    let document = json!({"components": components(), "graph": {"nodes": [
        {"id": "Message:M", "data": {"name": "Say it", "label": "Message"}},
        {"id": "begin", "data": {"name": ""}}, {"id": 7}, null
    ]}});
    let plan = good(&document).plan;
    let names: Vec<_> = plan.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["begin", "Say it"]);
}

#[test]
fn components_take_precedence_over_the_drawing() {
    let drawn =
        json!({"id": "begin", "data": {"label": "Begin", "name": "b", "form": {"prologue": "drawn"}}});
    let mut document = json!({"components": components(), "graph": {"nodes": [drawn], "edges": []}});
    assert_eq!(parsed(&document).nodes.len(), 2);
    document["components"] = json!({});
    assert_eq!(parsed(&document).nodes.len(), 1);
    assert_eq!(good(&document).plan.prologue, "drawn");
}

#[test]
fn branches_written_as_lists_or_alone_and_without_edges() {
    let category = |to: Json| json!({"description": "d", "examples": "a\nb", "to": to});
    let document = json!({"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["k:0"]},
        "k:0": {"obj": {"component_name": "Categorize", "params": {
            "category_description": {"a": category(json!("m:0")), "b": category(json!(["m:1"]))}}}, "downstream": []},
        "m:0": {"obj": {"component_name": "Message", "params": {"content": ["0"]}}},
        "m:1": {"obj": {"component_name": "Message", "params": {"content": ["1"]}}},
    }});
    assert_eq!(good(&document).plan.scopes[0].edges.len(), 3);
}

#[test]
fn whole_references_with_and_without_braces() {
    for query in ["sys.query", "{sys.query}", "{{ sys.query }}", "begin@q", "{begin@q}", "{{ begin@q.a.0 }}"]
    {
        let mut document = json!({"components": components()});
        document["components"]["Message:M"]["obj"]["params"]["content"] = json!([query]);
        assert_eq!(good(&document).plan.nodes[1].reads.len(), 1, "{query}");
    }
    let mut document = json!({"components": components()});
    for text in ["{iteration:0@generate:1}", "me@example.org", "{ \"a\": 1 }", "{x}"] {
        document["components"]["Message:M"]["obj"]["params"]["content"] = json!([text]);
        assert_eq!(good(&document).plan.nodes[1].reads.len(), 0, "{text}");
    }
}

#[test]
fn a_body_that_ends_at_its_item_or_nowhere() {
    for tail in [json!([]), json!(["item:0"])] {
        let document = json!({"components": {
            "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["it:0"]},
            "it:0": {"obj": {"component_name": "Iteration", "params": {"items_ref": "begin@list"}}, "downstream": ["m:0"]},
            "item:0": {"obj": {"component_name": "IterationItem", "params": {}}, "parent_id": "it:0", "downstream": ["t:0"]},
            "t:0": {"obj": {"component_name": "TavilySearch", "params": {"query": "{item} and item:0@result"}},
                "parent_id": "it:0", "downstream": tail},
            "m:0": {"obj": {"component_name": "Message", "params": {"content": ["{it:0@out}"]}}},
        }});
        let plan = good(&document).plan;
        assert_eq!(plan.scopes.len(), 2);
        assert_eq!(plan.scopes[1].edges.len(), 1);
        let reads: Vec<_> = plan.nodes[3].reads.iter().map(|read| read.key.to_string()).collect();
        assert_eq!(reads, ["item:0@item"]);
    }
}

#[test]
fn old_names_are_read_and_new_names_written() {
    let document = json!({"title": "T", "dsl": {"components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["PDFGenerator:A"]},
        "PDFGenerator:A": {"obj": {"component_name": "PDFGenerator", "params": {"content": "x"}}, "downstream": ["Message:M"]},
        "Message:M": {"obj": {"component_name": "Message", "params": {"content": ["{PDFGenerator:A@download}"]}}},
    }}});
    let new: Json =
        serde_json::from_str(&document.to_string().replace("PDFGenerator", "DocGenerator")).unwrap();
    let canvas = parsed(&document);
    assert_eq!(canvas.to_json().to_string(), new.to_string());
    assert_eq!(canvas.as_written(), &document);
    assert_eq!(canvas.nodes["DocGenerator:A"].place.node, "/dsl/components/PDFGenerator:A");
    assert_eq!(compiled(&document).warnings, []);

    let text = json!({"title": "T", "dsl": document["dsl"].to_string()});
    let expected = json!({"title": "T", "dsl": new["dsl"].to_string()});
    assert_eq!(parsed(&text).to_json(), expected);
}

#[test]
fn a_version_is_named_by_content_not_by_layout() {
    let document = json!({"components": components()});
    let loose = load(serde_json::to_string_pretty(&document).unwrap().as_bytes()).unwrap();
    let version = parsed(&document).version();
    assert_eq!(loose.version(), version);
    assert_eq!(version.len(), 64);
    assert_eq!(compiled(&document).plan.version, version);
    assert_ne!(parsed(&json!({"components": components(), "x": 1})).version(), version);
    let canvas = load(br#"{"components":{"b":{"name":"Begin"}}}"#).unwrap();
    assert_eq!(&*canvas.version(), "8013f01d3ff3a42a736964c1eb2c726d5ae618cb158148057fd95e789e95d91b");
}
