//! Runs programs in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait, blocking};

use crate::quick;

/// Runs JavaScript in this process: for tests, and for programs that the embedding program has written itself. It is no
/// security boundary for other programs: some calls cannot be interrupted, and a defect of the interpreter would be one
/// of this process.
#[derive(Clone, Copy, Debug)]
pub struct InProcess {
    limits: Limits,
}

impl InProcess {
    /// Creates a sandbox whose programs run within `limits`.
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

#[async_trait]
impl Sandbox for InProcess {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn is_ready(&self, language: Language) -> bool {
        language == Language::JavaScript
    }

    async fn run(&self, _: &TenantId, mut program: Program) -> Result<Ran> {
        if program.language != Language::JavaScript {
            return Ok(Ran::silent(Err(Failure::Language(program.language))));
        }
        program.limits = program.limits.within(self.limits);
        let unwanted = Unwanted::default();
        let stop = Arc::clone(&unwanted.0);
        let work = move || Ok(quick::on_its_thread(move || quick::execute(&program, &stop)));
        let ran = blocking("the program's thread", work).await?;
        ran.map_err(|cause| {
            Error::new(ErrorKind::Unavailable, "cannot start a thread for a program").because(cause)
        })
    }
}

/// Stops the program when it is dropped.
#[derive(Default)]
struct Unwanted(Arc<AtomicBool>);

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
