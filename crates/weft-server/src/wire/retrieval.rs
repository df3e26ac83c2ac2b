//! Searches: reading requests and building answers.

use serde_json::{Value as Json, json};
use weft_core::ChunkId;
use weft_core::filter::Metadata;
use weft_core::seam::knowledge::{CANDIDATES_MAX, Passage};
use weft_knowledge::retrieve::weights::Interface;
use weft_knowledge::retrieve::{FilterChoice, LANGUAGES_MAX, Retrieved, filter_choice};

use super::rules::line;
use super::{metadata, python};
use crate::body::{Body, Params, excerpt};
use crate::error::{ApiError, code};

/// Default number of hits on a page.
// The default of the compatible API.
const PAGE_SIZE: usize = 30;

/// A search in datasets. The API's names for weights and thresholds are not used beyond this type.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrievalRequest {
    /// Ids of the datasets to search.
    pub datasets: Vec<String>,
    /// Only these documents; empty: all.
    pub documents: Vec<String>,
    /// The question.
    pub question: String,
    /// Number of hits to skip.
    pub offset: usize,
    /// Maximum number of hits.
    pub limit: usize,
    /// Minimum score of a hit.
    pub similarity_min: f64,
    /// Weight of the vector similarity in a score.
    pub vector_weight: f64,
    /// Number of candidates from each kind of search.
    pub candidates_max: usize,
    /// The model that reranks the hits; empty for none.
    pub reranker: String,
    /// Whether a model adds keywords to the question.
    pub keyword: bool,
    /// Whether hits mark the question's words in their text.
    pub highlight: bool,
    /// Additional languages to search in.
    pub languages: Vec<String>,
    /// Only documents that match.
    pub filter: FilterChoice,
    /// Whether to search the knowledge graph as well.
    pub graph: bool,
    /// Whether to follow tables of contents to more chunks.
    pub contents: bool,
    /// Whether hits contain the metadata of their documents, and which keys; an empty list means all.
    pub metadata: Option<Vec<String>>,
}

impl RetrievalRequest {
    /// Reads `POST /retrieval`. No page is larger than `size_max`.
    ///
    /// # Errors
    /// 102 with the API's message; 100 for numbers that are not valid.
    pub fn read(body: &Body, size_max: usize) -> Result<Self, ApiError> {
        let datasets = match body.get("dataset_ids") {
            None => return Err(ApiError::data("`dataset_ids` is required.")),
            Some(list) => texts(list).ok_or_else(|| ApiError::data("`dataset_ids` should be a list"))?,
        };
        if datasets.is_empty() {
            return Err(ApiError::data("`dataset_ids` is required."));
        }
        let question = match body.get("question") {
            None => return Err(ApiError::data("`question` is required.")),
            Some(Json::String(question)) => question.trim().to_owned(),
            Some(_) => return Err(ApiError::data("`question` should be a string")),
        };
        let documents = match body.get("document_ids") {
            None => Vec::new(),
            Some(list) => texts(list).ok_or_else(|| ApiError::data("`documents` should be a list"))?,
        };
        let top_k = whole(body, "top_k")?.unwrap_or(CANDIDATES_MAX as i64);
        if top_k < 1 {
            return Err(ApiError::data("`top_k` must be greater than 0"));
        }
        let limit = place(body, "page_size")?.unwrap_or(PAGE_SIZE).min(size_max.max(1));
        let page = place(body, "page")?.unwrap_or(1);
        let languages = match body.get("cross_languages").filter(|given| **given != "") {
            None => Vec::new(),
            Some(list) => texts(list).ok_or_else(|| ApiError::data("`cross_languages` should be a list"))?,
        };
        if languages.len() > LANGUAGES_MAX {
            let count = languages.len();
            let message =
                format!("`cross_languages` can name at most {LANGUAGES_MAX} languages, and names {count}");
            return Err(ApiError::data(message));
        }
        Ok(Self {
            datasets,
            documents,
            question,
            offset: (page - 1).saturating_mul(limit),
            limit,
            similarity_min: share(body, "similarity_threshold", 0.2)?,
            vector_weight: share(body, "vector_similarity_weight", Interface::Http.default_vector_weight())?,
            candidates_max: candidates(top_k as f64),
            reranker: body.text("rerank_id")?.unwrap_or_default().trim().to_owned(),
            keyword: switch(body, "keyword")?.unwrap_or(false),
            highlight: highlight(body)?,
            languages,
            filter: fitting(body)?,
            graph: switch(body, "use_kg")?.unwrap_or(false),
            contents: switch(body, "toc_enhance")?.unwrap_or(false),
            metadata: shown_metadata(body)?,
        })
    }

