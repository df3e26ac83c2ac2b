//! The outer side: a process for every run.

use async_trait::async_trait;
use tokio::sync::Semaphore;
use weft_child::{Duty, Ended, Worker};
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran};
use weft_core::{Error, ErrorKind, Result, TenantId};

/// Bytes that one byte of a text takes as JSON, at most.
const ESCAPED: usize = 6;

const DUTY: Duty = Duty { thing: "a program", does: "runs programs", setting: "sandbox.worker" };

/// Runs JavaScript, each program in a process of its own that inherits nothing.
#[derive(Debug)]
pub struct ProcessSandbox {
    worker: Worker,
    limits: Limits,
    slots: Semaphore,
}

impl ProcessSandbox {
    /// At most `at_once` programs at the same time, each within `limits`. The worker calls [`crate::work`].
    pub fn new(worker: Worker, limits: Limits, at_once: usize) -> Self {
        Self { worker, limits, slots: Semaphore::new(at_once.min(Semaphore::MAX_PERMITS)) }
    }
}

#[async_trait]
impl Sandbox for ProcessSandbox {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn run(&self, _: &TenantId, mut program: Program) -> Result<Ran> {
        if program.language != Language::JavaScript {
            return Ok(Ran::silent(Err(Failure::Language(program.language))));
        }
        program.limits = program.limits.within(self.limits);
        let _slot = self.slots.acquire().await.map_err(|_| Error::internal("the sandbox is closed"))?;
        let mut request = serde_json::to_vec(&program)
            .map_err(|cause| Error::internal("cannot write a program down").because(cause))?;
        request.push(b'\n');
        let answer_max = answer_max(program.limits);
        match self.worker.ask(&DUTY, &[&request], program.limits.time, answer_max).await? {
            Ended::Answered(answer) => serde_json::from_slice(&answer).map_err(|cause| {
                Error::new(ErrorKind::Garbled, "cannot read what the worker of a program says").because(cause)
            }),
            Ended::Late => Ok(Ran::silent(Err(Failure::Time))),
            // The interpreter broke, or the system stopped it.
            Ended::OutOfTime | Ended::Broken => Ok(Ran::silent(Err(Failure::Broken))),
        }
    }
}

/// Bytes of an answer, at most.
fn answer_max(limits: Limits) -> u64 {
    const REST: usize = 64 << 10;
    let bytes = limits.output_bytes.saturating_add(limits.printed_bytes).saturating_mul(ESCAPED);
    u64::try_from(bytes.saturating_add(REST)).unwrap_or(u64::MAX)
}
