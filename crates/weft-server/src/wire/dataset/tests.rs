use super::*;

fn body(json: Json) -> Body {
    let Json::Object(map) = json else { panic!("{json}") };
    Body(map)
}

#[expect(clippy::needless_pass_by_value, reason = "errors are handed over as they come")]
fn told(error: ApiError) -> String {
    format!("{error:?}")
}

fn dataset() -> Dataset {
    Dataset {
        key: DatasetKey::new(&"t".into(), "0f0e0d0c0b0a11ee8000000000000001"),
        name: "Laws".to_owned(),
        avatar: String::new(),
        description: "d".to_owned(),
        language: "English".to_owned(),
        permission: "me".to_owned(),
        embedder: "m@p".to_owned(),
        method: ChunkMethod::Naive,
        settings: method::defaults(ChunkMethod::Naive),
        similarity_threshold: 0.2,
        vector_similarity_weight: 0.3,
        pagerank: 0,
        generation: 0,
        created_ms: 1_728_636_403_000,
        updated_ms: 1_728_636_404_000,
        revision: 0,
        counts: DatasetCounts { documents: 1, chunks: 2, tokens: 3, bytes: 4 },
    }
}

#[test]
fn a_new_dataset_is_read() {
    let fields = DatasetFields::of_new(&body(json!({
        "name": " Laws ", "avatar": null, "description": null, "embedding_model": null, "permission": "team",
        "chunk_method": "laws", "parser_config": {"chunk_token_num": 9}, "ext": {"language": "Chinese"},
    })))
    .unwrap();
    assert_eq!(fields.name.as_deref(), Some("Laws"));
    assert_eq!(fields.permission.as_deref(), Some("team"));
    assert_eq!(fields.method, Some(ChunkMethod::Laws));
    assert_eq!(fields.settings.unwrap()["chunk_token_num"], 9);
    assert_eq!((fields.embedding_model, fields.language.as_deref()), (None, Some("Chinese")));
}

#[test]
fn invalid_dataset_fields_give_the_error_messages_of_the_api() {
    let check = |json: Json, line: &str| {
        let mut json = json;
        if let Some(map) = json.as_object_mut()
            && !line.starts_with("Field: <name>")
        {
            map.entry("name").or_insert(json!("n"));
        }
        let error = told(DatasetFields::of_new(&body(json.clone())).unwrap_err());
        assert!(error.contains("code: 101") && error.contains(line), "{json}: {error}");
    };
    let long = "x".repeat(129);
    check(json!({}), "Field: <name> - Message: <Field required> - Value: <{}>");
    check(json!({"name": null}), "Field: <name> - Message: <Input should be a valid string> - Value: <None>");
    check(json!({"name": 3}), "Field: <name> - Message: <Input should be a valid string> - Value: <3>");
    check(
        json!({"name": " "}),
        "Field: <name> - Message: <String should have at least 1 character> - Value: < >",
    );
    check(json!({"name": long}), "Field: <name> - Message: <String should have at most 128 characters>");
    check(json!({"avatar": "x"}), "missing MIME prefix. Expected format: data:<mime>;base64,<data>");
    check(json!({"avatar": "image/png;base64,x"}), "invalid MIME prefix format. Must start with 'data:'");
    check(
        json!({"avatar": "data:text/html;base64,x"}),
        "Unsupported MIME type. Allowed: ['image/jpeg', 'image/png']",
    );
    check(json!({"avatar": "x".repeat(65_536)}), "String should have at most 65535 characters");
    check(json!({"description": "x".repeat(65_536)}), "String should have at most 65535 characters");
    let format = "embedding model identifier must follow <model_name>@<provider> format";
    check(json!({"embedding_model": "m"}), format);
    check(json!({"embedding_model": "m@"}), "both model_name and provider must be non-empty strings");
    check(json!({"embedding_model": "@p"}), "both model_name and provider must be non-empty strings");
    check(json!({"embedding_model": " @p"}), "both model_name and provider must be non-empty strings");
    check(json!({"embedding_model": ""}), format);
    for permission in ["all", "ME", " me "] {
        check(json!({"permission": permission}), "Input should be 'me' or 'team'");
    }
    check(json!({"permission": null}), "Input should be 'me' or 'team'");
    let methods = "Input should be 'naive', 'book', 'email', 'laws', 'manual', 'one', 'paper', 'picture', \
                   'presentation', 'qa', 'table', 'tag' or 'resume'";
    check(json!({"chunk_method": "other"}), methods);
    check(json!({"more": 1}), "Field: <more> - Message: <Extra inputs are not permitted> - Value: <1>");
    check(json!({"pagerank": 1}), "Field: <pagerank> - Message: <Extra inputs are not permitted>");
    check(json!({"parser_config": {"auto_keywords": -1}}), "Field: <parser_config.auto_keywords>");
    check(
        json!({"parser_config": 1}),
        "Field: <parser_config> - Message: <Input should be a valid dictionary>",
    );
    check(json!({"parse_type": 65}), "Input should be less than or equal to 64");
    check(json!({"pipeline_id": "x"}), "pipeline_id must be 32 hex characters");
    check(json!({"pipeline_id": "x".repeat(32)}), "pipeline_id must be hexadecimal");
    check(json!({"parse_type": 1}), "parser_id omitted → required fields missing: pipeline_id");
    check(json!({"pipeline_id": "a".repeat(32)}), "parser_id omitted → required fields missing: parse_type");
    let fields = "parser_id provided → disallowed fields present: parse_type, pipeline_id";
    check(json!({"chunk_method": "qa", "parse_type": 1, "pipeline_id": "a".repeat(32)}), fields);
    // Two wrong fields are reported at once.
    let error = told(DatasetFields::of_new(&body(json!({"name": 1, "permission": 2}))).unwrap_err());
    assert!(error.contains("<name>") && error.contains("<permission>"), "{error}");
    let pipeline = json!({"name": "n", "parse_type": 1, "pipeline_id": "a".repeat(32)});
    let made = DatasetFields::of_new(&body(pipeline)).unwrap().changed(dataset());
    assert_eq!(view(&made)["pipeline_id"], "a".repeat(32));
    let change = |json: Json| DatasetFields::of_change(&body(json)).unwrap().changed(made.clone());
    for kept in [json!({"parser_config": null}), json!({"parser_config": {}}), json!({"description": null})] {
        assert_eq!(view(&change(kept.clone()))["pipeline_id"], "a".repeat(32), "{kept}");
    }
    for gone in [json!({"pipeline_id": null}), json!({"parse_type": null, "pipeline_id": null})] {
        assert_eq!(view(&change(gone.clone()))["pipeline_id"], Json::Null, "{gone}");
    }
}

