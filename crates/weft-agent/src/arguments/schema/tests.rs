use proptest::prelude::*;

use super::*;

fn object(value: Json) -> Map<String, Json> {
    serde_json::from_value(value).unwrap()
}

#[test]
fn unambiguous_values_are_converted() {
    let schema = ArgumentSchema::new(&json!({
        "$schema": "https://example.com/dialect",
        "$id": "https://example.com/tool",
        "type": "object",
        "properties": {
            "count": {"type": "integer"}, "ratio": {"type": "number"}, "deep": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}}, "ids": {"type": "array", "items": {"type": "integer"}},
            "text": {"type": "string"}, "either": {"type": ["integer", "string"]},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "level": {"enum": [1, 2]},
            "filter": {"$ref": "#/$defs/Filter"}, "filters": {"type": "array", "items": {"$ref": "#/$defs/Filter"}},
            "optional": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}]},
            "pair": {"prefixItems": [{"type": "integer"}, {"type": "boolean"}], "type": "array"}
        },
        "additionalProperties": {"type": "integer"},
        "$defs": {"Filter": {"type": "object", "properties": {"n": {"type": "integer"}, "sub": {"$ref": "#/$defs/Filter"}}}}
    }))
    .unwrap();
    let check = |given: Json, expected: Json| {
        assert_eq!(schema.check(object(given.clone())), Ok(object(expected)), "{given}");
    };
    check(json!({"count": "3"}), json!({"count": 3}));
    check(json!({"count": " -3.0 "}), json!({"count": -3}));
    check(json!({"count": 3.0}), json!({"count": 3}));
    check(json!({"ratio": "0.25"}), json!({"ratio": 0.25}));
    check(json!({"ratio": "7"}), json!({"ratio": 7}));
    check(json!({"deep": "True"}), json!({"deep": true}));
    check(json!({"tags": "a"}), json!({"tags": ["a"]}));
    check(json!({"tags": "[\"a\", \"b\"]"}), json!({"tags": ["a", "b"]}));
    check(json!({"tags": "[12345678901234567890123]"}), json!({"tags": ["12345678901234567890123"]}));
    check(json!({"ids": "4"}), json!({"ids": [4]}));
    check(json!({"ids": ["4", 5.0]}), json!({"ids": [4, 5]}));
    check(json!({"either": "4"}), json!({"either": "4"}));
    check(json!({"maybe": "4"}), json!({"maybe": 4}));
    check(json!({"maybe": null}), json!({"maybe": null}));
    check(json!({"level": "2"}), json!({"level": 2}));
    check(json!({"filter": "{\"n\": \"1\"}"}), json!({"filter": {"n": 1}}));
    check(json!({"filters": {"n": 1, "sub": {"n": "2"}}}), json!({"filters": [{"n": 1, "sub": {"n": 2}}]}));
    check(json!({"optional": {"n": "1"}}), json!({"optional": {"n": 1}}));
    check(json!({"pair": ["1", "false"]}), json!({"pair": [1, false]}));
    check(json!({"other": "8"}), json!({"other": 8}));
    // A null for an optional value.
    check(json!({"text": null, "count": 1}), json!({"count": 1}));
    // Texts stay texts.
    check(json!({"text": "3"}), json!({"text": "3"}));
    for (given, expected) in [
        (json!({"count": "three"}), "at /count: expected integer, got the text \"three\""),
        (json!({"count": "007"}), "at /count"),
        (json!({"count": 3.5}), "at /count: expected integer, got 3.5"),
        (json!({"count": true}), "at /count"),
        (json!({"ratio": "0.12345678901234567890123"}), "at /ratio"),
        (json!({"deep": 1}), "at /deep: expected boolean, got 1"),
        (json!({"text": 3}), "at /text: expected string, got 3"),
        (json!({"ids": ["x"]}), "at /ids/0: expected integer, got the text \"x\""),
        (json!({"filter": {"sub": {"n": "x"}}}), "at /filter/sub/n"),
    ] {
        let problem = schema.check(object(given.clone())).expect_err("wrong");
        assert!(problem.to_string().contains(expected), "{given}: {problem}");
    }
}

