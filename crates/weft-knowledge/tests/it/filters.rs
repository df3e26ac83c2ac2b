//! Which documents are searched.

use serde_json::{Value as Json, json};
use weft_core::filter::{Filter, FilterOperator};
use weft_knowledge::ask::Step;
use weft_knowledge::retrieve::{FilterChoice, Filtered, Retrieval, filter_choice, filter_conditions};

use crate::kit::{Library, ids, question};

fn years() -> Library {
    Library::default().with(
        "laws",
        "",
        &[
            ("old", json!({"year": 1952, "author": ["Ada", "Grace"]}), &["The tiger act."]),
            ("new", json!({"year": 2020, "author": "Alan"}), &["The tiger act."]),
            ("none", json!({}), &["The tiger act."]),
        ],
    )
}

fn by_hand(conditions: &Json) -> FilterChoice {
    filter_choice(&json!({"method": "manual", "manual": conditions}), Json::clone).unwrap()
}

fn asked(filter: FilterChoice) -> Retrieval {
    Retrieval { filter, ..question("tiger", &["laws"]) }
}

/// Row 59 and part 14.11: conditions have one meaning, and no match gives no results.
#[tokio::test]
async fn manual_conditions_hold_even_without_matches() {
    let library = years();
    let check = async |conditions: Json, expected: &[&str]| {
        let mut found = library.ids(&asked(by_hand(&conditions))).await;
        found.sort();
        assert_eq!(found, expected, "{conditions}");
    };
    check(json!([{"key": "year", "op": "<", "value": 2000}]), &["old-0"]).await;
    check(json!([{"key": "author", "op": "≠", "value": "Ada"}]), &["new-0", "none-0"]).await;
    check(json!([{"key": "author", "op": "contains", "value": "ala"}]), &["new-0"]).await;
    check(json!([{"key": "author", "op": "empty"}]), &["none-0"]).await;
    check(json!([]), &["new-0", "none-0", "old-0"]).await;
    let found = library.ask(&asked(by_hand(&json!([{"key": "colour", "op": "=", "value": "red"}])))).await;
    assert!(found.passages.is_empty() && found.total == 0);
    assert!(matches!(found.filter, Filtered::Empty(_)));
    assert_eq!(found.filter.word(), Some("empty"));
}

/// Part 14.11: chosen documents and conditions must both hold.
#[tokio::test]
async fn chosen_documents_and_conditions_both_apply() {
    let library = years();
    let mut both = asked(by_hand(&json!([{"key": "year", "op": ">", "value": 1900}])));
    both.documents = Some(vec!["new".into(), "none".into()]);
    assert_eq!(library.ids(&both).await, ["new-0"]);
}

/// Row 59: a model sets the conditions; it sees the date, the keys and some values.
#[tokio::test]
async fn a_model_sets_the_conditions() {
    let library = years();
    let answer = json!({"conditions": [{"key": "year", "op": "≥", "value": 2000}]}).to_string();
    library.answers(Step::Filter, &format!("<think>hm</think>```json\n{answer}\n```"));
    let found = library.ask(&asked(FilterChoice::ByModel { keys: Vec::new() })).await;
    assert_eq!(ids(&found), ["new-0"]);
    assert_eq!(found.filter.word(), Some("applied"));
    let (_, text) = library.0.asked.lock().unwrap().remove(0);
    for part in ["2023-11-14", "- year: 1952 | 2020", "- author: Ada | Alan | Grace", "Question: tiger"] {
        assert!(text.contains(part), "{text}");
    }
}

/// Row 59: a model's condition that no document fits is dropped and reported.
#[tokio::test]
async fn model_conditions_without_matches_are_dropped_and_flagged() {
    let library = years();
    library.answers(Step::Filter, "{\"conditions\": [{\"key\": \"year\", \"op\": \"=\", \"value\": 3000}]}");
    let found = library.ask(&asked(FilterChoice::ByModel { keys: Vec::new() })).await;
    assert_eq!(found.passages.len(), 3);
    assert_eq!(found.filter.word(), Some("relaxed"));
    assert!(found.notes[0].starts_with("filter: relaxed"), "{:?}", found.notes);
    // An invalid answer sets no condition.
    library.answers(Step::Filter, "I would look for laws.");
    let found = library.ask(&asked(FilterChoice::ByModel { keys: Vec::new() })).await;
    assert_eq!((found.passages.len(), found.filter.word()), (3, None));
    assert!(found.notes[0].contains("without a filter"), "{:?}", found.notes);
}

