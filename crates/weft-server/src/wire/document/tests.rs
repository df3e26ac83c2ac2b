use weft_core::seam::dataset_store::DocumentOrder;
use weft_core::{DatasetKey, DocumentId, DocumentKey};

use super::super::named::Named;
use super::*;
use crate::body::Params;

fn body(json: Json) -> Body {
    let Json::Object(map) = json else { panic!("{json}") };
    Body(map)
}

#[expect(clippy::needless_pass_by_value, reason = "errors are handed over as they come")]
fn told(error: ApiError) -> String {
    format!("{error:?}")
}

fn document(name: &str) -> Document {
    let dataset = DatasetKey::new(&"t".into(), "d");
    Document {
        key: DocumentKey::new(&dataset, "x"),
        name: name.to_owned(),
        size: 12,
        blob: "documents/1".to_owned(),
        method: ChunkMethod::Naive,
        settings: method::defaults(ChunkMethod::Naive),
        metadata: [("author".to_owned(), json!("Ada"))].into_iter().collect(),
        enabled: true,
        state: DocumentState::Done,
        progress: 1.0,
        message: "3 chunks".to_owned(),
        begun_ms: Some(1_728_636_403_000),
        duration_ms: 1_500,
        chunk_count: 3,
        token_count: 30,
        picture: None,
        revision: 0,
        created_ms: 1,
        updated_ms: 2,
    }
}

#[test]
fn a_file_name_is_its_last_part() {
    for (given, name) in [
        ("a.pdf", "a.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\fakepath\\a b.txt", "a b.txt"),
        ("/abs/语言.md", "语言.md"),
        (".hidden", ".hidden"),
    ] {
        assert_eq!(file_name(given).unwrap(), name);
    }
    let check = |given: &str, words: &str| {
        let error = told(file_name(given).unwrap_err());
        assert!(error.contains("code: 101") && error.contains(words), "{given}: {error}");
    };
    for nothing in ["", " ", "a/", "..", "../..", "x/."] {
        check(nothing, "\"No file selected!\"");
    }
    check(&format!("{}.txt", "x".repeat(252)), "\"File name must be 255 bytes or less.\"");
    check("a\r\nb.txt", "control characters");
}

#[test]
fn file_types_are_recognized_by_extension() {
    for (name, suffix, is) in [
        ("a.PDF", "pdf", "pdf"),
        ("a.tar.gz", "gz", "doc"),
        ("a.JPG", "jpg", "visual"),
        ("a.mp3", "mp3", "aural"),
        (".hidden", "", "other"),
        ("README", "", "other"),
    ] {
        assert_eq!((ending(name).as_str(), kind(name)), (suffix, is), "{name}");
    }
    assert_eq!(
        attachment("a\"\r\nX: 语.pdf"),
        "attachment; filename=\"a___X_ _.pdf\"; filename*=UTF-8''a%22%0D%0AX%3A%20%E8%AF%AD.pdf"
    );
}

#[test]
fn file_types_with_their_own_chunk_method() {
    for (name, method) in [
        ("a.pptx", Some(ChunkMethod::Presentation)),
        ("a.EML", Some(ChunkMethod::Email)),
        ("a.png", Some(ChunkMethod::Picture)),
        ("a.txt", None),
    ] {
        let change = suited(&document(name));
        assert_eq!(change.as_ref().and_then(|change| change.method), method, "{name}");
        assert!(!is_no_document(name), "{name}");
    }
    let slides = Document { method: ChunkMethod::Presentation, ..document("a.pptx") };
    assert_eq!(suited(&slides), None);
    for name in ["a.mp4", "a.EXE", "a.tar.gz"] {
        assert!(is_no_document(name), "{name}");
    }
}

