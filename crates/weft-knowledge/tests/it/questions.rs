//! The question in other languages, and with extra keywords.

use serde_json::json;
use weft_core::ErrorKind;
use weft_knowledge::ask::Step;
use weft_knowledge::retrieve::Retrieval;

use crate::kit::{Library, ids, question};

fn english() -> Library {
    Library::default().with(
        "help",
        "m@test",
        &[
            ("returns", json!({}), &["You get your refund within thirty days."]),
            ("cats", json!({}), &["Die Katze schläft.", "Eine Rückgabe ist möglich."]),
        ],
    )
}

/// Row 60, and part 14.12: each language is searched separately, with its own words and its own vector, and the
/// question itself is kept.
#[tokio::test]
async fn a_chinese_question_finds_english_and_german_passages() {
    let library = english();
    let asked = |languages: &[&str]| Retrieval {
        similarity_min: 0.25,
        vector_weight: 0.0,
        languages: languages.iter().map(|language| (*language).to_owned()).collect(),
        ..question("钱什么时候到", &["help"])
    };
    assert!(library.ids(&asked(&[])).await.is_empty());
    library.answers(
        Step::Translate,
        "```json\n[\"When do I get my refund?\", \"Wann ist eine Rückgabe möglich?\"]\n```",
    );
    let found = library.ask(&asked(&["English", "German"])).await;
    assert_eq!(ids(&found), ["cats-1", "returns-0"]);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let (step, text) = library.0.asked.lock().unwrap().remove(0);
    assert_eq!(step, Step::Translate);
    assert!(text.contains("钱什么时候到") && text.contains("English, German"), "{text}");
    let queries = library.0.queries.lock().unwrap();
    let texts: Vec<String> = queries.iter().map(|query| query.text.clone().unwrap().text).collect();
    assert_eq!(texts[1..], ["钱什么时候到", "When do I get my refund?", "Wann ist eine Rückgabe möglich?"]);
}

#[tokio::test]
async fn each_language_has_its_own_vector() {
    let library = english();
    library.answers(Step::Translate, "[\"kitty\"]");
    let asked = Retrieval { languages: vec!["English".to_owned()], ..question("退款", &["help"]) };
    let found = library.ids(&asked).await;
    assert_eq!(*library.0.embedded.lock().unwrap(), ["退款", "kitty"]);
    assert_eq!(found[..2], ["cats-0", "returns-0"], "equally near, each to one of the two");
}

#[tokio::test]
async fn without_translations_the_question_is_used_alone_with_a_notice() {
    for answer in ["### English: refund ===", "{}", "[1, 2]"] {
        let library = english();
        library.answers(Step::Translate, answer);
        let asked = Retrieval { languages: vec!["English".to_owned()], ..question("refund", &["help"]) };
        let found = library.ask(&asked).await;
        assert_eq!(ids(&found)[0], "returns-0");
        assert!(found.notes[0].contains("only in the language of the question"), "{:?}", found.notes);
    }
    let library = english();
    library.fails(Step::Translate, ErrorKind::Unavailable);
    let asked = Retrieval { languages: vec!["English".to_owned()], ..question("refund", &["help"]) };
    assert!(library.ask(&asked).await.notes[0].contains("the model is away"));
    // A spent budget ends the search; it is no warning.
    library.fails(Step::Translate, ErrorKind::QuotaExceeded);
    assert_eq!(library.try_ask(&asked).await.unwrap_err().kind, ErrorKind::QuotaExceeded);
}

/// Part 14.13: extra keywords are for the word search only; the vector is that of the question.
#[tokio::test]
async fn extra_keywords_are_not_part_of_the_question() {
    let library = english();
    library.answers(Step::Keywords, "[\"thirty\", \"days\"]");
    let asked = Retrieval { keywords: true, vector_weight: 0.3, ..question("How long?", &["help"]) };
    let found = library.ask(&asked).await;
    assert_eq!(ids(&found)[0], "returns-0");
    assert_eq!(*library.0.embedded.lock().unwrap(), ["How long?"]);
    let query = library.0.queries.lock().unwrap().remove(0).text.unwrap();
    assert_eq!(query.text, "How long?");
    let words: Vec<String> = query.keywords.into_iter().map(|(word, _)| word).collect();
    assert_eq!(words, ["thirty", "days"]);
    library.answers(Step::Keywords, "thirty days, I think");
    let found = library.ask(&asked).await;
    assert!(found.notes[0].contains("without further keywords"), "{:?}", found.notes);
}
