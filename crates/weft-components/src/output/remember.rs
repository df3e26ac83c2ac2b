//! Remembers what was said, in the memories that a Message names.

use weft_core::context::Signal;
use weft_core::effect::Delivery;
use weft_core::id::MemoryKey;
use weft_core::seam::memories::Turn;
use weft_core::seam::memory_store::each_once;
use weft_core::{ErrorKind, NodeContext, Reference, Result, Template};

use crate::params::{Field, Params};
use crate::text::without_thinking;

/// Where.
pub(super) static MEMORY_IDS: Field<Vec<String>> =
    Field::texts("memory_ids", "ids of the memories that are to remember what was said");
/// Whom it is about.
pub(super) static USER_ID: Field<Template> =
    Field::template("user_id", "the user whose memory it is; empty: who started the run");

/// Which memories are to remember what a Message says.
pub(super) struct Remembering {
    memories: Vec<String>,
    user: Template,
}

impl Remembering {
    pub(super) fn of(params: &mut Params<'_>) -> Self {
        Self { memories: params.take(&MEMORY_IDS), user: params.take(&USER_ID) }
    }

    /// What it reads.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.user.references().filter(|_| !self.memories.is_empty())
    }

    /// Hands a turn to each memory, once, however often the work is begun. A memory that cannot take it
    /// is warned of: what was said has been said.
    pub(super) async fn remember(&self, ctx: &NodeContext, said: &str) -> Result<()> {
        // A memory that is named twice is told once.
        let memories = each_once(self.memories.iter().cloned());
        // What a model has thought is nothing that was said to the user.
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
        // By this a memory knows a turn that it is handed again.
        let origin = format!("{}/{}/{}", run.run, ctx.activation, ctx.part);
        for memory in memories {
            let key = MemoryKey::new(&run.tenant, memory.as_str());
            let call = async { run.seams.memories.remember(&key, &origin, &turn).await };
            match ctx.effect("memory.remember", Delivery::Idempotent, call).await {
                Ok(((), _)) => {}
                // These end the run itself and say nothing of a memory.
                Err(error) if matches!(error.kind, ErrorKind::Cancelled | ErrorKind::Interrupted) => {
                    return Err(error);
                }
                Err(error) => {
                    let warning = format!("the memory `{memory}` does not remember this: {}", error.full());
                    ctx.signal(Signal::Warn(warning)).await?;
                }
            }
        }
        Ok(())
    }
}
