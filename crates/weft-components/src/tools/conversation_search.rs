//! The ConversationSearch component: finds what was said before, in this conversation or in the user's others.

use weft_agent::bm25::{best, counted, scores};
use weft_core::effect::Delivery;
use weft_core::seam::conversations::{ConversationQuery, PastMessage};
use weft_core::value::shortened;
use weft_core::{
    Component, ComponentSpec, Finished, NodeContext, Outputs, Reads, Result, Role, Shape, Template, ToolSpec,
    Value, async_trait,
};

use crate::params::{Field, Params, choice, fields};

/// Default and maximum number of messages that a search returns.
const TOP: usize = 5;
const TOP_MAX: usize = 50;
/// Number of words of a message that are searched.
// Messages may contain whole files; their beginning says what they are about.
const WORDS_MAX: usize = 2_000;
/// Number of characters of a message that are shown.
// Fifty of them form one result, which has to fit into a prompt.
const SHOWN_MAX: usize = 1_000;

static QUERY: Field<Template> = Field::template("query", "the search query")
    .or("sys.query")
    .by_model("the words to look for in earlier messages, in the language that they were written in");
static SCOPE: Field<&str> = Field::choice(
    "scope",
    "session",
    &[
        choice("session", "this conversation"),
        choice("user", "all conversations of this user with this canvas, the last 50"),
    ],
    "where to search; messages too old to be in a prompt are found, too",
);
static TOP_N: Field<usize> = Field::count("top_n", TOP, &(1..=TOP_MAX), "the maximum number of messages");

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "ConversationSearch",
    role: Role::Step,
    summary: "Finds earlier messages of the conversation, or of all the user's conversations, by their words.",
    fields: &[fields(&[&QUERY, &SCOPE, &TOP_N])],
    outputs: &[
        weft_core::OutputSpec::new("result", "string", "the messages as text: when, who, what"),
        weft_core::OutputSpec::new(
            "messages",
            "array",
            "the messages, best first: `session`, `role`, `content`, `at_ms`",
        ),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "search_conversation", idempotent: true, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let search = ConversationSearch {
            query: params.take(&QUERY),
            of_user: params.take(&SCOPE) == "user",
            top: params.take(&TOP_N),
        };
        params.finish(search)
    },
};

struct ConversationSearch {
    query: Template,
    of_user: bool,
    top: usize,
}

/// Returns the best matches, shortened to what is shown.
fn found(query: &str, messages: &[PastMessage], top: usize) -> Vec<PastMessage> {
    // Computed for all before any is chosen: the weight of a word depends on how many messages contain it.
    let texts: Vec<_> = messages.iter().map(|message| counted(&message.content, WORDS_MAX)).collect();
    let best = best(&scores(query, &texts)).into_iter().take(top);
    let shown = |place: usize| {
        let mut message = messages.get(place)?.clone();
        message.content = shortened(&message.content, SHOWN_MAX);
        Some(message)
    };
    best.filter_map(shown).collect()
}

/// Formats the messages for people and models.
fn told(messages: &[PastMessage]) -> String {
    if messages.is_empty() {
        return "No earlier message has these words.".to_owned();
    }
    let one = |message: &PastMessage| {
        let day =
            jiff::Timestamp::from_millisecond(message.at_ms).map(|time| time.strftime("%Y-%m-%d %H:%M"));
        let day = day.map(|day| day.to_string()).unwrap_or_default();
        format!("[{day}] {}: {}", message.role, message.content)
    };
    messages.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[async_trait]
impl Component for ConversationSearch {
    fn shape(&self) -> Shape {
        let reads = Reads::always(self.query.references().cloned());
        Shape { reads, main_output: "result", ..Shape::default() }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let query = self.query.render(&ctx.inputs)?;
        let run = &ctx.run;
        let asked = ConversationQuery {
            canvas: run.canvas.clone(),
            session: run.session.clone(),
            user: self.of_user.then(|| run.input.user_id.clone()),
        };
        // Only what was found is stored with the run, and not all that was searched.
        let look = async {
            let messages = run.seams.conversations.messages(&run.tenant, &asked).await?;
            Ok(found(&query, &messages, self.top))
        };
        let (messages, _) = ctx.effect("conversations", Delivery::Idempotent, look).await?;
        let mut outputs = Outputs::of("result", Value::text(told(&messages)));
        outputs.set("messages", serde_json::json!(messages));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use weft_core::TenantId;
    use weft_core::seam::conversations::Conversations;

    use super::*;
    use crate::testing::{Node, Setting, outputs};

    /// Records the request, and always returns the same.
    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<ConversationQuery>>>);

    #[async_trait]
    impl Conversations for Said {
        async fn messages(&self, _: &TenantId, query: &ConversationQuery) -> Result<Vec<PastMessage>> {
            self.0.lock().unwrap().push(query.clone());
            let message = |role: &str, content: String| PastMessage {
                session: "s".into(),
                role: role.to_owned(),
                content,
                at_ms: 60_000,
            };
            Ok(vec![
                message("user", "My cat is called Tom.".to_owned()),
                message("assistant", "A fine name for a cat.".to_owned()),
                message("user", format!("{} dog", "x".repeat(3_000))),
            ])
        }
    }

    fn among(said: &Said, query: &'static str) -> Setting {
        let said = said.clone();
        Setting {
            query,
            seams: Some(Box::new(move |seams| seams.conversations = Arc::new(said))),
            ..Setting::default()
        }
    }

    #[tokio::test]
    async fn earlier_messages_are_found_by_their_words() {
        let said = Said::default();
        let node = Node::new("ConversationSearch", json!({"top_n": 1}));
        let result = outputs(&node, among(&said, "What is my cat called?")).await;
        assert_eq!(result["result"], "[1970-01-01 00:01] user: My cat is called Tom.");
        assert_eq!(result["messages"][0]["role"], "user");
        let long = outputs(&node, among(&said, "dog")).await;
        assert_eq!(long["messages"][0]["content"].as_str().unwrap().chars().count(), SHOWN_MAX + 1);
        let nothing = outputs(&node, among(&said, "zebra")).await;
        assert_eq!(
            (&nothing["result"], &nothing["messages"]),
            (&json!("No earlier message has these words."), &json!([]))
        );
        let of_user = Node::new("ConversationSearch", json!({"scope": "user"}));
        outputs(&of_user, among(&said, "cat")).await;
        let asked = said.0.lock().unwrap().clone();
        assert_eq!((&asked[0].user, asked[0].session.as_str(), asked[0].canvas.as_str()), (&None, "s", "c"));
        assert_eq!(asked[3].user, Some(String::new()));
    }
}
