//! Servers that are processes. The process is this test program in another role.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use weft_core::ErrorKind;
use weft_core::seam::ToolSource as _;
use weft_mcp::Servers;

use crate::fake::Fake;
use crate::http_fake::HttpFake;
use crate::kit::{call, names, servers, tenant, tool_of};

/// The tools of the process.
const TOOLS: [&str; 3] = ["echo", "die", "variables"];
/// Names the role of the process.
const ROLE: &str = "WEFT_MCP_TEST_ROLE";
/// Names the file for the ids of its processes.
const NUMBERS: &str = "WEFT_MCP_TEST_NUMBERS";

fn variable(name: &str) -> Option<String> {
    std::env::vars().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// The process of the other tests; run as an ordinary test it does nothing.
#[test]
fn acts_as_a_server_in_its_role() {
    let Some(role) = variable(ROLE) else { return };
    // The test harness has begun a line.
    println!();
    match role.as_str() {
        "ends" => {
            eprintln!("cannot start: the key s3cret-key is wrong");
            std::process::exit(3);
        }
        "floods" => flood(),
        role => speak(role),
    }
    std::process::exit(0);
}

fn speak(role: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut numbers = vec![std::process::id()];
        let mut helper = None;
        if role == "has a helper" {
            // It ignores that its parent ends, as badly written programs do.
            let mut command = tokio::process::Command::new("sleep");
            command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            helper = Some(command.spawn().unwrap());
            numbers.extend(helper.as_ref().and_then(tokio::process::Child::id));
        }
        if let Some(file) = variable(NUMBERS) {
            std::fs::write(file, serde_json::to_string(&numbers).unwrap()).unwrap();
        }
        let fake = Fake::new(&TOOLS);
        if role == "answers variables" {
            let variables: Vec<_> = std::env::vars().map(|(name, _)| name).collect();
            fake.tools.lock().unwrap()[2]["description"] = json!(variables.join(" "));
        }
        eprint!("{}", "noise\n".repeat(100_000));
        fake.speak(tokio::io::stdin(), tokio::io::stdout()).await;
        if role == "does not end" {
            std::future::pending::<()>().await;
        }
        drop(helper);
        // The runtime would wait for the thread that reads standard input.
        std::process::exit(0);
    });
}

/// Writes a gigabyte without a line break.
fn flood() {
    let mut out = std::io::stdout().lock();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        if out.write_all(&piece).is_err() {
            return;
        }
    }
}

/// This program in a role, as the server `own`.
fn own(role: &str, numbers: Option<&Path>, more: &str) -> Servers {
    let program = std::env::current_exe().unwrap();
    let program = program.display();
    let numbers = numbers.map(|file| format!(", {NUMBERS} = '{}'", file.display())).unwrap_or_default();
    servers(&format!(
        "[servers.own]\ncommand = '{program}'\n\
         args = ['--exact', 'process::acts_as_a_server_in_its_role', '--nocapture', '--test-threads=1']\n\
         env = {{ {ROLE} = '{role}', KEY = 's3cret-key'{numbers} }}\n{more}"
    ))
}

/// The processes that wrote their ids.
fn numbers(file: &Path) -> Vec<i32> {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Whether a process exists and is not a zombie: its files are closed when its last thread has ended.
fn runs(number: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{number}/task")) else { return false };
    threads.flatten().any(|thread| {
        let Ok(text) = std::fs::read_to_string(thread.path().join("stat")) else { return false };
        !text.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X'])
    })
}

#[tokio::test]
async fn a_process_is_started_used_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("numbers");
    let servers = own("speaks", Some(&file), "");
    assert!(!file.exists());
    let echo = tool_of(&servers, "own", "echo").await;
    assert_eq!(call(&echo, json!({"q": "汉字"})).await.unwrap().to_text(), "{\"q\":\"汉字\"}");
    let numbers = numbers(&file);
    assert!(runs(numbers[0]));
    servers.close().await;
    assert!(!runs(numbers[0]));
}

/// Row 107: a server offers the same over the pipes of a process as at an address.
#[tokio::test]
async fn a_process_offers_the_same_definitions_as_a_server_at_an_address() {
    let told = async |servers: &Servers, name: &str| -> Vec<_> {
        let offered = servers.tools(&tenant(), name).await.map_err(|error| error.full()).unwrap();
        let tools = offered.tools.iter();
        tools
            .map(|t| (t.name.clone(), t.description.clone(), t.parameters.clone(), t.traits.clone()))
            .collect()
    };
    let process = own("speaks", None, "");
    let expected = told(&process, "own").await;
    let names: Vec<_> = expected.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, TOOLS);
    process.close().await;
    let http = HttpFake::start(&Fake::new(&TOOLS));
    for (kind, path) in [("streamable-http", "mcp"), ("sse", "sse")] {
        let web = servers(&format!("[servers.web]\nurl = '{}'\ntype = '{kind}'", http.url(path)));
        assert_eq!(told(&web, "web").await, expected, "{kind}");
        web.close().await;
    }
}

