//! Contract of a [`Sandbox`], as far as it holds for every language and every kind of isolation.

use std::time::Duration;

use serde_json::{Map, json};
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran};
use weft_core::{Json, TenantId};

/// The programs that the suite runs, in the language of the sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    /// Their language.
    pub language: Language,
    /// A language that the sandbox does not run, if there is one.
    pub foreign: Option<Language>,
    /// Returns its arguments.
    pub echo: &'static str,
    /// Raises an error with the text `broken` on its third line.
    pub raises: &'static str,
    /// The line that is reported for it; `None` where line numbers are lost.
    pub line: Option<u32>,
    /// Has no `main`.
    pub empty: &'static str,
    /// Prints `out` and, as an error, `err`, then returns 1.
    pub prints: &'static str,
    /// Prints more than 100 bytes.
    pub prints_much: &'static str,
    /// Returns a text of 200 characters.
    pub returns_much: &'static str,
    /// Never ends.
    pub endless: &'static str,
    /// Allocates more and more memory.
    pub greedy: &'static str,
    /// Writes `a.txt` with the text `one` to its own folder, `b.txt` with the text `two` to `artifacts` below it, and a
    /// temporary file to the folder for those; then returns the names of all files that it sees. `None` where programs
    /// cannot write files.
    pub writes: Option<&'static str>,
    /// Writes more files than are allowed.
    pub writes_much: Option<&'static str>,
    /// Returns how often it has run, counted in state that its language keeps outside `main`.
    pub counts: &'static str,
}

/// The programs in JavaScript.
pub const JAVASCRIPT: Programs = Programs {
    language: Language::JavaScript,
    foreign: Some(Language::Python),
    echo: "const main = async (given) => given;",
    raises: "function main() {\n  const x = 1;\n  throw new Error('broken');\n}",
    line: Some(3),
    empty: "1 + 1",
    prints: "function main() { console.log('out'); console.error('err'); return 1; }",
    prints_much: "function main() { for (let i = 0; i < 50; i++) console.log('0123456789'); }",
    returns_much: "function main() { return 'x'.repeat(200); }",
    endless: "function main() { for (;;); }",
    greedy: "function main() { const kept = []; for (;;) kept.push('x'.repeat(1000) + kept.length); }",
    writes: None,
    writes_much: None,
    counts: "globalThis.count = (globalThis.count ?? 0) + 1; Object.prototype.seen = (Object.prototype.seen ?? 0) + 1;
             function main() { return [count, Object.prototype.seen]; }",
};

/// The programs in Python.
pub const PYTHON: Programs = Programs {
    language: Language::Python,
    foreign: None,
    echo: "async def main(**given): return given",
    raises: "def main():\n  x = 1\n  raise ValueError('broken')",
    line: Some(3),
    empty: "x = 1",
    prints: "import sys\ndef main():\n  print('out')\n  print('err', file=sys.stderr)\n  return 1",
    prints_much: "def main():\n  for i in range(50): print('0123456789')",
    returns_much: "def main(): return 'x' * 200",
    endless: "def main():\n  while True: pass",
    greedy: "def main():\n  kept = []\n  while True: kept.append('x' * 1000 + str(len(kept)))",
    writes: None,
    writes_much: None,
    counts: "import builtins, json\nbuiltins.count = getattr(builtins, 'count', 0) + 1\n\
             json.seen = getattr(json, 'seen', 0) + 1\ndef main(): return [count, json.seen]",
};

/// Python programs that write files.
pub const PYTHON_FILES: Programs = Programs {
    writes: Some(
        "import glob, os, pathlib, tempfile\ndef main():\n  os.makedirs('artifacts', exist_ok=True)\n  \
         open('artifacts/b.txt', 'w').write('two')\n  pathlib.Path('a.txt').write_text('one')\n  \
         with tempfile.NamedTemporaryFile('w', delete=False) as kept: kept.write('three')\n  \
         return [sorted(glob.glob('**/*.txt', recursive=True)), os.path.getsize(kept.name)]",
    ),
    writes_much: Some("def main():\n  for n in range(11): open(f'{n}.txt', 'w').write('x')"),
    ..PYTHON
};