#[test]
fn a_change_of_a_dataset_keeps_the_fields_it_does_not_name() {
    let change = |json: Json| DatasetFields::of_change(&body(json)).unwrap().changed(dataset());
    let changed = change(json!({"name": "New", "pagerank": 7}));
    assert_eq!((changed.name.as_str(), changed.pagerank, changed.description.as_str()), ("New", 7, "d"));
    assert_eq!(changed.settings, dataset().settings);
    let changed = change(json!({"parser_config": {"chunk_token_num": 64}}));
    assert_eq!(
        (&changed.settings["chunk_token_num"], &changed.settings["topn_tags"]),
        (&json!(64), &json!(3))
    );
    // Another chunk method starts with its own defaults.
    let changed = change(json!({"chunk_method": "table", "parser_config": {"html4excel": true}}));
    assert_eq!(Json::Object(changed.settings), json!({"html4excel": true}));
    let changed = change(json!({"chunk_method": "naive", "parser_config": {}}));
    assert_eq!(changed.settings, method::defaults(ChunkMethod::Naive));
    let changed = change(json!({"ext": {"similarity_threshold": 0.5, "vector_similarity_weight": 1}}));
    assert_eq!((changed.similarity_threshold, changed.vector_similarity_weight), (0.5, 1.0));
    for nothing in [json!({}), json!({"ext": {}})] {
        let error = told(DatasetFields::of_change(&body(nothing)).unwrap_err());
        assert!(error.contains("code: 102") && error.contains("\"no properties were modified\""), "{error}");
    }
    assert_eq!(change(json!({"connectors": []})).name, "Laws");
    for (refused, line) in [
        (json!({"name": null}), "Field: <name> - Message: <Input should be a valid string> - Value: <None>"),
        (json!({"pagerank": null}), "Field: <pagerank> - Message: <Input should be a valid integer>"),
        (json!({"connectors": [{}]}), "Connectors are not part of this build"),
    ] {
        let error = told(DatasetFields::of_change(&body(refused)).unwrap_err());
        assert!(error.contains("code: 101") && error.contains(line), "{error}");
    }
    let error = told(DatasetFields::of_change(&body(json!({"pagerank": 101}))).unwrap_err());
    assert!(error.contains("Input should be less than or equal to 100"), "{error}");
}

