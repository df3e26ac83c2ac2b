//! Chunk methods and their settings, under their names in the API.

mod words;

use serde_json::{Value as Json, json};
use weft_core::seam::dataset_store::Settings;
use weft_core::seam::document_reader::ChunkMethod;
use weft_core::suggest::did_you_mean;
use weft_knowledge::ingest::PIPELINE;

use super::rules::{Problems, Rule};

/// Maximum length of settings as JSON.
// The limit of the compatible API, whose message names it.
const SETTINGS_MAX: usize = 65_535;

/// The names of the methods, in the order of the API's messages.
pub(crate) const METHODS: &[&str] = &[
    "naive",
    "book",
    "email",
    "laws",
    "manual",
    "one",
    "paper",
    "picture",
    "presentation",
    "qa",
    "table",
    "tag",
    "resume",
];

const NO_END: i64 = i64::MAX;

/// Maximum length of delimiters, in characters. With longer ones no document can be read.
const DELIMITER_MAX: usize = 1_024;

const RAPTOR: &[(&str, Rule)] = &[
    ("use_raptor", Rule::Flag),
    ("prompt", Rule::Trimmed(1, SETTINGS_MAX)),
    ("max_token", Rule::Integer(1, 2_048)),
    ("threshold", Rule::Number(0.0, 1.0)),
    ("max_cluster", Rule::Integer(1, 1_024)),
    ("random_seed", Rule::Integer(0, NO_END)),
    ("scope", Rule::OneOf(&["file", "dataset"])),
    ("clustering_method", Rule::OneOf(&["gmm", "ahc"])),
    ("tree_builder", Rule::OneOf(&["raptor", "psi"])),
    ("clustering_threshold", Rule::Number(0.0, 1.0)),
    ("clustering_ratio", Rule::Number(0.0, 1.0)),
    ("auto_disable_for_structured_data", Rule::Flag),
    ("ext", Rule::Object),
];

const GRAPH: &[(&str, Rule)] = &[
    ("use_graphrag", Rule::Flag),
    ("entity_types", Rule::Texts),
    ("method", Rule::OneOf(&["light", "general", "ner"])),
    ("batch_chunk_token_size", Rule::Integer(1, NO_END)),
    ("community", Rule::Flag),
    ("resolution", Rule::Flag),
    ("ext", Rule::Object),
];

const MIND_MAP: &[(&str, Rule)] = &[("use_mindmap", Rule::Flag), ("ext", Rule::Object)];

const PARENTS: &[(&str, Rule)] = &[
    ("use_parent_child", Rule::Flag),
    ("children_delimiter", Rule::Text(1, DELIMITER_MAX)),
    ("ext", Rule::Object),
];

/// Fields of `parser_config`.
const SETTINGS: &[(&str, Rule)] = &[
    ("auto_keywords", Rule::Integer(0, 32)),
    ("auto_questions", Rule::Integer(0, 10)),
    ("chunk_token_num", Rule::Integer(1, 2_048)),
    ("delimiter", Rule::Text(1, DELIMITER_MAX)),
    ("graphrag", Rule::Fields(GRAPH)),
    ("mindmap", Rule::Fields(MIND_MAP)),
    ("html4excel", Rule::Flag),
    ("layout_recognize", Rule::Text(0, 256)),
    ("raptor", Rule::Fields(RAPTOR)),
    ("parent_child", Rule::Fields(PARENTS)),
    ("tag_kb_ids", Rule::Texts),
    ("topn_tags", Rule::Integer(1, 10)),
    ("filename_embd_weight", Rule::Number(0.0, 1.0)),
    ("task_page_size", Rule::Integer(1, NO_END)),
    ("pages", Rule::Pages),
    ("table_context_size", Rule::Integer(0, 2_048)),
    ("image_context_size", Rule::Integer(0, NO_END)),
    ("image_table_context_window", Rule::Integer(0, NO_END)),
    ("children_delimiter", Rule::Text(0, DELIMITER_MAX)),
    ("overlapped_percent", Rule::Integer(0, 90)),
    ("toc_extraction", Rule::Flag),
    ("enable_metadata", Rule::Flag),
    ("metadata", Rule::Any),
    ("built_in_metadata", Rule::Any),
    ("llm_id", Rule::Text(0, 512)),
    ("entity_types", Rule::Texts),
    ("ext", Rule::Object),
];

/// Returns the method with this name.
pub(crate) fn method(name: &str) -> Option<ChunkMethod> {
    let method = serde_json::from_value(Json::String(name.trim().to_lowercase())).ok();
    method.filter(|method| ChunkMethod::ALL.contains(method))
}

/// The name of a method.
pub(crate) fn method_name(method: ChunkMethod) -> String {
    match serde_json::to_value(method) {
        Ok(Json::String(name)) => name,
        _ => String::new(),
    }
}

