//! The steps of a pipeline, in sequence.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value as Json, json};
use weft_core::context::Signal;
use weft_core::seam::chat_model::{ModelKind, Prices, Usage};
use weft_core::seam::document_reader::{ChunkMethod, DocumentPiece, Heading, ReadDocument, ReadRequest};
use weft_core::seam::file_store::StoredFile;
use weft_core::seam::{DocumentReader, FileStore as _, Seams};
use weft_core::watched_models::{CallOutcome, ModelCall, ModelWatcher};
use weft_core::{ErrorKind, Result, TenantId, async_trait};
use weft_testkit::MemoryFiles;

use crate::testing::{Node, Setting, Stage, failure, outputs};

/// Blocks between blank lines are chunks; those with `# ` are headings.
#[derive(Default)]
struct Blocks(Mutex<Vec<ReadRequest>>);

#[async_trait]
impl DocumentReader for Blocks {
    async fn read(&self, _: &TenantId, request: &ReadRequest, bytes: Bytes) -> Result<ReadDocument> {
        self.0.lock().unwrap().push(request.clone());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let blocks: Vec<&str> = match request.method {
            ChunkMethod::One => vec![&text],
            _ => text.split("\n\n").collect(),
        };
        let piece = |text: &str| DocumentPiece {
            content: text.replace("# ", ""),
            tokens: 1,
            ..DocumentPiece::default()
        };
        let headings = text.lines().filter_map(|line| line.strip_prefix("# "));
        let heading = |title: &str| Heading { level: 1, title: title.to_owned(), piece: 0 };
        let headings = headings.map(heading).collect();
        let pieces = blocks.into_iter().map(piece).collect();
        Ok(ReadDocument {
            pieces,
            headings,
            pages: 2,
            warnings: vec!["odd".into()],
            ..ReadDocument::default()
        })
    }
}

/// Uses a model to read everything, with or without a listener.
struct Asking(Option<Arc<dyn ModelWatcher>>);

#[async_trait]
impl DocumentReader for Asking {
    async fn read(&self, _: &TenantId, request: &ReadRequest, _: Bytes) -> Result<ReadDocument> {
        for watcher in self.0.iter().cycle().take(2) {
            let usage = Usage { prompt_tokens: 300, completion_tokens: 7, calls: 1, ..Usage::default() };
            let (prices, outcome) = (Some(Prices::new(1.0, 1.0)), CallOutcome::Succeeded);
            watcher.ended(&ModelCall { kind: ModelKind::Ocr, model: "eyes", prices, usage, outcome });
        }
        match request.name.as_str() {
            "bad.md" => Err(weft_core::Error::invalid("its second page is broken")),
            _ => Ok(ReadDocument::default()),
        }
    }

    fn watched(&self, watcher: Arc<dyn ModelWatcher>) -> Option<Arc<dyn DocumentReader>> {
        Some(Arc::new(Self(Some(watcher))))
    }
}

#[tokio::test]
async fn tokens_read_for_a_pipeline_count_for_its_run() {
    for name in ["a.md", "bad.md"] {
        let (node, files) = (parser(json!({})), kept().await);
        let change = move |seams: &mut Seams| {
            seams.files = files;
            seams.reader = Arc::new(Asking(None));
        };
        let document = json!({"file": "f1", "name": name});
        let setting = Setting { seams: Some(Box::new(change)), ..Setting::values([(DOCUMENT, document)]) };
        let component = node.build();
        let mut stage = Stage::new(&node, &*component, setting);
        assert_eq!(component.run(&stage.ctx).await.is_ok(), name == "a.md");
        let told = stage.signals().into_iter().filter_map(|signal| match signal {
            Signal::Used(used) => Some((used.model.to_string(), used.usage.calls, used.micros)),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), [("eyes".to_owned(), 2, 614)]);
        let spent = stage.ctx.budget.spent();
        assert_eq!((spent.model_calls, spent.tokens, spent.micros), (2, 614, 614));
    }
}

