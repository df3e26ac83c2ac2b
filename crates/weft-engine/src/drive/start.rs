//! Starts activations.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;
use weft_core::budget::{BudgetLimits, Spent};
use weft_core::{Error, ErrorKind, Record, Result};

use super::{RunDriver, RunningActivation};
use crate::answers;
use crate::machine::ActivationStart;
use crate::output_dedup::OutputDedup;
use crate::perform::{Own, context_of, work};
use crate::values::hide_secrets;

impl RunDriver<'_> {
    /// Starts every activation that may begin now.
    pub(super) fn start_ready(&mut self) -> Result<()> {
        loop {
            self.follow();
            match self.machine.next_start() {
                Ok(Some(start)) => {
                    // An assignment may have changed the value of a secret.
                    hide_secrets(&self.machine, &self.context.masks)?;
                    self.start(start);
                }
                Ok(None) if answers::give_ahead(&mut self.machine, &self.context.input.inputs) => {}
                Ok(None) => return Ok(()),
                Err(_) => {
                    let count = self.machine.limits.activations;
                    let message = format!("the run used up its {count} activations");
                    return Err(Error::new(ErrorKind::QuotaExceeded, message)
                        .help("look for a cycle that never ends, or raise limits.activations"));
                }
            }
        }
    }

    fn start(&mut self, mut start: ActivationStart) {
        // Noted before its work is polled: what the work says immediately must come after its start.
        self.journal.note(Record::NodeStarted { who: start.who.clone() });
        let began = Instant::now();
        let cancel = self.stops(&start.who.frame);
        let stops_frame = (!start.who.frame.is_empty()).then(|| cancel.clone());
        let node = &self.plan.nodes[start.node];
        let before = if self.before.is_empty() { None } else { self.machine.place(start.who.activation) };
        let before = before.and_then(|place| self.before.remove(&place)).unwrap_or_default();
        let effects = self.ledger.effects(&start.who, before.effects);
        let earlier = Spent { millis: before.millis, ..Spent::default() };
        // Includes the time spent before an interruption: a node's time limit covers its whole work.
        let budget = self.context.budget.within_since(began, BudgetLimits::default(), earlier);
        let own = Own {
            effects,
            budget: Arc::clone(&budget),
            floor: self.speakers.floor.clone(),
            cancel,
            signals: self.to_driver.clone(),
            text_max: self.limits.output_bytes,
        };
        let context = context_of(&self.context, node, &mut start, own);
        let (activation, ix) = (start.who.activation, start.node);
        let active = RunningActivation {
            who: start.who,
            node: start.node,
            named: start.named,
            cancel: stops_frame,
            began,
            thinking: false,
            said: false,
            speech: OutputDedup::after(start.spoken),
            alternative: start.alternative,
            calls: Vec::new(),
            told: before.told,
            suspension: None,
            budget: Some(budget),
        };
        self.active.insert(activation, Box::new(active));
        let limit = node.time_limit.unwrap_or(self.limits.node);
        let mut work = work(&self.plan, ix, context, limit);
        // Most work completes on the first poll and then needs no task. The rest is polled again as a task,
        // and that poll registers its waker.
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => self.done.push_back(outcome),
            Poll::Pending => self.tasks.push(work),
        }
    }
}
