use proptest::prelude::*;
use serde_json::json;

use super::*;

fn call(name: &str, arguments: Json, result: Outcome) -> Observed {
    Observed { name: name.to_owned(), arguments, result, poll: false }
}

fn ok(arguments: Json, result: &str) -> Observed {
    call("search", arguments, Outcome::Text(result.to_owned()))
}

fn failed(arguments: Json, error: &str) -> Observed {
    call("search", arguments, Outcome::Error(error.to_owned()))
}

/// The guard's verdict on two rounds of one call each.
fn verdict(first: &Observed, second: &Observed) -> Verdict {
    let mut guard = LoopGuard::default();
    assert_eq!(guard.observe(std::slice::from_ref(first)), Verdict::Continue);
    guard.observe(std::slice::from_ref(second))
}

#[test]
fn arguments_are_compared_value_by_value() {
    let check = |first: Json, second: Json, expected: Verdict| {
        assert_eq!(verdict(&ok(first.clone(), "r"), &ok(second.clone(), "r")), expected, "{first} {second}");
    };
    let text = "the weather in the old harbour of Hamburg";
    let long = "All work and no play makes a dull boy, said the man. ".repeat(60);
    for (first, second) in [
        (
            json!({"q": text, "n": 3}),
            json!({"n": 3.0, "q": format!("  {}  ", text.to_uppercase().replace(' ', " \n "))}),
        ),
        (json!({"q": text}), json!({"q": "the weather in the old harbor of Hamburg"})),
        (json!({"q": long}), json!({"q": long.replace("dull", "dumb")})),
        (json!({"a": [1, {"b": null}]}), json!({"a": [1, {"b": null}]})),
        (json!({}), json!({})),
        (json!({"mode": "Fast"}), json!({"mode": "fast"})),
    ] {
        check(first, second, Verdict::Loop);
    }
    for (first, second) in [
        (json!({"q": text}), json!({"q": "the weather in the new town of Hannover"})),
        (json!({"q": format!("{text}, page 1")}), json!({"q": format!("{text}, page 2")})),
        (json!({"q": text, "n": 3}), json!({"q": text, "n": 4})),
        (json!({"q": text, "deep": true}), json!({"q": text, "deep": false})),
        (json!({"q": text}), json!({"query": text})),
        (json!({"q": text}), json!({"q": text, "n": 1})),
        (json!({"unit": "celsius-degrees-absolute"}), json!({"unit": "celsius-degrees-absolut"})),
        (json!({"a": [1, 2]}), json!({"a": [2, 1]})),
        (json!({"a": {"b": "one two"}}), json!({"a.b": "one two"})),
        (
            json!({"q": long}),
            json!({"q": format!("{long}{}", "And then something else happened. ".repeat(200))}),
        ),
        (
            json!({"q": format!("{}{}", "x ".repeat(5_000), "one end")}),
            json!({"q": format!("{}{}", "x ".repeat(5_000), "another")}),
        ),
        (json!({"a": vec![0; 1_000]}), json!({"a": (0..1_000).map(|n| n / 999).collect::<Vec<_>>()})),
    ] {
        check(first, second, Verdict::Continue);
    }
}