async fn kept() -> Arc<MemoryFiles> {
    let files = Arc::new(MemoryFiles::default());
    let text = "# Goods\n\nYou may return goods.\n\nBy mail.";
    let file = StoredFile {
        id: "f1".into(),
        name: "a.md".to_owned(),
        mime_type: "text/markdown".to_owned(),
        size: text.len() as u64,
        session: None,
        user: None,
        created_ms: 0,
    };
    files.put(&"t".into(), &file, text.into()).await.unwrap();
    files
}

async fn setting(values: impl IntoIterator<Item = (&'static str, Json)>) -> (Setting, Arc<Blocks>) {
    let (files, reader) = (kept().await, Arc::new(Blocks::default()));
    let asked = Arc::clone(&reader);
    let change = move |seams: &mut Seams| {
        seams.files = files;
        seams.reader = reader;
    };
    (Setting { seams: Some(Box::new(change)), ..Setting::values(values) }, asked)
}

const DOCUMENT: &str = "File@document";

fn document() -> Json {
    json!({"file": "f1", "name": "a.md"})
}

fn parser(params: Json) -> Node {
    Node::new("Parser", params).behind("File", "File")
}

#[tokio::test]
async fn a_pipeline_starts_with_one_file() {
    let node = Node::new("File", json!({}));
    let (found, _) = setting([("sys.files", json!(["File: a.md (f1)\n\ntext"]))]).await;
    let found = outputs(&node, found).await;
    assert_eq!(found["document"], json!({"file": "f1", "name": "a.md", "pages": 0}));
    assert_eq!((found["name"].clone(), found["file"]["size"].clone()), (json!("a.md"), json!(40)));
    for (files, kind) in [
        (json!([]), ErrorKind::Invalid),
        (json!([{"id": "f1"}, {"id": "f1"}]), ErrorKind::Invalid),
        (json!(["data:image/png;base64,AA"]), ErrorKind::Invalid),
        (json!([{"id": "other"}]), ErrorKind::NotFound),
    ] {
        let (setting, _) = setting([("sys.files", files.clone())]).await;
        assert_eq!(failure(&node, setting).await.kind, kind, "{files}");
    }
}

#[tokio::test]
async fn each_file_family_has_its_settings() {
    let read = async |params: Json| {
        let (setting, asked) = setting([(DOCUMENT, document())]).await;
        let found = outputs(&parser(params), setting).await;
        let request = asked.0.lock().unwrap()[0].clone();
        (found, request)
    };
    let (found, _) =
        read(json!({"setups": {"text&markdown": {"output_format": "markdown", "suffix": ["md"]}}})).await;
    assert_eq!(found["markdown"], "# Goods\n\nYou may return goods.\n\nBy mail.");
    assert_eq!(found["document"]["pages"], 2);
    assert_eq!(found["document"]["warnings"], json!(["odd"]));
    let (found, request) = read(json!({"markdown": {"output_format": "html", "pages": [[1, 2]]}})).await;
    assert_eq!(found["html"], "Goods\n\nYou may return goods.\n\nBy mail.");
    assert_eq!(json!(request.settings), json!({"html4excel": true, "pages": [[1, 2]]}));
    let without = json!({"setups": {"markdown": {"output_format": "text", "remove_toc": true}}});
    let (found, request) = read(without).await;
    assert_eq!(json!(request.settings), json!({"remove_toc": true}));
    assert_eq!(found["document"]["settings"], json!({"remove_toc": true}), "chunkers can read it again");
    let (found, _) = read(json!({})).await;
    assert_eq!(found["json"][1]["text"], "You may return goods.");
    let (setting, _) = setting([(DOCUMENT, document())]).await;
    let error = failure(&parser(json!({"setups": {"pdf": {}}})), setting).await;
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("`.md`"), "{error:?}");
    let wrong = parser(json!({"setups": {"own": {}, "pdf": {"output_format": "docx"}}}));
    assert_eq!(wrong.problems(), ["/setups/own", "/setups/pdf/output_format"]);
    let ignored = json!({"setups": {"email": {"fields": ["from"], "lang": "German", "llm_id": ""}}});
    let warned = parser(ignored).build().shape().warnings;
    let pointers: Vec<_> = warned.iter().map(|warning| warning.pointer.as_str()).collect();
    assert_eq!(pointers, ["/setups/email/lang", "/setups/email/fields"]);
    let all = ["from", "to", "cc", "bcc", "date", "subject", "body", "attachments"];
    let usual = json!({"setups": {"email": {"fields": all, "preprocess": "main_content"}, "pdf": {"preprocess": ["main_content"]}}});
    assert_eq!(parser(usual).build().shape().warnings, []);
    let asked = json!({"setups": {"pdf": {"preprocess": ["main_content", "abstract"], "remove_header_footer": true}}});
    let warned = parser(asked).build().shape().warnings;
    let pointers: Vec<_> = warned.iter().map(|warning| warning.pointer.as_str()).collect();
    assert_eq!(pointers, ["/setups/pdf/remove_header_footer", "/setups/pdf/preprocess"]);
    let warned = parser(json!({"setups": {"pdf": {"parse_method": "my-vlm"}}})).build().shape().warnings;
    assert_eq!(warned[0].pointer, "/setups/pdf/parse_method");
}

