use proptest::prelude::*;
use weft_core::citation::{Chunk, marks};

use super::*;

fn sources(count: usize) -> Citations {
    let sources = Citations::default();
    sources.number((0..count).map(|n| Chunk { id: n.to_string(), ..Chunk::default() }));
    sources
}

#[test]
fn every_form_of_a_mark_is_normalized() {
    let known = sources(4);
    let check = |text: &str, expected: &str| assert_eq!(repair(text, &known), expected, "{text}");
    for form in [
        "[ID:3]",
        "[ID: 3]",
        "[ID 3]",
        "[ id : 3 ]",
        "[id:3]",
        "[Id：3]",
        "(ID: 3)",
        "(ID:3)",
        "（ID：3）",
        "【ID: 3】",
        "〔ID:3〕",
        "［ID:3］",
        "[ref 3]",
        "[Ref. 3]",
        "[REF:3]",
        "(ref3)",
        "ref3",
        "Ref3",
        "##3$$",
        "[ID:03]",
        "[IDs: 3]",
        "[ID#3]",
        "[ID=3]",
    ] {
        check(&format!("So it is {form}. Next"), "So it is [ID:3]. Next");
        check(form, "[ID:3]");
    }
    for form in [
        "[ID:0, ID:2]",
        "[ID:0,2]",
        "[ID: 0; 2]",
        "(ID: 0, ID: 2)",
        "【ID:0、ID:2】",
        "[ids 0 & 2]",
        "[ref 0, ref 2]",
        "[ID:0, ID:2, ID:0]",
        "[ID:0, ID:9, ID:2]",
    ] {
        check(&format!("So {form}."), "So [ID:0][ID:2].");
    }
    for form in ["[ID: 3]", "(ID: 3)", "【ID: 3】", "[ref 3]", "##3$$"] {
        check(&format!("So it is{form}"), "So it is[ID:3]");
    }
    check("[ID:1-3]", "[ID:1][ID:2][ID:3]");
    check("一句话ref3。下一句", "一句话[ID:3]。下一句");
    check("one [ID:0] [ID: 1](ID:2)", "one [ID:0] [ID:1][ID:2]");
}

#[test]
fn marks_without_a_source_are_removed() {
    let known = sources(2);
    let check = |text: &str, expected: &str| assert_eq!(repair(text, &known), expected, "{text}");
    check("A fact [ID:2]. Another [ID:1].", "A fact. Another [ID:1].");
    check("A fact [ID:7][ID:0] goes on", "A fact[ID:0] goes on");
    check("A fact (ID: 7) goes on", "A fact goes on");
    check("A fact [ID:99999999999].", "A fact.");
    check("A fact ref9, ##8$$ and [ID:5, ID:6].", "A fact, and.");
    check("[ID:9]", "");
    check("[[ID:9]] [ID:[ID:9]3] [ID: [ID:9]3]", "[…] [ID:…3] [ID:…3]");
    check("A fact (ref3-12).", "A fact.");
}

#[test]
fn after_a_search_without_hits_all_marks_are_removed() {
    let none = sources(0);
    let text = "So it is [ID:1][ID: 0]. See (ref 3).";
    // The user may mean these very letters.
    assert_eq!(repair(text, &none), text);
    none.note_search();
    assert_eq!(repair(text, &none), "So it is. See (ref 3).");
    assert_eq!(repair("`[ID:1]`", &none), "`[ID:1]`");
}

