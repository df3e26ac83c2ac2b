//! Words and vectors, weights, thresholds, pages, reranking.

use serde_json::{Value as Json, json};
use weft_core::ErrorKind;
use weft_core::seam::Knowledge as _;
use weft_core::seam::knowledge::SearchRequest;
use weft_knowledge::retrieve::{Chosen, Retrieval, weights::Interface};

use crate::kit::{Library, id, ids, question, vector};

fn animals() -> Library {
    Library::default().with(
        "animals",
        "m@test",
        &[
            ("words", json!({}), &["The word tiger is here.", "Nothing of interest."]),
            ("meaning", json!({}), &["A feline sleeps.", "An automobile."]),
            ("both", json!({}), &["The tiger is a cat."]),
        ],
    )
}

/// Row 62, and parts 14.1 and 14.2.
#[tokio::test]
async fn words_and_vectors_search_independently_and_the_weight_can_disable_either() {
    let library = animals();
    let found = async |vector_weight: f64| {
        let asked = Retrieval { vector_weight, similarity_min: 0.2, ..question("tiger kitty", &["animals"]) };
        library.ids(&asked).await
    };
    assert_eq!(found(0.5).await, ["both-0", "meaning-0", "words-0"]);
    assert_eq!(found(0.0).await, ["both-0", "words-0"], "words alone");
    assert_eq!(found(1.0).await, ["both-0", "meaning-0"], "vectors alone");
    let queries = library.0.queries.lock().unwrap();
    assert!(queries.iter().all(|query| query.text.is_some()));
    assert!(queries[0].vector.is_some() && queries[1].vector.is_none() && queries[2].vector.is_some());
}

/// Row 56: a higher threshold gives fewer results, and never more than requested are returned.
#[tokio::test]
async fn threshold_and_limit_are_applied() {
    let library = animals();
    let count = async |similarity_min: f64, limit: usize| {
        let asked = Retrieval { similarity_min, limit, ..question("tiger kitty", &["animals"]) };
        let found = library.ask(&asked).await;
        assert!(found.passages.iter().all(|p| p.chunk.similarity.unwrap() >= similarity_min));
        (found.passages.len(), found.total)
    };
    assert_eq!(count(0.1, 9).await, (3, 3));
    assert_eq!(count(0.1, 2).await, (2, 3));
    assert_eq!(count(0.6, 9).await, (1, 1));
    assert_eq!(count(1.0, 9).await, (0, 0));
}

/// Part 14.5: the component's settings reach the index, and the threshold applies to scores, not to cosines.
#[tokio::test]
async fn the_candidate_count_reaches_the_index_and_the_threshold_is_not_a_cosine() {
    let library = animals();
    let asked =
        Retrieval { candidates_max: 7, similarity_min: 0.35, ..question("tiger kitty", &["animals"]) };
    library.ask(&asked).await;
    let query = library.0.queries.lock().unwrap().remove(0);
    assert_eq!((query.count_max, query.vector.unwrap().cosine_min), (7, -1.0));
}

/// Row 56: a reranker reorders; its score replaces the vectors' share. Part 14.8: it reads the original text.
#[tokio::test]
async fn a_reranker_reorders_the_hits() {
    let library = animals();
    library.change("words-0", |chunk| {
        chunk.content = "The word tiger is here. LIKED (as the Searches' results were)".to_owned();
        chunk.headings = vec!["Part One".to_owned()];
    });
    let asked = Retrieval { reranker: "liking@test".to_owned(), ..question("tiger kitty", &["animals"]) };
    let found = library.ask(&asked).await;
    assert_eq!(ids(&found)[0], "words-0");
    let first = &found.passages[0].chunk;
    assert_eq!(first.vector_similarity, Some(0.9));
    let mix = 0.5 * 0.9 + 0.5 * first.term_similarity.unwrap();
    assert!((first.similarity.unwrap() - mix).abs() < 1e-5);
    let seen = library.0.reranked.lock().unwrap();
    let text = "Part One\nThe word tiger is here. LIKED (as the Searches' results were)";
    assert!(seen.iter().any(|passage| passage == text), "{seen:?}");
}

