use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn damaged_json_is_repaired() {
    let check = |text: &str, expected: Json| {
        let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {}", error.full()));
        assert_eq!(parsed, Parsed { value: expected, repaired: true }, "{text}");
    };
    let a = || json!({"a": 1});
    // Quotes.
    check("{'a': 'it\\'s', \"b\": 'say \"hi\"'}", json!({"a": "it's", "b": "say \"hi\""}));
    check("{“a”: “b”}", json!({"a": "b"}));
    check(r#"{"a": "say "hi" now", "b": 2}"#, json!({"a": "say \"hi\" now", "b": 2}));
    check(r#"{"a": ["he said "no", then left", "b"],}"#, json!({"a": ["he said \"no\", then left", "b"]}));
    check(r#"{"a": """one "two" three""", }"#, json!({"a": "one \"two\" three"}));
    check(r#"{\"a\": 1, \"b\": \"c\"}"#, json!({"a": 1, "b": "c"}));
    // Commas.
    check("{\"a\": 1,}", a());
    check("[1, 2,, 3,]", json!([1, 2, 3]));
    check(r#"{"a": 1 "b": "x" "c": {"d": "y"} "e": 3}"#, json!({"a": 1, "b": "x", "c": {"d": "y"}, "e": 3}));
    check(r#"[{"a": "x"} {"a": "y"}]"#, json!([{"a": "x"}, {"a": "y"}]));
    // Brackets and ends that are missing.
    check(r#"{"a": 1"#, a());
    check(r#"{"a": {"b": [1, {"c": "d"#, json!({"a": {"b": [1, {"c": "d"}]}}));
    check(r#"{"a": {"b": [1, 2}}"#, json!({"a": {"b": [1, 2]}}));
    check(r#"{"a": "x}"#, json!({"a": "x"}));
    check(r#"{"a": 1, "b": "#, a());
    check(r#"{"a": 1, "unfinished ke"#, a());
    check(r#"{"a": [1, tru"#, json!({"a": [1, true]}));
    check(r#""a": 1}"#, a());
    check(r#"{"a": 1}}"#, a());
    check("{", json!({}));
    // Comments.
    check("{\"a\": /* why */ 1 // because\n}", a());
    check("{# first\n\"a\": 1}", a());
    check("{\"a\": \"x\" // note\n, \"b\": 'http://y'}", json!({"a": "x", "b": "http://y"}));
    // Bare words.
    check(
        "{a: True, b: False, c: None, d: hello world}",
        json!({"a": true, "b": false, "c": null, "d": "hello world"}),
    );
    check("{k: http://x.y/z?q=1, t: 10:30}", json!({"k": "http://x.y/z?q=1", "t": "10:30"}));
    check("[+1, .5, 5., -.5, 1_000, NaN]", json!([1, 0.5, 5.0, -0.5, 1000, null]));
    check("True", json!(true));
    // Strings.
    check("{\"a\": \"one\ntwo\tthree\"}", json!({"a": "one\ntwo\tthree"}));
    check(
        r#"{"a": "C:\Users\me", "b": "\d+", "c": "é\ud83d\ude00\ud83d",}"#,
        json!({"a": "C:\\Users\\me", "b": "\\d+", "c": "é😀\u{fffd}"}),
    );
    // Surrounding text.
    check("```json\n{\"a\": 1}\n```", a());
    check("Sure [really]: here is {it}:\n```\n{'a': 1}\n```\nI hope it's \"fine\".", a());
    check("<think>maybe {\"a\": 2}?</think>\n{\"a\": 1}", a());
    check("As [1] says: {\"a\": 1}", a());
    check("Here's the call: search({\"a\": 1});", a());
    check(r#"{"a": "x</think>y",}"#, json!({"a": "x</think>y"}));
    check("{{\"a\": 1}}", a());
    check("{\"a\": 1}\n{\"b\": 2}", json!([{"a": 1}, {"b": 2}]));
}

#[test]
fn no_integer_loses_digits() {
    let check = |text: &str, value: Json, repaired: bool| {
        assert_eq!(parse(text).unwrap(), Parsed { value, repaired }, "{text}");
    };
    let id = "12345678901234567890123";
    let said = format!("say \" {id} \\");
    let written = json!(said);
    let text = format!(r#"{{"id": {id}, "said": {written}, "all": [-{id}, 1]}}"#);
    check(&text, json!({"id": id, "said": said, "all": [format!("-{id}"), 1]}), false);
    check(&format!("{{'id': {id},}}"), json!({"id": id}), true);
    // The stored form of a number is one, however long it is.
    check(
        "[18446744073709551615, -9223372036854775808, 100000000000000000000, 1e30, 0.50000000000000000000]",
        json!([u64::MAX, i64::MIN, 1e20, 1e30, 0.5]),
        false,
    );
    // The schema decides whether the digits are kept.
    let schema = |kind: &str| {
        ArgumentSchema::new(&json!({"type": "object", "properties": {"id": {"type": kind}}})).unwrap()
    };
    let given = || object(&format!(r#"{{"id": {id}}}"#)).unwrap().0;
    assert_eq!(schema("string").check(given()).unwrap()["id"], id);
    assert!(schema("integer").check(given()).unwrap_err().to_string().contains("expected integer"));
}

#[test]
fn ambiguous_input_is_an_error() {
    let check = |text: &str, expected: &str| {
        let error = parse(text).expect_err(text);
        assert_eq!(error.kind, ErrorKind::Garbled, "{text}");
        assert!(error.full().contains(expected), "{text}: {}", error.full());
    };
    check("", "no object");
    check("I cannot do that.", "no object");
    check(r#"{"a", "b"}"#, "without a colon");
    check(r#"{"a": "x, "b": 2}"#, "string");
    check(r#"{"code": "if (x) { return "y" } else: z"}"#, "backslash");
    check("{a: hello, world, b: 1}", "without a colon");
    check("[1, 2, ...]", "without quotes");
    check("[{\"a\": 1, {\"b\": 2}]", "key is missing");
    check(&"[".repeat(1_000), "128 brackets");
    check(&" ".repeat(TEXT_MAX + 1), "bytes");
}

#[test]
fn arguments_are_an_object() {
    let check = |text: &str, expected: Json, repaired: bool| {
        assert_eq!(object(text).unwrap(), (expected.as_object().unwrap().clone(), repaired), "{text}");
    };
    check("", json!({}), false);
    check(" \n", json!({}), false);
    check("null", json!({}), false);
    check("\"\"", json!({}), false);
    check("None", json!({}), true);
    check(r#"{"a": 1}"#, json!({"a": 1}), false);
    check(r#"{"a": 1,}"#, json!({"a": 1}), true);
    check(r#""{\"a\": 1}""#, json!({"a": 1}), true);
    for (text, expected) in
        [("[1]", "a list"), ("3", "a number"), ("\"x\"", "a text"), ("{\"a\":1}{\"a\":2}", "a list")]
    {
        let error = object(text).expect_err(text);
        assert!(error.full().contains(expected), "{text}: {}", error.full());
    }
}

#[test]
fn a_plan_is_a_list_of_objects() {
    let check = |text: &str, expected: Json, repaired: bool| {
        assert_eq!(list(text).unwrap(), (expected.as_array().unwrap().clone(), repaired), "{text}");
    };
    check(r#"[{"name": "a"}]"#, json!([{"name": "a"}]), false);
    check(r#"{"name": "a"}"#, json!([{"name": "a"}]), false);
    check("[]", json!([]), false);
    check(
        "<think>[{\"name\": \"no\"}]</think>```json\n[{\"name\": \"a\"},\n{'name': 'b'}]\n```",
        json!([{"name": "a"}, {"name": "b"}]),
        true,
    );
    check("{\"name\": \"a\"}\n{\"name\": \"b\"}", json!([{"name": "a"}, {"name": "b"}]), true);
    for (text, expected) in
        [("[1]", "element 0"), ("[{}, \"x\"]", "element 1"), ("3", "a number"), ("Let me think.", "no list")]
    {
        let error = list(text).expect_err(text);
        assert!(error.full().contains(expected), "{text}: {}", error.full());
    }
}

/// Large texts that would be expensive if anything were scanned repeatedly. There is no clock in it: a
/// quadratic reader would not finish here within minutes.
#[test]
fn large_texts_are_read_in_one_pass() {
    let units = [
        "[",
        "{\"a\":",
        "\"",
        "'",
        "\\",
        ",",
        "\", ",
        "/*",
        "say \"hi\" ",
        "]",
        ":",
        "a b ",
        "```",
        "(",
        "'a' 'b",
        "{",
        "\n'*",
        "\",#",
        "\", /*",
        "\"}",
        "\"  ",
        "“",
        "\"\"\"",
        "#",
        "{'a",
        "[{",
        "1 \"",
        "\\u",
        "<think>",
        "a:",
    ];
    for unit in units {
        for (before, after) in [("", ""), ("{\"a\": \"", ""), ("[{'a': '", "\" x: \n z")] {
            let _ = parse(&format!("{before}{}{after}", unit.repeat(300_000 / unit.len())));
        }
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        "[a-z\"'\\\\,:{}\\[\\] \n#/]{0,12}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec(("[a-z\"' :]{0,6}", inner), 0..4)
                .prop_map(|entries| Json::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_json_is_unchanged(value in any_json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        prop_assert_eq!(parse(&text).unwrap(), Parsed { value: value.clone(), repaired: false });
        if value.is_object() {
            let fenced = format!("Here it is:\n```json\n{text}\n```\n");
            prop_assert_eq!(parse(&fenced).unwrap(), Parsed { value, repaired: true });
        }
    }

    #[test]
    fn any_text_is_parsed_without_panicking(text in prop_oneof![
        any::<String>(),
        any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", "\"", "'", ",", ":", "\\", "\\u", "d83d", "/*", "*/", "//", "#", "\n", " ", "a", "1", "-", ".",
            "```", "json", "<think>", "</think>", "“", "”", "True", "...", "\"\"\"", "é",
        ]), 0..40).prop_map(|parts| parts.concat()),
    ]) {
        let _ = parse(&text);
        let _ = object(&text);
        let _ = list(&text);
    }

    #[test]
    fn valid_input_stays_unchanged(value in any_json(), spaced: bool) {
        let value = json!({"first": value, "last": 1});
        let text = if spaced { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let damaged = format!("{},}}", text.strip_suffix('}').unwrap().trim_end());
        prop_assert_eq!(parse(&damaged).unwrap(), Parsed { value, repaired: true });
    }

    #[test]
    fn truncated_json_keeps_its_beginning(value in any_json(), cut in 0.0..1.0f64) {
        let text = json!({"first": 1, "rest": value}).to_string();
        let from = r#"{"first":1,"#.len();
        let wanted = from + ((text.len() - from) as f64 * cut) as usize;
        let (map, _) = object(&text[..text.floor_char_boundary(wanted.max(from))]).unwrap();
        prop_assert_eq!(&map["first"], &json!(1));
    }
}