#[tokio::test]
async fn documents_are_split_as_the_chunkers_are_configured() {
    let cut = async |kind: &'static str, params: Json| {
        let (setting, asked) = setting([("Parser:P@document", document())]).await;
        let found = outputs(&Node::new(kind, params).behind("Parser:P", "Parser"), setting).await;
        let request = asked.0.lock().unwrap()[0].clone();
        (found, request.method, json!(request.settings))
    };
    let params = json!({"chunk_token_size": 64, "delimiters": ["\n", "!", "END"], "overlapped_percent": 0.1,
        "children_delimiters": [";"], "table_context_size": 8});
    let (found, method, settings) = cut("TokenChunker", params).await;
    assert_eq!(found["chunks"][2]["text"], "By mail.");
    assert_eq!(method, ChunkMethod::Naive);
    assert_eq!(
        settings,
        json!({"chunk_token_num": 64, "delimiter": "\n!`END`", "children_delimiter": ";",
            "overlapped_percent": 10, "table_context_size": 8})
    );
    let (_, method, settings) =
        cut("TokenChunker", json!({"delimiter_mode": "one", "overlapped_percent": 15})).await;
    assert_eq!((method, settings["overlapped_percent"].clone()), (ChunkMethod::One, json!(15)));
    let levels = json!([["^#[^#]"], [{"expression": "^##[^#]"}]]);
    let (_, method, settings) =
        cut("TitleChunker", json!({"levels": levels, "hierarchy": "2", "chunk_token_cap": 8000})).await;
    assert_eq!(method, ChunkMethod::Titles);
    assert_eq!(
        settings,
        json!({"title_levels": [["^#[^#]"], ["^##[^#]"]], "hierarchy": 2, "title_paths": true,
            "chunk_token_num": 2048})
    );
    let families = json!([["^#[^#]", "[0-9]{,2}\\."], ["Part"]]);
    let (_, _, settings) =
        cut("TitleChunker", json!({"levels": families, "method": "group", "hierarchy": "0"})).await;
    assert_eq!(
        settings,
        json!({"title_families": families, "hierarchy": 0, "title_paths": false, "chunk_token_num": 512})
    );
    let params =
        json!({"levels": families, "levels_are": "levels", "hierarchy": 1, "root_chunk_as_heading": true});
    let (_, _, settings) = cut("TitleChunker", params).await;
    assert_eq!((&settings["title_levels"], &settings["title_opening"]), (&families, &json!(true)));
    // Families of one level each, as for résumés in two languages: families are used whatever the method.
    let languages = json!([["Education"], ["教育"]]);
    let params = json!({"levels": languages, "method": "hierarchy", "hierarchy": 1});
    let (_, _, settings) = cut("TitleChunker", params).await;
    assert_eq!(settings["title_families"], languages);
    for (kind, expected) in [
        ("OneChunker", ChunkMethod::One),
        ("PresentationChunker", ChunkMethod::Presentation),
        ("QAChunker", ChunkMethod::Qa),
        ("TableChunker", ChunkMethod::Table),
        ("TagChunker", ChunkMethod::Tag),
    ] {
        let (found, method, settings) = cut(kind, json!({})).await;
        assert_eq!((method, settings), (expected, json!({})), "{kind}");
        assert!(found["chunks"].as_array().is_some_and(|chunks| !chunks.is_empty()), "{kind}");
    }
    let wrong =
        Node::new("TitleChunker", json!({"levels": [["("]], "hierarchy": 0})).behind("Parser:P", "Parser");
    assert_eq!(wrong.problems(), ["/levels/0/0", "/hierarchy"]);
    assert_eq!(Node::new("TokenChunker", json!({})).problems(), [""], "no edge leads to it");
}