    /// Reads `POST /datasets/search`, or `POST /datasets/{id}/search` with that dataset: the same with different
    /// field names and defaults.
    ///
    /// # Errors
    /// 101 without a question, and for a filter that is not valid; otherwise as [`RetrievalRequest::read`].
    pub fn of_datasets(mut body: Body, dataset: Option<&str>, size_max: usize) -> Result<Self, ApiError> {
        if body.text("question")?.is_none() {
            return Err(ApiError::argument(line("question", "Field required", &Json::Object(body.0))));
        }
        if let Some(id) = dataset {
            body.0.insert("dataset_ids".to_owned(), json!([id]));
        }
        for (name, usual) in [("doc_ids", "document_ids"), ("size", "page_size"), ("page", "page")] {
            // Null means the default here, but is rejected under the usual name.
            if let Some(value) = body.0.remove(name).filter(|value| !value.is_null()) {
                body.0.insert(usual.to_owned(), value);
            }
        }
        for (key, absent) in [("similarity_threshold", 0.0), ("vector_similarity_weight", 0.3)] {
            // Null, too, means the default of this route, and not that of the other one.
            if body.get(key).is_none() {
                body.0.insert(key.to_owned(), json!(absent));
            }
        }
        let request = Self::read(&body, size_max)?;
        let wanted = body.get("meta_data_filter").unwrap_or(&Json::Null);
        let wrong = |(place, what)| ApiError::argument(format!("`meta_data_filter{place}` {what}"));
        match filter_choice(wanted, Json::clone).map_err(wrong)? {
            FilterChoice::All => Ok(request),
            filter => Ok(Self { filter, ..request }),
        }
    }

    /// Reads `POST /dify/retrieval`.
    ///
    /// # Errors
    /// 101 without a dataset or a question; otherwise as [`RetrievalRequest::read`].
    pub fn of_dify(body: &Body) -> Result<Self, ApiError> {
        body.require(&["knowledge_id", "query"])?;
        let setting = Body(body.object("retrieval_setting")?.unwrap_or_default());
        let top_k = number(&setting, "top_k")?.unwrap_or(1_024.0);
        if top_k < 1.0 {
            return Err(ApiError::data("`top_k` must be greater than 0"));
        }
        Ok(Self {
            datasets: vec![body.text("knowledge_id")?.unwrap_or_default()],
            documents: Vec::new(),
            question: body.text("query")?.unwrap_or_default().trim().to_owned(),
            offset: 0,
            limit: candidates(top_k),
            similarity_min: share(&setting, "score_threshold", 0.0)?,
            vector_weight: Interface::Dify.default_vector_weight(),
            candidates_max: CANDIDATES_MAX,
            reranker: String::new(),
            keyword: false,
            highlight: false,
            languages: Vec::new(),
            filter: fitting(body)?,
            graph: body.flag("use_kg")?.unwrap_or(false),
            contents: false,
            metadata: Some(Vec::new()),
        })
    }
}

fn fitting(body: &Body) -> Result<FilterChoice, ApiError> {
    let filter = metadata::condition(body.get("metadata_condition"))?;
    Ok(filter.map_or(FilterChoice::All, FilterChoice::Given))
}

/// Converts the query parameters of `/dify/retrieval` into the equivalent body.
pub fn dify_body(params: &Params) -> Body {
    let texts = |keys: &[&str]| {
        let given = keys.iter().filter_map(|key| Some(((*key).to_owned(), Json::from(params.get(key)?))));
        given.collect::<serde_json::Map<_, _>>()
    };
    let mut body = texts(&["knowledge_id", "query"]);
    body.insert("retrieval_setting".to_owned(), texts(&["top_k", "score_threshold"]).into());
    let graph = params.get("use_kg").is_some_and(|flag| matches!(flag, "true" | "True" | "1"));
    body.insert("use_kg".to_owned(), graph.into());
    Body(body)
}

