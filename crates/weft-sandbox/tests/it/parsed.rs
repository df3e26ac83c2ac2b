//! Programs that are parsed but not executed.

use weft_core::TenantId;
use weft_core::component::WrittenProgram;
use weft_core::seam::Sandbox;
use weft_core::seam::sandbox::{Language, NoSandbox};
use weft_sandbox::{LIMITS, fault};

use crate::kit::{run_python, sandbox, sandbox_of_python};

fn program(language: Language, text: &str, arguments: &[&str]) -> WrittenProgram {
    let arguments = arguments.iter().map(|name| (*name).to_owned()).collect();
    WrittenProgram { pointer: "/script".to_owned(), language, text: text.to_owned(), arguments }
}

async fn said(sandbox: &dyn Sandbox, program: WrittenProgram) -> String {
    fault(sandbox, &TenantId::new("t"), &program).await.unwrap_or_default()
}

#[tokio::test]
async fn javascript_syntax_errors_have_a_position() {
    let sandbox = sandbox();
    let check = async |text: &str, expected: &str| {
        let told = said(&sandbox, program(Language::JavaScript, text, &[])).await;
        assert!(told.starts_with(expected) && told.is_empty() == expected.is_empty(), "{text}: {told}");
    };
    for right in [
        "function main(args) { return 1 }",
        "#!/usr/bin/env node\nconst main = async ({a}) => { for await (const x of a) {} return {...a, b: a?.b ?? 1n} }",
        // Programs may declare names that the parser itself uses.
        "function SyntaxError() { throw 1 }\nfunction RegExp() {}\nfunction JSON() {}\nfunction main() {}",
        "var eval = 1; with ({}) {}\nlet x = 08",
        "while (true) {}",
        "throw new SyntaxError('never thrown')",
        // Modules are left alone.
        "export function main() { reutrn 1 }",
    ] {
        check(right, "").await;
    }
    let left_out = program(Language::JavaScript, "async function main({a}) {}\nawait main({a: 1})", &["a"]);
    assert_eq!(said(&sandbox, left_out).await, "", "with arguments the call is omitted");
    check("function main() {\n  const x = ;\n}", "line 2, column 13: SyntaxError: ").await;
    check("return 5", "line 1, column 1: SyntaxError: ").await;
    check("const müll = 'ä'; const y = ü ü", "line 1, column 31: SyntaxError: ").await;
    check("const a = 1; const a = 2", "line 1, column 22: SyntaxError: ").await;
    let told =
        said(&sandbox, program(Language::JavaScript, "import x from 'y'\nfunction main() {}", &[])).await;
    assert!(told.contains("there are no modules"), "{told}");
}

#[tokio::test]
async fn python_syntax_errors_have_a_position() {
    // The interpreter is prepared by the first program that runs.
    assert!(run_python("1", LIMITS).await.result.is_ok());
    let sandbox = sandbox_of_python();
    let check = async |text: &str, arguments: &[&str], expected: &str| {
        let told = said(&sandbox, program(Language::Python, text, arguments)).await;
        assert!(told.starts_with(expected) && told.is_empty() == expected.is_empty(), "{text}: {told}");
    };
    let right: [(&str, &[&str]); 13] = [
        // It is not executed.
        ("raise SyntaxError('never raised')", &[]),
        ("def main(a):\n    return a", &["a"]),
        ("def main(args):\n    return args['a']", &["a", "b"]),
        ("def main(a, b=1, *more, c=2, **rest): pass", &["a", "d"]),
        ("def main(*all): pass", &["a", "b"]),
        ("def main(**all): pass", &["a"]),
        ("def main(a, b): return a\nmain(1, 2)", &[]),
        ("async def main(): pass\nprint(await main())", &["a"]),
        ("class main: pass", &["a"]),
        ("def other(a): return a\nother(1)", &[]),
        ("def other(a=print(1)): return a", &[]),
        ("x = '\\d'\nx", &[]),
        ("while True: pass", &[]),
    ];
    for (text, arguments) in right {
        check(text, arguments, "").await;
    }
    check("def main(a)\n    return a", &["a"], "line 1, column 12: SyntaxError: expected ':'").await;
    check("def main(a):\nreturn a", &["a"], "line 2, column 1: IndentationError: ").await;
    check("return 5", &[], "line 1, column 1: SyntaxError: 'return' outside function").await;
    check(
        "def run(a): return a",
        &["a"],
        "line 1, column 1: it defines no function `main`, and nothing calls `run`",
    )
    .await;
    let needs = "line 1, column 1: `main` cannot be called: it needs `x`, and `arguments` has `a`, `b`";
    check("def main(x, y): return x", &["a", "b"], needs).await;
    let takes = "line 1, column 1: `main` cannot be called: it takes no `a`, and `arguments` has `a`";
    check("def main(): pass", &["a"], takes).await;
}

#[tokio::test]
async fn nothing_is_reported_when_no_parser_is_ready() {
    let unprepared = tempfile::tempdir().unwrap();
    let sandbox = sandbox().with_python(unprepared.path().join("python"));
    assert!(sandbox.is_ready(Language::JavaScript) && !sandbox.is_ready(Language::Python));
    assert_eq!(said(&sandbox, program(Language::Python, "return 5", &[])).await, "");
    assert_eq!(said(&NoSandbox, program(Language::JavaScript, "return 5", &[])).await, "");
}
