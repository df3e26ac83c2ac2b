//! The outer side of tools that are WebAssembly components: their machine code is compiled once and cached.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio::sync::Mutex;
use weft_child::{AskLimits, Duty, WorkerEnd};
use weft_core::seam::sandbox::{Failure, Limits, Ran, WasmCall, WasmTool};
use weft_core::{Error, ErrorKind, Result, TenantId};

use super::{ProcessSandbox, ask_limits};
use crate::component::{self, COMPILING_MAX, COMPONENT_MAX};
use crate::python::kept;
use crate::worker::SandboxOrder;
use crate::worker_answer::SandboxAnswer;

/// Maximum number of bytes in the machine code of one component.
const CODE_MAX: u64 = 512 << 20;

const CALLING: Duty =
    Duty { thing: "a WebAssembly component", does: "runs WebAssembly components", section: "sandbox" };
const COMPILING: Duty = Duty {
    thing: "the compiler of a WebAssembly component",
    does: "compiles WebAssembly components",
    section: "sandbox",
};

/// The cache for machine code of components.
#[derive(Debug)]
pub(super) struct Components {
    folder: PathBuf,
    /// Held while a component is being compiled.
    compiling: Mutex<()>,
}

impl Components {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, compiling: Mutex::default() }
    }

    fn file(&self, tool: &WasmTool) -> PathBuf {
        self.folder.join(format!("{}.{}", tool.digest, kept::ENDING))
    }
}

impl ProcessSandbox {
    /// See [`weft_core::seam::Sandbox::call_wasm`].
    pub(super) async fn call_component(
        &self,
        tenant: &TenantId,
        tool: &WasmTool,
        call: WasmCall,
        limits: Limits,
    ) -> Result<Ran> {
        let Some(components) = &self.components else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "this sandbox does not support WebAssembly components",
            ));
        };
        let limits = limits.within(self.limits);
        let code = components.file(tool);
        let confinement = self.confinement;
        let order =
            SandboxOrder::Wasm(component::ComponentOrder { code: code.clone(), call, limits, confinement });
        let asked = || async {
            let _slot = self.slots.acquire(tenant).await?;
            self.ask_for(&CALLING, &order, &[], ask_limits(limits)).await
        };
        let mut ended = asked().await?;
        if matches!(told(&ended)?, Some(SandboxAnswer::Unprepared)) {
            self.compile(components, tool, &code).await?;
            ended = asked().await?;
        }
        match (told(&ended)?, ended) {
            (Some(SandboxAnswer::Ran(ran)), _) => Ok(ran),
            (Some(SandboxAnswer::Unable(reason)), _) => Err(unusable(&reason)),
            (Some(_), _) => Err(unusable("its machine code was removed again")),
            (None, WorkerEnd::Late) => Ok(Ran::silent(Err(Failure::Time))),
            (None, _) => Ok(Ran::silent(Err(Failure::Broken))),
        }
    }

    /// Compiles a component and caches its machine code; concurrent callers wait.
    async fn compile(&self, components: &Components, tool: &WasmTool, code: &Path) -> Result<()> {
        let _alone = components.compiling.lock().await;
        // Another caller may have compiled it while this one waited for the lock.
        if code.is_file() {
            return Ok(());
        }
        let length = u64::try_from(tool.bytes.len()).unwrap_or(u64::MAX);
        if length > COMPONENT_MAX {
            return Err(Error::invalid(format!("the component has more than {COMPONENT_MAX} bytes")));
        }
        let order = SandboxOrder::Compile { length, confinement: self.confinement };
        let answered = self
            .ask_for(
                &COMPILING,
                &order,
                &[&tool.bytes],
                AskLimits { time: COMPILING_MAX, answer_max: CODE_MAX },
            )
            .await?;
        let WorkerEnd::Answered(answer) = &answered else {
            return Err(Error::invalid(
                "the component cannot be compiled within the limits of time and memory",
            ));
        };
        match told(&answered)? {
            Some(SandboxAnswer::Compiled) => {
                let start = answer.iter().position(|byte| *byte == b'\n').map_or(answer.len(), |at| at + 1);
                let bytes = answer.get(start..).unwrap_or_default().to_vec();
                let target = code.to_owned();
                tokio::task::spawn_blocking(move || keep(&target, &bytes))
                    .await
                    .map_err(|cause| Error::internal("machine code could not be stored").because(cause))?
            }
            Some(SandboxAnswer::Unable(reason)) => {
                let error = Error::invalid(format!("it is not a WebAssembly component: {reason}"));
                Err(error.help(
                    "build it for the world `tool` of docs/agents.md; `wasm-tools component new` turns a core module \
                     into a component",
                ))
            }
            _ => Err(Error::new(ErrorKind::Garbled, "unexpected answer of a worker")),
        }
    }

    /// Sends an order and its attached bytes to a worker, and returns the answer.
    async fn ask_for(
        &self,
        duty: &Duty,
        order: &SandboxOrder,
        rest: &[&[u8]],
        limits: AskLimits,
    ) -> Result<WorkerEnd> {
        let mut line = serde_json::to_vec(order)
            .map_err(|cause| Error::internal("cannot serialize an order").because(cause))?;
        line.push(b'\n');
        let asked: Vec<&[u8]> = std::iter::once(line.as_slice()).chain(rest.iter().copied()).collect();
        self.worker.ask(duty, &asked, limits).await
    }
}

/// Parses the first line of a worker's answer; `None` if it did not get to answer.
fn told(ended: &WorkerEnd) -> Result<Option<SandboxAnswer>> {
    let WorkerEnd::Answered(answer) = ended else { return Ok(None) };
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice(line).map(Some).map_err(|cause| {
        Error::new(ErrorKind::Garbled, "cannot read the answer of a component's worker").because(cause)
    })
}

fn unusable(reason: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the component cannot be run: {reason}"))
}

/// Returns a temporary name for code that is being written. If the process is killed meanwhile, the file remains and is
/// removed eventually like those of other versions, because it has their extension.
fn unfinished(target: &Path) -> PathBuf {
    let number = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    target.with_extension(format!("{}-{number}.{}", std::process::id(), kept::ENDING))
}

/// Writes machine code under a temporary name first, since a partial file would be code with arbitrary behaviour.
fn keep(target: &Path, code: &[u8]) -> Result<()> {
    let folder = target.parent().unwrap_or(Path::new("."));
    let failed = |cause| {
        Error::new(
            ErrorKind::Unavailable,
            format!("cannot store the code of a component in {}", folder.display()),
        )
        .because(cause)
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let unfinished = unfinished(target);
    let written = kept::write(&unfinished, code).and_then(|()| std::fs::rename(&unfinished, target));
    if written.is_err() {
        drop(std::fs::remove_file(&unfinished));
    }
    written.map_err(failed)?;
    kept::forget_others(folder, target);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_written_files_are_removed_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("digest.cwasm");
        let left = unfinished(&target);
        std::fs::write(&left, "half").unwrap();
        let long_ago = SystemTime::now() - std::time::Duration::from_hours(24 * 8);
        std::fs::File::options().write(true).open(&left).unwrap().set_modified(long_ago).unwrap();
        keep(&target, b"code").unwrap();
        assert!(target.is_file() && !left.exists(), "{}", left.display());
    }
}
