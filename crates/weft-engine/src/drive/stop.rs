//! Stops activations that do not end by themselves: in frames that are complete, in loops that are left, and
//! in runs that are over.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weft_core::component::Route;
use weft_core::context::{Signal, ToolFinished};
use weft_core::journal::{Ending, FrameStep, NextEdges};
use weft_core::{Error, ErrorKind, Outputs, Record};

use super::conclude::Onward;
use super::{RunDriver, RunningActivation};
use crate::assign::VariableChanges;
use crate::machine::{BrokenFrame, Closed, Consequence, FinishedActivation};
use crate::output_dedup::{OutputDedup, SaidSoFar};
use crate::perform::settle_frame;
use crate::stopped::{RUN_CANCELLED, STOPPED};

impl RunDriver<'_> {
    /// Carries out the consequences that the machine concluded.
    pub(super) fn follow(&mut self) {
        while let Some(consequence) = self.machine.consequence() {
            match consequence {
                Consequence::Skipped(scope, ix) => {
                    let node = self.plan.nodes[ix].id.clone();
                    let frame = self.machine.path(scope);
                    self.journal.note(Record::NodeSkipped { node, frame });
                }
                Consequence::Stop(activation, Closed::Left) => self.stop(activation, "its loop was left"),
                Consequence::Stop(activation, Closed::Failed) => {
                    self.stop(activation, "something else in its frame has failed");
                }
                Consequence::FrameFailed(activation, broken) => self.frame_failed(activation, broken),
                // The body failed: the frame is stopped with everything else.
                Consequence::FrameDone(..) if self.failed => {}
                Consequence::FrameDone(activation, outputs) => self.frame_done(activation, outputs),
            }
        }
    }

    /// Returns the token that stops an activation. Only a whole frame can be stopped on its own, so there is
    /// one token per frame and not one per activation.
    pub(super) fn stops(&mut self, frame: &[FrameStep]) -> CancellationToken {
        let Some(innermost) = frame.last() else { return self.cancel.clone() };
        if let Some(known) = self.frames.get(&innermost.activation) {
            return known.clone();
        }
        let mut cancel = self.cancel.clone();
        // From the outermost frame inwards: each frame's token is a child of the enclosing one's, so stopping
        // a frame stops everything within it.
        for step in frame {
            let known = self.frames.entry(step.activation).or_insert_with(|| cancel.child_token());
            cancel = known.clone();
        }
        cancel
    }

    fn frame_done(&mut self, activation: u32, outputs: Arc<Outputs>) {
        self.frames.remove(&activation);
        self.ensure_active(activation);
        let onward = NextEdges::Routed(Route::Onward);
        if let Some(active) = self.end_activation(activation) {
            self.note_finished(active, &outputs, None, Onward::along(&onward));
        }
        self.last = Arc::clone(&outputs);
        self.machine.finished(
            activation,
            FinishedActivation { outputs, onward, changes: VariableChanges::default() },
        );
    }

    fn frame_failed(&mut self, activation: u32, broken: BrokenFrame) {
        self.frames.remove(&activation);
        self.ensure_active(activation);
        let Some(ix) = self.active.get(&activation).map(|active| active.node) else { return };
        // The settings that closed the frame catch the failure, so it does not propagate.
        let _ = self.complete(settle_frame(&self.plan.nodes[ix], activation, broken));
    }

    /// Adds a frame that was open when its run paused and is therefore not among this driver's activations.
    pub(super) fn ensure_active(&mut self, activation: u32) {
        if self.active.contains_key(&activation) {
            return;
        }
        let Some((who, node)) = self.machine.who(activation) else { return };
        let cancel = (!who.frame.is_empty()).then(|| self.stops(&who.frame));
        let active = RunningActivation {
            who,
            node,
            named: Arc::default(),
            cancel,
            began: Instant::now(),
            thinking: false,
            said: false,
            speech: OutputDedup::after(SaidSoFar::default()),
            alternative: 0,
            calls: Vec::new(),
            told: HashSet::new(),
            suspension: None,
            budget: None,
        };
        self.active.insert(activation, Box::new(active));
    }

    fn stop(&mut self, activation: u32, why: &str) {
        // Removed from every list in which its end might still be waiting, or it would end twice.
        self.held.retain(|held| held.activation != activation);
        self.cut_off.retain(|outcome| outcome.activation != activation);
        self.frames.remove(&activation);
        self.ensure_active(activation);
        self.end_thinking(activation);
        let Some(active) = self.end_activation(activation) else { return };
        if let Some(cancel) = &active.cancel {
            cancel.cancel();
        }
        // What it has said stays in the conversation, so the message gets an end like any other.
        if active.said {
            let (node, end) = (active.who.node.clone(), Default::default());
            self.journal.note(Record::MessageEnded { activation, node, end });
        }
        let error = Error::new(ErrorKind::Cancelled, format!("{STOPPED}{why}"));
        self.note_finished(active, &Arc::default(), Some(&error), Onward::along(&NextEdges::None));
    }

    /// Ends tool calls whose results will never be reported, because their activation was stopped or took too
    /// long. Every start of a call still gets its end.
    pub(super) fn end_calls(&mut self, active: &RunningActivation) {
        for (started, began) in &active.calls {
            let call = ToolFinished {
                started: started.clone(),
                result: Arc::new(format!("{STOPPED}the work that made this call ended").into()),
                failed: true,
                repaired: false,
                elapsed: began.elapsed().as_secs_f64(),
            };
            self.calls.note(&self.plan.nodes[active.node], &call);
            self.journal.note(Record::ToolFinished { activation: active.who.activation, call });
        }
    }

    /// Ends everything that is under way, so that every start has its end.
    pub(super) fn stop_all(&mut self, ending: Ending) {
        let why = match ending {
            Ending::Cancelled => RUN_CANCELLED,
            _ => "the run failed elsewhere",
        };
        // Dropped before their ends are noted, so that nothing they would still say comes after those.
        self.tasks.clear();
        self.done.clear();
        // Models were paid for answers that were arriving until now.
        while let Ok((activation, signal)) = self.signals.try_recv() {
            if matches!(signal, Signal::Used(_)) {
                self.signal(activation, signal);
            }
        }
        // A frame that was open when its run paused was started in that run and finishes here.
        let open: Vec<_> = self.machine.frames.keys().copied().collect();
        open.into_iter().for_each(|activation| self.ensure_active(activation));
        // Latest first: work within a frame ends before the frame does.
        let rest: Vec<_> = self.active.keys().rev().copied().collect();
        for activation in rest {
            self.stop(activation, why);
        }
    }
}
