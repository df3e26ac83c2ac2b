//! Component types that accept anything: their texts are templates, their branches are real.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use weft_core::component::{
    Component, ComponentSpec, Finished, NodeSource, ParamProblem, Reads, Role, Shape,
};
use weft_core::{Catalog, ComponentId, NodeContext, NodeOutputs, Reference, Template, async_trait};

pub(crate) fn catalog() -> Catalog {
    Catalog::new(SPECS)
}

const fn spec(kind: &'static str, role: Role) -> ComponentSpec {
    let measuring_only = matches!(kind.as_bytes(), b"Delay");
    ComponentSpec {
        kind,
        role,
        summary: "",
        fields: &[],
        outputs: &[],
        time_limit: None,
        measuring_only,
        tool: None,
        build,
    }
}

static SPECS: &[ComponentSpec] = &[
    spec("Agent", Role::Step),
    spec("AkShare", Role::Step),
    spec("Answer", Role::Step),
    spec("ArXiv", Role::Step),
    spec("BGPT", Role::Step),
    spec("Begin", Role::Entry),
    spec("Bing", Role::Step),
    spec("Browser", Role::Step),
    spec("Calculator", Role::Step),
    spec("Categorize", Role::Step),
    spec("CodeExec", Role::Step),
    spec("Compiler", Role::Step),
    spec("Crawler", Role::Step),
    spec("CurrentTime", Role::Step),
    spec("DataOperations", Role::Step),
    spec("DeepL", Role::Step),
    spec("ConversationSearch", Role::Step),
    spec("DeepResearch", Role::Step),
    spec("Delay", Role::Step),
    spec("DocGenerator", Role::Step),
    spec("DuckDuckGo", Role::Step),
    spec("Email", Role::Step),
    spec("ExcelProcessor", Role::Step),
    spec("ExeSQL", Role::Step),
    spec("ExitLoop", Role::Leave),
    spec("Extractor", Role::Step),
    spec("File", Role::Entry),
    spec("Generate", Role::Step),
    spec("GitHub", Role::Step),
    spec("Google", Role::Step),
    spec("GoogleScholar", Role::Step),
    spec("HttpGet", Role::Step),
    spec("Invoke", Role::Step),
    spec("Iteration", Role::Each),
    spec("IterationItem", Role::RoundStart),
    spec("Jin10", Role::Step),
    spec("KeenableSearch", Role::Step),
    spec("LLM", Role::Step),
    spec("ListOperations", Role::Step),
    spec("Loop", Role::Repeat),
    spec("LoopItem", Role::RoundStart),
    spec("Message", Role::Step),
    spec("Parser", Role::Step),
    spec("PubMed", Role::Step),
    spec("QWeather", Role::Step),
    spec("QueritContents", Role::Step),
    spec("QueritSearch", Role::Step),
    spec("ReadFile", Role::Step),
    spec("Retrieval", Role::Step),
    spec("SearXNG", Role::Step),
    spec("StringTransform", Role::Step),
    spec("Switch", Role::Step),
    spec("TavilyExtract", Role::Step),
    spec("TavilySearch", Role::Step),
    spec("TitleChunker", Role::Step),
    spec("OneChunker", Role::Step),
    spec("PresentationChunker", Role::Step),
    spec("QAChunker", Role::Step),
    spec("TableChunker", Role::Step),
    spec("TagChunker", Role::Step),
    spec("TokenChunker", Role::Step),
    spec("Tokenizer", Role::Step),
    spec("TuShare", Role::Step),
    spec("UserFillUp", Role::Pause),
    spec("VariableAggregator", Role::Step),
    spec("VariableAssigner", Role::Step),
    spec("WebSearch", Role::Step),
    spec("Wikipedia", Role::Step),
    spec("WriteFile", Role::Step),
    spec("YahooFinance", Role::Step),
];

struct Anything(Shape);

#[async_trait]
impl Component for Anything {
    fn shape(&self) -> Shape {
        self.0.clone()
    }

