//! Chunks: reading requests and building answers.

use serde_json::{Value as Json, json};
use weft_core::seam::dataset_store::{ChunkFilter, Document, StoredChunk};
use weft_core::seam::document_reader::{PieceKind, Position};
use weft_core::{ChunkId, DatasetId};
use weft_knowledge::ingest::{Availability, ChunkEdit, NewChunk};
use weft_knowledge::pictures;

use super::once::once;
use super::python;
use super::time::http_date;
use crate::body::{Body, Params, excerpt};
use crate::error::{ApiError, code};

/// Maximum length of the text of a chunk in a request, in characters.
const CONTENT_MAX: usize = 1_000_000;

/// Maximum number of keywords, questions or positions of a chunk in a request.
const LIST_MAX: usize = 1_000;

/// Reads the body of a new chunk.
///
/// # Errors
/// 102 with the API's message.
pub fn new(body: &Body) -> Result<NewChunk, ApiError> {
    let content = content(body)?.ok_or_else(|| ApiError::data("`content` is required"))?;
    let texts = |key| list(body, key, "is required to be a list").map(Option::unwrap_or_default);
    let (keywords, questions, tags) = (texts("important_keywords")?, texts("questions")?, texts("tag_kwd")?);
    refuse_what_is_not_kept(body)?;
    let positions = positions(body)?.unwrap_or_default();
    Ok(NewChunk { content, keywords, questions: not_blank(&questions), tags, positions })
}

/// Reads the body of an update.
///
/// # Errors
/// 102 with the API's message; 100 for an `available` that is not a number.
pub fn edit(body: &Body) -> Result<ChunkEdit, ApiError> {
    let content = match body.get("content") {
        None => None,
        Some(_) => Some(content(body)?.ok_or_else(|| ApiError::data("`content` is required"))?),
    };
    let (keywords, questions) = (joined(body, "important_keywords")?, joined(body, "questions")?);
    let tags = list(body, "tag_kwd", "should be a list")?;
    refuse_what_is_not_kept(body)?;
    let available = match (body.get("available"), body.get("available_int")) {
        (Some(value), _) | (None, Some(value)) => Some(switch(value)?),
        (None, None) => None,
    };
    let positions = positions(body)?;
    let questions = questions.map(|questions| not_blank(&questions));
    Ok(ChunkEdit { content, keywords, questions, tags, positions, available })
}

fn content(body: &Body) -> Result<Option<String>, ApiError> {
    match body.get("content") {
        None => Ok(None),
        Some(Json::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Json::String(text)) if text.chars().count() > CONTENT_MAX => {
            Err(ApiError::data(format!("`content` must have at most {CONTENT_MAX} characters")))
        }
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(ApiError::data("`content` must be a string")),
    }
}

fn list(body: &Body, key: &str, words: &str) -> Result<Option<Vec<String>>, ApiError> {
    let Some(value) = body.get(key) else { return Ok(None) };
    let Json::Array(list) = value else { return Err(ApiError::data(format!("`{key}` {words}"))) };
    if list.len() > LIST_MAX {
        return Err(ApiError::data(format!("`{key}` must have at most {LIST_MAX} members")));
    }
    let texts: Option<Vec<_>> = list.iter().map(|text| text.as_str().map(str::to_owned)).collect();
    texts.map(Some).ok_or_else(|| ApiError::data(format!("`{key}` must be a list of strings")))
}

/// Reads a list whose items the original implementation joins: an item that is not a string fails with the error of
/// that join.
fn joined(body: &Body, key: &str) -> Result<Option<Vec<String>>, ApiError> {
    let members = body.get(key).and_then(Json::as_array);
    let wrong =
        members.and_then(|members| members.iter().enumerate().find(|(_, member)| !member.is_string()));
    if let Some((place, member)) = wrong {
        let found = python::type_name(member);
        let message = format!("TypeError('sequence item {place}: expected str instance, {found} found')");
        return Err(ApiError::new(code::EXCEPTION, message));
    }
    list(body, key, "should be a list")
}

/// Trims questions and drops the empty ones.
fn not_blank(questions: &[String]) -> Vec<String> {
    let trimmed = questions.iter().map(|question| question.trim());
    trimmed.filter(|question| !question.is_empty()).map(str::to_owned).collect()
}

