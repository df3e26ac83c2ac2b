//! What tools cannot work without and what is known only when the agent runs: secrets, and texts built from references,
//! such as a key in a variable.

use weft_core::component::NeededText;
use weft_core::reference::Inputs;
use weft_core::{Reference, Shape};

use super::arguments::ARGUMENTS;

/// Requirements without which every call of a tool fails.
#[derive(Clone, Default)]
pub(super) struct Needs {
    secrets: Vec<Reference>,
    texts: Vec<NeededText>,
}

impl Needs {
    /// Returns the requirements of a built component.
    pub(super) fn of(shape: &Shape) -> Self {
        let own = shape.reads.all().filter(|reference| !shape.dispensable.contains(reference));
        // A text without references was already checked, and what the model fills in is not known before a call.
        let known = |needed: &&NeededText| {
            let mut references = needed.text.references().peekable();
            references.peek().is_some()
                && references.all(|r| r.component().is_none_or(|id| id.as_str() != ARGUMENTS))
        };
        Self { texts: shape.needs.iter().filter(known).cloned().collect(), ..Self::of_references(own) }
    }

    /// Returns the requirements of a component that cannot be built before a call, given its references.
    pub(super) fn of_references<'r>(references: impl IntoIterator<Item = &'r Reference>) -> Self {
        let secrets = references.into_iter().filter(|reference| reference.secret().is_some());
        Self { secrets: secrets.cloned().collect(), texts: Vec::new() }
    }

    /// Whether there are no requirements.
    pub(super) fn is_empty(&self) -> bool {
        self.secrets.is_empty() && self.texts.is_empty()
    }

    /// Returns the first unmet requirement, as a sentence fragment with a remedy.
    pub(super) fn unmet(&self, inputs: &Inputs) -> Option<String> {
        let missing = self.secrets.iter().filter(|reference| inputs.json(reference).is_null());
        let secret = missing
            .filter_map(Reference::secret)
            .map(|name| format!("there is no secret `{name}` (set it with `weft secret set {name}`)"));
        let empty = |needed: &&NeededText| {
            // A text that is too long is not empty.
            needed.text.render(inputs).is_ok_and(|text| text.trim().is_empty())
        };
        let text = self.texts.iter().filter(empty).map(|NeededText { problem, .. }| {
            let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
            format!("`{}` {}{help}", problem.pointer.trim_start_matches('/'), problem.message)
        });
        secret.chain(text).next()
    }
}