    async fn run(&self, _: &NodeContext) -> weft_core::Result<Finished> {
        Ok(Finished::default())
    }
}

fn build(source: &NodeSource<'_>) -> Result<Arc<dyn Component>, Vec<ParamProblem>> {
    let reads = Reads::always(references(source));
    let mut shape = Shape { reads, outputs: NodeOutputs::any(), ..Shape::default() };
    shape.branches = branches(source);
    if source.params.get("auto_play") == Some(&true.into()) {
        shape.aloud = Some("/auto_play");
    }
    if matches!(source.kind, "Agent" | "LLM" | "Categorize") {
        let llm_id = source.params.get("llm_id").and_then(Json::as_str).unwrap_or_default();
        shape.models.push(("/llm_id".to_owned(), llm_id.to_owned()));
        shape.streams = source.kind != "Categorize";
    }
    shape.calls = ids(source.params.get("tools"));
    if matches!(source.kind, "Answer" | "Generate") {
        shape.unsupported = Some(format!("`{}` was removed from the canvas language", source.kind));
    }
    if source.params.contains_key("enable_toc") {
        shape.warnings.push(ParamProblem::new("/enable_toc", "this has no effect").help("leave it out"));
    }
    let texts = ["content", "messages"].iter().any(|key| source.params.contains_key(*key));
    if source.kind == "Message" && !texts {
        return Err(vec![ParamProblem::new("/content", "a Message needs a text").help("give it one")]);
    }
    if source.params.get("top_n").is_some_and(|n| !n.is_number()) {
        return Err(vec![ParamProblem::new("/top_n", "this must be a number")]);
    }
    Ok(Arc::new(Anything(shape)))
}

fn references(source: &NodeSource<'_>) -> Vec<Reference> {
    let mut found = Vec::new();
    // The condition of a Loop is read by its item node.
    let conditions = source.parent.filter(|_| source.kind == "LoopItem").map(|(_, params)| params);
    let own = Some(source.params).filter(|_| source.kind != "Loop");
    for params in own.into_iter().chain(conditions) {
        for (key, value) in params.iter().filter(|(key, _)| !matches!(key.as_str(), "outputs" | "tools")) {
            if key != "exception_goto" {
                collect(value, source, &mut found);
            }
        }
    }
    found
}

fn collect(json: &Json, source: &NodeSource<'_>, found: &mut Vec<Reference>) {
    match json {
        Json::String(text) => found.extend(Template::parse_value(text, source.names()).references().cloned()),
        Json::Array(items) => items.iter().for_each(|item| collect(item, source, found)),
        Json::Object(map) => map.values().for_each(|value| collect(value, source, found)),
        _ => {}
    }
}

fn branches(source: &NodeSource<'_>) -> Option<Vec<(String, Vec<ComponentId>)>> {
    match source.kind {
        "Categorize" => {
            let categories = source.params.get("category_description").and_then(Json::as_object);
            let branch = |(name, category): (&String, &Json)| {
                (format!("/category_description/{name}/to"), ids(category.get("to")))
            };
            Some(categories.unwrap_or(&Map::new()).iter().map(branch).collect())
        }
        "Switch" => {
            let cases =
                source.params.get("conditions").and_then(Json::as_array).into_iter().flatten().enumerate();
            let cases = cases.map(|(index, case)| (format!("/conditions/{index}/to"), ids(case.get("to"))));
            let rest = ("/end_cpn_ids".to_owned(), ids(source.params.get("end_cpn_ids")));
            Some(cases.chain([rest]).collect())
        }
        _ => None,
    }
}

fn ids(json: Option<&Json>) -> Vec<ComponentId> {
    match json {
        Some(Json::String(id)) => vec![id.as_str().into()],
        Some(Json::Array(items)) => items.iter().filter_map(Json::as_str).map(Into::into).collect(),
        _ => Vec::new(),
    }
}