fn extractor(params: Json) -> Node {
    Node::new("Extractor", params).behind("TokenChunker:C", "TokenChunker")
}

fn chunks(texts: &[&str]) -> HashMap<&'static str, weft_core::Value> {
    let chunks: Vec<Json> = texts.iter().map(|text| json!({"text": text})).collect();
    let values = [("TokenChunker:C@document", document()), ("TokenChunker:C@chunks", json!(chunks))];
    values.into_iter().map(|(name, value)| (name, value.into())).collect()
}

#[tokio::test]
async fn a_model_extracts_from_every_chunk() {
    let params = json!({"field_name": "summary", "sys_prompt": "Short: {sys.query}",
        "prompts": [{"role": "user", "content": "Text:\n{Splitter:Gone@chunks}\n"}]});
    let node = extractor(params);
    let component = node.build();
    let setting = || Setting { values: chunks(&["one", "two"]), query: "Q", ..Setting::default() };
    let stage = Stage::new(&node, &*component, setting());
    stage.answer_text("<think>hm</think>first").answer_text("second");
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(found["chunks"][0]["summary"], "first");
    assert_eq!(
        found["chunks"][1],
        json!({"text": "two", "doc_type_kwd": "text", "tokens": 0, "summary": "second"})
    );
    let asked = stage.asked();
    let lines: Vec<&str> = asked[1].messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(lines, ["Short: Q", "Text:\ntwo\n"]);

    // Without a position the chunk comes last; an invalid answer leaves its chunk unchanged, and is reported.
    let node = extractor(json!({"field_name": "metadata", "sys_prompt": "Facts as JSON"}));
    let component = node.build();
    let mut stage = Stage::new(&node, &*component, setting());
    stage.answer_text("```json\n{\"city\": \"Bonn\"}\n```").answer_text("none");
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(found["chunks"][0]["metadata"], json!({"city": "Bonn"}));
    assert_eq!(found["chunks"][1].get("metadata"), None);
    assert_eq!(stage.asked()[0].messages.last().unwrap().text, "one");
    let told =
        |signal: &Signal| matches!(signal, Signal::Warn(text) if text.starts_with("chunk 2 has no metadata"));
    assert!(stage.signals().iter().any(told));

    let untold = extractor(json!({"field_name": "metadata", "sys_prompt": "Return the metadata only."}));
    let component = untold.build();
    let stage = Stage::new(&untold, &*component, setting());
    stage.answer_text("{}").answer_text("{}");
    component.run(&stage.ctx).await.unwrap();
    let told = stage.asked()[0].messages[0].text.clone();
    assert!(told.starts_with("Return the metadata only.\n\nWrite it as one JSON object"), "{told}");

    // If no chunk gets a result, that is a failure.
    let component = node.build();
    let stage = Stage::new(&node, &*component, setting());
    stage.answer_text("none").answer_text("none");
    assert_eq!(component.run(&stage.ctx).await.unwrap_err().kind, ErrorKind::Garbled);
    assert_eq!(extractor(json!({})).problems(), ["/field_name"]);
    for taken in ["text", "picture_number"] {
        assert_eq!(extractor(json!({"field_name": taken})).problems(), ["/field_name"]);
    }
    for switched_off in [json!({"auto_tags": 0}), json!({"enable_metadata": 0})] {
        assert_eq!(extractor(switched_off).problems(), [""; 0]);
    }
}

