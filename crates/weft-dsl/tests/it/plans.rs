//! The compiled plan, besides problems.

use serde_json::{Value as Json, json};
use weft_dsl::plan::Exception;

use crate::compiled;

fn with_begin(params: Json) -> Json {
    json!({"components": {"begin": {"obj": {"component_name": "Begin", "params": params}}}})
}

#[test]
fn the_prologue() {
    let check =
        |params: Json, expected: &str| assert_eq!(compiled(&with_begin(params)).plan.prologue, expected);
    check(json!({"prologue": "Hi"}), "Hi");
    check(json!({"prologue": ""}), "");
    check(json!({"prologue": "Hi", "enablePrologue": false}), "");
    check(json!({"prologue": "Hi", "enablePrologue": "False"}), "");
    check(json!({"prologue": "Hi", "enablePrologue": true}), "Hi");
    check(json!({}), "Hello! How can I help you?");
}

#[test]
fn exception_settings() {
    let check = |params: Json, expected: Exception| {
        let mut document = with_begin(json!({}));
        document["components"]["begin"]["downstream"] = json!(["a"]);
        document["components"]["a"] = json!({"obj": {"component_name": "Agent", "params": params}});
        assert_eq!(compiled(&document).plan.nodes[1].exception, expected);
    };
    let off = Exception::default();
    check(json!({}), off.clone());
    check(
        json!({"exception_method": null, "exception_goto": ["a"], "exception_default_value": "x"}),
        off.clone(),
    );
    check(json!({"exception_method": "", "exception_comment": "x"}), off);
    let default =
        Exception { armed: true, goto: vec![], default: Some(json!("sorry")), asks_for_keys: false };
    check(
        json!({"exception_method": "comment", "exception_default_value": "sorry", "exception_goto": ["begin"]}),
        default,
    );
    let goto = Exception { armed: true, goto: vec!["a".into()], default: None, asks_for_keys: false };
    check(
        json!({"exception_method": "goto", "exception_default_value": null, "exception_goto": ["a"]}),
        goto.clone(),
    );
    check(json!({"exception_method": "goto", "exception_goto": "a"}), goto);
}

#[test]
fn sub_agents_keep_their_shape() {
    let tools =
        json!([{"component_name": "Agent", "id": "Agent:Sub", "name": "Helper", "params": {"tools": []}}]);
    let mut document = with_begin(json!({}));
    document["components"]["begin"]["downstream"] = json!(["a"]);
    document["components"]["a"] = json!({"obj": {"component_name": "Agent", "params": {"tools": tools}}});
    let canvas = crate::parsed(&document);
    assert_eq!(canvas.nodes["a"].params["tools"], tools);
    assert_eq!(compiled(&document).plan.nodes.len(), 2);
}