#[test]
fn a_change_contains_only_the_changed_fields() {
    let change = |json: Json| super::change(&body(json), &document("a.txt")).unwrap();
    let nothing = DocumentChange::default();
    assert_eq!(change(json!({})), nothing);
    assert_eq!(
        change(json!({"name": "a.txt", "chunk_count": 3, "token_count": 30, "progress": 1.0})),
        nothing
    );
    assert_eq!(change(json!({"name": "A.TXT"})).name.as_deref(), Some("A.TXT"));
    assert_eq!(change(json!({"enabled": false})).enabled, Some(false));
    assert_eq!(change(json!({"enabled": 1})).enabled, Some(true));
    assert_eq!(change(json!({"enabled": "0"})).enabled, Some(false));
    let metadata = change(json!({"meta_fields": {"year": 1952}})).metadata.unwrap();
    assert_eq!(Json::Object(metadata), json!({"year": 1952}));
    let settings = change(json!({"parser_config": {"chunk_token_num": 7}})).settings.unwrap();
    assert_eq!((&settings["chunk_token_num"], &settings["topn_tags"]), (&json!(7), &json!(3)));
    let changed = change(json!({"chunk_method": "qa"}));
    assert_eq!(changed.method, Some(ChunkMethod::Qa));
    assert_eq!(changed.settings, Some(method::defaults(ChunkMethod::Qa)));
    // The same method is no change; without settings nothing is reset, with empty settings the defaults return.
    assert_eq!(change(json!({"chunk_method": "naive"})), nothing);
    let changed = change(json!({"chunk_method": "naive", "parser_config": {}}));
    assert_eq!((changed.method, changed.settings), (None, Some(method::defaults(ChunkMethod::Naive))));
    let slides = super::change(&body(json!({"chunk_method": "presentation"})), &document("a.pptx")).unwrap();
    assert_eq!(slides.method, Some(ChunkMethod::Presentation));
}

#[test]
fn invalid_document_changes_give_the_error_messages_of_the_api() {
    let check = |name: &str, json: Json, code: u16, words: &str| {
        let error = told(super::change(&body(json.clone()), &document(name)).unwrap_err());
        assert!(error.contains(&format!("code: {code}")) && error.contains(words), "{json}: {error}");
    };
    let data = |json: Json, words: &str| check("a.txt", json, 102, words);
    data(json!({"chunk_count": 9}), "\"can't change `chunk_count`\"");
    data(json!({"token_count": 9}), "\"can't change `token_count`\"");
    data(json!({"progress": 0.5}), "\"can't change `progress`\"");
    data(json!({"progress": 1.5}), "Field: <progress> - Message: <Input should be less than or equal to 1>");
    data(json!({"name": 1}), "Field: <name> - Message: <Input should be a valid string> - Value: <1>");
    data(json!({"meta_fields": []}), "Field: <meta_fields> - Message: <Input should be a valid dictionary>");
    data(json!({"meta_fields": {"a": {}}}), "The type is not supported: {}");
    data(json!({"meta_fields": {"a": "b", "": "c"}}), "a key is empty");
    data(json!({"meta_fields": {"a": [{}]}}), "The type is not supported in list: [{}]");
    data(json!({"enabled": "perhaps"}), "Field: <enabled> - Message: <Input should be a valid boolean>");
    data(
        json!({"parser_config": {"x": 1}}),
        "Field: <parser_config.x> - Message: <Extra inputs are not permitted>",
    );
    data(json!({"chunk_method": ""}), "`chunk_method` (empty string) is not valid");
    let unknown = "Field: <chunk_method> - Message: <`chunk_method` other doesn't exist> - Value: <other>";
    data(json!({"chunk_method": "other"}), unknown);
    data(json!({"name": null}), "Field: <name> - Message: <Input should be a valid string> - Value: <None>");
    check("a.txt", json!({"name": "a.md"}), 101, "\"The extension of file can't be changed\"");
    check("a.txt", json!({"name": ""}), 101, "\"The extension of file can't be changed\"");
    check("a.txt", json!({"name": "../b.txt"}), 101, "name a folder");
    check(
        "a.txt",
        json!({"name": format!("{}.txt", "x".repeat(252))}),
        101,
        "File name must be 255 bytes or less.",
    );
    check("a.png", json!({"chunk_method": "naive"}), 102, "\"Not supported yet!\"");
    check("a.pptx", json!({"chunk_method": "naive"}), 102, "\"Not supported yet!\"");
}

