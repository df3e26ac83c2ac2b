//! Remembers what was said, in the memories that a Message names.

use weft_core::context::Signal;
use weft_core::effect::Delivery;
use weft_core::id::MemoryKey;
use weft_core::seam::memories::Turn;
use weft_core::seam::memory_store::each_once;
use weft_core::{ErrorKind, NodeContext, Reference, Result, Template};

use crate::params::{Field, Params, ids};
use crate::text::without_thinking;

/// The memories.
pub(super) static MEMORY_IDS: Field<Vec<String>> =
    Field::texts("memory_ids", "ids of the memories that store what was said");
/// The user whom they are about.
pub(super) static USER_ID: Field<Template> =
    Field::template("user_id", "the user whose memory it is; if empty, the one who started the run");

/// The memories that are to remember what a Message says.
pub(super) struct Remembering {
    memories: Vec<String>,
    /// The same, with their pointers inside the parameters.
    named: Vec<(String, String)>,
    user: Template,
}

impl Remembering {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        let named = ids(params, &MEMORY_IDS);
        Self { memories: params.take(&MEMORY_IDS), named, user: params.take(&USER_ID) }
    }

    /// Returns the memories as `(pointer inside params, id)`.
    pub(super) fn named(&self) -> Vec<(String, String)> {
        self.named.clone()
    }

    /// Returns the references it reads; none if nothing is remembered.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.user.references().filter(|_| !self.memories.is_empty())
    }

    /// Passes a turn to each memory, once, however often the work is started. A memory that fails causes a warning: the
    /// message has already been shown.
    pub(super) async fn remember(&self, ctx: &NodeContext, said: &str) -> Result<()> {
        // A memory that is named twice gets the turn once.
        let memories = each_once(self.memories.iter().cloned());
        // A model's reasoning was not part of what the user was told.
        let response = without_thinking(said);
        if memories.is_empty() || response.trim().is_empty() {
            return Ok(());
        }
        let run = &ctx.run;
        let user = match self.user.render(&ctx.inputs)? {
            user if user.trim().is_empty() => run.input.user_id.clone(),
            user => user,
        };
        // It is stored where secrets are not known.
        let shown = |text: &str| run.masks.text(text).into_owned();
        let turn = Turn {
            user,
            agent: run.canvas.as_str().to_owned(),
            session: run.session.as_str().to_owned(),
            query: shown(&run.input.query),
            response: shown(&response),
        };
        // Identifies the turn to a memory that receives it again.
        let origin = format!("{}/{}/{}", run.run, ctx.activation, ctx.part);
        for memory in memories {
            let key = MemoryKey::new(&run.tenant, memory.as_str());
            let call = async { run.seams.memories.remember(&key, &origin, &turn).await };
            match ctx.effect("memory.remember", Delivery::Idempotent, call).await {
                Ok(((), _)) => {}
                // These errors end the run itself and say nothing about a memory.
                Err(error) if matches!(error.kind, ErrorKind::Cancelled | ErrorKind::Interrupted) => {
                    return Err(error);
                }
                Err(error) => {
                    let warning = format!("the memory `{memory}` did not store this: {}", error.full());
                    ctx.signal(Signal::Warn(warning)).await?;
                }
            }
        }
        Ok(())
    }
}