/// Checks settings.
pub(crate) fn check(problems: &mut Problems, field: &str, settings: &Json) {
    problems.value(field, settings, Rule::Fields(SETTINGS));
    let length = settings.to_string().chars().count();
    if length > SETTINGS_MAX {
        let message = format!(
            "Parser config exceeds size limit (max 65,535 characters). Current size: {}",
            with_commas(length)
        );
        problems.add(field, &message, settings);
    }
}

/// Returns the settings that this build does not implement: they are stored, and reported when a document is ingested
/// with them.
pub(crate) fn not_done(settings: &Settings) -> Vec<&'static str> {
    let (raptor, graph) = (settings.get("raptor"), settings.get("graphrag"));
    let is =
        |group: Option<&Json>, key: &str, value: &Json| group.and_then(|group| group.get(key)) == Some(value);
    let otherwise = is(raptor, "use_raptor", &true.into())
        && (is(raptor, "clustering_method", &"ahc".into()) || is(raptor, "tree_builder", &"psi".into()));
    let by_names = is(graph, "use_graphrag", &true.into()) && is(graph, "method", &"ner".into());
    [
        (
            otherwise,
            "`raptor`: clusters are found with `gmm`; other methods and trees are not part of this build",
        ),
        (by_names, "`graphrag.method`: `ner` is not part of this build; the graph is built as with `light`"),
    ]
    .into_iter()
    .filter_map(|(asked, words)| asked.then_some(words))
    .collect()
}