#[tokio::test]
async fn a_process_gets_a_minimal_environment_and_the_configured_variables() {
    let servers = own("answers variables", None, "");
    let offered = servers.tools(&tenant(), "own").await.unwrap();
    let told = &offered.tools[2].description;
    let variables: Vec<_> = told.split(' ').collect();
    assert!(variables.contains(&"PATH") && variables.contains(&"KEY") && variables.contains(&ROLE), "{told}");
    let strange = variables.iter().find(|name| name.starts_with("CARGO") || name.starts_with("NEXTEST"));
    assert_eq!(strange, None);
    servers.close().await;
}

#[tokio::test]
async fn a_killed_process_is_restarted_for_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("numbers");
    let servers = own("speaks", Some(&file), "");
    let echo = tool_of(&servers, "own", "echo").await;
    let mut seen = Vec::new();
    for n in 0..3 {
        assert_eq!(call(&echo, json!({"n": n})).await.unwrap().to_text(), format!("{{\"n\":{n}}}"));
        let number = numbers(&file)[0];
        assert!(!seen.contains(&number));
        seen.push(number);
        kill(number);
    }
    let error = call(&*tool_of(&servers, "own", "die").await, json!({})).await.unwrap_err();
    assert!(
        error.full().contains("the process has ended (exit status: 0); it said: noise"),
        "{}",
        error.full()
    );
    servers.close().await;
}

/// Kills a process of ours by its id and waits until its last thread has ended, since only then its files are closed.
/// Listing its threads would not do: one that ends during the listing can cut the list short.
fn kill(number: i32) {
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
    let pid = Pid::from_raw(number).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
        Ok(status) => assert!(status.is_some()),
        // The code that started it has already waited for it.
        Err(error) => assert_eq!(error, rustix::io::Errno::CHILD),
    }
}

#[tokio::test]
async fn a_process_is_ended_with_all_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("numbers");
    let servers = own("has a helper", Some(&file), "");
    servers.tools(&tenant(), "own").await.unwrap();
    let numbers = numbers(&file);
    assert!(numbers.len() == 2 && numbers.iter().all(|number| runs(*number)));
    servers.close().await;
    gone(&numbers).await;
}

#[tokio::test]
async fn a_process_that_does_not_exit_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("numbers");
    let servers = own("does not end", Some(&file), "");
    servers.tools(&tenant(), "own").await.unwrap();
    servers.close().await;
    gone(&numbers(&file)).await;
}

#[tokio::test]
async fn a_process_is_ended_when_its_client_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("numbers");
    let servers = own("has a helper", Some(&file), "");
    drop(tool_of(&servers, "own", "echo").await);
    let numbers = numbers(&file);
    drop(servers);
    gone(&numbers).await;
}

/// Waits until none of these processes is left: the system takes a moment to carry out a kill.
async fn gone(numbers: &[i32]) {
    while numbers.iter().any(|number| runs(*number)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_failed_start_is_reported_with_the_last_output_and_without_secrets() {
    let error = own("ends", None, "").tools(&tenant(), "own").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let told = error.full();
    assert!(told.contains("the process has ended (exit status: 3)"), "{told}");
    assert!(told.contains("it said: cannot start: the key *** is wrong"), "{told}");
}

/// It may exit before or after anything was written to it: the reported reason is the same.
#[tokio::test]
async fn a_program_that_reads_nothing_is_reported_with_its_last_output() {
    for _ in 0..20 {
        let servers =
            servers("[servers.x]\ncommand = 'sh'\nargs = ['-c', 'exec <&-; echo no licence >&2; exit 4']");
        let error = servers.tools(&tenant(), "x").await.unwrap_err();
        let told = error.full();
        assert!(told.ends_with("the process has ended (exit status: 4); it said: no licence"), "{told}");
    }
}

#[tokio::test]
async fn a_gigabyte_without_a_line_break_is_not_buffered() {
    let before = memory_kb();
    let error = own("floods", None, "result_bytes_max = 100000").tools(&tenant(), "own").await.unwrap_err();
    assert!(error.full().contains("more than 100000 bytes (`result_bytes_max`)"), "{}", error.full());
    let grown = memory_kb().saturating_sub(before);
    assert!(grown < 100_000, "memory grew by {grown} kB");
}

/// The peak memory of this process.
fn memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_missing_program_is_named_at_once() {
    let servers = servers("[servers.x]\ncommand = '/nowhere/mcp'");
    let error = servers.tools(&tenant(), "x").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.full().contains("cannot start `/nowhere/mcp`"), "{}", error.full());
    assert!(error.full().contains("check `command`"));
    let offered = own("speaks", None, "").tools(&tenant(), "own").await.unwrap();
    assert_eq!(names(&offered), ["echo", "die", "variables"]);
}