#[test]
fn removals_need_ids_or_an_explicit_delete_all() {
    let (one, other) = ("0f0e0d0c-0b0a-11ee-8000-000000000001", "0F0E0D0C0B0A11EE8000000000000002");
    let check = |json: Json, expected: Removal| assert_eq!(removal(&body(json)).unwrap(), expected);
    check(json!({}), Removal::Nothing);
    check(json!({"ids": null}), Removal::Nothing);
    check(json!({"ids": [], "delete_all": false}), Removal::Nothing);
    check(json!({"ids": null, "delete_all": true}), Removal::Everything);
    let both = ["0f0e0d0c0b0a11ee8000000000000001", "0f0e0d0c0b0a11ee8000000000000002"];
    let both = Removal::These(both.map(str::to_owned).to_vec());
    check(json!({"ids": [one, other], "delete_all": false}), both);
    let check = |json: Json, words: &str| {
        let error = told(removal(&body(json.clone())).unwrap_err());
        assert!(error.contains("code: 101") && error.contains(words), "{json}: {error}");
    };
    check(json!({"ids": "x"}), "Field: <ids> - Message: <Input should be a valid list> - Value: <x>");
    check(json!({"ids": [1]}), "Field: <ids.0> - Message: <Input should be a valid string> - Value: <1>");
    check(json!({"ids": ["x"]}), "Field: <ids> - Message: <Invalid UUID format> - Value: <x>");
    let twice = "Field: <ids> - Message: <Duplicate ids: '0f0e0d0c0b0a11ee8000000000000002'> - Value: <[";
    check(json!({"ids": [other, other]}), twice);
    check(json!({"more": 1}), "Extra inputs are not permitted");
}

#[test]
fn list_parameters_are_checked_strictly() {
    let id = "0f0e0d0c0b0a11ee8000000000000001";
    let read = |text: &str| query(&Params::parse(text), 1_000);
    let all = read("page=2&page_size=10&orderby=update_time&desc=False").unwrap();
    let DatasetFilter { by_update, ascending, offset, limit, .. } = all.filter;
    assert_eq!((by_update, ascending, offset, limit), (true, true, 10, 10));
    assert!(all.named.is_empty());
    let some = read(&format!("id={id}&name=%20Laws&page_size=5000")).unwrap();
    assert_eq!(some.named, [Named::Id(id.to_owned()), Named::Name("Laws".to_owned())]);
    for (text, ascending) in [("yes", false), ("Y", false), ("no", true), ("0", true)] {
        assert_eq!(read(&format!("desc={text}")).unwrap().filter.ascending, ascending, "{text}");
    }
    assert_eq!((some.filter.limit, some.filter.name.as_deref()), (1_000, Some("Laws")));
    assert_eq!(read(&format!("ids={id}&ids={id}")).unwrap().filter.ids.unwrap().len(), 2);
    let check = |text: &str, line: &str| {
        let error = told(read(text).unwrap_err());
        assert!(error.contains("code: 101") && error.contains(line), "{text}: {error}");
    };
    check("page=0", "Field: <page> - Message: <Input should be greater than or equal to 1> - Value: <0>");
    check(
        "page_size=x",
        "<Input should be a valid integer, unable to parse string as an integer> - Value: <x>",
    );
    check("orderby=name", "Field: <orderby> - Message: <Input should be 'create_time' or 'update_time'>");
    check("desc=maybe", "<Input should be a valid boolean, unable to interpret input>");
    check("orderby=", "Input should be 'create_time' or 'update_time'");
    check("id=", "Field: <id> - Message: <Invalid UUID format>");
    check("id=x", "Field: <id> - Message: <Invalid UUID format> - Value: <x>");
    check("more=1", "Field: <more> - Message: <Extra inputs are not permitted> - Value: <1>");
}

#[test]
fn a_dataset_is_shown_with_every_field() {
    let shown = view(&dataset());
    for (key, value) in [
        ("id", json!("0f0e0d0c0b0a11ee8000000000000001")),
        ("name", json!("Laws")),
        ("tenant_id", json!("t")),
        ("status", json!("1")),
        ("embedding_model", json!("m@p")),
        ("chunk_method", json!("naive")),
        ("document_count", json!(1)),
        ("chunk_count", json!(2)),
        ("token_num", json!(3)),
        ("similarity_threshold", json!(0.2)),
        ("vector_similarity_weight", json!(0.3)),
        ("create_time", json!(1_728_636_403_000_i64)),
        ("create_date", json!("Fri, 11 Oct 2024 08:46:43 GMT")),
        ("pipeline_id", json!(null)),
        ("avatar", json!(null)),
        ("connectors", json!([])),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    assert_eq!(dataset_id("0F0E0D0C-0B0A-11EE-8000-000000000001").unwrap().as_str().len(), 32);
    assert!(told(dataset_id("x").unwrap_err()).contains("Invalid UUID format"));
    let error = told(not_owned(&"t".into(), "d"));
    assert!(
        error.contains("code: 102") && error.contains("User 't' lacks permission for dataset 'd'"),
        "{error}"
    );
    let error = told(none_owned(&"t".into(), &["a".to_owned(), "b".to_owned()]));
    assert!(error.contains("User 't' lacks permission for datasets: 'a, b'"), "{error}");
}
