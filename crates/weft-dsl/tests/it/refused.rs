//! Documents that are not recognised as a canvas.

use weft_dsl::{DOCUMENT_BYTES_MAX, load};

fn check(text: impl AsRef<[u8]>, code: &str, span: Option<std::ops::Range<usize>>, message: &str) {
    let problems = load(text.as_ref()).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!((problems[0].code, problems[0].span.clone()), (code, span), "{}", problems[0]);
    assert!(problems[0].message.contains(message), "{}", problems[0].message);
    assert!(problems[0].is_error());
}

#[test]
fn invalid_json_is_refused() {
    check(
        "{\n  \"components\": {,}\n}",
        "not-json",
        Some(19..20),
        "key must be a string, at line 2, column 18",
    );
    check("{\"components\": {\"begin\": ", "truncated", Some(24..25), "line 1, column 25");
    check("", "truncated", Some(0..0), "the document is empty");
    check("\u{feff}{x", "not-json", Some(4..5), "key must be a string");
    check("{\"components\": {}} trailing", "not-json", Some(19..20), "trailing characters");
    check(b"{\"a\": \"\xff\"}", "not-utf8", Some(7..8), "byte 7");
    check("[".repeat(10_000), "too-deep", Some(127..128), "deeper than 127 levels");
    let deep =
        format!("{{\"components\": {}{}}}", "{\"a\":".repeat(10_000), "1".to_owned() + &"}".repeat(10_000));
    check(deep, "too-deep", Some(15 + 126 * 5..15 + 126 * 5 + 1), "deeper than 127 levels");
    check(vec![b' '; DOCUMENT_BYTES_MAX + 1], "too-large", None, "33554433 bytes");
}

#[test]
fn json_that_is_not_a_canvas_is_refused() {
    check("[1]", "not-an-object", Some(0..1), "this is a list");
    check("\"x\"", "not-an-object", Some(0..3), "this is a text");
    check("{\"a\": 1}", "no-components", Some(0..1), "neither");
    check("{\"components\": 5}", "no-components", Some(15..16), "`components` must be an object");
    check("{\"dsl\": {\"a\": 1}}", "no-components", Some(1..6), "neither");
    check("{\"dsl\": null}", "no-components", Some(8..12), "neither");
    check("{\"dsl\": \"{oops\"}", "not-json", Some(8..15), "under `dsl`");
    check("{\"dsl\": \"{}\"}", "no-components", Some(8..12), "neither");
    let many: Vec<_> = (0..10_001).map(|i| format!("\"c{i}\": {{}}")).collect();
    check(
        format!("{{\"components\": {{{}}}}}", many.join(",")),
        "too-many-components",
        Some(1..13),
        "has 10001",
    );
    let many: Vec<_> = (0..10_001).map(|i| format!("{{\"id\": \"c{i}\"}}")).collect();
    let text = format!("{{\"graph\": {{\"nodes\": [{}]}}}}", many.join(","));
    check(text, "too-many-components", Some(11..18), "has 10001");
}
