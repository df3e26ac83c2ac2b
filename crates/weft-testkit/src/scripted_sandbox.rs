//! A sandbox that runs nothing and returns scripted results.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran, WasmCall, WasmTool};
use weft_core::{Error, ErrorKind, Json, Result, TenantId, async_trait};

use crate::contracts::sandbox::Programs;

/// The scripted result of a program, depending on its arguments.
type Says = Box<dyn Fn(&Program) -> Ran + Send + Sync>;

/// The scripted result of a component.
type SaysWasm = Box<dyn Fn(&WasmCall) -> std::result::Result<String, Failure> + Send + Sync>;

/// Results of programs, by the text of the program. It enforces limits like a real sandbox.
pub struct ScriptedSandbox {
    languages: Vec<Language>,
    limits: Limits,
    says: HashMap<String, Says>,
    wasm: Option<SaysWasm>,
    seen: Mutex<Vec<Program>>,
}

impl std::fmt::Debug for ScriptedSandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedSandbox").field("languages", &self.languages).finish_non_exhaustive()
    }
}

impl ScriptedSandbox {
    /// Creates a sandbox for these languages, without any scripted programs.
    pub fn new(languages: &[Language]) -> Self {
        let limits = Limits {
            time: Duration::from_secs(1),
            memory_bytes: 16 << 20,
            output_bytes: 64 << 10,
            printed_bytes: 4 << 10,
        };
        Self {
            languages: languages.to_vec(),
            limits,
            says: HashMap::new(),
            wasm: None,
            seen: Mutex::default(),
        }
    }

    /// Sets the result of the program with this text.
    #[must_use]
    pub fn with(mut self, source: &str, says: impl Fn(&Program) -> Ran + Send + Sync + 'static) -> Self {
        self.says.insert(source.to_owned(), Box::new(says));
        self
    }

    /// Sets the result of every component.
    #[must_use]
    pub fn with_wasm(
        self,
        says: impl Fn(&WasmCall) -> std::result::Result<String, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { wasm: Some(Box::new(says)), ..self }
    }

    /// Creates a sandbox with the programs of the contract suite.
    pub fn of_the_contract(programs: &Programs) -> Self {
        let fails = |failure: Failure| move |_: &Program| Ran::silent(Err(failure.clone()));
        let program = |message: &str, line| Failure::Program { message: message.to_owned(), line };
        let prints = |stdout: &str, stderr: &str, result: Json| {
            let ran = Ran { stdout: stdout.to_owned(), stderr: stderr.to_owned(), ..Ran::silent(Ok(result)) };
            move |_: &Program| ran.clone()
        };
        Self::new(&[programs.language])
            .with(programs.echo, |program| Ran::silent(Ok(Json::Object(program.arguments.clone()))))
            .with(programs.raises, fails(program("Error: broken", Some(3))))
            .with(programs.empty, fails(program("there is no main", None)))
            .with(programs.prints, prints("out\n", "err\n", json!(1)))
            .with(programs.prints_much, prints(&"0123456789\n".repeat(50), "", Json::Null))
            .with(programs.returns_much, prints("", "", json!("x".repeat(200))))
            .with(programs.endless, fails(Failure::Time))
            .with(programs.greedy, fails(Failure::Memory))
            .with(programs.counts, prints("", "", json!([1, 1])))
    }

    /// The programs that were run, in order.
    pub fn seen(&self) -> Vec<Program> {
        self.programs().clone()
    }

    fn programs(&self) -> MutexGuard<'_, Vec<Program>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sandbox for ScriptedSandbox {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn run(&self, _: &TenantId, program: Program) -> Result<Ran> {
        if !self.languages.contains(&program.language) {
            return Ok(Ran::silent(Err(Failure::Language(program.language))));
        }
        let limits = program.limits.within(self.limits);
        let says = self.says.get(&program.source);
        let says = says.ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, format!("the script has no program `{}`", program.source))
        })?;
        let mut ran = says(&program);
        self.programs().push(program);
        if ran.result.as_ref().is_ok_and(|value| value.to_string().len() > limits.output_bytes) {
            ran.result = Err(Failure::Output);
        }
        for text in [&mut ran.stdout, &mut ran.stderr] {
            if text.len() > limits.printed_bytes {
                text.truncate(text.floor_char_boundary(limits.printed_bytes));
                ran.truncated = true;
            }
        }
        Ok(ran)
    }

    async fn call_wasm(&self, _: &TenantId, _: &WasmTool, call: WasmCall, limits: Limits) -> Result<Ran> {
        let says = self
            .wasm
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "the script has no component"))?;
        let result = says(&call).map(Json::from);
        let long =
            result.as_ref().is_ok_and(|text| text.as_str().unwrap_or_default().len() > limits.output_bytes);
        Ok(Ran::silent(if long { Err(Failure::Output) } else { result }))
    }
}

#[cfg(test)]
mod tests {
    use super::ScriptedSandbox;
    use crate::contracts::sandbox::{JAVASCRIPT, sandbox_keeps_its_contract};

    #[tokio::test]
    async fn a_scripted_sandbox_keeps_the_contract() {
        sandbox_keeps_its_contract(&ScriptedSandbox::of_the_contract(&JAVASCRIPT), &JAVASCRIPT).await;
    }
}