#[test]
fn text_that_is_not_a_mark_stays() {
    let known = sources(10);
    for text in [
        "my preference3 and ref 3 and ref3.pdf, ref3-4, $ref3, a/ref3, ref3x, ref3_b, ref1234",
        "[3] and (3) and [^3] and array[3] and ID: 3 and ID3",
        "the employee (ID: 48213) and find(id: 3)",
        "[ID:x] [ID:] [ID:3 [ID: 3) (ID: 3] [ID:1-900] [idea:3] [IDEA 3] [id est]",
        "# Title\n## 3 things\n##3 $$ and ##$$",
        "`[ID: 3]` and ``a ` (ID: 3)`` and `ref3`",
        "```\n[ID: 3]\n``` x\n(ID: 3)\n```",
        "~~~text\n```\n[ID: 3]\n~~~",
        "  ```rust\n  [ID: 3]\n  ```",
        "```[ID: 3]```",
        "an open fence\n```\n[ID: 3] ref3",
    ] {
        assert_eq!(repair(text, &known), text);
    }
    // A backtick without a partner makes no code of the paragraphs that follow, nor does a closed fence.
    assert_eq!(repair("5 o`clock (ID: 3)\n\n(ID: 4)", &known), "5 o`clock (ID: 3)\n\n[ID:4]");
    assert_eq!(repair("```\nx\n```\n(ID: 4) `a`(ID: 5)", &known), "```\nx\n```\n[ID:4] `a`[ID:5]");
}

#[test]
fn without_sources_nothing_changes() {
    let none = Citations::default();
    for text in ["The user (id: 3) prefers ref3 [ID:0] ##1$$.", " [ID:1]", "[ID: 0, ID: 2"] {
        assert_eq!(repair(text, &none), text);
    }
    // Sources that appear later count from then on.
    let mut filter = MarkFilter::new(none.clone());
    let mut text = filter.push("a (ID: 0) ");
    none.number([Chunk::default()]);
    text.push_str(&filter.push("b (ID: 0)"));
    text.push_str(&filter.finish());
    assert_eq!(text, "a (ID: 0) b [ID:0]");
}

#[test]
fn only_a_possible_mark_is_held_back() {
    let mut filter = MarkFilter::new(sources(4));
    for (piece, expected) in [
        ("Hello", "Hello"),
        (" world [", " world"),
        ("I", ""),
        ("D: 3", ""),
        ("]", " [ID:3]"),
        (" (International", " (International"),
        (" (ID: 1, ", ""),
        ("and", " (ID: 1, and"),
        (" (ref3-1", ""),
        ("2)", " [ID:3]"),
        (" ref", ""),
        ("use", " refuse"),
        (&format!(" [ID:{}", "0".repeat(200)), &format!(" [ID:{}", "0".repeat(200))),
    ] {
        assert_eq!(filter.push(piece), expected, "{piece}");
    }
    assert_eq!(filter.push(" [ID: 2"), "");
    assert_eq!(filter.finish(), " [ID: 2");
}

proptest! {
    #[test]
    fn the_output_does_not_depend_on_chunk_boundaries(
        parts in prop::collection::vec(prop::sample::select(vec![
            "[", "]", "(", ")", "【", "】", "ID", "id", "ref", "ref3", ":", " ", "3", "0", "12", ",", ";", "-", "##", "$$", "`", "```",
            "~~~", "\n", "a", ".", "中", "[ID:3]", "(ID: 1)", "[ID:0, ID:9]", "##2$$", "é",
        ]), 0..40),
        cuts in prop::collection::vec(0..200_usize, 0..20),
        known in 0..4_usize,
    ) {
        let text = parts.concat();
        let sources = sources(known);
        let whole = repair(&text, &sources);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).collect();
        cuts.sort_unstable();
        let mut filter = MarkFilter::new(sources);
        let (mut pieces, mut at) = (String::new(), 0);
        for cut in cuts.into_iter().chain([text.len()]) {
            pieces.push_str(&filter.push(&text[at..cut]));
            at = cut;
        }
        pieces.push_str(&filter.finish());
        prop_assert_eq!(&pieces, &whole);
        if known == 0 {
            prop_assert_eq!(&whole, &text);
        } else if !text.contains(['`', '~']) {
            prop_assert!(marks(&whole).iter().all(|number| (*number as usize) < known), "{}", whole);
        }
    }

    #[test]
    fn any_text_passes(text: String) {
        let _ = repair(&text, &sources(2));
    }
}