/// Rejects fields that would be dropped, so that they do not appear to be stored.
fn refuse_what_is_not_kept(body: &Body) -> Result<(), ApiError> {
    let empty = |value: &Json| match value {
        Json::Object(map) => map.is_empty(),
        Json::String(text) => text.is_empty(),
        _ => false,
    };
    for (key, kept) in [("tag_feas", "weights of tags"), ("image_base64", "pictures")] {
        if body.get(key).is_some_and(|value| !empty(value)) {
            return Err(ApiError::data(format!("`{key}`: this build stores no {kept} with chunks")));
        }
    }
    Ok(())
}

/// Reads a boolean, or a number or a string that stands for one.
fn switch(value: &Json) -> Result<bool, ApiError> {
    let number = match value {
        Json::Bool(flag) => Some(i64::from(*flag)),
        Json::Number(number) => number.as_i64(),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.map(|number| number != 0).ok_or_else(|| {
        let message = format!(
            "ValueError(\"invalid literal for int() with base 10: {}\")",
            excerpt(&python::quoted(value))
        );
        ApiError::new(code::EXCEPTION, message)
    })
}

fn positions(body: &Body) -> Result<Option<Vec<Position>>, ApiError> {
    match body.get("positions") {
        None => Ok(None),
        Some(Json::Array(list)) if list.len() <= LIST_MAX => {
            list.iter().map(position).collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(ApiError::data("`positions` should be a list")),
    }
}

fn position(json: &Json) -> Result<Position, ApiError> {
    let wrong = || ApiError::data("each of `positions` should be a page, left, right, top and bottom");
    let numbers: Vec<f64> = json
        .as_array()
        .and_then(|list| list.iter().map(Json::as_f64).collect::<Option<_>>())
        // Clients read five numbers per position. A number beyond `f32` would not be valid when it is read back.
        .filter(|list: &Vec<f64>| list.len() == 5 && list.iter().all(|number| (*number as f32).is_finite()))
        .ok_or_else(wrong)?;
    let [left, right, top, bottom] = [1, 2, 3, 4].map(|place| numbers[place] as f32);
    let page = json[0].as_u64().and_then(|page| u32::try_from(page).ok()).ok_or_else(wrong)?;
    Ok(Position { page, left, right, top, bottom })
}

/// Reads a request that enables or disables several chunks.
///
/// # Errors
/// 102 with the API's message; 100 for a switch that is not a number.
pub fn switching(body: &Body) -> Result<(Vec<String>, Availability), ApiError> {
    let ids = list(body, "chunk_ids", "should be a list")?.unwrap_or_default();
    if ids.is_empty() {
        return Err(ApiError::data("`chunk_ids` is required."));
    }
    match body.get("available").or_else(|| body.get("available_int")) {
        Some(value) => {
            let into = if switch(value)? { Availability::Found } else { Availability::Hidden };
            Ok((once(ids).0, into))
        }
        None => Err(ApiError::data("`available_int` or `available` is required.")),
    }
}

/// Selection of the chunks to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkRemoval {
    /// Ids of the chunks, without repetitions.
    pub ids: Vec<String>,
    /// Ids that were repeated.
    pub twice: Vec<String>,
    /// Whether to remove all chunks of the document.
    pub everything: bool,
}

/// Reads the body of a request that removes chunks: without ids nothing is removed, unless `delete_all` is set.
///
/// # Errors
/// 102 when the ids are not a list of strings.
pub fn removal(body: &Body) -> Result<ChunkRemoval, ApiError> {
    let ids = list(body, "chunk_ids", "should be a list")?.unwrap_or_default();
    // Older clients send no ids to remove everything. This is not supported, because everything could be removed by
    // accident.
    let everything = ids.is_empty() && body.flag("delete_all")? == Some(true);
    let (ids, twice) = once(ids);
    Ok(ChunkRemoval { ids, twice, everything })
}

/// Which chunks to list.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkQuery {
    /// Filter and page for the store.
    pub filter: ChunkFilter,
    /// Only these chunks; empty: all.
    pub ids: Vec<ChunkId>,
}

/// Reads the parameters of a list. No page is larger than `size_max`.
pub fn query(params: &Params, size_max: u64) -> ChunkQuery {
    let page = params.page(size_max);
    let filter = ChunkFilter {
        keywords: params.get("keywords").map(str::to_owned),
        available: params.flag("available"),
        vectors: false,
        offset: page.offset,
        limit: page.limit,
    };
    let ids = params.get("id").into_iter().chain(params.all("chunk_ids"));
    ChunkQuery { filter, ids: ids.map(ChunkId::from).collect() }
}

