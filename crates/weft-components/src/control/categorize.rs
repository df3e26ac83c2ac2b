//! The Categorize component: lets a model decide which branch a message belongs to.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use weft_agent::arguments;
use weft_agent::ask::ask_text;
use weft_core::seam::chat_model::{Author, ChatMessage, ChatRequest};
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentId, ComponentSpec, Finished, Json, NodeContext, Outputs, ParamProblem, Reads,
    Reference, Result, Role, Route, Shape, async_trait,
};

use crate::model::settings::{self, Asking};
use crate::params::{Field, Kind, Params, described, fields, is_empty, pointer};

const INSTRUCTIONS: &str = include_str!("../model/prompts/categorize.md");
/// Maximum number of history messages that are shown to the model.
// A question about one sentence needs few, and all of them are sent with every question.
const HISTORY_MAX: usize = 200;

/// Parameters of other components with a model that canvases also set here, and why they have no effect.
static IGNORED: [(Field, &str); 5] = [
    ignored("sys_prompt", "the instructions are made of the categories"),
    ignored("prompts", "what is sorted is `query`"),
    ignored("cite", "a category has no sources"),
    ignored("visual_files_var", "only texts are sorted"),
    ignored("output_structure", "the answer is a category"),
];

const fn ignored(name: &'static str, why: &'static str) -> (Field, &'static str) {
    (Field::raw(name, Kind::Any, "what means nothing here").not_offered(), why)
}

const CATEGORY: [Field; 3] = [
    Field::raw("description", Kind::Text, "what it covers"),
    Field::raw("examples", Kind::List, "example messages"),
    Field::raw("to", Kind::Targets, "what runs next"),
];
static CATEGORY_DESCRIPTION: Field =
    Field::raw("category_description", Kind::Named(&CATEGORY), "the categories, by name")
        .elsewhere(&["categories"]);
static ITEMS: Field =
    Field::raw("items", Kind::List, "the same as a list, each with its `name`").not_offered();
static QUERY: Field<Option<Reference>> =
    Field::reference("query", "the text to classify; the question if absent").elsewhere(&["input"]);
static MESSAGE_HISTORY_WINDOW_SIZE: Field<usize> = Field::count(
    "message_history_window_size",
    1,
    &(0..=HISTORY_MAX / 2),
    "the number of turns that the model sees, including that of the text",
);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "Categorize",
    role: Role::Step,
    summary: "Has a model classify the question and continues with the branch of that category.",
    fields: &[
        fields(&[&CATEGORY_DESCRIPTION, &ITEMS, &QUERY, &MESSAGE_HISTORY_WINDOW_SIZE]),
        settings::MODEL,
        settings::SAMPLING,
        fields(&[&IGNORED[0].0, &IGNORED[1].0, &IGNORED[2].0, &IGNORED[3].0, &IGNORED[4].0]),
    ],
    outputs: &[
        weft_core::OutputSpec::new("category_name", "string", "the category that was chosen"),
        weft_core::OutputSpec::new("_next", "array", "the ids of the components that run next"),
    ],
    time_limit: Some(Duration::from_secs(600)),
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let categories = categories(&mut params);
        let query = params.take(&QUERY).unwrap_or_else(|| Reference::Global("sys.query".into()));
        let turns = params.take(&MESSAGE_HISTORY_WINDOW_SIZE);
        let asking = Asking::read(&mut params);
        // Parameters of components that ask a model which make no difference to a choice.
        for (field, why) in &IGNORED {
            params.ignored(field, why);
        }
        let warnings = params.warnings();
        params.finish(Categorize { categories, query, turns, asking, warnings })
    },
};

struct Category {
    name: String,
    description: String,
    examples: Vec<String>,
    to: Vec<ComponentId>,
    pointer: String,
}