#[tokio::test]
async fn unreadable_metadata_does_not_fail_a_document_of_one_chunk() {
    let node = extractor(json!({"field_name": "metadata", "sys_prompt": "Facts as JSON"}));
    let component = node.build();
    let setting = || Setting { values: chunks(&["one"]), ..Setting::default() };
    let mut stage = Stage::new(&node, &*component, setting());
    stage.answer_text("The passage says nothing of the kind.");
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    assert_eq!((&found["chunks"][0]["text"], found["chunks"][0].get("metadata")), (&json!("one"), None));
    let told =
        |signal: &Signal| matches!(signal, Signal::Warn(text) if text.starts_with("chunk 1 has no metadata"));
    assert!(stage.signals().iter().any(told));
    // A model without any answer is a different case.
    let stage = Stage::new(&node, &*component, setting());
    let refusal = weft_core::Error::new(ErrorKind::Filtered, "not this");
    stage.outside.answers.lock().unwrap().push(Err(refusal));
    assert_eq!(component.run(&stage.ctx).await.unwrap_err().kind, ErrorKind::Garbled);
}

#[tokio::test]
async fn one_extractor_can_extract_several_fields() {
    // As newer editors write all of them: with nothing switched on.
    let off = json!({"llm_id": "", "keywords": {"top_n": 0}, "questions": {"top_n": 0},
        "tags": {"top_n": 0, "tag_file_id": ""}, "summary": {"enabled": false},
        "metadata": {"enabled": false, "metadata": [], "built_in_metadata": []}});
    let flat = json!({"field_name": "", "auto_keywords": 0, "auto_questions": 0, "auto_tags": 0,
        "enable_metadata": 0, "metadata": []});
    let setting = || Setting { values: chunks(&["one"]), ..Setting::default() };
    for params in [off, flat] {
        let node = extractor(params);
        let component = node.build();
        let stage = Stage::new(&node, &*component, setting());
        let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
        assert_eq!(found["chunks"][0]["text"], "one");
        assert!(stage.asked().is_empty());
        assert!(component.shape().models.is_empty() && component.shape().warnings.is_empty());
    }

    let node =
        extractor(json!({"keywords": {"top_n": 2}, "questions": {"top_n": "1", "system_prompt": "Ask!"},
        "summary": {"enabled": true}, "tags": {"top_n": 3},
        "metadata": {"enabled": true, "metadata": [{"key": "city", "description": "where it is"}]}}));
    let component = node.build();
    let warned = component.shape().warnings;
    assert_eq!(warned.iter().map(|warning| warning.pointer.as_str()).collect::<Vec<_>>(), ["/tags"]);
    let stage = Stage::new(&node, &*component, setting());
    stage.answer_text("1. red, blue, green").answer_text("Why?\nWhat?").answer_text("Short.");
    stage.answer_text("{\"city\": \"Bonn\", \"mood\": \"good\"}");
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    let expected = json!({"text": "one", "doc_type_kwd": "text", "tokens": 0, "summary": "Short.",
        "keywords": ["red", "blue"], "questions": ["Why?"], "metadata": {"city": "Bonn"}});
    assert_eq!(found["chunks"], json!([expected]));
    let asked = stage.asked();
    let told = |place: usize, said: usize| asked[place].messages[said].text.as_str();
    assert!(told(0, 0).contains("the 2 most important keywords"), "{}", told(0, 0));
    assert_eq!((told(0, 1), told(1, 0)), ("<passage>\none\n</passage>", "Ask!"));
    assert!(told(3, 0).contains("- \"city\": where it is"), "{}", told(3, 0));

    assert_eq!(extractor(json!({"keywords": {"top_n": "many"}})).problems(), ["/keywords/top_n"]);
    let node = Node::new("Extractor", json!({"summary": {"enabled": true}})).behind("Parser:P", "Parser");
    let component = node.build();
    let stage = Stage::new(&node, &*component, Setting::values([("Parser:P@document", document())]));
    stage.answer_text("of what?");
    let error = component.run(&stage.ctx).await.unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("not been split"), "{error:?}");
}

#[tokio::test]
async fn before_chunking_a_model_is_called_once() {
    let node = Node::new("Extractor", json!({"field_name": "metadata", "prompts": "{Parser:P@text}"}))
        .behind("Parser:P", "Parser");
    let component = node.build();
    let values = [("Parser:P@document", document()), ("Parser:P@text", json!("all of it"))];
    let stage = Stage::new(&node, &*component, Setting::values(values));
    stage.answer_text("{\"year\": 2020}");
    let found = json!(component.run(&stage.ctx).await.unwrap().outputs);
    assert_eq!(found["document"]["metadata"], json!({"year": 2020}));
    assert_eq!(stage.asked()[0].messages[0].text, "all of it");
    let contents = extractor(json!({"field_name": "toc"}));
    let found = outputs(&contents, Setting { values: chunks(&["one"]), ..Setting::default() }).await;
    assert_eq!(
        (found["document"]["contents"].clone(), found["chunks"][0]["text"].clone()),
        (json!(true), json!("one"))
    );
}