#[test]
fn results_are_compared_without_volatile_parts() {
    let check = |first: &str, second: &str, expected: Verdict| {
        assert_eq!(verdict(&ok(json!({}), first), &ok(json!({}), second)), expected, "{first} | {second}");
    };
    for (first, second) in [
        ("at 2026-11-21T20:55:23Z", "at 2026-11-22 08:01:02.123+01:00"),
        ("Sat, 21 Nov 2026 20:55:23 GMT", "Sun, 22 Nov 2026 08:01:02 GMT"),
        ("took 12 ms", "took 3.5 seconds"),
        ("id 550e8400-e29b-41d4-a716-446655440000", "id 16fd2706-8baf-433b-82eb-8c7fada847da"),
        (
            "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
            "commit 1c2e9f7a3b5d8e60412c7f9a0b3d5e8f71a2b4c6",
        ),
        ("trace a1b2c3d4e5", "trace 0f9e8d7c6b"),
        ("object at 0x7f3a", "object at 0x81ffee00"),
        ("stamp 1700000000", "stamp 1763760923123"),
        (r#"{"a": 1, "b": "x"}"#, r#"{"b": "X", "a": 1.0}"#),
        ("Nothing  found.\n", "nothing found."),
        ("", ""),
    ] {
        check(first, second, Verdict::Loop);
    }
    for (first, second) in [
        ("the first page says one thing", "and the second says another"),
        ("20 degrees", "35 degrees"),
        ("deadbeef cafe", "facade decade"),
        ("", "something"),
    ] {
        check(first, second, Verdict::Continue);
    }
    // Only the beginning counts.
    let page = "line of a page ".repeat(300);
    check(
        &format!("{page}{}", "this".repeat(2_000)),
        &format!("{page}{}", "that".repeat(2_000)),
        Verdict::Loop,
    );
}

#[test]
fn equal_errors_count_and_different_ones_do_not() {
    let arguments = json!({"q": "some longer question about this"});
    let check = |first: Observed, second: Observed, expected: Verdict| {
        assert_eq!(verdict(&first, &second), expected, "{first:?} {second:?}");
    };
    let error = |text: &str| failed(arguments.clone(), text);
    check(error("no such table: users"), error("no such table: users"), Verdict::Loop);
    check(
        error("timed out after 30 s at 10:00:01"),
        error("timed out after 31 s at 10:00:40"),
        Verdict::Loop,
    );
    check(
        error("there is no such table as users"),
        error("there is no such table as user"),
        Verdict::Continue,
    );
    check(error("no such table"), ok(arguments.clone(), "no such table"), Verdict::Continue);
}

#[test]
fn different_tools_and_polling_tools_are_no_loop() {
    let search = ok(json!({"q": 1}), "r");
    assert_eq!(verdict(&search, &Observed { name: "fetch".to_owned(), ..search.clone() }), Verdict::Continue);
    let poll = Observed { poll: true, ..search.clone() };
    assert_eq!(verdict(&poll, &poll), Verdict::Continue);
    // Besides a polling call the others still count.
    let mut guard = LoopGuard::default();
    assert_eq!(guard.observe(&[poll.clone(), search.clone()]), Verdict::Continue);
    assert_eq!(guard.observe(&[search, poll]), Verdict::Loop);
}

#[test]
fn parallel_calls_are_compared_in_any_order() {
    let (a, b, c) = (ok(json!({"q": 1}), "one"), ok(json!({"q": 2}), "two"), ok(json!({"q": 3}), "three"));
    let check = |first: &[&Observed], second: &[&Observed], expected: Verdict| {
        let round = |calls: &[&Observed]| calls.iter().map(|call| (*call).clone()).collect::<Vec<_>>();
        let mut guard = LoopGuard::default();
        guard.observe(&round(first));
        assert_eq!(guard.observe(&round(second)), expected);
    };
    check(&[&a, &b], &[&b, &a], Verdict::Loop);
    check(&[&a, &a, &b], &[&b, &a, &a], Verdict::Loop);
    check(&[&a, &a, &b], &[&a, &b, &b], Verdict::Continue);
    check(&[&a, &b], &[&a, &c], Verdict::Continue);
    check(&[&a, &b], &[&a], Verdict::Continue);
    // Twice in one round does not count as consecutive rounds.
    check(&[&c], &[&a, &a], Verdict::Continue);
}

#[test]
fn the_window_sets_how_many_rounds_make_a_loop() {
    let (a, b) = (ok(json!({"q": 1}), "one"), ok(json!({"q": 2}), "two"));
    let verdicts = |window: usize, rounds: &[&Observed]| -> Vec<bool> {
        let mut guard = LoopGuard::new(window);
        rounds.iter().map(|call| guard.observe(std::slice::from_ref(*call)) == Verdict::Loop).collect()
    };
    assert_eq!(verdicts(2, &[&a, &b, &b, &a]), [false, false, true, false]);
    assert_eq!(verdicts(3, &[&a, &a, &a, &a]), [false, false, true, true]);
    assert_eq!(verdicts(3, &[&a, &a, &b, &b, &b]), [false, false, false, false, true]);
    assert_eq!(verdicts(0, &[&a, &a]), [false, true]);
}

#[test]
fn replies_without_a_call_are_a_loop_when_they_repeat() {
    let mut guard = LoopGuard::default();
    assert_eq!(guard.idle("I will think about it."), Verdict::Continue);
    assert_eq!(guard.idle("Something else altogether."), Verdict::Continue);
    assert_eq!(guard.idle(" something ELSE  altogether"), Verdict::Loop);
    // A call in between is progress.
    assert_eq!(guard.observe(&[ok(json!({}), "r")]), Verdict::Continue);
    assert_eq!(guard.idle(""), Verdict::Continue);
    assert_eq!(guard.idle(" "), Verdict::Loop);
    assert_eq!(guard.idle("step 1 of the long plan"), Verdict::Continue);
    assert_eq!(guard.idle("step 2 of the long plan"), Verdict::Continue);
}

#[test]
fn the_guard_survives_storage_and_reports_similarity() {
    let call = ok(json!({"q": "one question of some length"}), "r");
    let mut guard = LoopGuard::default();
    guard.observe(std::slice::from_ref(&call));
    let stored = serde_json::to_string(&guard).unwrap();
    let mut guard: LoopGuard = serde_json::from_str(&stored).unwrap();
    let similar = Observed { arguments: json!({"q": "one question of same length"}), ..call };
    assert_eq!(guard.observe(&[similar]), Verdict::Loop);
    assert!((SIMILAR..1.0).contains(&guard.similarity), "{}", guard.similarity);
    assert_eq!(guard.observe(&[]), Verdict::Continue);
}

/// Nothing here is timed: comparing every pair of characters would not finish within minutes.
#[test]
fn huge_rounds_are_cheap_and_leave_little() {
    let text = "the quick brown fox jumps over the lazy dog ".repeat(10_000);
    let words: Vec<Json> = (0..20_000).map(|n| json!(format!("word and number {n}"))).collect();
    let paragraph = "a".repeat(1_900);
    let paragraphs: Vec<Json> =
        (0..500).map(|n| json!(format!("{paragraph} {}", "b".repeat(n % 7)))).collect();
    let rounds = [
        vec![ok(json!({"text": text}), &text)],
        vec![ok(json!({ "words": words }), &Json::from(words).to_string())],
        vec![ok(json!({ "paragraphs": paragraphs }), &paragraph)],
        vec![ok(json!({"text": "1 ".repeat(300_000)}), &"12:34 ".repeat(200_000)); 3],
        (0..64).map(|n| ok(json!({"text": format!("{paragraph}{}", "c".repeat(n))}), &paragraph)).collect(),
    ];
    for round in &rounds {
        let mut guard = LoopGuard::default();
        assert_eq!(guard.observe(round), Verdict::Continue);
        assert_eq!(guard.observe(round), Verdict::Loop);
        let other: Vec<Observed> = round
            .iter()
            .rev()
            .map(|call| Observed { arguments: json!([call.arguments]), ..call.clone() })
            .collect();
        assert_eq!(guard.observe(&other), Verdict::Continue);
        let size = serde_json::to_string(&guard).unwrap().len();
        assert!(size < 300_000, "{size}");
    }
}

proptest! {
    #[test]
    fn any_round_repeated_is_a_loop(text: String, key: String, result: String, error: bool) {
        let result = if error { Outcome::Error(result) } else { Outcome::Text(result) };
        let round = [call("t", json!({ key: [text] }), result)];
        let mut guard = LoopGuard::default();
        prop_assert_eq!(guard.observe(&round), Verdict::Continue);
        prop_assert_eq!(guard.observe(&round), Verdict::Loop);
    }
}