/// Returns the categories in their order, from either of the two formats in which they are stored.
fn categories(params: &mut Params<'_>) -> Vec<Category> {
    let mut found = Vec::new();
    match params.get(&CATEGORY_DESCRIPTION) {
        Some(Json::Object(described)) if !described.is_empty() => {
            for (name, category) in described {
                let at = pointer(&["category_description", name]);
                found.push(self::category(params, name, category, &at));
            }
        }
        _ => {
            for (place, item) in params.objects(&ITEMS) {
                let name = item.get("name").and_then(Json::as_str).unwrap_or_default();
                let at = pointer(&["items", &place.to_string()]);
                found.push(self::category(params, name, &Json::Object(item.clone()), &at));
            }
        }
    }
    let mut seen = HashSet::new();
    for category in &found {
        let name = category.name.trim();
        if !name.is_empty() && !seen.insert(name.to_lowercase()) {
            let message = format!(
                "another category is also called `{name}`, apart from case: a model cannot tell them apart"
            );
            let at = category.pointer.strip_suffix("/to").unwrap_or_default();
            params.warn(ParamProblem::new(at, message).help("rename one of them"));
        }
    }
    if found.is_empty() {
        let other = params.get(&CATEGORY_DESCRIPTION).filter(|other| !other.is_object() && !is_empty(other));
        let message = other.map_or_else(
            || "there is no category".to_owned(),
            |other| format!("must be an object of categories by name, and is {}", described(other)),
        );
        let problem = ParamProblem::new("/category_description", message);
        params.problem(problem.help("add a category with a description and a branch"));
    }
    found
}

fn category(params: &mut Params<'_>, name: &str, value: &Json, pointer: &str) -> Category {
    if name.trim().is_empty() {
        params.problem(ParamProblem::new(pointer, "the category has no name"));
    }
    let to = params.targets(&format!("{pointer}/to"), value.get("to"));
    let examples = match value.get("examples") {
        Some(Json::String(text)) => text.lines().map(str::to_owned).collect(),
        Some(Json::Array(items)) => {
            items.iter().map(|item| to_text(item.get("value").unwrap_or(item))).collect()
        }
        _ => Vec::new(),
    };
    Category {
        name: name.to_owned(),
        description: value.get("description").map(to_text).unwrap_or_default(),
        examples: examples.into_iter().filter(|example: &String| !example.trim().is_empty()).collect(),
        to,
        pointer: format!("{pointer}/to"),
    }
}

struct Categorize {
    categories: Vec<Category>,
    query: Reference,
    turns: usize,
    asking: Asking,
    warnings: Vec<ParamProblem>,
}

impl Categorize {
    fn request(&self, ctx: &NodeContext) -> ChatRequest {
        let names: Vec<&str> = self.categories.iter().map(|category| category.name.trim()).collect();
        let schema = json!({
            "type": "object", "properties": {"category": {"enum": names}}, "required": ["category"],
            "additionalProperties": false,
        });
        let messages = vec![
            ChatMessage::new(Author::System, self.instructions()),
            ChatMessage::new(Author::User, self.question(ctx)),
        ];
        ChatRequest { schema: Some(schema), ..self.asking.request(messages) }
    }

    fn instructions(&self) -> String {
        let mut text = INSTRUCTIONS.to_owned();
        for category in &self.categories {
            text.push_str(&format!("- {}", category.name.trim()));
            if !category.description.is_empty() {
                text.push_str(&format!(": {}", category.description));
            }
            text.push('\n');
            for example in &category.examples {
                text.push_str(&format!("  - example: {}\n", example.trim()));
            }
        }
        text
    }

    /// Returns the prompt. The history window counts the message to sort as half a turn, so that the conversation
    /// before it is one message shorter.
    fn question(&self, ctx: &NodeContext) -> String {
        let before = (self.turns * 2).saturating_sub(1);
        let history = &ctx.run.history[ctx.run.history.len().saturating_sub(before)..];
        let message = to_text(&ctx.inputs.json(&self.query));
        if history.is_empty() {
            return message;
        }
        let lines: Vec<String> =
            history.iter().map(|said| format!("{}: {}", said.role, said.content)).collect();
        format!("The conversation so far:\n{}\n\nThe message to sort:\n{message}", lines.join("\n"))
    }

    /// Returns the category that a reply names: as JSON, as the whole reply, or as a word in it. A name that is part of
    /// a longer one counts only where the longer one does not occur.
    fn chosen(&self, reply: &str) -> Option<&Category> {
        let exact = |name: &str| {
            // The ways in which models set off a word: in quotes, in bold, with a full stop.
            let name = name.trim().trim_matches(['"', '\'', '`', '*', '.', '。']).trim();
            self.categories.iter().find(|category| category.name.trim().to_lowercase() == name.to_lowercase())
        };
        let named = arguments::parse(reply)
            .ok()
            .and_then(|json| Some(json.value.get("category")?.as_str()?.to_owned()));
        named
            .as_deref()
            .and_then(exact)
            .or_else(|| exact(cleaned(reply)))
            .or_else(|| self.mentioned(cleaned(reply)))
    }