#[test]
fn defaults_are_filled_in() {
    let schema = ArgumentSchema::new(&json!({
        "type": "object",
        "properties": {
            "q": {"type": "string"}, "n": {"type": "integer", "default": 8}, "mode": {"enum": ["a", "b"], "default": "a"},
            "sort": {"type": "string", "default": null}, "none": {"type": ["string", "null"], "default": null},
            "page": {"type": "object", "properties": {"size": {"type": "integer", "default": 20}}}
        },
        "required": ["q", "n"]
    }))
    .unwrap();
    let check = |given: Json, expected: Json| assert_eq!(schema.check(object(given)), Ok(object(expected)));
    check(json!({"q": "x"}), json!({"q": "x", "n": 8, "mode": "a", "none": null}));
    check(
        json!({"q": "x", "n": 1, "mode": "b", "none": "y", "page": {}}),
        json!({"q": "x", "n": 1, "mode": "b", "none": "y", "page": {"size": 20}}),
    );
}

#[test]
fn every_violation_is_reported_with_its_path() {
    let schema = ArgumentSchema::new(&json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "pattern": "^[A-Z](?=.)"}, "unit": {"enum": ["c", "f"]}, "days": {"type": "integer", "maximum": 7},
            "at": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["hour"]}]}
        },
        "required": ["city", "country"],
        "additionalProperties": false
    }))
    .unwrap();
    let given = json!({"city": "rome", "unit": "k", "days": 9, "at": [], "when": "now"});
    let problem = schema.check(object(given)).unwrap_err();
    for expected in [
        "at /country: it is required and missing",
        "at /city: expected a text that matches",
        "at /unit: expected one of [\"c\",\"f\"], got the text \"k\"",
        "at /days: 9 is greater than the maximum of 7",
        "at /at: none of the alternatives fits: at /at: expected integer, got [], or at /at: expected object",
        "there is no `when` in the schema; there is `city`, `unit`, `days`, `at`",
    ] {
        assert!(problem.faults.iter().any(|fault| fault.contains(expected)), "{expected}: {problem}");
    }
    assert_eq!(problem.faults.len(), 6);
    let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let problem = ArgumentSchema::new(&none).unwrap().check(object(json!({"a": 1}))).unwrap_err();
    assert!(problem.to_string().ends_with("; nothing may stand there"), "{problem}");
    let many = ArgumentSchema::new(&json!({"additionalProperties": {"type": "integer"}})).unwrap();
    let wrong: Map<String, Json> = (0..100).map(|n| (n.to_string(), json!("x".repeat(5_000)))).collect();
    let problem = many.check(wrong).unwrap_err();
    assert_eq!(problem.faults.len(), 10);
    assert!(problem.to_string().len() < 4_000);
}

#[test]
fn invalid_schemas_are_refused() {
    let check = |schema: Json, expected: &str| {
        let error = ArgumentSchema::new(&schema).expect_err(expected);
        assert_eq!(error.kind, weft_core::ErrorKind::Invalid);
        assert!(error.full().contains(expected), "{schema}: {}", error.full());
    };
    check(json!([]), "must be an object");
    check(json!({"type": "text"}), "schema");
    check(json!({"properties": {"a": 1}}), "/properties/a");
    check(json!({"properties": {"a": {"pattern": "("}}}), "pattern");
    check(json!({"pattern": "(?:(?:a{100}){100}){100}"}), "schema");
    // Each is small enough by itself.
    let wide = |count: usize| -> Json {
        let member = |n: usize| (format!("p{n}"), json!({"pattern": format!("^\\p{{L}}{{10}}{n}$")}));
        json!({"properties": (0..count).map(member).collect::<Map<_, _>>()})
    };
    ArgumentSchema::new(&wide(1)).unwrap();
    check(wide(200), "schema");
    check(json!({"$ref": "https://example.com/x.json"}), "leads to nothing");
    check(json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "leads to nothing");
    check(json!({"$ref": "#/$defs/none"}), "leads to nothing");
    check(json!({"$dynamicRef": "#x"}), "not supported");
    check(json!({"properties": {"a": {"$id": "http://x/", "type": "string"}}}), "$id");
    let deep = (0..100).fold(json!({}), |schema, _| json!({"not": schema}));
    check(deep, "levels deep");
    check(json!({"enum": vec![0; 30_000]}), "values");
    for schema in
        [Json::Null, json!({}), json!({"properties": {"$id": {"type": "string"}, "id": {"type": "string"}}})]
    {
        assert!(ArgumentSchema::new(&schema).unwrap().check(object(json!({"id": "x"}))).is_ok(), "{schema}");
    }
    let generic = json!({"properties": {"a": {"$ref": "#/$defs/Box%5Bint%5D"}}, "$defs": {"Box[int]": {"type": "integer"}}});
    let generic = ArgumentSchema::new(&generic).unwrap();
    assert!(generic.check(object(json!({"a": "x"}))).is_err());
}

