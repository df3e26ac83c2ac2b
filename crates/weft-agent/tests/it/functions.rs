//! Tools from typed functions of the program.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use weft_agent::function::{AsJson, iterator_tool, streaming_tool, tool};
use weft_core::tool::{Invocation, Tool, ToolOutput, ToolSession, ToolStep};
use weft_core::{Error, ErrorKind, Result};

use crate::kit::World;

/// How a search is asked for.
#[derive(Deserialize, JsonSchema)]
struct Search {
    /// What to look for.
    query: String,
    /// How many, at most.
    #[serde(default = "ten")]
    limit: u8,
    /// In which order.
    order: Option<Order>,
    /// Where to look.
    #[serde(default)]
    places: Vec<Place>,
}

fn ten() -> u8 {
    10
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    Newest,
    Best,
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// Its name.
    title: String,
}

fn describe(search: &Search) -> String {
    let order = search.order.as_ref().map_or("as found", |order| match order {
        Order::Newest => "newest",
        Order::Best => "best",
    });
    let places: Vec<_> = search.places.iter().map(|place| place.title.as_str()).collect();
    format!("{} x{} {order} in [{}]", search.query, search.limit, places.join(","))
}

fn search() -> Tool {
    tool("search", "Searches.", |search: Search| async move { Ok(describe(&search)) }).unwrap()
}

/// All steps: the result of each, and whether it was the last.
async fn steps(tool: Tool, arguments: Json) -> Vec<Result<(ToolOutput, bool)>> {
    let world = World::new([]);
    let name = tool.name.clone();
    world.toolkit.register(tool).unwrap();
    let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
    let invocation =
        Invocation { id: "c".to_owned(), arguments, agent: Arc::clone(&world.ctx), resumed: None };
    let step = |step: Result<ToolStep>| {
        step.map(|step| match step {
            ToolStep::Progress(output) => (output, false),
            ToolStep::Done(output) => (output, true),
            ToolStep::Suspended(_) => panic!("it waits"),
        })
    };
    world.toolkit.call(&name, invocation).map(step).collect().await
}

async fn texts(tool: Tool, arguments: Json) -> Vec<(String, bool)> {
    let steps = steps(tool, arguments).await;
    steps.into_iter().map(|step| step.map(|(output, last)| (output.to_text(), last)).unwrap()).collect()
}

#[test]
fn a_struct_provides_its_schema() {
    let expected = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {
                "type": "integer", "format": "uint8", "minimum": 0, "maximum": 255, "default": 10,
                "description": "How many, at most."
            },
            "order": {
                "type": ["string", "null"], "enum": ["newest", "best", null],
                "description": "In which order."
            },
            "places": {
                "type": "array", "description": "Where to look.",
                "items": {
                    "type": "object",
                    "properties": {"title": {"type": "string", "description": "Its name."}},
                    "required": ["title"]
                }
            }
        },
        "required": ["query"]
    });
    assert_eq!(search().parameters, expected);
    let refused = tool("x", "X.", |_: String| async { Ok("") }).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn typed_arguments_are_parsed_and_invalid_ones_refused() {
    assert_eq!(
        texts(search(), json!({"query": "cats", "order": "best", "places": [{"title": "attic"}]})).await,
        [("cats x10 best in [attic]".to_owned(), true)]
    );
    let refused = |arguments: Json| async {
        let error = steps(search(), arguments).await.pop().unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        error.full()
    };
    assert!(refused(json!({})).await.contains("/query"));
    assert!(refused(json!({"query": "cats", "limit": 300})).await.contains("/limit"));
    assert!(refused(json!({"query": "cats", "order": "oldest"})).await.contains("/order"));
    assert!(refused(json!({"query": "cats", "places": [{}]})).await.contains("/places/0"));
}

#[tokio::test]
async fn presets_are_hidden_from_the_model_and_take_precedence() {
    let tool = search().with_preset("limit", json!(3)).with_preset("query", json!("dogs"));
    let world = World::new([]);
    let registered = world.toolkit.register(tool.clone()).unwrap();
    assert!(registered.parameters["properties"].get("limit").is_none());
    assert!(registered.parameters["properties"].get("order").is_some());
    assert_eq!(registered.parameters["required"], json!([]));
    assert_eq!(registered.preset["query"], "dogs");
    assert_eq!(
        texts(tool, json!({"limit": 200, "query": "cats", "order": "newest"})).await,
        [("dogs x3 newest in []".to_owned(), true)]
    );
}

