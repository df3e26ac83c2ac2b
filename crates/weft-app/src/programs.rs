//! Checks programs in canvases before they run, with the parser of the interpreter that would run them.

use std::cell::RefCell;
use std::time::Duration;

use weft_core::TenantId;
use weft_core::component::WrittenProgram;
use weft_core::seam::Sandbox;

/// Time limit for parsing all programs of a canvas. Those that are not parsed by then are not reported.
const TOGETHER_MAX: Duration = Duration::from_secs(10);

/// The programs of a canvas while it is checked. A check is synchronous: the first pass records the programs, and if
/// some of them turn out to be wrong, a second pass gets the results.
#[derive(Debug, Default)]
pub struct ProgramChecks {
    seen: RefCell<Vec<WrittenProgram>>,
    faults: Vec<(WrittenProgram, String)>,
}

impl ProgramChecks {
    /// Records a program; returns why it always fails, if that is known.
    pub fn of(&self, program: &WrittenProgram) -> Option<String> {
        let same = |other: &WrittenProgram| {
            other.language == program.language
                && other.text == program.text
                && other.arguments == program.arguments
        };
        let mut seen = self.seen.borrow_mut();
        if !seen.iter().any(same) {
            seen.push(program.clone());
        }
        self.faults.iter().find(|(faulty, _)| same(faulty)).map(|(_, why)| why.clone())
    }

    /// Parses the recorded programs; `None` if no errors were found.
    pub async fn parsed(self, sandbox: &dyn Sandbox, tenant: &TenantId) -> Option<Self> {
        let mut faults = Vec::new();
        let parsing = async {
            for program in self.seen.into_inner() {
                if let Some(why) = weft_sandbox::fault(sandbox, tenant, &program).await {
                    faults.push((program, why));
                }
            }
        };
        if tokio::time::timeout(TOGETHER_MAX, parsing).await.is_err() {
            tracing::debug!("the programs of a canvas were not all parsed in time");
        }
        (!faults.is_empty()).then_some(Self { seen: RefCell::default(), faults })
    }
}

#[cfg(test)]
mod tests {
    use weft_core::seam::sandbox::{Language, NoSandbox};
    use weft_sandbox::{InProcess, LIMITS};

    use super::*;

    fn program(text: &str, pointer: &str) -> WrittenProgram {
        let (pointer, text) = (pointer.to_owned(), text.to_owned());
        WrittenProgram { pointer, language: Language::JavaScript, text, arguments: Vec::new() }
    }

    #[tokio::test]
    async fn an_error_is_cached_by_program_text_not_by_place() {
        let (right, wrong) =
            (program("function main() {}", "/a"), program("function main() { reutrn 1 }", "/b"));
        let noted = || {
            let checks = ProgramChecks::default();
            assert_eq!((checks.of(&right), checks.of(&wrong)), (None, None));
            checks
        };
        let tenant = TenantId::new("t");
        let told = noted().parsed(&InProcess::new(LIMITS), &tenant).await.unwrap();
        assert_eq!(told.of(&right), None);
        let elsewhere = WrittenProgram { pointer: "/c".to_owned(), ..wrong.clone() };
        let why = told.of(&elsewhere).unwrap();
        assert!(why.starts_with("line 1, column 26: SyntaxError"), "{why}");
        assert!(noted().parsed(&NoSandbox, &tenant).await.is_none());
    }
}
