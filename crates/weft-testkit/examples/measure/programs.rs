//! Programs in the sandbox: what one call costs, with the processes that run it.

use serde_json::{Value as Json, json};

use crate::process::Process;
use crate::{Bench, row, wire};

/// Calls of each program after its first one.
const CALLS: u32 = 50;

const JAVASCRIPT: &str = "async function main({n}) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += i;
  return sum === 499500 ? 'w0 w1' : 'wrong';
}";
const PYTHON: &str = "def main(n):
    return 'w0 w1' if sum(range(n)) == 499500 else 'wrong'
";
const PANDAS: &str = "import numpy, pandas
def main(n):
    frame = pandas.DataFrame({'i': numpy.arange(n)})
    return 'w0 w1' if int(frame.i.sum()) == 499500 else 'wrong'
";

/// The Python of the system, where it has pandas.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

fn canvas(lang: &str, script: &str) -> Json {
    let component = |kind: &str, params: Json, to: &[&str]| json!({"obj": {"component_name": kind, "params": params}, "downstream": to, "upstream": []});
    let code = json!({
        "lang": lang,
        "script": script,
        "arguments": {"n": 1_000},
        "outputs": {"result": {"type": "String", "value": ""}},
    });
    json!({"components": {
        "begin": component("Begin", json!({"enablePrologue": false}), &["CodeExec:C"]),
        "CodeExec:C": component("CodeExec", code, &["Message:M"]),
        "Message:M": component("Message", json!({"content": ["{CodeExec:C@result}"]}), &[]),
    }})
}

/// W10: programs in JavaScript, in Python, and in Python with numpy and pandas.
pub(crate) async fn calls(bench: &Bench) {
    let javascript = bench.serve_canvas(&canvas("javascript", JAVASCRIPT), &[]).await;
    row("W10: the first call in JavaScript", "ms", of_calls(&javascript, 1).await, None);
    row("W10: a call in JavaScript", "ms", of_calls(&javascript, CALLS).await, None);
    drop(javascript);
    let python = bench.serve_canvas(&canvas("python", PYTHON), &[]).await;
    row("W10: the first call in Python, which makes its interpreter", "ms", of_calls(&python, 1).await, None);
    row("W10: a call in Python", "ms", of_calls(&python, CALLS).await, None);
    drop(python);
    let has_pandas = std::process::Command::new(SYSTEM_PYTHON).args(["-I", "-c", "import pandas"]).output();
    if !has_pandas.is_ok_and(|output| output.status.success()) {
        println!("| W10: {SYSTEM_PYTHON} has no pandas | | | |");
        return;
    }
    let settings = [
        ("WEFT_SANDBOX__PYTHON", SYSTEM_PYTHON),
        ("WEFT_SANDBOX__PYTHON_MODULES", "[\"numpy\",\"pandas\"]"),
        ("WEFT_SANDBOX__MEMORY_BYTES", "536870912"),
    ];
    let pandas = bench.serve_canvas(&canvas("python", PANDAS), &settings).await;
    row("W10: the first call with numpy and pandas", "ms", of_calls(&pandas, 1).await, None);
    row("W10: a call with numpy and pandas", "ms", of_calls(&pandas, CALLS).await, None);
}

/// CPU milliseconds of one of so many calls, in which nothing but a program is run.
async fn of_calls(server: &Process, calls: u32) -> f64 {
    let before = server.cpu_of_all();
    for _ in 0..calls {
        let body = json!({"query": "go", "stream": true});
        wire::ask(&server.address, "/api/v1/agents/bench/completions", &body, 2).await;
    }
    (server.cpu_of_all() - before).as_secs_f64() * 1e3 / f64::from(calls)
}
