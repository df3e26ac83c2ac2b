//! The outer side: a separate process for every run.

mod component;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::Mutex;
use weft_child::{AskLimits, Confinement, Duty, Worker, WorkerEnd};
use weft_core::fair::FairSlots;
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran, WasmCall, WasmTool};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
use crate::worker::ForkTask;
use crate::worker::SandboxOrder;
use crate::worker_answer::SandboxAnswer;
use component::Components;

/// Maximum number of bytes that one byte of a text takes in JSON.
// As in `\u0000`.
const ESCAPED: usize = 6;
/// Number of bytes in an answer besides the program's output.
const ANSWER_REST: usize = 64 << 10;
/// Time limit for preparing the Python interpreter. On an idle machine it takes seconds.
const PREPARING_MAX: Duration = Duration::from_mins(5);

const DUTY: Duty = Duty { thing: "a program", does: "runs programs", section: "sandbox" };
const PREPARING: Duty = Duty {
    thing: "the interpreter of Python",
    does: "prepares the interpreter of Python",
    section: "sandbox",
};

/// Runs JavaScript and Python, each program in a separate process that inherits nothing.
#[derive(Debug)]
pub struct ProcessSandbox {
    worker: Worker,
    limits: Limits,
    slots: FairSlots,
    confinement: Confinement,
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    forks: Forks,
    python: Option<Python>,
    components: Option<Components>,
}

/// The parents from which processes of programs are forked: one for each language, which has run no user's program.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[derive(Debug, Default)]
struct Forks {
    java_script: weft_child::ForkServer,
    python: weft_child::ForkServer,
}

/// The Python interpreter.
#[derive(Debug)]
struct Python {
    folder: PathBuf,
    /// Held while the interpreter is being prepared.
    preparing: Mutex<()>,
}

impl ProcessSandbox {
    /// Creates a sandbox that runs at most `at_once` programs concurrently, each within `limits`; slots are shared
    /// fairly among tenants. The worker calls [`crate::work`].
    pub fn new(worker: Worker, limits: Limits, at_once: usize) -> Self {
        let slots = FairSlots::new(at_once);
        Self {
            worker,
            limits,
            slots,
            confinement: Confinement::default(),
            #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
            forks: Forks::default(),
            python: None,
            components: None,
        }
    }

    /// Sets what to do with programs whose worker cannot be confined.
    #[must_use]
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// Adds Python, whose interpreter is cached as machine code in this folder: about 40 MiB, compiled when the first
    /// Python program is run, which takes seconds. The contents of the folder are trusted like this program itself.
    #[must_use]
    pub fn with_python(self, folder: PathBuf) -> Self {
        Self { python: Some(Python { folder, preparing: Mutex::default() }), ..self }
    }

    /// Adds tools that are WebAssembly components, whose machine code is cached in this folder, under the same
    /// conditions as that of Python.
    #[must_use]
    pub fn with_components(self, folder: PathBuf) -> Self {
        Self { components: Some(Components::new(folder)), ..self }
    }

    async fn ask(&self, duty: &Duty, order: &SandboxOrder, limits: AskLimits) -> Result<WorkerReply> {
        let mut request = serde_json::to_vec(order)
            .map_err(|cause| Error::internal("cannot serialize a program").because(cause))?;
        request.push(b'\n');
        let ended = match self.forked(duty, order, &request, limits).await? {
            Some(ended) => ended,
            None => self.worker.ask(duty, &[&request], limits).await?,
        };
        let told = match ended {
            WorkerEnd::Answered(answer) => serde_json::from_slice(&answer).map_err(|cause| {
                Error::new(ErrorKind::Garbled, "cannot read the answer of a program's worker").because(cause)
            })?,
            WorkerEnd::Late => return Ok(WorkerReply::Late),
            // The interpreter crashed, or the system killed it.
            WorkerEnd::OutOfTime | WorkerEnd::Broken => return Ok(WorkerReply::Broken),
        };
        Ok(WorkerReply::Told(told))
    }

