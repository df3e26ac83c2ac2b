//! The Python of the system, with packages: a parent for every tenant has imported them, and forks for every program.

mod answer;
mod interpreter;
mod parent;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::OnceCell;
use weft_child::{Confinement, Worker};
use weft_core::fair::FairSlots;
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{
    FILES_BYTES_MAX, Failure, Language, Limits, Program, Ran, WasmCall, WasmTool,
};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};

use crate::process::answer_max;
use parent::{Boundary, Parent};

pub(crate) use parent::Serve;

/// How much longer than its limit a program is waited for. Its guard kills it earlier, unless the machine is very busy.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of idle parents; each takes the memory of what it has imported.
const PARENTS_MAX: usize = 4;
/// Time without a program after which a parent exits.
const IDLE: Duration = Duration::from_mins(5);

/// The Python interpreter that runs programs, and what it has imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemInterpreter {
    /// Path of the program, or of a link to it in a virtual environment.
    pub program: PathBuf,
    /// Modules that are imported before any program runs, such as `numpy`. A program can import others itself.
    pub modules: Vec<String>,
}

/// Runs Python in the interpreter of this system, each program in a separate process that is forked from one which has
/// imported the configured modules and runs nothing itself; every tenant has its own. The processes can only read the
/// interpreter's folders (Landlock), and a program can make few system calls (seccomp). If `bwrap` can be started and
/// create namespaces, they see no other process, file or network in the first place.
#[derive(Debug)]
pub struct SystemPython {
    worker: Worker,
    interpreter: SystemInterpreter,
    limits: Limits,
    slots: FairSlots,
    confinement: Confinement,
    bubblewrap: Option<PathBuf>,
    idle: Duration,
    /// What the interpreter must be able to read.
    folders: OnceCell<Vec<PathBuf>>,
    /// Ordered by last use, the most recent last.
    parents: Mutex<Vec<(TenantId, Cell)>>,
}

type Cell = Arc<OnceCell<Parent>>;

/// A program in the format of its guard.
#[derive(Serialize)]
struct GuardedProgram<'a> {
    source: &'a str,
    arguments: String,
    seconds: f64,
    memory_bytes: usize,
    output_bytes: usize,
    printed_bytes: usize,
}

impl SystemPython {
    /// Creates a sandbox that runs at most `at_once` programs concurrently, each within `limits`; slots are shared
    /// fairly among tenants. The worker calls [`crate::work`].
    pub fn new(worker: Worker, interpreter: SystemInterpreter, limits: Limits, at_once: usize) -> Self {
        Self {
            worker,
            interpreter,
            limits,
            slots: FairSlots::new(at_once),
            confinement: Confinement::default(),
            bubblewrap: parent::bubblewrap(),
            idle: IDLE,
            folders: OnceCell::new(),
            parents: Mutex::default(),
        }
    }

    /// Sets what to do with programs whose process cannot be confined.
    #[must_use]
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// Confines programs by Landlock and seccomp alone, as on systems that allow no namespaces.
    #[must_use]
    pub fn without_namespaces(self) -> Self {
        Self { bubblewrap: None, ..self }
    }