/// Returns the type of content of a piece, as the API names it.
pub(crate) fn kind(kind: PieceKind) -> &'static str {
    match kind {
        PieceKind::Text => "",
        PieceKind::Table => "table",
        PieceKind::Image => "image",
    }
}

/// The representation of a chunk in lists; with `keywords`, these are marked in its text.
pub fn view(chunk: &StoredChunk, document: &Document, keywords: Option<&str>) -> Json {
    let content = match keywords {
        None => chunk.content.clone(),
        Some(keywords) => marked(&chunk.content, keywords),
    };
    let positions: Vec<_> = chunk.positions.iter().map(|place| place.as_json()).collect();
    json!({
        "id": chunk.id,
        "content": content,
        "document_id": chunk.document.id,
        // Lists and searches use different field names for it, and clients read either.
        "docnm_kwd": document.name,
        "document_keyword": document.name,
        "important_keywords": chunk.keywords,
        "questions": chunk.questions,
        "tag_kwd": chunk.tags(),
        "tag_feas": {},
        "dataset_id": chunk.document.dataset.id,
        "image_id": image(chunk, document),
        "doc_type_kwd": kind(chunk.kind),
        "available": chunk.available,
        "positions": positions,
        "create_time": http_date(chunk.created_ms),
        "create_timestamp": seconds(chunk.created_ms),
    })
}

/// Returns the id of the picture shown with a chunk; empty without one.
fn image(chunk: &StoredChunk, document: &Document) -> String {
    pictures::image_id_of(chunk, &document.name).unwrap_or_default()
}

/// The representation of a single chunk: with the field names of lists and those of the index.
pub fn whole_view(chunk: &StoredChunk, document: &Document) -> Json {
    let mut shown = view(chunk, document, None);
    let indexed = json!({
        "content_with_weight": chunk.content,
        "doc_id": chunk.document.id,
        "kb_id": chunk.document.dataset.id,
        "important_kwd": chunk.keywords,
        "question_kwd": chunk.questions,
        "available_int": i32::from(chunk.available),
        "img_id": image(chunk, document),
    });
    if let (Json::Object(shown), Json::Object(indexed)) = (&mut shown, indexed) {
        shown.extend(indexed);
    }
    shown
}

