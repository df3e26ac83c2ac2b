//! Which documents are searched.

use serde_json::json;
use weft_core::filter::{Condition, Filter, FilterOperator, Logic, Metadata};
use weft_core::id::DocumentId;
use weft_core::seam::Index;
use weft_core::seam::index::{IndexChange, IndexQuery, IndexedDocument};

use super::{ask, chunks, dataset, document_with, filtered, fine, ids, query, text};

fn metadata(value: &serde_json::Value) -> Metadata {
    value.as_object().cloned().unwrap_or_default()
}

/// The index must agree with [`Filter::matches`] in both parts.
pub(super) async fn every_operator_filters_both_parts(index: &dyn Index) {
    let dataset = dataset();
    let documents = [
        ("one", metadata(&json!({ "author": ["Ada", "Grace"], "year": 1952 }))),
        ("two", metadata(&json!({ "author": "Alan", "year": "1936" }))),
        ("three", metadata(&json!({ "city": "New York" }))),
        ("four", metadata(&json!({}))),
    ];
    for (id, metadata) in &documents {
        let sketch = chunks(id, &[(id, "apple", &[1.0, 0.0])]);
        fine(index.write(&dataset, vec![document_with(id, metadata.clone()), sketch]).await);
    }
    let values = [
        ("author", json!("ada")),
        ("year", json!(1940)),
        ("city", json!("york")),
        ("author", json!(["alan", "x"])),
    ];
    for operator in FilterOperator::ALL {
        for (key, value) in &values {
            let condition = Condition { key: (*key).to_owned(), operator, value: value.clone() };
            let filter = Filter { logic: Logic::And, conditions: vec![condition] };
            let mut expected: Vec<&str> = documents
                .iter()
                .filter(|(_, metadata)| filter.matches(metadata))
                .map(|(id, _)| *id)
                .collect();
            expected.sort_unstable();
            let by_text = filtered(index, &dataset, query(&dataset, "apple", &[]), filter.clone()).await;
            assert_eq!(ids(&by_text), expected, "{filter:?}");
            assert_eq!((by_text.text_total, by_text.fitting), (expected.len(), expected.len()));
            let by_vector = filtered(index, &dataset, query(&dataset, "", &[1.0, 0.0]), filter.clone()).await;
            assert_eq!(ids(&by_vector), expected, "{filter:?}");
            let by_nothing = filtered(index, &dataset, query(&dataset, "pear", &[]), filter.clone()).await;
            assert_eq!((by_nothing.hits.len(), by_nothing.fitting), (0, expected.len()), "{filter:?}");
        }
    }
}

pub(super) async fn documents_and_availability_count_together(index: &dyn Index) {
    let dataset = dataset();
    for (id, year) in [("a", 1), ("b", 2), ("c", 2)] {
        let document = document_with(id, metadata(&json!({ "year": year })));
        fine(index.write(&dataset, vec![document, chunks(id, &[(id, "apple", &[1.0])])]).await);
    }
    let condition = Condition { key: "year".to_owned(), operator: FilterOperator::Equal, value: json!(2) };
    let filter = Filter { logic: Logic::And, conditions: vec![condition] };
    let only = |list: &[&str]| Some(list.iter().map(|id| DocumentId::new(*id)).collect());
    let both = IndexQuery { documents: only(&["a", "b", "never there"]), ..query(&dataset, "apple", &[1.0]) };
    assert_eq!(ids(&ask(index, &dataset, &both).await), ["a", "b"]);
    assert_eq!(ids(&filtered(index, &dataset, both.clone(), filter.clone()).await), ["b"]);
    let none = IndexQuery { documents: Some(Vec::new()), ..both.clone() };
    assert!(ask(index, &dataset, &none).await.hits.is_empty());
    let hidden = IndexedDocument {
        id: DocumentId::new("b"),
        name: String::new(),
        metadata: metadata(&json!({ "year": 2 })),
        available: false,
    };
    fine(index.write(&dataset, vec![IndexChange::Document(hidden)]).await);
    assert!(filtered(index, &dataset, both, filter).await.hits.is_empty());
    assert_eq!(ids(&text(index, &dataset, "apple").await), ["a", "c"]);
}

pub(super) async fn metadata_changes_without_the_chunks(index: &dyn Index) {
    let dataset = dataset();
    let sketch = chunks("d", &[("a", "apple", &[1.0, 0.0]), ("b", "apple", &[0.0, 1.0])]);
    fine(index.write(&dataset, vec![document_with("d", metadata(&json!({ "year": 1 }))), sketch]).await);
    let before = ask(index, &dataset, &query(&dataset, "apple", &[1.0, 0.0])).await;
    fine(index.write(&dataset, vec![document_with("d", metadata(&json!({ "year": 2 })))]).await);
    let after = ask(index, &dataset, &query(&dataset, "apple", &[1.0, 0.0])).await;
    assert_eq!((ids(&before), before.bm25_scale), (ids(&after), after.bm25_scale));
    for (year, count) in [(1, 0), (2, 2)] {
        let condition =
            Condition { key: "year".to_owned(), operator: FilterOperator::Equal, value: json!(year) };
        let filter = Filter { logic: Logic::And, conditions: vec![condition] };
        let found = filtered(index, &dataset, query(&dataset, "apple", &[]), filter).await;
        assert_eq!(found.hits.len(), count, "{year}");
    }
    assert_eq!(fine(index.size(&dataset).await).documents, 1);
}