/// Row 59: keys chosen by people, one of them with its operator.
#[tokio::test]
async fn a_model_uses_the_chosen_keys_with_their_operators() {
    let library = years();
    let keys = vec![("year".to_owned(), Some(FilterOperator::Less))];
    let answer =
        json!([{"key": "year", "op": ">", "value": 2000}, {"key": "author", "op": "=", "value": "Alan"}]);
    library.answers(Step::Filter, &answer.to_string());
    let found = library.ask(&asked(FilterChoice::ByModel { keys })).await;
    assert_eq!(ids(&found), ["old-0"]);
    assert!(found.notes[0].contains("ignored an invalid condition"), "{:?}", found.notes);
    let (_, text) = library.0.asked.lock().unwrap().remove(0);
    assert!(text.contains("- year (operator: <)") && !text.contains("author"), "{text}");
}

/// Part 14.11: however many values there are, a model sees only some of them.
#[tokio::test]
async fn a_model_sees_a_limited_number_of_values() {
    let documents: Vec<(String, Json)> = (0..300)
        .map(|n| (format!("d{n}"), json!({"serial": format!("serial-{n:03}"), "kind": "law"})))
        .collect();
    let text: &[&str] = &["tiger"];
    let documents: Vec<(&str, Json, &[&str])> =
        documents.iter().map(|(name, metadata)| (name.as_str(), metadata.clone(), text)).collect();
    let library = Library::default().with("laws", "", &documents);
    library.answers(Step::Filter, "{\"conditions\": []}");
    library.ask(&asked(FilterChoice::ByModel { keys: Vec::new() })).await;
    let (_, text) = library.0.asked.lock().unwrap().remove(0);
    assert_eq!(text.matches("serial-").count(), 20);
    assert!(text.contains("… and 280 more") && text.contains("- kind: law\n"), "{text}");
}

#[tokio::test]
async fn documents_without_metadata_are_searched_without_a_filter() {
    let library = Library::default().with("laws", "", &[("d", json!({}), &["tiger"])]);
    let found = library.ask(&asked(FilterChoice::ByModel { keys: Vec::new() })).await;
    assert_eq!(ids(&found), ["d-0"]);
    assert!(library.0.asked.lock().unwrap().is_empty());
}

/// The HTTP API has other names for the same conditions.
#[test]
fn conditions_of_the_http_api_are_accepted() {
    let body = json!({"logic": "or", "conditions": [
        {"name": "author", "comparison_operator": "not is", "value": "Ada"},
        {"name": "year", "comparison_operator": ">=", "value": 2000}]});
    let filter: Filter = filter_conditions(&body, "conditions", Json::clone).unwrap();
    let expected = json!({"logic": "or", "conditions": [
        {"key": "author", "operator": "≠", "value": "Ada"}, {"key": "year", "operator": "≥", "value": 2000}]});
    assert_eq!(json!(filter), expected);
    let wrong = json!({"conditions": [{"name": "a", "comparison_operator": "like", "value": 1}]});
    assert_eq!(filter_conditions(&wrong, "conditions", Json::clone).unwrap_err().0, "/conditions/0");
}

/// The index has the metadata: documents are not scanned before the search, and a manual filter costs one
/// search.
#[tokio::test]
async fn manual_conditions_are_evaluated_by_the_search_alone() {
    let library = years();
    for (value, word, count) in [(json!(1952), "applied", 1), (json!(3000), "empty", 0)] {
        let conditions = json!([{"key": "year", "op": "=", "value": value}]);
        let found = library.ask(&asked(by_hand(&conditions))).await;
        assert_eq!((found.filter.word(), found.passages.len()), (Some(word), count));
    }
    // Documents match, but none contains a word of the question.
    let conditions = json!([{"key": "year", "op": "=", "value": 1952}]);
    let found =
        library.ask(&Retrieval { question: "Nothing".to_owned(), ..asked(by_hand(&conditions)) }).await;
    assert_eq!((found.filter.word(), found.passages.len()), (Some("applied"), 0));
    assert_eq!(library.0.queries.lock().unwrap().len(), 3);
    assert_eq!(*library.0.paged.lock().unwrap(), 0);
    assert_eq!(*library.0.counted.lock().unwrap(), 0, "a search does not read the contents of datasets");
}