/// The result in the form of `POST /datasets/search`: the same with the field names of the index.
pub fn answer_of_datasets(found: &Retrieved) -> Json {
    let mut answer = answer(found, &vec![None; found.passages.len()], None);
    let hits = answer["chunks"].as_array_mut().into_iter().flatten();
    for hit in hits.filter_map(Json::as_object_mut) {
        for (usual, name) in [
            ("id", "chunk_id"),
            ("content", "content_with_weight"),
            ("document_id", "doc_id"),
            ("document_name", "docnm_kwd"),
            ("dataset_id", "kb_id"),
            ("important_keywords", "important_kwd"),
        ] {
            let value = hit.get(usual).cloned().unwrap_or_default();
            hit.insert(name.to_owned(), value);
        }
    }
    answer
}

/// The result in the form of `POST /retrieval`; `highlights` correspond to the passages.
pub fn answer(found: &Retrieved, highlights: &[Option<String>], metadata: Option<&[String]>) -> Json {
    let chunks: Vec<Json> = found
        .passages
        .iter()
        .zip(highlights)
        .map(|(passage, highlight)| {
            let mut hit = hit(passage);
            if let Some(highlight) = highlight {
                hit["highlight"] = json!(highlight);
            }
            if let Some(keys) = metadata {
                hit["document_metadata"] = Json::Object(chosen(&passage.metadata, keys));
            }
            hit
        })
        .collect();
    let documents: Vec<_> = found
        .documents
        .iter()
        .map(|document| json!({"doc_name": document.name, "doc_id": document.id, "count": document.count}))
        .collect();
    // Lists are present even when empty: clients iterate over them without checking.
    let mut answer = json!({"total": found.total, "chunks": chunks, "doc_aggs": documents});
    if !found.notes.is_empty() {
        // Not part of the compatible API, so the field is present only when it has content.
        answer["notes"] = json!(found.notes);
    }
    answer
}

fn hit(passage: &Passage) -> Json {
    let chunk = &passage.chunk;
    json!({
        "id": chunk.id,
        "content": chunk.content,
        "content_ltks": "",
        "document_id": chunk.document_id,
        "document_keyword": chunk.document_name,
        "document_name": chunk.document_name,
        "dataset_id": chunk.dataset_id,
        "important_keywords": passage.keywords,
        "questions": passage.questions,
        "image_id": chunk.image_id.as_deref().unwrap_or_default(),
        "similarity": score(chunk.similarity),
        "vector_similarity": score(chunk.vector_similarity),
        "term_similarity": score(chunk.term_similarity),
        "positions": chunk.positions,
        "doc_type_kwd": chunk.doc_type.as_deref().unwrap_or_default(),
        "doc_type": chunk.doc_type.as_deref().unwrap_or_default(),
        "url": chunk.url,
        "mom_id": passage.parent.as_ref().map(ChunkId::as_str).unwrap_or_default(),
    })
}

/// Returns 0 for a missing score, so that clients can calculate with it.
fn score(score: Option<f64>) -> f64 {
    score.filter(|score| score.is_finite()).unwrap_or(0.0)
}