/// Checks the contract. The endless program gets 200 ms.
///
/// # Panics
/// If the contract is violated.
pub async fn sandbox_keeps_its_contract(sandbox: &dyn Sandbox, programs: &Programs) {
    let most = sandbox.limits();
    values_round_trip(sandbox, programs).await;
    let check =
        async |source: &'static str, limits: Limits| run(sandbox, programs, source, json!({}), limits).await;

    let Err(Failure::Program { message, line }) = check(programs.raises, most).await.result else {
        unkept("raises")
    };
    assert!(message.contains("broken") && line == programs.line, "{message} {line:?}");
    let Err(Failure::Program { message, .. }) = check(programs.empty, most).await.result else {
        unkept("empty")
    };
    assert!(message.contains("main"), "{message}");

    let ran = check(programs.prints, most).await;
    assert_eq!((ran.result, ran.truncated), (Ok(json!(1)), false));
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("out\n", "err\n"),
        "printed errors are no failure"
    );
    let ran = check(programs.prints_much, Limits { printed_bytes: 100, ..most }).await;
    assert_eq!((ran.result, ran.truncated, ran.stdout.len()), (Ok(Json::Null), true, 100));

    let ran = check(programs.returns_much, Limits { output_bytes: 100, ..most }).await;
    assert_eq!(ran.result, Err(Failure::Output));
    let ran = check(programs.endless, Limits { time: Duration::from_millis(200), ..most }).await;
    assert_eq!(ran.result, Err(Failure::Time));
    let ran = check(programs.greedy, Limits { memory_bytes: 8 << 20, ..most }).await;
    assert_eq!(ran.result, Err(Failure::Memory));

    for _ in 0..2 {
        let ran = check(programs.counts, most).await;
        assert_eq!(ran.result, Ok(json!([1, 1])), "nothing remains of an earlier run");
    }
    if let Some(foreign) = programs.foreign {
        let ran =
            run(sandbox, &Programs { language: foreign, ..*programs }, programs.echo, json!({}), most).await;
        assert_eq!(ran.result, Err(Failure::Language(foreign)));
    }
    files_are_handed_over(sandbox, programs).await;
    limits_never_exceed_the_operators(sandbox, programs).await;
}

async fn files_are_handed_over(sandbox: &dyn Sandbox, programs: &Programs) {
    let check = async |source| run(sandbox, programs, source, json!({}), sandbox.limits()).await;
    if let Some(writes) = programs.writes {
        let ran = check(writes).await;
        assert_eq!(ran.result, Ok(json!([["a.txt", "artifacts/b.txt"], 5])), "a program sees its own files");
        let mut files: Vec<_> =
            ran.files.iter().map(|file| (file.name.as_str(), file.base64.as_str())).collect();
        files.sort_unstable();
        assert_eq!(files, [("a.txt", "b25l"), ("b.txt", "dHdv")]);
    }
    if let Some(writes_much) = programs.writes_much {
        let ran = check(writes_much).await;
        let Err(Failure::Program { message, .. }) = &ran.result else { unkept("writes_much") };
        assert!(message.contains("more than 10 files") && ran.files.is_empty(), "{message}");
    }
}

async fn values_round_trip(sandbox: &dyn Sandbox, programs: &Programs) {
    let given = json!({
        "a": 1, "b": [true, false, null, -1.5, "汉 \u{2028}\0\"'`${x}\\", {"__proto__": {"c": 2}}], "": {},
    });
    let ran = run(sandbox, programs, programs.echo, given.clone(), sandbox.limits()).await;
    assert_eq!(ran, Ran::silent(Ok(given)));
}

async fn limits_never_exceed_the_operators(sandbox: &dyn Sandbox, programs: &Programs) {
    let most = sandbox.limits();
    let wished = Limits { output_bytes: most.output_bytes * 2, ..most };
    let given = json!({"x": "x".repeat(most.output_bytes)});
    let ran = run(sandbox, programs, programs.echo, given, wished).await;
    assert_eq!(ran.result, Err(Failure::Output));
}

#[expect(clippy::panic, reason = "a contract fails by panicking")]
async fn run(sandbox: &dyn Sandbox, programs: &Programs, source: &str, given: Json, limits: Limits) -> Ran {
    let arguments = given.as_object().cloned().unwrap_or_else(Map::new);
    let program = Program { language: programs.language, source: source.to_owned(), arguments, limits };
    let ran = sandbox.run(&TenantId::new("t"), program).await;
    ran.unwrap_or_else(|error| panic!("{}", error.full()))
}

#[track_caller]
#[expect(clippy::panic, reason = "a contract fails by panicking")]
fn unkept(program: &str) -> ! {
    panic!("the program `{program}` has not failed as expected")
}