#[test]
fn list_parameters_are_read() {
    let read = |text: &str| query(&Params::parse(text), 1_000);
    let all = read("page=0&page_size=x").unwrap();
    assert_eq!((all.filter.offset, all.filter.limit, all.named.len()), (0, 30, 0));
    let text = "id=a&ids=b,c&name=N&keywords=k&suffix=PDF&suffix=.md&run=DONE&run=2&create_time_from=5&create_time_to=0\
                &orderby=update_time&desc=false";
    let DocumentQuery { filter, named } = read(text).unwrap();
    assert_eq!(named, [Named::Id("a".to_owned()), Named::Name("N".to_owned())]);
    let ids: Vec<_> = filter.ids.iter().flatten().map(DocumentId::as_str).collect();
    assert_eq!((ids, filter.suffixes), (vec!["a", "b", "c"], vec!["pdf".to_owned(), "md".to_owned()]));
    assert_eq!(filter.states, [DocumentState::Done, DocumentState::Cancelled, DocumentState::Paused]);
    assert_eq!(
        (filter.from_ms, filter.to_ms, filter.order, filter.ascending),
        (Some(5), None, DocumentOrder::Updated, true)
    );
    let often = "run=2&".repeat(10_000);
    let states = read(&often).unwrap().filter.states;
    assert_eq!(states, [DocumentState::Cancelled, DocumentState::Paused], "each once");
    let condition = "%7B%22conditions%22:%5B%7B%22name%22:%22a%22,%22value%22:1%7D%5D%7D";
    assert!(read(&format!("metadata_condition={condition}")).unwrap().filter.metadata.is_some());
    let check = |text: &str, words: &str| {
        let error = told(read(text).unwrap_err());
        assert!(error.contains("code: 102") && error.contains(words), "{text}: {error}");
    };
    check("metadata_condition=%7B", "\"metadata_condition must be valid JSON.\"");
    check("metadata_condition=1", "\"metadata_condition must be an object.\"");
    // {"a":"x"} combined with one of several conditions would need parentheses.
    let or = "%7B%22logic%22:%22or%22,%22conditions%22:%5B%7B%22name%22:%22a%22,%22value%22:1%7D,%7B%22name%22:%22b%22,%22value%22:1%7D%5D%7D";
    check(&format!("metadata=%7B%22a%22:%22x%22%7D&metadata_condition={or}"), "metadata cannot go together");
    let and = read(&format!("metadata=%7B%22b%22:%5B2,%22%22%5D%7D&metadata_condition={condition}"));
    let filter = and.unwrap().filter.metadata.unwrap();
    let conditions: Vec<_> =
        filter.conditions.iter().map(|one| (one.key.as_str(), one.value.clone())).collect();
    assert_eq!(conditions, [("a", json!(1)), ("b", json!([2]))]);
    check("run=SOON", "Invalid filter run status conditions: SOON");
    assert_eq!(read("orderby=name").unwrap().filter.order, DocumentOrder::Name);
    assert!(told(read("orderby=size").unwrap_err()).contains("\"invalid orderby field: size\""));
}