    /// Runs an order in a fork, on systems with forks.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    async fn forked(
        &self,
        duty: &Duty,
        order: &SandboxOrder,
        request: &[u8],
        limits: AskLimits,
    ) -> Result<Option<WorkerEnd>> {
        let (forks, task) = match order {
            SandboxOrder::Run { program, python, .. } => match (program.language, python) {
                (Language::JavaScript, _) => (&self.forks.java_script, ForkTask::JavaScript),
                (Language::Python, Some(folder)) => (&self.forks.python, ForkTask::Python(folder.clone())),
                (Language::Python, None) => return Ok(None),
            },
            _ => return Ok(None),
        };
        let task = serde_json::to_string(&task)
            .map_err(|cause| Error::internal("cannot serialize the task of forks").because(cause))?;
        let parent =
            weft_child::ForkParent { worker: &self.worker, confinement: self.confinement, task: &task };
        forks.ask(parent, duty, &[request], limits).await
    }

    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    #[expect(clippy::unused_async, reason = "it is where there are forks")]
    async fn forked(&self, _: &Duty, _: &SandboxOrder, _: &[u8], _: AskLimits) -> Result<Option<WorkerEnd>> {
        Ok(None)
    }

    /// Prepares the interpreter; concurrent callers wait.
    async fn prepare(&self, python: &Python) -> Result<()> {
        // If another caller has prepared it meanwhile, the worker finds it and does nothing.
        let _alone = python.preparing.lock().await;
        let order = SandboxOrder::Prepare { python: python.folder.clone() };
        let answer_max = u64::try_from(ANSWER_REST).unwrap_or(u64::MAX);
        match self.ask(&PREPARING, &order, AskLimits { time: PREPARING_MAX, answer_max }).await? {
            WorkerReply::Told(SandboxAnswer::Prepared) => {
                // The parent of forks does not have it yet, and opens no more files.
                #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
                self.forks.python.renew().await;
                Ok(())
            }
            WorkerReply::Told(SandboxAnswer::Unable(reason)) => Err(self.unprepared(&reason)),
            WorkerReply::Told(_) => Err(Error::new(ErrorKind::Garbled, "unexpected answer of a worker")),
            WorkerReply::Late => Err(self.unprepared("it took too long")),
            WorkerReply::Broken => Err(self.unprepared("its worker crashed")),
        }
    }

    fn unprepared(&self, reason: &str) -> Error {
        let folder =
            self.python.as_ref().map(|python| python.folder.display().to_string()).unwrap_or_default();
        Error::new(ErrorKind::Unavailable, format!("the Python interpreter cannot be prepared: {reason}"))
            .help(format!(
                "check that {folder} is writable and has 50 MB of free space, and that 1 GB of memory is \
                 available"
            ))
    }
}

/// How a request to a worker ended: with its answer, after the time limit, or because it broke down.
enum WorkerReply {
    Told(SandboxAnswer),
    Late,
    Broken,
}

#[async_trait]
impl Sandbox for ProcessSandbox {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn is_ready(&self, language: Language) -> bool {
        match language {
            Language::JavaScript => true,
            Language::Python => {
                self.python.as_ref().is_some_and(|python| crate::python::is_kept(&python.folder))
            }
        }
    }

    async fn run(&self, tenant: &TenantId, mut program: Program) -> Result<Ran> {
        let python = self.python.as_ref();
        if program.language == Language::Python && python.is_none() {
            return Ok(Ran::silent(Err(Failure::Language(program.language))));
        }
        program.limits = program.limits.within(self.limits);
        let limits = program.limits;
        let order = SandboxOrder::Run {
            program,
            confinement: self.confinement,
            python: python.map(|python| python.folder.clone()),
        };
        // A run that waits for the interpreter occupies no slot meanwhile.
        let ask = async || {
            let _slot = self.slots.acquire(tenant).await?;
            self.ask(&DUTY, &order, ask_limits(limits)).await
        };
        let mut answer = ask().await?;
        if let (WorkerReply::Told(SandboxAnswer::Unprepared), Some(python)) = (&answer, python) {
            self.prepare(python).await?;
            answer = ask().await?;
        }
        match answer {
            WorkerReply::Told(SandboxAnswer::Ran(ran)) => Ok(ran),
            WorkerReply::Told(SandboxAnswer::Unable(reason)) => Err(self.unprepared(&reason)),
            WorkerReply::Told(
                SandboxAnswer::Unprepared | SandboxAnswer::Prepared | SandboxAnswer::Compiled,
            ) => Err(self.unprepared("it was removed again")),
            WorkerReply::Late => Ok(Ran::silent(Err(Failure::Time))),
            WorkerReply::Broken => Ok(Ran::silent(Err(Failure::Broken))),
        }
    }

    async fn call_wasm(
        &self,
        tenant: &TenantId,
        tool: &WasmTool,
        call: WasmCall,
        limits: Limits,
    ) -> Result<Ran> {
        self.call_component(tenant, tool, call, limits).await
    }
}

/// Returns the limits for the worker of a program.
fn ask_limits(limits: Limits) -> AskLimits {
    AskLimits { time: limits.time, answer_max: answer_max(limits) }
}

/// Returns the maximum number of bytes in an answer.
pub(crate) fn answer_max(limits: Limits) -> u64 {
    let bytes = limits.output_bytes.saturating_add(limits.printed_bytes).saturating_mul(ESCAPED);
    u64::try_from(bytes.saturating_add(ANSWER_REST)).unwrap_or(u64::MAX)
}
