//! Searches memories instead of datasets.

use serde_json::json;
use weft_core::context::Signal;
use weft_core::effect::Delivery;
use weft_core::seam::memories::{MemoryQuery, Recalled, Recollection};
use weft_core::seam::memory_store::each_once;
use weft_core::{Error, Json, NodeContext, Outputs, ParamProblem, Reference, Result, Template, Value};
use weft_knowledge::retrieve::stripped;
use weft_knowledge::tokens;

use super::search::DatasetSearch;
use crate::params::{Field, Params, ids};
use crate::passages::TOKENS_MAX;

/// The memories.
pub(super) static MEMORY_IDS: Field<Vec<String>> =
    Field::texts("memory_ids", "ids of the memories to search, if `retrieval_from` is `memory`");
/// The user whom they are about.
pub(super) static USER_ID: Field<Template> =
    Field::template("user_id", "the user whose memories are searched; if empty, all users");

/// Remedy when no memories are named.
const CHOOSE: &str = "name them in `memory_ids`; `GET /api/v1/memories` lists them";

/// A search of memories.
pub(super) struct MemorySearch {
    memories: Vec<String>,
    /// The same, with their pointers inside the parameters.
    named: Vec<(String, String)>,
    user: Template,
}

impl MemorySearch {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        let named = ids(params, &MEMORY_IDS);
        Self { memories: params.take(&MEMORY_IDS), named, user: params.take(&USER_ID) }
    }

    /// Returns the memories as `(pointer inside params, id)`.
    pub(super) fn named(&self) -> Vec<(String, String)> {
        self.named.clone()
    }

    pub(super) fn chooses_nothing(&self) -> bool {
        self.memories.iter().all(|id| id.trim().is_empty())
    }

    pub(super) fn warning(&self) -> Option<ParamProblem> {
        self.chooses_nothing().then(|| {
            ParamProblem::new("/memory_ids", "names no memory, so every search will fail").help(CHOOSE)
        })
    }

    /// Returns the references it reads, besides the question.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.user.references()
    }

    /// Returns what is remembered that answers a question.
    pub(super) async fn recalled(
        &self,
        ctx: &NodeContext,
        question: &str,
        search: &DatasetSearch,
    ) -> Result<Recollection> {
        if self.chooses_nothing() {
            return Err(Error::invalid("no memory is selected").help(CHOOSE));
        }
        // As a search of datasets treats a question.
        let question = stripped(question).to_owned();
        if question.is_empty() {
            return Ok(Recollection::default());
        }
        let user = self.user.render(&ctx.inputs)?;
        let how = search.how();
        let query = MemoryQuery {
            memories: each_once(self.memories.iter().cloned()),
            question,
            agents: Vec::new(),
            session: None,
            user: Some(user.trim().to_owned()).filter(|user| !user.is_empty()),
            similarity_min: how.similarity_min,
            vector_weight: how.vector_weight,
            limit: how.limit,
        };
        let call = async { ctx.run.seams.memories.recall(&ctx.run.tenant, &query).await };
        // The question is recorded in the journal next to the answer, so that a repeated run can tell whether it asks
        // the same.
        let question = serde_json::to_string(&query).ok().map(Into::into);
        let (found, _): (Recollection, bool) =
            ctx.effect_asking("memory.search", Delivery::Idempotent, question, call).await?;
        for note in &found.notes {
            ctx.signal(Signal::Warn(note.clone())).await?;
        }
        Ok(found)
    }
}

/// Returns the outputs of what was found. The text for prompts is limited to [`TOKENS_MAX`].
pub(super) fn outputs(found: Recollection, empty: &str) -> Outputs {
    let mut room = TOKENS_MAX;
    let fitting = |message: &&Recalled| {
        let taken = tokens::at_most(&message.content);
        // Whole messages only: a truncated one could say something else.
        let fits = taken <= room;
        room = room.saturating_sub(taken);
        fits
    };
    let contents: Vec<&str> =
        found.messages.iter().take_while(fitting).map(|message| message.content.as_str()).collect();
    let text = if contents.is_empty() { Value::text(empty) } else { Value::text(contents.join("\n\n")) };
    let messages = found.messages.iter().map(|message| {
        json!({"memory_id": message.memory, "message_id": message.number, "content": message.content,
            "similarity": message.similarity})
    });
    let messages: Json = messages.collect();
    let mut outputs = Outputs::of("formalized_content", text.clone());
    outputs.set("json", messages.clone());
    outputs.set("chunks", messages);
    // Canvases read it after either kind of search.
    outputs.set("doc_aggs", json!([]));
    outputs.set("content", text);
    if !found.notes.is_empty() {
        outputs.set("notes", Json::from(found.notes));
    }
    outputs
}