#[test]
fn a_document_is_shown_with_every_field() {
    let shown = view(&document("a.txt"));
    for (key, value) in [
        ("id", json!("x")),
        ("dataset_id", json!("d")),
        ("chunk_method", json!("naive")),
        ("type", json!("doc")),
        ("created_by", json!("t")),
        ("suffix", json!("txt")),
        ("run", json!("DONE")),
        ("status", json!("1")),
        ("progress", json!(1.0)),
        ("progress_msg", json!("3 chunks\nTask done")),
        ("process_begin_at", json!("Fri, 11 Oct 2024 08:46:43 GMT")),
        ("process_duration", json!(1.5)),
        ("meta_fields", json!({"author": "Ada"})),
        ("chunk_count", json!(3)),
        ("token_count", json!(30)),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    for (state, run, progress) in [
        (DocumentState::Unstarted, "UNSTART", 0.99),
        (DocumentState::Running, "RUNNING", 0.99),
        (DocumentState::Paused, "CANCEL", 0.99),
        (DocumentState::Cancelled, "CANCEL", 0.0),
        (DocumentState::Failed, "FAIL", -1.0),
    ] {
        let shown = view(&Document { state, enabled: false, ..document("a.txt") });
        assert_eq!(
            (&shown["run"], &shown["progress"], &shown["status"]),
            (&json!(run), &json!(progress), &json!("0"))
        );
        assert!(states(run).unwrap().contains(&state));
    }
    let asked =
        |state| view(&Document { state, begun_ms: None, ..document("a.txt") })["process_begin_at"].clone();
    assert_eq!(asked(DocumentState::Unstarted), json!(null));
    assert!(asked(DocumentState::Cancelled).is_string(), "the time of the request is shown");
}

#[test]
fn removals_and_parsing_need_ids() {
    let check = |json: Json, expected: Removal| assert_eq!(removal(&body(json), "d").unwrap(), expected);
    check(json!({"ids": ["a", "b"], "delete_all": false}), Removal::These(vec!["a".into(), "b".into()]));
    check(json!({"ids": null, "delete_all": true}), Removal::Everything);
    let check = |json: Json, code: u16, words: &str| {
        let error = told(removal(&body(json.clone()), "d").unwrap_err());
        assert!(error.contains(&format!("code: {code}")) && error.contains(words), "{json}: {error}");
    };
    let neither = "\"should either provide doc ids or set delete_all(true), dataset: d. \"";
    check(json!({}), 102, neither);
    check(json!({"ids": null, "delete_all": false}), 102, neither);
    check(json!({"ids": []}), 102, neither);
    let both = "\"should not provide both doc ids and delete_all(true), dataset: d. \"";
    check(json!({"ids": ["a"], "delete_all": true}), 102, both);
    check(
        json!({"ids": ["a", "a"]}),
        101,
        "Field: <ids> - Message: <Duplicate ids: 'a'> - Value: <['a', 'a']>",
    );
    check(json!({"ids": 1}), 101, "Field: <ids> - Message: <Input should be a valid list>");

    let ids = json!({"document_ids": ["a", "b", "a", "a"]});
    let (first, twice) = document_ids(&body(ids)).unwrap();
    assert_eq!((first, twice), (vec!["a".to_owned(), "b".to_owned()], vec!["a".to_owned()]));
    for nothing in [json!({}), json!({"document_ids": []}), json!({"document_ids": null})] {
        assert!(told(document_ids(&body(nothing)).unwrap_err()).contains("\"`document_ids` is required\""));
    }
    assert!(told(not_found(&["x".to_owned()])).contains("\"Documents not found: ['x']\""));
    assert!(told(dataset_not_owned("d")).contains("\"You don't own the dataset d. \""));
    assert!(told(dataset_not_found(&"t".into(), "d")).contains("\"Can't find the dataset with ID d!\""));
}

#[test]
fn many_repeated_ids_are_reported_quickly_and_each_once() {
    let texts: Vec<String> = (0..150_000).map(|n| format!("{:032}", n % 50_000)).collect();
    let began = std::time::Instant::now();
    let (first, twice) = once(texts);
    assert_eq!((first.len(), twice.len()), (50_000, 50_000));
    assert_eq!(first, twice, "the ids keep their order");
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}