#[tokio::test]
async fn the_tokenizer_sets_the_search_method_and_joins_branches() {
    let params = json!({"fields": "summary", "search_method": ["full_text"]});
    let node =
        Node::new("Tokenizer", params).behind("Extractor:A", "Extractor").behind("Extractor:B", "Extractor");
    let a = json!([{"text": "x", "summary": "s"}, {"text": "y"}]);
    let b = json!([{"text": "x", "keywords": "k", "metadata": {"m": 1}}, {"text": "y", "questions": "q"}]);
    let mut other = document();
    other["metadata"] = json!({"year": 1});
    let values = [
        ("Extractor:A@document", document()),
        ("Extractor:A@chunks", a.clone()),
        ("Extractor:B@document", other),
        ("Extractor:B@chunks", b),
    ];
    let found = outputs(&node, Setting::values(values.clone())).await;
    assert_eq!(found["document"]["search"], json!({"vectors": false, "field": "summary"}));
    assert_eq!(found["document"]["metadata"], json!({"year": 1}));
    let first = json!({"text": "x", "doc_type_kwd": "text", "tokens": 0, "summary": "s", "keywords": "k", "metadata": {"m": 1}});
    assert_eq!((found["chunks"].as_array().unwrap().len(), &found["chunks"][0]), (2, &first));
    // Results that one branch has compiled from the chunks come after them, once.
    let compiled = json!({"text": "t", "compiled": {"kind": "timeline"}});
    let with = |more: Json| json!([{"text": "x", "keywords": "k"}, {"text": "y"}, compiled, more]);
    let mut both = values.clone();
    both[1].1 = with(json!({"text": "u", "compiled": {"kind": "tree"}}));
    both[3].1 = with(json!({"text": "v", "compiled": {"kind": "wiki"}}));
    let found = outputs(&node, Setting::values(both)).await;
    let texts: Vec<_> = found["chunks"].as_array().unwrap().iter().map(|chunk| &chunk["text"]).collect();
    assert_eq!(texts, ["x", "y", "t", "u", "v"]);
    // Other chunks follow; a program may return texts.
    let mut values = values;
    values[3].1 = json!(["z"]);
    let found = outputs(&node, Setting::values(values.clone())).await;
    assert_eq!(found["chunks"].as_array().unwrap().len(), 3);
    values[3].1 = json!([{"content": "no text"}]);
    assert_eq!(failure(&node, Setting::values(values)).await.kind, ErrorKind::Invalid);
    let uncut = Node::new("Tokenizer", json!({})).behind("Parser:P", "Parser");
    let uncut = failure(&uncut, Setting::values([("Parser:P@document", document())])).await;
    assert!(uncut.message.contains("not been split"), "{uncut:?}");
    let wrong =
        Node::new("Tokenizer", json!({"search_method": ["magic"]})).behind("Extractor:A", "Extractor");
    assert_eq!(wrong.problems(), ["/search_method"]);
}

/// A conversation has no document, and neither has a program.
#[test]
fn an_unreachable_step_is_named() {
    let check = |kind: &'static str, before: &str, fails: bool| {
        let node = Node::new(kind, json!({"field_name": "summary"})).behind("a", before);
        let warnings = node.build().shape().warnings;
        let told = warnings.iter().any(|told| told.message.contains("no document reaches this step"));
        assert_eq!(told, fails, "{before} → {kind}: {warnings:?}");
    };
    check("TokenChunker", "Begin", true);
    check("OneChunker", "CodeExec", true);
    check("Extractor", "UserFillUp", true);
    check("Tokenizer", "Begin", true);
    check("Parser", "File", false);
    check("TokenChunker", "Parser", false);
    check("TokenChunker", "Prser", false);
    check("Tokenizer", "TokenChunker", false);
}