/// Selects metadata of a document by its keys; no keys select all.
pub(crate) fn chosen(all: &Metadata, keys: &[String]) -> Metadata {
    let wanted = |key: &String| keys.is_empty() || keys.contains(key);
    all.iter().filter(|(key, _)| wanted(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The result in the form of `POST /dify/retrieval`.
pub fn records(found: &Retrieved) -> Json {
    let records: Vec<_> = found
        .passages
        .iter()
        .map(|passage| {
            let chunk = &passage.chunk;
            let mut metadata = passage.metadata.clone();
            metadata.insert("doc_id".to_owned(), json!(chunk.document_id));
            json!({
                "content": chunk.content,
                "score": score(chunk.similarity),
                "title": chunk.document_name,
                "metadata": metadata,
            })
        })
        .collect();
    json!({"records": records})
}

fn texts(json: &Json) -> Option<Vec<String>> {
    json.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Reads a number, which may also be written as a string.
fn number(body: &Body, key: &str) -> Result<Option<f64>, ApiError> {
    let Some(value) = body.get(key) else { return Ok(None) };
    let number = match value {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number.filter(|number: &f64| number.is_finite()) {
        Some(number) => Ok(Some(number)),
        None => {
            // The first words are those of the compatible API, which do not name the field.
            let message = format!(
                "could not convert string to float: {} (`{key}` must be a number)",
                excerpt(&python::quoted(value))
            );
            Err(ApiError::new(code::EXCEPTION, message))
        }
    }
}

fn share(body: &Body, key: &str, absent: f64) -> Result<f64, ApiError> {
    Ok(number(body, key)?.unwrap_or(absent).clamp(0.0, 1.0))
}

/// Reads an integer, which may also be written as a string. A fraction is truncated.
fn whole(body: &Body, key: &str) -> Result<Option<i64>, ApiError> {
    let Some(value) = body.get(key) else { return Ok(None) };
    let number = match value {
        Json::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.map(Some).ok_or_else(|| {
        let message = format!(
            "ValueError(\"invalid literal for int() with base 10: {}\") (`{key}` must be a whole number)",
            excerpt(&python::quoted(value))
        );
        ApiError::new(code::EXCEPTION, message)
    })
}

/// Reads the number or the size of a page. Below 1 it is the default; null is rejected.
fn place(body: &Body, key: &str) -> Result<Option<usize>, ApiError> {
    if body.0.get(key).is_some_and(Json::is_null) {
        let message = format!("TypeError(\"`{key}` must be a number, not 'NoneType'\")");
        return Err(ApiError::new(code::EXCEPTION, message));
    }
    Ok(whole(body, key)?.and_then(|number| usize::try_from(number).ok()).filter(|number| *number > 0))
}

fn candidates(top_k: f64) -> usize {
    (top_k as usize).clamp(1, CANDIDATES_MAX)
}

fn highlight(body: &Body) -> Result<bool, ApiError> {
    body.flag("highlight").map(|flag| flag.unwrap_or(false)).map_err(|_| no_switch("highlight"))
}

fn no_switch(key: &str) -> ApiError {
    ApiError::data(format!("`{key}` should be a boolean"))
}

/// Reads a switch; an empty string counts as absent.
fn switch(body: &Body, key: &str) -> Result<Option<bool>, ApiError> {
    match body.get(key) {
        Some(Json::String(text)) if text.is_empty() => Ok(None),
        _ => body.flag(key).map_err(|_| no_switch(key)),
    }
}

/// Reads whether hits contain metadata, and which: from fields of their own or from `reference_metadata`.
fn shown_metadata(body: &Body) -> Result<Option<Vec<String>>, ApiError> {
    let wrong = |_| ApiError::data("reference_metadata must be an object.");
    let reference = Body(body.object("reference_metadata").map_err(wrong)?.unwrap_or_default());
    let fields = |body: &Body, key: &str, message: &str| match body.get(key) {
        None => Ok(None),
        Some(list) => texts(list).map(Some).ok_or_else(|| ApiError::data(message)),
    };
    let own = fields(body, "metadata_fields", "`metadata_fields` should be a list")?;
    let theirs = fields(&reference, "fields", "reference_metadata.fields must be an array.")?;
    let included = switch(&reference, "include")
        .map_err(|_| ApiError::data("reference_metadata.include must be a boolean."))?;
    let asked = switch(body, "include_metadata")?.or(included).unwrap_or(false);
    Ok(asked.then(|| own.or(theirs).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(json: Json) -> Body {
        let Json::Object(map) = json else { panic!("{json}") };
        Body(map)
    }

    #[test]
    fn a_search_request_gets_its_defaults() {
        let read = |json: Json| RetrievalRequest::read(&body(json), 1_000).unwrap();
        let request = read(json!({
            "dataset_ids": ["d"], "question": " q ", "document_ids": [], "rerank_id": null, "cross_languages": null,
            "metadata_condition": null, "keyword": false, "use_kg": false, "toc_enhance": false,
        }));
        let expected = RetrievalRequest {
            datasets: vec!["d".to_owned()],
            documents: Vec::new(),
            question: "q".to_owned(),
            offset: 0,
            limit: 30,
            similarity_min: 0.2,
            vector_weight: 0.5,
            candidates_max: 1_024,
            reranker: String::new(),
            keyword: false,
            highlight: false,
            languages: Vec::new(),
            filter: FilterChoice::All,
            graph: false,
            contents: false,
            metadata: None,
        };
        assert_eq!(request, expected);
        let request = read(json!({
            "dataset_ids": ["d", "e"], "question": "q", "document_ids": ["x"], "page": 3, "page_size": "10", "top_k": 8,
            "similarity_threshold": "0.5", "vector_similarity_weight": 2, "rerank_id": "r@p", "keyword": true,
            "highlight": "True", "cross_languages": ["English"], "use_kg": true, "toc_enhance": true,
            "metadata_condition": {"conditions": [{"name": "a", "value": 1}]},
            "reference_metadata": {"include": true, "fields": ["a"]},
        }));
        assert_eq!((request.offset, request.limit, request.candidates_max), (20, 10, 8));
        assert_eq!((request.similarity_min, request.vector_weight), (0.5, 1.0));
        assert!(request.keyword && request.highlight && request.graph && request.contents);
        assert_eq!((request.reranker.as_str(), request.languages.len()), ("r@p", 1));
        assert!(matches!(request.filter, FilterChoice::Given(_)));
        assert_eq!(request.metadata, Some(vec!["a".to_owned()]));
        let request = read(
            json!({"dataset_ids": ["d"], "question": "q", "keyword": "1", "use_kg": 0, "toc_enhance": "",
            "cross_languages": "", "include_metadata": "True", "metadata_fields": ["b"]}),
        );
        assert_eq!((request.keyword, request.graph, request.contents), (true, false, false));
        assert_eq!((request.languages.len(), request.metadata), (0, Some(vec!["b".to_owned()])));
        let request = read(json!({"dataset_ids": ["d"], "question": "", "page": -1, "page_size": 5000}));
        assert_eq!((request.question.as_str(), request.offset, request.limit), ("", 0, 1_000));
        assert_eq!(
            read(json!({"dataset_ids": ["d"], "question": "q", "top_k": 1e300})).candidates_max,
            1_024
        );
    }

    #[test]
    fn invalid_search_requests_give_the_error_messages_of_the_api() {
        let check = |json: Json, code: u16, words: &str| {
            let error = format!("{:?}", RetrievalRequest::read(&body(json.clone()), 100).unwrap_err());
            assert!(error.contains(&format!("code: {code}")) && error.contains(words), "{json}: {error}");
        };
        let with = |key: &str, value: Json| {
            let mut json = json!({"dataset_ids": ["d"], "question": "q"});
            json[key] = value;
            json
        };
        check(json!({"question": "q"}), 102, "\"`dataset_ids` is required.\"");
        check(with("dataset_ids", json!([])), 102, "\"`dataset_ids` is required.\"");
        check(with("dataset_ids", json!("d")), 102, "\"`dataset_ids` should be a list\"");
        check(json!({"dataset_ids": ["d"]}), 102, "\"`question` is required.\"");
        for value in [json!(["q"]), json!({"q": 1}), json!(7), json!(true)] {
            check(with("question", value), 102, "\"`question` should be a string\"");
        }
        check(with("document_ids", json!("x")), 102, "\"`documents` should be a list\"");
        check(with("top_k", json!(0)), 102, "\"`top_k` must be greater than 0\"");
        check(with("top_k", json!(-5)), 102, "must be greater than 0");
        check(with("highlight", json!("maybe")), 102, "\"`highlight` should be a boolean\"");
        check(with("highlight", json!([])), 102, "\"`highlight` should be a boolean\"");
        check(with("metadata_condition", json!([])), 102, "metadata_condition must be an object.");
        for key in ["keyword", "use_kg", "toc_enhance", "include_metadata"] {
            for value in [json!("maybe"), json!([]), json!(7)] {
                check(with(key, value), 102, &format!("\"`{key}` should be a boolean\""));
            }
        }
        for value in [json!("English"), json!([1]), json!(5)] {
            check(with("cross_languages", value), 102, "\"`cross_languages` should be a list\"");
        }
        let many = json!(["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
        check(with("cross_languages", many), 102, "can name at most 8 languages, and names 9");
        check(with("metadata_fields", json!("a")), 102, "\"`metadata_fields` should be a list\"");
        let metadata = |json: Json| with("reference_metadata", json);
        check(metadata(json!([])), 102, "reference_metadata must be an object.");
        check(metadata(json!({"fields": "a"})), 102, "reference_metadata.fields must be an array.");
        check(metadata(json!({"include": "maybe"})), 102, "reference_metadata.include must be a boolean.");
        for key in ["page", "page_size", "top_k"] {
            check(with(key, json!("a")), 100, "invalid literal for int() with base 10: 'a'");
            check(with(key, json!("a")), 100, &format!("(`{key}` must be a whole number)"));
            check(with(key, json!([1])), 100, "invalid literal for int() with base 10: [1]");
            // An error shows only the start of a long value.
            let long = RetrievalRequest::read(&body(with(key, json!("A".repeat(9_999)))), 100);
            assert!(long.unwrap_err().message().len() < 300);
        }
        for key in ["page", "page_size"] {
            check(with(key, json!(null)), 100, "TypeError");
        }
        for key in ["similarity_threshold", "vector_similarity_weight"] {
            check(with(key, json!("abc")), 100, "could not convert string to float: 'abc'");
            check(with(key, json!("abc")), 100, &format!("(`{key}` must be a number)"));
            check(with(key, json!("nan")), 100, "could not convert string to float: 'nan'");
        }
    }

    #[test]
    fn dataset_searches_have_their_own_names_and_defaults() {
        let read = |json: Json, dataset| RetrievalRequest::of_datasets(body(json), dataset, 100);
        let request = read(json!({"question": "q", "page": null}), Some("d")).unwrap();
        assert_eq!((request.datasets.as_slice(), request.limit), (&["d".to_owned()][..], 30));
        assert_eq!((request.similarity_min, request.vector_weight), (0.0, 0.3));
        let nothing =
            json!({"question": "q", "similarity_threshold": null, "vector_similarity_weight": null});
        let request = read(nothing, Some("d")).unwrap();
        assert_eq!((request.similarity_min, request.vector_weight), (0.0, 0.3));
        let asked = json!({"question": "q", "dataset_ids": ["a", "b"], "doc_ids": ["x"], "page": 2, "size": 5,
            "similarity_threshold": 0.5, "meta_data_filter": {"method": "manual", "logic": "or", "manual": [
                {"key": "a", "op": "=", "value": "x"}]}});
        let request = read(asked, None).unwrap();
        assert_eq!((request.datasets.len(), request.documents.len()), (2, 1));
        assert_eq!((request.offset, request.limit, request.similarity_min), (5, 5, 0.5));
        let FilterChoice::Given(filter) = request.filter else { panic!("no filter") };
        assert_eq!((filter.logic, filter.conditions.len()), (weft_core::filter::Logic::Or, 1));
        let check = |json: Json, words: &str| {
            let error = format!("{:?}", read(json, None).unwrap_err());
            assert!(error.contains(words), "{error}");
        };
        check(json!({"dataset_ids": ["d"]}), "Field: <question> - Message: <Field required>");
        let wrong = "Field: <question> - Message: <Input should be a valid string> - Value: <7>";
        check(json!({"dataset_ids": ["d"], "question": 7}), wrong);
        check(json!({"question": "q"}), "`dataset_ids` is required.");
        let odd = json!({"question": "q", "dataset_ids": ["d"], "meta_data_filter": {"method": "odd"}});
        check(odd, "`meta_data_filter/method` must be manual, auto or semi_auto");
    }

    #[test]
    fn requests_in_the_format_of_dify_are_read() {
        let request = RetrievalRequest::of_dify(&body(json!({
            "knowledge_id": "d", "query": "q", "retrieval_setting": {"top_k": 3, "score_threshold": 0.4},
            "metadata_condition": {"logic": "and", "conditions": [
                {"name": ["a"], "comparison_operator": "is", "value": "x"},
            ]},
        })));
        let FilterChoice::Given(filter) = request.unwrap().filter else { panic!("no filter") };
        assert_eq!((filter.logic, filter.conditions[0].key.as_str()), (weft_core::filter::Logic::And, "a"));
        let json = json!({"knowledge_id": "d", "query": "q", "retrieval_setting": {"top_k": 3, "score_threshold": 0.4}});
        let request = RetrievalRequest::of_dify(&body(json)).unwrap();
        assert_eq!((request.datasets.as_slice(), request.limit), (&["d".to_owned()][..], 3));
        assert_eq!((request.similarity_min, request.metadata), (0.4, Some(Vec::new())));
        let error = format!("{:?}", RetrievalRequest::of_dify(&body(json!({"query": "q"}))).unwrap_err());
        assert!(error.contains("required argument are missing: knowledge_id; "), "{error}");
    }
}
