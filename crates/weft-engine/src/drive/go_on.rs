//! Resumes an interrupted run: activations that were under way are ended in the journal, and begin again.

use std::sync::Arc;
use std::time::Duration;

use weft_core::budget::Spent;
use weft_core::context::ToolFinished;
use weft_core::journal::NextEdges;
use weft_core::{Outputs, Record};

use super::RunDriver;
use crate::journal::writer;
use crate::recover::{OpenActivation, Recovered};

impl RunDriver<'_> {
    /// Takes over a run where its journal ends. The machine must be the recovered one already.
    #[must_use]
    pub fn after(mut self, recovered: Recovered) -> Self {
        let Recovered {
            open,
            before,
            said,
            speaker,
            cited,
            sources,
            usage,
            uses,
            limited,
            last,
            last_message,
            failed,
            spent,
            shared,
            reopens,
            handed_over,
            calls,
            heard,
            ..
        } = recovered;
        // Taken from the journal's times: the time limit applies to the run as a whole, however often its
        // process ends.
        self.worked = Duration::from_millis(spent.millis);
        self.shared = shared;
        self.before = before;
        self.said = said;
        // Half of its message was seen already; another activation's text must not come in the middle of it.
        self.speakers.keep_for(speaker);
        self.cited = cited;
        self.sourced = Some(sources.len()).filter(|count| *count > 0);
        self.usage = usage;
        self.uses = uses;
        self.limited = limited;
        self.calls = calls;
        self.heard = heard;
        self.last = last;
        self.last_message = last_message;
        self.failed_before = failed;
        self.reopens = reopens;
        // Noted first, and stored before any work: what follows in the journal belongs to a new process.
        self.journal.note(Record::PickedUp { by: writer(), handed_over });
        self.takes_over = true;
        open.into_iter().for_each(|open| self.end_before(open));
        self
    }

    /// Records that an activation ended when the run was interrupted: every start has its end.
    fn end_before(&mut self, open: OpenActivation) {
        let (activation, node) = (open.who.activation, open.who.node.clone());
        if open.thinking {
            self.journal.note(Record::ThinkingEnded { activation, node: node.clone() });
        }
        // Before the end of their node, as always: clients close inner items first.
        for started in open.calls {
            let call = ToolFinished {
                started,
                result: Arc::new("cut off: the process was stopped".into()),
                failed: true,
                repaired: false,
                elapsed: 0.0,
            };
            self.journal.note(Record::ToolFinished { activation, call });
        }
        if open.said {
            self.journal.note(Record::MessageReset { activation: Some(activation), node });
        }
        self.journal.note(Record::NodeFinished {
            who: open.who,
            inputs: Arc::default(),
            outputs: Arc::<Outputs>::default(),
            error: None,
            elapsed: 0.0,
            // Without a suspension this reads as work that begins again, not as a wait for a person.
            route: NextEdges::Suspended,
            assigned: Vec::new(),
            suspension: None,
            // Restarted work counts the results that it takes from the journal again.
            spent: Spent::default(),
        });
    }
}