#[derive(Deserialize, JsonSchema)]
struct Words {
    words: Vec<String>,
}

fn words() -> Json {
    json!({"words": ["one ", "two ", "three"]})
}

#[tokio::test]
async fn values_iterators_and_streams_are_one_stream_of_growing_chunks() {
    let value = tool("w", "W.", |words: Words| async move { Ok(words.words.concat()) }).unwrap();
    let iterator = iterator_tool("w", "W.", |words: Words| words.words.into_iter().map(Ok)).unwrap();
    let stream =
        streaming_tool("w", "W.", |words: Words| stream::iter(words.words.into_iter().map(Ok))).unwrap();
    let whole = ("one two three".to_owned(), true);
    assert_eq!(texts(value, words()).await, std::slice::from_ref(&whole));
    for tool in [iterator, stream] {
        let chunks = texts(tool, words()).await;
        assert_eq!(chunks.iter().map(|(_, last)| *last).collect::<Vec<_>>(), [false, false, false, true]);
        assert!(chunks.windows(2).all(|pair| pair[1].0.starts_with(&pair[0].0)), "{chunks:?}");
        assert_eq!((chunks[0].0.as_str(), chunks.last()), ("one ", Some(&whole)));
    }
    let none = streaming_tool("w", "W.", |_: Words| stream::empty::<Result<String>>()).unwrap();
    assert_eq!(texts(none, words()).await, [(String::new(), true)]);
}

#[tokio::test]
async fn a_failure_in_the_middle_ends_the_stream() {
    let failing = |words: Words| {
        words.words.into_iter().map(|word| match word.as_str() {
            "three" => Err(Error::new(ErrorKind::Unavailable, "no more words")),
            _ => Ok(word),
        })
    };
    let stream = streaming_tool("w", "W.", move |words| stream::iter(failing(words))).unwrap();
    let broken = iterator_tool("w", "W.", |words: Words| {
        words.words.into_iter().map(|word| if word == "three" { panic!("broken") } else { Ok(word) })
    });
    for (tool, kind) in [(stream, ErrorKind::Unavailable), (broken.unwrap(), ErrorKind::Internal)] {
        let steps = steps(tool, words()).await;
        let kinds: Vec<_> = steps.iter().map(|step| step.as_ref().err().map(|error| error.kind)).collect();
        assert_eq!(kinds, [None, None, Some(kind)]);
    }
}

#[tokio::test]
async fn every_chunk_is_postprocessed() {
    let stream =
        || streaming_tool("w", "W.", |words: Words| stream::iter(words.words.into_iter().map(Ok))).unwrap();
    let loud = stream().with_postprocess(|_, output| Some(ToolOutput::text(output.to_text().to_uppercase())));
    let chunks: Vec<_> = texts(loud, words()).await.into_iter().map(|(text, _)| text).collect();
    assert_eq!(chunks, ["ONE ", "ONE TWO ", "ONE TWO THREE", "ONE TWO THREE"]);
    let same = stream().with_postprocess(|_, _| None);
    assert_eq!(texts(same, words()).await[1].0, "one two ");
}

#[tokio::test]
async fn values_and_metadata_arrive_unchanged() {
    let value = tool("w", "W.", |words: Words| async move { Ok(AsJson(words.words.len())) }).unwrap();
    assert_eq!(steps(value, words()).await.remove(0).unwrap().0.value, Some(json!(3)));
    let noted = |_: Words| {
        let output = ToolOutput::text("a").with_metadata("from", json!("here"));
        stream::iter([Ok(output), Ok(ToolOutput::text("b").with_metadata("more", json!(true)))])
    };
    let tool = streaming_tool("w", "W.", noted).unwrap();
    let last = steps(tool, words()).await.pop().unwrap().unwrap().0;
    assert_eq!(Json::Object(last.metadata.clone()), json!({"from": "here", "more": true}));
    assert_eq!(last.to_text(), "ab");
}