    fn mentioned(&self, reply: &str) -> Option<&Category> {
        let mut reply = reply.to_lowercase();
        let mut longest_first: Vec<&Category> = self.categories.iter().collect();
        longest_first.sort_by_key(|category| std::cmp::Reverse(category.name.len()));
        let mut first: Option<(usize, &Category)> = None;
        for category in longest_first {
            let name = category.name.trim().to_lowercase();
            if name.is_empty() {
                continue;
            }
            // Searched for once: otherwise a reply that repeats a name a thousand times would be scanned as often.
            let places: Vec<usize> = words(&reply, &name).collect();
            if let Some(place) =
                places.first().filter(|place| first.is_none_or(|(earlier, _)| **place < earlier))
            {
                first = Some((*place, category));
            }
            // A replacement of the same length, so that positions remain valid.
            let blank = "\u{1}".repeat(name.len());
            for place in places {
                reply.replace_range(place..place + name.len(), &blank);
            }
        }
        first.map(|(_, category)| category)
    }
}

/// Returns the positions where a name occurs as a separate word: an ASCII letter or digit at its edge is not adjacent
/// to another one.
fn words<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = usize> + 't {
    // Only ASCII counts: scripts such as Chinese put no spaces between words.
    let touches = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    text.match_indices(name).map(|(place, _)| place).filter(move |place| {
        let (before, after) = (text[..*place].chars().next_back(), text[place + name.len()..].chars().next());
        let joined_before = touches(before) && touches(name.chars().next());
        let joined_after = touches(after) && touches(name.chars().next_back());
        !joined_before && !joined_after
    })
}

#[async_trait]
impl Component for Categorize {
    fn shape(&self) -> Shape {
        let branches =
            self.categories.iter().map(|category| (category.pointer.clone(), category.to.clone())).collect();
        Shape {
            reads: Reads::always([self.query.clone()]),
            branches: Some(branches),
            history_turns: self.turns,
            models: vec![("/llm_id".to_owned(), self.asking.llm_id.clone())],
            warnings: self.warnings.clone(),
            main_output: "category_name",
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let model = ctx.run.seams.models.resolve(&ctx.run.tenant, &self.asking.llm_id)?;
        // Nothing of the reply is shown while it grows: it is a choice, and not an answer.
        let reply = ask_text(ctx, &*model, self.request(ctx), &mut |_| {}).await?;
        // A reply that names no category goes to the last one, which is the default branch.
        let Some(category) = self.chosen(&reply).or(self.categories.last()) else {
            return Err(weft_core::Error::internal("a Categorize was built without categories"));
        };
        let mut outputs = Outputs::of("category_name", Json::from(category.name.as_str()));
        outputs.set("_next", category.to.iter().map(ComponentId::as_str).collect::<Json>());
        Ok(Finished { outputs, route: Route::To(category.to.clone()), ..Finished::default() })
    }
}

/// Returns an answer without what models put around it: reasoning that ends in `</think>`, or a code fence.
fn cleaned(answer: &str) -> &str {
    let text = answer.rsplit_once("</think>").map_or(answer, |(_, rest)| rest).trim();
    let Some((_, fenced)) = text.split_once("```") else { return text };
    let fenced = fenced.split_once('\n').map_or(fenced, |(_, rest)| rest);
    fenced.rsplit_once("```").map_or(fenced, |(inside, _)| inside).trim()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Node, Setting, Stage};
    use serde_json::{Value as Json, json};
    use weft_core::Route;

    fn node() -> Node {
        Node::new(
            "Categorize",
            json!({"llm_id": "m", "category_description": {
                "refund": {"description": "wants money back", "examples": ["give it back", "2. pay"], "to": ["Agent:A"]},
                "refund status": {"examples": "where is it?\nhow long?", "to": "Agent:B"},
                "Other ": {"to": ["Agent:C"]},
            }}),
        )
    }