/// Checks settings that do not come from a request.
///
/// # Errors
/// `Invalid` with a clause for everything that is wrong: an unknown name, a value of another type or out of its range,
/// settings that are too long.
pub fn check_settings(settings: &Settings) -> weft_core::Result<()> {
    let mistakes = words::mistakes("", settings, SETTINGS);
    let mut wrong: Vec<String> = mistakes.iter().map(|mistake| mistake.what.clone()).collect();
    let length = Json::Object(settings.clone()).to_string().chars().count();
    if length > SETTINGS_MAX {
        wrong.push(format!("the settings have {length} characters, more than {SETTINGS_MAX}"));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let error = weft_core::Error::invalid(wrong.join("; "));
    Err(match mistakes.iter().find_map(|mistake| mistake.meant) {
        Some(meant) => error.help(did_you_mean(meant)),
        None => error,
    })
}

/// Key in the settings of a dataset for the name under which its embedding model was requested.
pub(super) const MODEL_ASKED: &str = "embedding_model";

/// Returns the settings for an answer, without those that have their own field there.
pub(crate) fn shown(settings: &Settings) -> Settings {
    settings
        .iter()
        .filter(|(name, _)| *name != PIPELINE && *name != MODEL_ASKED)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the default settings of a method. Only the method for knowledge graphs calls a model.
pub(crate) fn defaults(method: ChunkMethod) -> Settings {
    let off = json!({
        "raptor": {"use_raptor": false}, "graphrag": {"use_graphrag": false},
        "table_context_size": 0, "image_context_size": 0,
    });
    let settings = match method {
        ChunkMethod::Naive | ChunkMethod::KnowledgeGraph => json!({
            "layout_recognize": "DeepDOC",
            "chunk_token_num": 512,
            "delimiter": "\n",
            "auto_keywords": 0,
            "auto_questions": 0,
            "html4excel": false,
            "topn_tags": 3,
            "raptor": {
                "use_raptor": false, "max_token": 256, "threshold": 0.1, "max_cluster": 64, "random_seed": 0,
            },
            "graphrag": {
                "use_graphrag": method == ChunkMethod::KnowledgeGraph,
                "entity_types": ["organization", "person", "geo", "event", "category"],
                "method": "light",
            },
            "table_context_size": 0,
            "image_context_size": 0,
            "llm_id": "",
        }),
        ChunkMethod::Book
        | ChunkMethod::Laws
        | ChunkMethod::Manual
        | ChunkMethod::One
        | ChunkMethod::Paper
        | ChunkMethod::Presentation
        | ChunkMethod::Resume
        | ChunkMethod::Titles
        | ChunkMethod::Audio
        | ChunkMethod::Qa => off,
        ChunkMethod::Email | ChunkMethod::Picture | ChunkMethod::Table | ChunkMethod::Tag => json!({}),
    };
    match settings {
        Json::Object(settings) => settings,
        _ => Settings::new(),
    }
}

/// Merges settings into others: given values replace, null or absent ones keep the base. Null for a setting without a
/// base is kept, for clients that look for it.
pub(crate) fn merged(mut base: Settings, given: &Settings) -> Settings {
    for (key, value) in given {
        match (base.get_mut(key), value) {
            (Some(_), Json::Null) => {}
            (Some(Json::Object(before)), Json::Object(more)) => {
                *before = merged(std::mem::take(before), more);
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
    with_parents(base, given)
}

/// Translates one form of requesting smaller pieces into the other.
fn with_parents(mut settings: Settings, given: &Settings) -> Settings {
    let Some(asked) = given.get("parent_child").and_then(Json::as_object) else { return settings };
    let delimiter = match asked.get("use_parent_child").and_then(Json::as_bool) {
        None => return settings,
        Some(false) => "",
        Some(true) => asked.get("children_delimiter").and_then(Json::as_str).unwrap_or("\n"),
    };
    // The plain setting takes precedence.
    if given.get("children_delimiter").is_none_or(Json::is_null) {
        settings.insert("children_delimiter".to_owned(), delimiter.into());
    }
    settings
}

fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && place % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(settings: &Json) -> String {
        let mut problems = Problems::default();
        check(&mut problems, "parser_config", settings);
        problems.refuse(101).err().map(|error| format!("{error:?}")).unwrap_or_default()
    }

    fn object(json: Json) -> Settings {
        let Json::Object(map) = json else { panic!("{json}") };
        map
    }

    #[test]
    fn methods_are_read_and_written() {
        for name in METHODS {
            assert_eq!(method_name(method(name).unwrap()), *name);
        }
        assert_eq!(method(" QA "), Some(ChunkMethod::Qa));
        assert_eq!(method("knowledge_graph"), Some(ChunkMethod::KnowledgeGraph), "only documents have it");
        assert_eq!(method("audit"), None);
        assert_eq!(method(""), None);
    }

    #[test]
    fn without_a_request_mistakes_are_told_in_plain_words() {
        let check = |settings: Json, expected: &str| {
            let told = check_settings(&object(settings)).err().map(|error| error.full()).unwrap_or_default();
            assert_eq!(told, expected);
        };
        check(json!({"chunk_token_num": 64, "delimiter": null, "raptor": {"use_raptor": true}}), "");
        check(
            json!({"chunk_token_num": "many"}),
            "`chunk_token_num` must be a whole number from 1 to 2048, but is \"many\"",
        );
        check(
            json!({"raptor": {"random_seed": -1}}),
            "`raptor.random_seed` must be a whole number from 0 on, but is -1",
        );
        check(json!({"raptor": {"scope": null}}), "`raptor.scope` must be one of file, dataset, but is null");
        check(
            json!({"pages": [[2, 1]]}),
            "`pages` must be a list of page ranges, such as [[1, 5], [8, 8]], but is [[2,1]]",
        );
        check(
            json!({"zzz": 1, "toc_extraction": 0}),
            "there is no setting `zzz`; `toc_extraction` must be true or false, but is 0",
        );
        let long = check_settings(&object(json!({"ext": {"x": "y".repeat(SETTINGS_MAX)}}))).unwrap_err();
        assert!(long.message.contains("more than 65535"), "{}", long.message);
        let slip = check_settings(&object(json!({"chunk_tokn_num": 64}))).unwrap_err().for_operator();
        assert_eq!(slip.0, "there is no setting `chunk_tokn_num`");
        assert_eq!(slip.1.as_deref(), Some("did you mean `chunk_token_num`?"));
    }

    #[test]
    fn settings_are_limited_to_their_ranges() {
        let check = |settings: Json, words: &str| {
            let told = told(&settings);
            assert!(
                if words.is_empty() { told.is_empty() } else { told.contains(words) },
                "{settings}: {told}"
            );
        };
        for (key, good, bad) in [
            ("auto_keywords", json!(32), json!(33)),
            ("auto_questions", json!(0), json!(11)),
            ("chunk_token_num", json!(2048), json!(0)),
            ("delimiter", json!("\n"), json!("")),
            ("delimiter", json!("。".repeat(1_024)), json!("。".repeat(1_025))),
            ("topn_tags", json!(10), json!(0)),
            ("filename_embd_weight", json!(0.5), json!(1.5)),
            ("task_page_size", json!(1), json!(0)),
            ("pages", json!([[1, 3]]), json!([1, 3])),
            ("html4excel", json!(true), json!("true")),
            ("layout_recognize", json!("Plain Text"), json!(1)),
            ("tag_kb_ids", json!([]), json!("a")),
            ("tag_kb_ids", json!(["a"]), json!([1])),
            ("overlapped_percent", json!(10), json!(91)),
            ("overlapped_percent", json!(0), json!(0.1)),
            ("children_delimiter", json!("."), json!(1)),
            ("children_delimiter", json!(""), json!("x".repeat(1_025))),
            ("toc_extraction", json!(false), json!(0)),
            ("raptor", json!({"use_raptor": true, "prompt": "p", "max_token": 1}), json!({"max_token": 0})),
            ("raptor", json!({"scope": "dataset"}), json!({"scope": "tenant"})),
            ("raptor", json!({"threshold": 1, "max_cluster": 1024}), json!({"threshold": 2})),
            ("raptor", json!({"random_seed": 0}), json!({"random_seed": -1})),
            (
                "raptor",
                json!({"use_raptor": true, "clustering_method": "ahc"}),
                json!({"clustering_method": "x"}),
            ),
            ("raptor", json!({"tree_builder": "psi"}), json!({"tree_builder": null})),
            ("raptor", json!({"clustering_threshold": 0.3}), json!({"clustering_ratio": 2})),
            ("raptor", json!({}), json!({"max_cluster": 1025})),
            ("graphrag", json!({"method": "general", "entity_types": ["x"]}), json!({"method": "heavy"})),
            ("graphrag", json!({"method": "ner"}), json!({"method": null})),
            ("mindmap", json!({"use_mindmap": true}), json!({"use_mindmap": "yes"})),
            ("graphrag", json!({"community": true, "resolution": false}), json!({"community": "no"})),
            ("parent_child", json!({"use_parent_child": true}), json!({"use_parent_child": 1})),
        ] {
            check(json!({key: good}), "");
            check(json!({key: bad}), &format!("Field: <parser_config.{key}"));
        }
        check(json!({"more": 1}), "Field: <parser_config.more> - Message: <Extra inputs are not permitted>");
        check(json!({"raptor": {"more": 1}}), "Field: <parser_config.raptor.more> - Message: <Extra inputs");
        check(json!([]), "Input should be a valid dictionary");
        let large = json!({"delimiter": "x".repeat(65_530)});
        check(large, "Parser config exceeds size limit (max 65,535 characters). Current size: 65,546");
    }

    #[test]
    fn settings_from_a_response_may_be_sent_back() {
        for name in METHODS {
            assert_eq!(told(&Json::Object(defaults(method(name).unwrap()))), "", "{name}");
        }
    }

    #[test]
    fn given_settings_override_the_defaults() {
        let given = object(
            json!({"chunk_token_num": 128, "raptor": {"max_token": 9}, "delimiter": null, "pages": [], "task_page_size": null}),
        );
        let settings = merged(defaults(ChunkMethod::Naive), &given);
        assert_eq!(settings["chunk_token_num"], 128);
        assert_eq!(
            (&settings["delimiter"], settings.get("task_page_size")),
            (&json!("\n"), Some(&Json::Null))
        );
        assert_eq!(settings["raptor"]["max_token"], 9);
        assert_eq!(settings["raptor"]["max_cluster"], 64);
        assert_eq!(settings["pages"], json!([]));
        assert!(defaults(ChunkMethod::Table).is_empty());
        assert_eq!(defaults(ChunkMethod::KnowledgeGraph)["graphrag"]["use_graphrag"], true);
        assert_eq!(
            merged(defaults(ChunkMethod::Qa), &given)["raptor"],
            json!({"use_raptor": false, "max_token": 9})
        );
    }

    #[test]
    fn settings_without_effect_are_reported() {
        let told = |json: Json| not_done(&object(json)).join(" ");
        assert_eq!(told(json!({"raptor": {"clustering_method": "ahc"}, "graphrag": {"method": "ner"}})), "");
        for (settings, name) in [
            (json!({"raptor": {"use_raptor": true, "tree_builder": "psi"}}), "`raptor`"),
            (json!({"graphrag": {"use_graphrag": true, "method": "ner"}}), "`graphrag.method`"),
        ] {
            assert!(told(settings.clone()).contains(name), "{settings}");
        }
    }

    #[test]
    fn child_chunks_can_be_configured_in_two_ways() {
        let check = |given: Json, expected: Option<&str>| {
            let settings = merged(Settings::new(), &object(given.clone()));
            assert_eq!(settings.get("children_delimiter").and_then(Json::as_str), expected, "{given}");
        };
        check(json!({"parent_child": {"use_parent_child": true}}), Some("\n"));
        check(json!({"parent_child": {"use_parent_child": true, "children_delimiter": "."}}), Some("."));
        check(json!({"parent_child": {"use_parent_child": false, "children_delimiter": "."}}), Some(""));
        check(json!({"parent_child": {}}), None);
        check(json!({"parent_child": {"use_parent_child": true}, "children_delimiter": ";"}), Some(";"));
    }

    #[test]
    fn numbers_have_thousands_separators() {
        for (number, text) in
            [(7, "7"), (123, "123"), (1_234, "1,234"), (123_456, "123,456"), (1_234_567, "1,234,567")]
        {
            assert_eq!(with_commas(number), text);
        }
    }
}