#[tokio::test]
async fn tokens_used_by_a_search_are_reported() {
    let library = animals();
    let request = SearchRequest {
        datasets: vec![id("animals")],
        questions: vec!["tiger".to_owned()],
        vector_weight: 0.5,
        candidates_max: 10,
        limit: 10,
        reranker: "liking@test".to_owned(),
        reranked_max: 10,
        ..SearchRequest::default()
    };
    let used = async |request: &SearchRequest| {
        let found = library.knowledge().search(&"t".into(), request).await.unwrap();
        found.used.into_iter().map(|read| (read.model, read.tokens)).collect::<Vec<_>>()
    };
    assert_eq!(used(&request).await, [("m@test".to_owned(), 1), ("liking@test".to_owned(), 10)]);
    let by_words = SearchRequest { vector_weight: 0.0, reranker: String::new(), ..request.clone() };
    assert_eq!(used(&by_words).await, []);
    // A failed one has reported nothing.
    let without = SearchRequest { reranker: "away@test".to_owned(), ..request };
    assert_eq!(used(&without).await, [("m@test".to_owned(), 1)]);
}

#[tokio::test]
async fn without_the_reranker_the_own_order_is_used_with_a_notice() {
    let library = animals();
    let usual = library.ids(&question("tiger kitty", &["animals"])).await;
    let asked = Retrieval { reranker: "away@test".to_owned(), ..question("tiger kitty", &["animals"]) };
    let found = library.ask(&asked).await;
    assert_eq!(ids(&found), usual);
    assert!(
        found.notes[0].contains("away@test") && found.notes[0].contains("nobody answers"),
        "{:?}",
        found.notes
    );
    // An unknown one is an error, and no reason to continue.
    let asked = Retrieval { reranker: "none@test".to_owned(), ..asked };
    let nothing = Retrieval { vector_weight: 0.0, question: "nowhere".to_owned(), ..asked.clone() };
    for asked in [asked, nothing] {
        let refused = library.try_ask(&asked).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NotFound);
    }
}