/// The representation of a chunk in the answer to its creation.
pub fn created(chunk: &StoredChunk, dataset: &DatasetId) -> Json {
    json!({"chunk": {
        "id": chunk.id,
        "content": chunk.content,
        "document_id": chunk.document.id,
        "important_keywords": chunk.keywords,
        "questions": chunk.questions,
        "tag_kwd": chunk.tags(),
        "tag_feas": {},
        "dataset_id": dataset,
        "image_id": "",
        "available": chunk.available,
        "create_time": http_date(chunk.created_ms),
        "create_timestamp": seconds(chunk.created_ms),
    }})
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

/// Returns the text with `<em>` around every occurrence of the keywords, ignoring case.
fn marked(text: &str, words: &str) -> String {
    let wanted: String = words.trim().chars().flat_map(char::to_lowercase).collect();
    if wanted.is_empty() {
        return text.to_owned();
    }
    // Letters whose lower case has several characters are not found; the only effect is a missing mark.
    let small: String = text.chars().map(|letter| letter.to_lowercase().next().unwrap_or(letter)).collect();
    let (length, mut letters) = (wanted.chars().count(), text.chars());
    let mut shown = String::with_capacity(text.len() + 16);
    for (nth, between) in small.split(wanted.as_str()).enumerate() {
        if nth > 0 {
            shown.push_str("<em>");
            shown.extend(letters.by_ref().take(length));
            shown.push_str("</em>");
        }
        shown.extend(letters.by_ref().take(between.chars().count()));
    }
    shown
}

/// The error for a dataset that the tenant does not own, on routes for chunks.
pub(crate) fn dataset_not_owned(dataset: &str) -> ApiError {
    ApiError::data(format!("You don't own the dataset {dataset}."))
}

/// The error for a document that is not in the dataset, on routes for chunks.
pub(crate) fn document_not_owned(document: &str) -> ApiError {
    ApiError::data(format!("you don't own the document {document}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::seam::dataset_store::Settings;
    use weft_core::{DatasetKey, DocumentKey};

    fn body(json: Json) -> Body {
        let Json::Object(map) = json else { panic!("{json}") };
        Body(map)
    }

    #[expect(clippy::needless_pass_by_value, reason = "errors are handed over as they come")]
    fn told(error: ApiError) -> String {
        format!("{error:?}")
    }

    fn chunk() -> StoredChunk {
        StoredChunk {
            id: "c".into(),
            document: DocumentKey::new(&DatasetKey::new(&"t".into(), "d"), "x"),
            ordinal: 0,
            kind: PieceKind::Table,
            content: "One two, ONE.".to_owned(),
            searched: Some("one".to_owned()),
            headings: Vec::new(),
            positions: vec![Position { page: 1, left: 2.0, right: 3.0, top: 4.0, bottom: 5.5 }],
            keywords: vec!["k".to_owned()],
            questions: vec!["q?".to_owned()],
            fields: Settings::new(),
            parent: None,
            picture: None,
            available: true,
            tokens: 4,
            vector: None,
            created_ms: 1_728_636_403_500,
        }
    }

    #[test]
    fn a_new_chunk_needs_content() {
        let fields = new(&body(json!({
            "content": "text", "important_keywords": ["a", "a", ""], "tag_kwd": ["t"], "questions": [" q ", " "],
            "image_base64": null, "positions": [[2, 1, 2.5, 3, 4]],
        })))
        .unwrap();
        assert_eq!(fields.keywords, ["a", "a", ""]);
        assert_eq!((fields.content.as_str(), fields.questions), ("text", vec!["q".to_owned()]));
        assert_eq!(fields.tags, ["t"]);
        assert_eq!(fields.positions[0].as_json(), json!([2, 1.0, 2.5, 3.0, 4.0]));
        let check = |json: Json, words: &str| {
            let error = told(new(&body(json.clone())).unwrap_err());
            assert!(error.contains("code: 102") && error.contains(&format!("{words:?}")), "{json}: {error}");
        };
        check(json!({}), "`content` is required");
        check(json!({"content": null}), "`content` is required");
        check(json!({"content": " \n"}), "`content` is required");
        check(json!({"content": "x", "positions": "y"}), "`positions` should be a list");
        for key in ["important_keywords", "questions", "tag_kwd"] {
            check(json!({"content": "x", key: "y"}), &format!("`{key}` is required to be a list"));
            check(json!({"content": "x", key: [1]}), &format!("`{key}` must be a list of strings"));
        }
        let error = told(new(&body(json!({"content": "x", "tag_feas": {"t": 1}}))).unwrap_err());
        assert!(error.contains("stores no weights of tags"), "{error}");
        let error = told(new(&body(json!({"content": "x", "image_base64": "aa"}))).unwrap_err());
        assert!(error.contains("`image_base64`"), "{error}");
    }

    #[test]
    fn a_change_of_a_chunk_keeps_the_fields_it_does_not_name() {
        let change = |json: Json| edit(&body(json)).unwrap();
        assert_eq!(change(json!({})), ChunkEdit::default());
        assert_eq!(change(json!({"content": null})), ChunkEdit::default());
        let changed = change(json!({"content": "new", "questions": [], "available": 0}));
        assert_eq!((changed.content.as_deref(), changed.available), (Some("new"), Some(false)));
        assert_eq!((changed.questions, changed.keywords), (Some(vec![]), None));
        assert_eq!(change(json!({"available_int": "1"})).available, Some(true));
        let changed = change(json!({"positions": [[2, 1, 2.5, 3, 4]]}));
        assert_eq!(changed.positions.unwrap()[0].as_json(), json!([2, 1.0, 2.5, 3.0, 4.0]));
        let check = |json: Json, code: u16, words: &str| {
            let error = told(edit(&body(json.clone())).unwrap_err());
            assert!(error.contains(&format!("code: {code}")) && error.contains(words), "{json}: {error}");
        };
        check(json!({"content": ""}), 102, "\"`content` is required\"");
        check(json!({"important_keywords": "x"}), 102, "\"`important_keywords` should be a list\"");
        check(json!({"questions": {}}), 102, "\"`questions` should be a list\"");
        check(json!({"tag_kwd": [1]}), 102, "\"`tag_kwd` must be a list of strings\"");
        check(json!({"positions": 1}), 102, "\"`positions` should be a list\"");
        check(json!({"positions": [[1, 2, 3, 4]]}), 102, "each of `positions`");
        check(json!({"positions": [[-1, 2, 3, 4, 5]]}), 102, "each of `positions`");
        check(json!({"positions": [[1, 2, 3, 4, 1e39]]}), 102, "each of `positions`");
        check(json!({"positions": [[1, -1.7e308, 3, 4, 5]]}), 102, "each of `positions`");
        for text in ["x", "True", "False"] {
            let message = format!("invalid literal for int() with base 10: '{text}'");
            check(json!({"available": text}), 100, &message);
        }
        for key in ["important_keywords", "questions"] {
            check(
                json!({key: ["a", 1]}),
                100,
                "TypeError('sequence item 1: expected str instance, int found')",
            );
        }
        assert_eq!(change(json!({"tag_kwd": ["t", ""]})).tags, Some(vec!["t".to_owned(), String::new()]));
    }

    #[test]
    fn a_single_chunk_is_shown_with_both_names_of_its_fields() {
        let document = weft_testkit::contracts::datasets::document(&chunk().document.dataset, "a.txt");
        let shown = whole_view(&chunk(), &document);
        for (one, other) in [
            ("content", "content_with_weight"),
            ("document_id", "doc_id"),
            ("dataset_id", "kb_id"),
            ("important_keywords", "important_kwd"),
            ("questions", "question_kwd"),
        ] {
            assert!(!shown[one].is_null() && shown[one] == shown[other], "{one}: {shown}");
        }
        assert_eq!(shown["available_int"], 1);
    }

    #[test]
    fn several_chunks_can_be_switched_and_removed() {
        assert_eq!(
            switching(&body(json!({"chunk_ids": ["a", "b", "a"], "available_int": 0}))).unwrap(),
            (vec!["a".to_owned(), "b".to_owned()], Availability::Hidden)
        );
        let check = |json: Json, words: &str| {
            assert!(told(switching(&body(json)).unwrap_err()).contains(&format!("{words:?}")));
        };
        check(json!({"available": true}), "`chunk_ids` is required.");
        check(json!({"chunk_ids": [], "available": true}), "`chunk_ids` is required.");
        check(json!({"chunk_ids": ["a"]}), "`available_int` or `available` is required.");

        let nothing = ChunkRemoval::default();
        assert_eq!(removal(&body(json!({}))).unwrap(), nothing);
        assert_eq!(removal(&body(json!({"chunk_ids": null, "delete_all": false}))).unwrap(), nothing);
        assert!(removal(&body(json!({"chunk_ids": null, "delete_all": true}))).unwrap().everything);
        let some = removal(&body(json!({"chunk_ids": ["a", "a"], "delete_all": false}))).unwrap();
        assert_eq!((some.ids, some.twice), (vec!["a".to_owned()], vec!["a".to_owned()]));
    }

    #[test]
    fn chunks_are_listed_and_shown() {
        let read =
            query(&Params::parse("keywords=one&page=2&page_size=5&available=true&id=&chunk_ids=a,b"), 100);
        assert_eq!((read.filter.offset, read.filter.limit, read.filter.available), (5, 5, Some(true)));
        assert_eq!(read.ids, [ChunkId::from("a"), ChunkId::from("b")]);
        for (text, words, expected) in [
            ("One two, ONE.", "one", "<em>One</em> two, <em>ONE</em>."),
            ("语言文字", "言文", "语<em>言文</em>字"),
            ("aaa", "aa", "<em>aa</em>a"),
            ("İstanbul", "x", "İstanbul"),
            ("a", " ", "a"),
        ] {
            assert_eq!(marked(text, words), expected);
        }
        let (text, words) = ("a".repeat(400_000), format!("{}b", "a".repeat(200_000)));
        let began = std::time::Instant::now();
        assert_eq!(marked(&text, &words), text);
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
        let created = created(&chunk(), &"d".into());
        for key in
            ["id", "content", "document_id", "important_keywords", "questions", "dataset_id", "create_time"]
        {
            assert!(!created["chunk"][key].is_null(), "{key}");
        }
        assert_eq!(created["chunk"]["create_timestamp"], 1_728_636_403.5);
        assert!(told(dataset_not_owned("d")).contains("\"You don't own the dataset d.\""));
        assert!(told(document_not_owned("x")).contains("\"you don't own the document x\""));
    }
}