    /// Sets the idle time after which processes exit, in whole seconds; the default is five minutes.
    #[must_use]
    pub fn with_idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Returns why programs on this system are confined by Landlock and seccomp alone, if they are.
    pub async fn lacks_namespaces(&self) -> Option<&'static str> {
        parent::lacks_namespaces(self.bubblewrap.as_deref()).await
    }

    fn cell(&self, tenant: &TenantId) -> Cell {
        let mut parents = self.parents.lock().unwrap_or_else(PoisonError::into_inner);
        let known = parents.iter().position(|(of, _)| of == tenant).map(|at| parents.remove(at).1);
        let cell = known.unwrap_or_default();
        parents.push((tenant.clone(), Arc::clone(&cell)));
        // The one that is dropped exits after its last program.
        if parents.len() > PARENTS_MAX {
            parents.remove(0);
        }
        cell
    }

    fn forget(&self, cell: &Cell) {
        let mut parents = self.parents.lock().unwrap_or_else(PoisonError::into_inner);
        parents.retain(|(_, known)| !Arc::ptr_eq(known, cell));
    }

    async fn start(&self) -> Result<Parent> {
        let folders =
            self.folders.get_or_try_init(|| interpreter::folders(&self.interpreter.program)).await?;
        let (confinement, bubblewrap) = (self.confinement, self.bubblewrap.as_deref());
        let boundary = Boundary { confinement, bubblewrap, idle: self.idle };
        Parent::start(&self.worker, &self.interpreter, folders, boundary).await
    }

    /// Returns the output of a program's process and its guard.
    async fn said(
        &self,
        tenant: &TenantId,
        request: &[u8],
        time: Duration,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>> {
        // A parent that was killed is replaced once: a program has no effects besides its output.
        for _ in 0..2 {
            let cell = self.cell(tenant);
            // Two programs of a tenant that arrive concurrently wait for one parent instead of starting two.
            let parent = cell.get_or_try_init(|| self.start()).await?;
            let exchanged = async { exchange(parent.connect().await?, request, bytes_max).await };
            match tokio::time::timeout(time + PATIENCE, exchanged).await {
                Ok(Ok(said)) if !said.is_empty() => return Ok(Some(said)),
                Ok(_) => self.forget(&cell),
                Err(_) => {
                    self.forget(&cell);
                    return Ok(None);
                }
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "the Python interpreter exits immediately after its start")
            .help("check `sandbox.python_modules`, and the available memory"))
    }
}

/// Sends a program, and reads its outcome. Dropping this future ends the program.
async fn exchange(mut connection: UnixStream, request: &[u8], bytes_max: u64) -> std::io::Result<Vec<u8>> {
    connection.write_all(request).await?;
    let mut said = Vec::new();
    // The other half is kept open, because a connection that ends would end the program.
    let (reading, _writing) = connection.split();
    reading.take(bytes_max).read_to_end(&mut said).await?;
    Ok(said)
}

#[async_trait]
impl Sandbox for SystemPython {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn is_ready(&self, language: Language) -> bool {
        language == Language::Python
    }

    async fn run(&self, tenant: &TenantId, program: Program) -> Result<Ran> {
        if program.language != Language::Python {
            return Ok(Ran::silent(Err(Failure::Language(program.language))));
        }
        let limits = program.limits.within(self.limits);
        let failed = |cause| Error::internal("cannot serialize a program").because(cause);
        let mut request = serde_json::to_vec(&GuardedProgram {
            source: &program.source,
            arguments: serde_json::to_string(&program.arguments).map_err(failed)?,
            seconds: limits.time.as_secs_f64(),
            memory_bytes: limits.memory_bytes,
            output_bytes: limits.output_bytes,
            printed_bytes: limits.printed_bytes,
        })
        .map_err(failed)?;
        request.push(b'\n');
        let _slot = self.slots.acquire(tenant).await?;
        // Files are transferred in base64, which is a third longer.
        let files = u64::try_from(FILES_BYTES_MAX * 2).unwrap_or(u64::MAX);
        let bytes_max = answer_max(limits).saturating_add(files);
        let said = self.said(tenant, &request, limits.time, bytes_max).await?;
        Ok(said.map_or_else(|| Ran::silent(Err(Failure::Time)), |said| answer::read(&said, limits)))
    }
}

/// Runs Python programs in one sandbox, and all others in another.
#[derive(Clone)]
pub struct WithPython {
    /// The sandbox for Python.
    pub python: Arc<dyn Sandbox>,
    /// The sandbox for every other language.
    pub rest: Arc<dyn Sandbox>,
}

#[async_trait]
impl Sandbox for WithPython {
    fn limits(&self) -> Limits {
        self.python.limits().within(self.rest.limits())
    }

    fn is_ready(&self, language: Language) -> bool {
        let of = if language == Language::Python { &self.python } else { &self.rest };
        of.is_ready(language)
    }

    async fn run(&self, tenant: &TenantId, program: Program) -> Result<Ran> {
        let of = if program.language == Language::Python { &self.python } else { &self.rest };
        of.run(tenant, program).await
    }

    async fn call_wasm(
        &self,
        tenant: &TenantId,
        tool: &WasmTool,
        call: WasmCall,
        limits: Limits,
    ) -> Result<Ran> {
        self.rest.call_wasm(tenant, tool, call, limits).await
    }
}