/// Schemas that expand to more steps than there is time for. A check that followed them would not end, or
/// overflow the stack.
#[test]
fn hostile_schemas_are_harmless() {
    let chain = |combine: fn(Json, Json) -> Json| {
        let defs = (0..60).map(|n| {
            let next = json!({"$ref": format!("#/$defs/s{}", n + 1)});
            (format!("s{n}"), combine(next.clone(), next))
        });
        let mut defs: Map<String, Json> = defs.collect();
        defs.insert("s60".to_owned(), json!({"type": "object"}));
        json!({"$ref": "#/$defs/s0", "$defs": defs})
    };
    let deep = (0..120).fold(json!({"x": 1}), |inner, _| json!({"a": inner, "b": [inner_size(&inner)]}));
    let schemas = [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        chain(|a, b| json!({"allOf": [a, b]})),
        chain(|a, b| json!({"anyOf": [a, b]})),
        chain(|a, b| json!({"oneOf": [a, b]})),
        chain(|a, b| json!({"if": a, "then": b})),
        chain(|a, _| json!({"allOf": [a], "unevaluatedProperties": false})),
        json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}),
        json!({"additionalProperties": {"$ref": "#"}, "properties": {"a": {"$ref": "#"}}}),
    ];
    for schema in schemas {
        // Whether refused or accepted, it ends.
        if let Ok(schema) = ArgumentSchema::new(&schema) {
            let _ = schema.check(object(deep.clone()));
        }
    }
    let slow = ArgumentSchema::new(&json!({"properties": {"a": {"pattern": "^(a+)+(?!b)$"}}})).unwrap();
    assert!(slow.check(object(json!({"a": format!("{}!", "a".repeat(50_000))}))).is_err());
}

fn inner_size(value: &Json) -> usize {
    value.as_object().map_or(0, Map::len)
}

#[test]
fn recursive_schemas_work() {
    let schema = ArgumentSchema::new(&json!({
        "type": "object", "properties": {"where": {"$ref": "#/$defs/Cond"}},
        "$defs": {"Cond": {"anyOf": [
            {"type": "object", "properties": {"and": {"type": "array", "items": {"$ref": "#/$defs/Cond"}}}, "required": ["and"]},
            {"type": "object", "properties": {"field": {"type": "string"}, "equals": {}}, "required": ["field", "equals"], "additionalProperties": false}
        ]}}
    }))
    .unwrap();
    let leaf = json!({"field": "a", "equals": 1});
    let nested = (0..15).fold(leaf, |inner, _| json!({"and": [inner]}));
    assert!(schema.check(object(json!({"where": nested}))).is_ok());
    let wrong = (0..15).fold(json!({"field": 1}), |inner, _| json!({"and": [inner]}));
    assert!(schema.check(object(json!({"where": wrong}))).is_err());
}

proptest! {
    #[test]
    fn valid_values_are_unchanged(n: i64, text: String, flag: bool, list: Vec<i32>) {
        let schema = ArgumentSchema::new(&json!({"type": "object", "properties": {
            "n": {"type": "integer"}, "text": {"type": "string"}, "flag": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "integer"}}
        }})).unwrap();
        let given = object(json!({"n": n, "text": text, "flag": flag, "list": list}));
        prop_assert_eq!(schema.check(given.clone()), Ok(given));
    }
}

#[test]
fn a_schema_is_compiled_once_and_the_cache_is_bounded() {
    let schema = json!({"properties": {"once": {"type": "integer"}}});
    let first = ArgumentSchema::shared(&schema).unwrap();
    assert!(Arc::ptr_eq(&first, &ArgumentSchema::shared(&schema).unwrap()));
    assert!(ArgumentSchema::shared(&json!([])).is_err());

    let mut ready = SchemaCache::default();
    for n in 0..100 {
        ready.keep(format!("{n:0>50000}"), &first);
        ready.keep(format!("{n:0>50000}"), &first);
        assert!(ready.bytes <= READY_BYTES_MAX && ready.bytes == ready.schemas.len() * 50_000);
    }
    assert!(!ready.schemas.is_empty());
    ready.keep("x".repeat(READY_BYTES_MAX), &first);
    assert!(ready.schemas.keys().all(|text| text.len() == 50_000), "one must not evict all others");
}
