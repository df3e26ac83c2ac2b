//! The outer side: a process for every run.

use async_trait::async_trait;
use weft_child::{Confinement, Duty, Ended, Worker};
use weft_core::fair::FairSlots;
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran};
use weft_core::{Error, ErrorKind, Result, TenantId};

use crate::worker::Order;

/// Bytes that one byte of a text takes as JSON, at most.
const ESCAPED: usize = 6;

const DUTY: Duty = Duty { thing: "a program", does: "runs programs", section: "sandbox" };

/// Runs JavaScript, each program in a process of its own that inherits nothing.
#[derive(Debug)]
pub struct ProcessSandbox {
    worker: Worker,
    limits: Limits,
    slots: FairSlots,
    confinement: Confinement,
}

impl ProcessSandbox {
    /// At most `at_once` programs at the same time, each within `limits`; tenants take turns. The worker calls [`crate::work`].
    pub fn new(worker: Worker, limits: Limits, at_once: usize) -> Self {
        Self { worker, limits, slots: FairSlots::new(at_once), confinement: Confinement::default() }
    }

    /// The same, where the operator has said what becomes of programs whose worker cannot be confined.
    #[must_use]
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }
}

#[async_trait]
impl Sandbox for ProcessSandbox {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn run(&self, tenant: &TenantId, mut program: Program) -> Result<Ran> {
        if program.language != Language::JavaScript {
            return Ok(Ran::silent(Err(Failure::Language(program.language))));
        }
        program.limits = program.limits.within(self.limits);
        let _slot = self.slots.acquire(tenant).await?;
        let limits = program.limits;
        let mut request = serde_json::to_vec(&Order { program, confinement: self.confinement })
            .map_err(|cause| Error::internal("cannot write a program down").because(cause))?;
        request.push(b'\n');
        let answer_max = answer_max(limits);
        match self.worker.ask(&DUTY, &[&request], limits.time, answer_max).await? {
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