    async fn category(reply: &str) -> String {
        let node = node();
        let component = node.build();
        let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        stage.answer_text(reply);
        let finished = component.run(&stage.ctx).await.unwrap();
        let outputs = json!(finished.outputs);
        let Route::To(ids) = finished.route else { panic!("a branch is chosen") };
        assert_eq!(outputs["_next"], json!(ids));
        outputs["category_name"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn replies_name_a_category() {
        let check =
            async |reply: &str, expected: &str| assert_eq!(category(reply).await, expected, "{reply}");
        check("{\"category\": \"refund\"}", "refund").await;
        check("```json\n{\"category\": \"Refund Status\"}\n```", "refund status").await;
        check("<think>refund status, refund status</think>\"Refund\".", "refund").await;
        check("The category is refund status.", "refund status").await;
        check("It is about a refund, not refund status", "refund").await;
        check("other", "Other ").await;
        check("refunds", "Other ").await;
        check("I can't tell", "Other ").await;
    }

    #[tokio::test]
    async fn a_reply_that_repeats_a_name_is_read_quickly() {
        let begun = std::time::Instant::now();
        assert_eq!(category(&"refund refund status ".repeat(20_000)).await, "refund");
        assert_eq!(category(&"refunds ".repeat(100_000)).await, "Other ");
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn the_prompt_contains_names_descriptions_and_examples() {
        let node = node();
        let component = node.build();
        let history = vec![("user", "1"), ("assistant", "2")];
        let stage = Stage::new(&node, &*component, Setting { query: "Q", history, ..Setting::default() });
        stage.answer_text("other");
        component.run(&stage.ctx).await.unwrap();
        let request = stage.asked().remove(0);
        assert_eq!(
            request.schema.unwrap()["properties"]["category"]["enum"],
            json!(["refund", "refund status", "Other"])
        );
        let system = &request.messages[0].text;
        assert!(
            system.contains("- refund: wants money back\n  - example: give it back\n  - example: 2. pay\n")
        );
        assert!(system.contains("  - example: how long?"));
        assert_eq!(
            request.messages[1].text,
            "The conversation so far:\nassistant: 2\n\nThe message to sort:\nQ"
        );
    }

    /// The parameters of other model nodes apply here, too, as far as they have an effect.
    #[tokio::test]
    async fn every_setting_is_used_or_warned_of() {
        let mut node = node();
        let shape = node.build().shape();
        assert!(shape.warnings.is_empty() && shape.history_turns == 1);
        let more = json!({"max_retries": 2, "delay_after_error": 3, "cache": true, "sys_prompt": "S",
            "prompts": "P", "cite": true, "visual_files_var": "sys.files", "temperature": 0.5, "temperatureEnabled": true});
        node.add(more);
        let component = node.build();
        let warned: Vec<_> = component.shape().warnings.into_iter().map(|warning| warning.pointer).collect();
        assert_eq!(warned, ["/sys_prompt", "/prompts", "/cite", "/visual_files_var"]);
        let stage = Stage::new(&node, &*component, Setting { query: "Q", ..Setting::default() });
        stage.answer_text("other");
        component.run(&stage.ctx).await.unwrap();
        let request = stage.asked().remove(0);
        assert_eq!((request.retries_max, request.cached), (Some(2), true));
        assert_eq!(request.retry_delay, Some(std::time::Duration::from_secs(3)));
        assert_eq!(request.sampling.temperature, Some(0.5));
    }

    #[test]
    fn list_parameters_and_branches_are_read() {
        let items = json!([{"name": "a", "examples": [{"value": "x"}], "to": ["Agent:A"]}, {"name": "b", "to": ["Agent:B"]}]);
        let shape = Node::new("Categorize", json!({"items": items})).build().shape();
        let branches = shape.branches.unwrap();
        assert_eq!(branches[1], ("/items/1/to".to_owned(), vec!["Agent:B".into()]));
    }

    #[test]
    fn problems_are_all_reported() {
        let check = |params: Json, expected: &[&str]| {
            assert_eq!(Node::new("Categorize", params).problems(), expected);
        };
        check(json!({}), &["/category_description"]);
        check(
            json!({"category_description": {"": {"to": []}}, "query": "?"}),
            &["/category_description/", "/category_description//to", "/query"],
        );
    }
}