/// Row 57: by name, case-insensitively, or by id; unknown ones are named.
#[tokio::test]
async fn datasets_are_found_by_name_or_id_and_unknown_ones_named() {
    let one: (&str, Json, &[&str]) = ("d", json!({}), &["tiger"]);
    let library = animals().with("birds", "m@test", &[("sparrow", json!({}), &["A tiger is no bird."])]);
    let library = library.of("other", "secret", "m@test", &[one]);
    let count = async |datasets: &[&str]| {
        library
            .ask(&question("tiger", datasets))
            .await
            .datasets
            .iter()
            .map(|d| d.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(count(&["BIRDS", "animals-id", "birds-id"]).await, ["birds", "animals"]);
    assert_eq!(count(&[]).await, ["animals", "birds"], "all, and no other tenant's");
    for unknown in ["fish", "secret", "secret-id"] {
        let error = library.try_ask(&question("tiger", &["birds", unknown])).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        let text = error.full();
        assert!(text.contains(&format!("`{unknown}`")) && !text.contains("animals"), "{text}");
    }
}

/// Row 58.
#[tokio::test]
async fn datasets_with_vectors_of_different_models_are_refused() {
    let library = animals().with("birds", "n@test", &[("sparrow", json!({}), &["tiger"])]);
    let error = library.try_ask(&question("tiger", &["animals", "birds"])).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(["`animals`", "`birds`", "`m@test`", "`n@test`"].iter().all(|part| error.message.contains(part)));
    assert!(library.0.queries.lock().unwrap().is_empty());
    // Searching the datasets directly is refused as well.
    let request = SearchRequest {
        datasets: vec![id("animals"), id("birds")],
        questions: vec!["tiger".to_owned()],
        ..SearchRequest::default()
    };
    let refused = library.knowledge().search(&"t".into(), &request).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn a_dataset_without_an_embedder_is_searched_by_words_with_a_notice() {
    let library =
        Library::default().with("plain", "", &[("d", json!({}), &["The tiger sleeps.", "A feline."])]);
    library.change("d-0", |chunk| chunk.vector = None);
    library.change("d-1", |chunk| chunk.vector = None);
    let found = library.ask(&question("tiger kitty", &["plain"])).await;
    assert_eq!(ids(&found), ["d-0"]);
    assert_eq!(found.passages[0].chunk.similarity, found.passages[0].chunk.term_similarity);
    assert_eq!(found.notes, [""; 0], "nothing else could be searched");
    assert!(library.0.embedded.lock().unwrap().is_empty());
    // Beside one with vectors, its passages are not ranked lower.
    let alone = found.passages[0].chunk.similarity;
    let library = library.with("animals", "m@test", &[("e", json!({}), &["A feline."])]);
    let both = library.ask(&question("tiger kitty", &[])).await;
    let same = both.passages.iter().find(|passage| passage.chunk.id == "d-0").unwrap();
    assert_eq!(same.chunk.similarity, alone);
    assert_eq!(both.notes, ["the dataset `plain` has no embedder: it is searched by words alone"]);
}

#[tokio::test]
async fn an_unavailable_embedder_leaves_the_word_search() {
    let library = Library::default().with("d", "down@test", &[("d", json!({}), &["The tiger sleeps."])]);
    let found = library.ask(&question("tiger", &["d"])).await;
    assert_eq!(ids(&found), ["d-0"]);
    assert!(found.notes[0].contains("by words alone") && found.notes[0].contains("down@test"));
    let asked = Retrieval { vector_weight: 1.0, ..question("tiger", &["d"]) };
    assert_eq!(library.try_ask(&asked).await.unwrap_err().kind, ErrorKind::Unavailable);
}

/// Part 14.6, through the search itself: the same weight under each name gives the same scores.
#[tokio::test]
async fn the_same_weight_under_each_name_gives_the_same_scores() {
    let library = animals();
    let scores = async |interface: Interface, given: Option<f64>| {
        let vector_weight = interface.vector_weight(given);
        let asked = Retrieval { vector_weight, ..question("tiger kitty", &["animals"]) };
        let found = library.ask(&asked).await;
        found.passages.iter().map(|p| p.chunk.similarity.unwrap()).collect::<Vec<_>>()
    };
    let same = async |expected: (Interface, Option<f64>), others: &[(Interface, Option<f64>)]| {
        let expected = scores(expected.0, expected.1).await;
        for (interface, given) in others {
            let found = scores(*interface, *given).await;
            let near = found.iter().zip(&expected).all(|(one, other)| (one - other).abs() < 1e-5);
            assert!(near && found.len() == expected.len(), "{interface:?}");
        }
    };
    let one = [
        (Interface::Component, Some(0.7)),
        (Interface::Chat, Some(0.7)),
        (Interface::Dataset, Some(0.3)),
        (Interface::Chat, None),
        (Interface::Dataset, None),
    ];
    same((Interface::Http, Some(0.3)), &one).await;
    let other = [(Interface::Component, None), (Interface::Dify, None), (Interface::Http, None)];
    same((Interface::Http, Some(0.5)), &other).await;
}

/// Part 14.7: a preferred dataset goes first among equals, and lifts nothing over the threshold.
#[tokio::test]
async fn a_preferred_dataset_ranks_first_but_does_not_bypass_the_threshold() {
    let text: &[&str] = &["one tiger"];
    let library = Library::default().with("a", "", &[("a", json!({}), text)]).with(
        "b",
        "",
        &[("b", json!({}), &["one tiger", "nothing but one"])],
    );
    let asked = Retrieval { similarity_min: 0.4, ..question("one tiger", &[]) };
    assert_eq!(library.ids(&asked).await, ["a-0", "b-0"]);
    library.dataset("b", |dataset| dataset.pagerank = 100);
    let found = library.ask(&asked).await;
    assert_eq!(ids(&found), ["b-0", "a-0"], "and not b-1, which scores 0.39");
    assert!(found.passages.iter().all(|passage| passage.chunk.similarity.unwrap() <= 1.0));
}

/// Part 14.17: the total is what pages reach, and each passage is on one of them.
#[tokio::test]
async fn pages_have_each_passage_once_and_the_total_is_exact() {
    let texts: Vec<String> = (0..157).map(|n| format!("tiger {}", "x ".repeat(n % 9))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let library = Library::default().with("d", "", &[("d", json!({}), &texts)]);
    for reranker in ["", "liking@test"] {
        let mut seen = Vec::new();
        let size = 50;
        let mut total = 0;
        for page in 0..5 {
            let asked = Retrieval {
                offset: page * size,
                limit: size,
                reranker: reranker.to_owned(),
                ..question("tiger", &["d"])
            };
            let found = library.ask(&asked).await;
            total = found.total;
            seen.extend(ids(&found));
        }
        assert_eq!(seen.len(), total, "{reranker}");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), total, "{reranker}");
        assert!(reranker.is_empty() == (total == 157), "{total}");
    }
}

/// Part 14.21: no vector leaves the datasets.
#[tokio::test]
async fn no_vector_is_returned() {
    let library = animals();
    let request = SearchRequest {
        datasets: vec![id("animals")],
        questions: vec!["tiger".to_owned()],
        vector_weight: 0.5,
        candidates_max: 10,
        limit: 10,
        ..SearchRequest::default()
    };
    let knowledge = library.knowledge();
    let found = knowledge.search(&"t".into(), &request).await.unwrap();
    let ids: Vec<_> = found.passages.iter().map(|scored| scored.chunk.clone()).collect();
    let passages = knowledge.passages(&"t".into(), &request.datasets, &ids).await.unwrap();
    let handed_out = json!([found, passages]).to_string();
    let is_vector = |text: &str| text.split(',').filter(|part| part.parse::<f64>().is_ok()).count() > 5;
    assert!(!passages.is_empty() && !handed_out.split(['[', ']']).any(is_vector), "{handed_out}");
    let own = json!(vector("The tiger is a cat.")).to_string();
    assert!(is_vector(&format!("{},0.5", own.trim_matches(['[', ']']))));
}

/// The data of answers: positions in the document, its name, metadata and URL.
#[tokio::test]
async fn a_passage_has_its_position() {
    let metadata = json!({"author": "Ada", "url": "https://a.example/x"});
    let library = Library::default().with("d", "", &[("notes", metadata, &["The tiger."])]);
    let found = library.ask(&question("tiger", &["d"])).await;
    let passage = &found.passages[0];
    assert_eq!(passage.chunk.document_name, "notes.pdf");
    assert_eq!(passage.chunk.positions, [json!([3, 1.0, 2.0, 3.0, 4.0])]);
    assert_eq!(passage.chunk.url.as_deref(), Some("https://a.example/x"));
    assert_eq!((passage.metadata["author"].as_str(), passage.tokens), (Some("Ada"), 2));
    assert_eq!(found.documents[0].name, "notes.pdf");
}

#[tokio::test]
async fn nothing_of_other_datasets_is_read_by_id() {
    let library = animals().of("other", "secret", "m@test", &[("s", json!({}), &["tiger"])]);
    let knowledge = library.knowledge();
    let read = async |dataset: &str, chunk: &str| {
        knowledge.passages(&"t".into(), &[id(dataset)], &[chunk.into()]).await.unwrap().len()
    };
    assert_eq!(read("animals", "words-0").await, 1);
    assert_eq!(read("birds", "words-0").await, 0);
    assert_eq!(read("secret", "s-0").await, 0);
}

/// Nothing selected, nothing asked: nothing found, and no request sent.
#[tokio::test]
async fn an_empty_question_sends_no_request() {
    let library = animals();
    assert!(library.ask(&question(" user: ", &["animals"])).await.passages.is_empty());
    assert!(library.0.queries.lock().unwrap().is_empty());
    let nothing = Library::default();
    assert!(nothing.ask(&question("tiger", &[])).await.passages.is_empty());
}

/// An index is written after the store: entries that are not, or no longer, in the store take no place on a
/// page, are not counted, and cost the reranker nothing.
#[tokio::test]
async fn index_entries_missing_in_the_store_take_no_place() {
    let texts: Vec<String> = (0..100).map(|n| format!("tiger {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let library = Library::default().with("d", "", &[("d", json!({}), &texts), ("e", json!({}), &["tiger"])]);
    let all = library.ids(&Retrieval { limit: 200, ..question("tiger", &["d"]) }).await;
    assert_eq!(all.len(), 101);
    for id in all.iter().take(70) {
        library.forget(id);
    }
    let found = library.ask(&Retrieval { limit: 20, ..question("tiger", &["d"]) }).await;
    assert_eq!(ids(&found), all[70..90]);
    assert_eq!(found.total, 31);
    assert_eq!(found.documents.iter().map(|document| document.count).sum::<usize>(), 31);
    let reranker = "liking@test".to_owned();
    let found = library.ask(&Retrieval { reranker, limit: 20, ..question("tiger", &["d"]) }).await;
    assert_eq!((found.passages.len(), found.total), (20, 31));
    assert_eq!(library.0.reranked.lock().unwrap().len(), 31);
}

/// Whether the store loads the passages of a page or all of them, the pages are the same.
#[tokio::test]
async fn pages_are_slices_of_one_list() {
    let texts: Vec<String> = (0..120)
        .map(|n| format!("{} {}", ["tiger", "feline", "tiger cat"][n % 3], "x ".repeat(n % 7)))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let library =
        Library::default().with("d", "m@test", &[("d", json!({}), &texts), ("e", json!({}), &["tiger"])]);
    // Some are parts of parents, a few of which are gone.
    for n in 0..120 {
        let parent = (n % 2 == 0).then(|| format!("d-{}", 1 + n / 10 * 2).as_str().into());
        library.change(&format!("d-{n}"), |chunk| chunk.parent = parent);
    }
    for gone in [None, Some("d-3"), Some("d-41"), Some("d-7")] {
        if let Some(gone) = gone {
            library.forget(gone);
        }
        let asked = |offset: usize, limit: usize| Retrieval {
            similarity_min: 0.1,
            offset,
            limit,
            ..question("tiger kitty", &["d"])
        };
        let whole = library.ask(&asked(0, 5_000)).await;
        assert!(whole.passages.len() > 40, "{}", whole.passages.len());
        let shown = |found: &[weft_core::seam::knowledge::Passage]| -> Vec<(String, Option<f64>)> {
            found.iter().map(|one| (one.chunk.id.clone(), one.chunk.similarity)).collect()
        };
        for size in [1, 7, 30] {
            let mut paged = Vec::new();
            for offset in (0..whole.passages.len()).step_by(size) {
                paged.extend(shown(&library.ask(&asked(offset, size)).await.passages));
            }
            assert_eq!(paged, shown(&whole.passages), "{gone:?} {size}");
        }
    }
}

/// As many as pages reach, however many words and vectors find together.
#[tokio::test]
async fn the_total_counts_only_reachable_passages() {
    let texts: Vec<&str> = (0..1_400).map(|n| if n % 2 == 0 { "A tiger." } else { "A feline." }).collect();
    let library = Library::default().with("d", "m@test", &[("d", json!({}), &texts)]);
    let page = async |offset: usize| {
        let asked = Retrieval { offset, limit: 30, ..question("tiger kitty", &["d"]) };
        let found = library.ask(&asked).await;
        let counted: usize = found.documents.iter().map(|document| document.count).sum();
        (found.passages.len(), found.total, counted)
    };
    assert_eq!(page(0).await, (30, 1_024, 1_024));
    assert_eq!(page(1_020).await, (4, 1_024, 1_024));
    assert_eq!(page(1_030).await, (0, 1_024, 1_024));
}

/// However many datasets a tenant has, each can be searched by its name and by its id.
#[tokio::test]
async fn the_last_of_many_datasets_is_searched() {
    let mut library = Library::default();
    for n in 0..1_003 {
        library = library.with(&format!("set {n}"), "", &[]);
    }
    let library = library.with("last", "", &[("d", json!({}), &["tiger"])]);
    for name in ["last", " LAST ", "last-id"] {
        assert_eq!(library.ids(&question("tiger", &[name])).await, ["d-0"], "{name}");
    }
    let all = library.ask(&question("tiger", &[])).await;
    assert_eq!((ids(&all), all.datasets.len()), (vec!["d-0".to_owned()], 1_004));
    let error = library.try_ask(&question("tiger", &["lost"])).await.unwrap_err();
    assert!(error.full().contains("`lost`") && !error.full().contains("set 0"), "{}", error.full());
}

/// An id given as an id is no name: no other dataset can take its place.
#[tokio::test]
async fn a_dataset_named_like_an_id_does_not_replace_the_dataset_with_that_id() {
    let library = Library::default().with("true", "", &[("t", json!({}), &["tiger"])]).with(
        "true-id",
        "",
        &[("f", json!({}), &["tiger"])],
    );
    let asked = Retrieval { datasets: Chosen::ById(vec![id("true")]), ..question("tiger", &[]) };
    assert_eq!(library.ids(&asked).await, ["t-0"]);
    assert_eq!(
        library.ids(&question("tiger", &["true-id"])).await,
        ["f-0"],
        "a name takes precedence over an id"
    );
    let nobody = Retrieval { datasets: Chosen::ById(vec!["true".into()]), ..asked };
    assert_eq!(library.try_ask(&nobody).await.unwrap_err().kind, ErrorKind::NotFound);
}
