//! Tables of contents: built, stored, queried.

use serde_json::json;
use weft_core::ErrorKind;
use weft_core::id::ChunkId;
use weft_core::seam::dataset_store::Extra;
use weft_core::seam::knowledge::ContentsEntry;
use weft_knowledge::ask::Step;
use weft_knowledge::contents::{build, to_json};
use weft_knowledge::retrieve::Retrieval;

use crate::kit::{Library, ids, question};

fn manual() -> Library {
    let library = Library::default().with(
        "d",
        "",
        &[
            ("manual", json!({}), &["tiger one", "tiger two", "Brakes are changed so.", "Lights."]),
            ("leaflet", json!({}), &["tiger tiger"]),
        ],
    );
    let entry = |title: &str, chunks: &[&str]| ContentsEntry {
        level: 1,
        title: title.to_owned(),
        chunks: chunks.iter().map(|id| (*id).into()).collect(),
    };
    let entries = [
        entry("Tigers", &["manual-0", "manual-1"]),
        entry("Brakes", &["manual-2"]),
        entry("Gone", &["gone"]),
    ];
    library.extra("manual", Extra::Contents, to_json(&entries));
    library
}

#[tokio::test]
async fn passages_below_a_chosen_heading_are_boosted_or_fetched() {
    let library = manual();
    library.answers(Step::ContentsChoice, "{\"0\": 2, \"1\": 5, \"2\": 5}");
    let asked = Retrieval { contents: true, limit: 3, ..question("tiger", &["d"]) };
    let found = library.ask(&asked).await;
    // `manual` has two passages and `leaflet` one equally good: the sum decides.
    assert_eq!(ids(&found), ["manual-0", "manual-1", "manual-2"]);
    let scores: Vec<f64> = found.passages.iter().map(|p| p.chunk.similarity.unwrap()).collect();
    assert!(scores.iter().all(|score| *score <= 1.0) && (scores[2] - 1.0).abs() < 1e-9, "{scores:?}");
    let (_, text) = library.0.asked.lock().unwrap().remove(0);
    assert!(text.contains("Question: tiger") && text.contains("1. Brakes"), "{text}");
}

#[tokio::test]
async fn without_contents_or_a_model_the_order_is_unchanged() {
    let library = manual();
    let usual = library.ids(&question("tiger", &["d"])).await;
    let asked = Retrieval { contents: true, ..question("tiger", &["d"]) };
    library.answers(Step::ContentsChoice, "all of them");
    let found = library.ask(&asked).await;
    assert_eq!(ids(&found), usual);
    assert!(found.notes[0].contains("without the table of contents"), "{:?}", found.notes);
    let bare = Library::default().with("d", "", &[("x", json!({}), &["tiger"])]);
    assert!(bare.ask(&asked).await.notes[0].contains("no table of contents"));
}

#[tokio::test]
async fn a_model_finds_headings_and_their_levels() {
    let library = Library::default();
    let passages: Vec<(ChunkId, String)> = ["Part One", "Chapter 1 begins", "and goes on"]
        .iter()
        .zip(["a", "b", "c"])
        .map(|(text, id)| (id.into(), (*text).to_owned()))
        .collect();
    library
        .answers(Step::Contents, "[{\"title\": \"Part One\", \"passage\": 0}, {\"title\": \"Chapter 1\", \"passage\": 1}, {\"title\": \"?\", \"passage\": 99}]")
        .answers(Step::Contents, "[1, 2]");
    let (entries, notes) = build::by_model(&library, &passages).await.unwrap().unwrap();
    assert!(notes.is_empty());
    let expected = json!([{"level": 1, "title": "Part One", "chunks": ["a"]}, {"level": 2, "title": "Chapter 1", "chunks": ["b", "c"]}]);
    assert_eq!(json!(entries), expected);
    // A model that cannot give the levels leaves a flat table, and one that fails leaves none.
    library
        .answers(Step::Contents, "[{\"title\": \"Part One\", \"passage\": 0}]")
        .answers(Step::Contents, "?");
    assert_eq!(build::by_model(&library, &passages).await.unwrap().unwrap().0[0].level, 1);
    library.answers(Step::Contents, "no headings here");
    assert_eq!(build::by_model(&library, &passages).await.unwrap().unwrap_err().kind, ErrorKind::Garbled);
    // A transient failure does not mean that the model cannot do it.
    library.answers(Step::Contents, "[{\"title\": \"Part One\", \"passage\": 0}]");
    library.fails(Step::Contents, ErrorKind::Timeout);
    assert_eq!(build::by_model(&library, &passages).await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
    // One failing part of a long document does not affect the others.
    let long: Vec<(ChunkId, String)> =
        (0..30).map(|n| (ChunkId::new(format!("c{n}")), "text ".repeat(240))).collect();
    library
        .answers(Step::Contents, "no headings here")
        .answers(Step::Contents, "[{\"title\": \"Late\", \"passage\": 20}]")
        .answers(Step::Contents, "[]")
        .answers(Step::Contents, "[1]");
    let (entries, notes) = build::by_model(&library, &long).await.unwrap().unwrap();
    assert_eq!((entries.len(), entries[0].title.as_str(), notes.len()), (1, "Late", 1));
    assert!(notes[0].starts_with("cannot extract headings from part 1"), "{notes:?}");
    library.fails(Step::Contents, ErrorKind::Cancelled);
    assert_eq!(build::by_model(&library, &passages).await.unwrap_err().kind, ErrorKind::Cancelled);
}

/// A chunk may be hidden by hand after the table was built.
#[tokio::test]
async fn hidden_chunks_are_not_fetched_by_contents() {
    let library = manual();
    library.change("manual-2", |chunk| chunk.available = false);
    library.answers(Step::ContentsChoice, "{\"0\": 2, \"1\": 5, \"2\": 5}");
    let asked = Retrieval { contents: true, limit: 9, ..question("tiger", &["d"]) };
    let found = library.ask(&asked).await;
    assert_eq!(ids(&found), ["manual-0", "manual-1", "leaflet-0"]);
    assert_eq!(found.total, 3);
}

#[tokio::test]
async fn a_removed_document_has_no_contents() {
    let library = manual();
    library.forget_document("manual");
    let asked = Retrieval { contents: true, limit: 9, ..question("tiger", &["d"]) };
    let found = library.ask(&asked).await;
    assert_eq!(ids(&found), ["leaflet-0"]);
    assert!(found.notes[0].contains("no table of contents"), "{:?}", found.notes);
}

/// Passages boosted or fetched by the table are counted, and its pages are slices of one list.
#[tokio::test]
async fn pages_with_contents_have_each_passage_once() {
    let library = manual();
    let mut seen = Vec::new();
    for offset in [0, 2] {
        library.answers(Step::ContentsChoice, "{\"1\": 5}");
        let asked = Retrieval { contents: true, offset, limit: 2, ..question("tiger", &["d"]) };
        let found = library.ask(&asked).await;
        let manual = found.documents.iter().find(|document| document.id.as_str() == "manual").unwrap();
        assert_eq!((found.total, manual.count), (4, 3));
        seen.extend(ids(&found));
    }
    seen.sort();
    assert_eq!(seen, ["leaflet-0", "manual-0", "manual-1", "manual-2"]);
}
