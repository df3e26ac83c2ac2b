//! The process that runs a program.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weft_core::seam::Sandbox as _;
#[cfg(unix)]
use weft_core::seam::sandbox::Failure;
#[cfg(target_os = "linux")]
use weft_core::seam::sandbox::Limits;
use weft_core::{ErrorKind, TenantId};
use weft_sandbox::{LIMITS, ProcessSandbox, Worker};

use crate::kit::{SHORT, program, worker};

#[tokio::test]
async fn without_a_worker_nothing_runs() {
    let tenant = TenantId::new("t");
    let check = async |worker: Worker, part: &str| {
        let sandbox = ProcessSandbox::new(worker, LIMITS, 1);
        let error = sandbox.run(&tenant, program("function main() {}", LIMITS)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.full().contains(part), "{}", error.full());
    };
    check(Worker { program: PathBuf::from("/no/such/worker"), arguments: Vec::new() }, "/no/such/worker")
        .await;
    #[cfg(unix)]
    check(
        Worker { program: PathBuf::from("/bin/sh"), arguments: vec!["-c".into(), "exit 3".into()] },
        "code 3",
    )
    .await;
    #[cfg(unix)]
    check(
        Worker {
            program: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".into(), "echo Landlock is off; exit 67".into()],
        },
        "cannot be confined: Landlock is off",
    )
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_crashed_worker_does_not_affect_others() {
    let shell = |script: &str| Worker {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".into(), script.into()],
    };
    let tenant = TenantId::new("t");
    let ran = ProcessSandbox::new(shell("kill -SEGV $$"), LIMITS, 1)
        .run(&tenant, program("x", LIMITS))
        .await
        .unwrap();
    assert_eq!(ran.result, Err(Failure::Broken));
    let error = ProcessSandbox::new(shell("echo hello"), LIMITS, 1)
        .run(&tenant, program("x", LIMITS))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Garbled);
}

#[tokio::test]
async fn programs_wait_for_a_free_worker() {
    let sandbox = ProcessSandbox::new(worker(), LIMITS, 2);
    let tenant = TenantId::new("t");
    let source = "function main() { return 1 }";
    let all = futures::future::join_all((0..12).map(|_| sandbox.run(&tenant, program(source, LIMITS)))).await;
    assert!(all.into_iter().all(|ran| ran.unwrap().result == Ok(1.into())));
}

/// Endless programs of one tenant delay another by the running one and the one whose turn it is.
#[tokio::test]
async fn a_tenant_with_many_programs_does_not_starve_others() {
    let sandbox = ProcessSandbox::new(worker(), LIMITS, 1);
    let (loud, quiet, ended) = (TenantId::new("loud"), TenantId::new("quiet"), AtomicUsize::new(0));
    let (shared, owner, count) = (&sandbox, &loud, &ended);
    let endless = (0..6).map(|_| async move {
        shared.run(owner, program("function main() { for (;;) {} }", SHORT)).await.unwrap();
        count.fetch_add(1, Ordering::SeqCst);
    });
    let other = async {
        let ran = sandbox.run(&quiet, program("function main() { return 1 }", LIMITS)).await.unwrap();
        (ran.result, ended.load(Ordering::SeqCst))
    };
    let (_, (result, before)) = futures::future::join(futures::future::join_all(endless), other).await;
    assert_eq!(result, Ok(1.into()));
    assert!(before <= 2, "{before} of 6 went before");
}

#[tokio::test]
async fn randomness_and_leftovers_are_private_to_a_program() {
    let (sandbox, tenant) = (ProcessSandbox::new(worker(), LIMITS, 4), TenantId::new("t"));
    let source =
        "function main() { const seen = globalThis.mark; globalThis.mark = 1; Array.prototype.mark = 2;
        return [seen ?? null, [].mark, Math.random()]; }";
    let all = futures::future::join_all((0..8).map(|_| sandbox.run(&tenant, program(source, LIMITS)))).await;
    let drawn: Vec<_> = all.into_iter().map(|ran| ran.unwrap().result.unwrap()).collect();
    for (place, one) in drawn.iter().enumerate() {
        assert_eq!((&one[0], &one[1]), (&serde_json::Value::Null, &2.into()));
        assert!(drawn[..place].iter().all(|other| other[2] != one[2]), "{drawn:?}");
    }
}

/// A sandbox whose workers are distinguishable from those of other tests by this marker.
#[cfg(target_os = "linux")]
fn marked(mark: &str) -> ProcessSandbox {
    ProcessSandbox::new(Worker { arguments: vec![mark.into()], ..worker() }, LONG, 1)
}

#[cfg(target_os = "linux")]
const LONG: Limits = Limits { time: Duration::from_secs(3_600), ..LIMITS };

/// The program processes with this marker that have not ended: forks of another one with it.
#[cfg(target_os = "linux")]
fn workers(mark: &str) -> Vec<PathBuf> {
    let parent = |path: &PathBuf| {
        let stat = std::fs::read_to_string(path.join("stat")).ok()?;
        Some(PathBuf::from("/proc").join(stat.rsplit(')').next()?.split_whitespace().nth(1)?))
    };
    let all = marked_processes(mark);
    all.iter().filter(|path| parent(path).is_some_and(|parent| all.contains(&parent))).cloned().collect()
}

#[cfg(target_os = "linux")]
fn marked_processes(mark: &str) -> Vec<PathBuf> {
    let marked = |path: &PathBuf| {
        let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(marked).collect()
}

/// Waits until there are this many.
#[cfg(target_os = "linux")]
async fn until_there_are(mark: &str, count: usize) {
    let there = async {
        while workers(mark).len() != count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), there).await.expect("the workers start and end");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_a_run_stops_its_program() {
    let (mark, tenant) = ("dropped-by-its-test", TenantId::new("t"));
    let sandbox = marked(mark);
    // One that can be interrupted, one that cannot.
    for body in ["for (;;);", "[].reverse.call({length: 2 ** 53 - 1})"] {
        let mut endless = Box::pin(sandbox.run(&tenant, program(body, LONG)));
        tokio::select! {
            ran = &mut endless => panic!("{ran:?}"),
            () = until_there_are(mark, 1) => {}
        }
        drop(endless);
        until_there_are(mark, 0).await;
        // Its slot is free again.
        let ran = sandbox.run(&tenant, program("function main() { return 1 }", LONG)).await.unwrap();
        assert_eq!(ran.result, Ok(1.into()));
    }
}

/// The other end of the pipe is closed when the process that wanted the result is gone.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_ends_when_its_result_is_no_longer_wanted() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut child =
        Command::new(worker().program).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let endless = program("[].reverse.call({length: 2 ** 53 - 1})", LONG);
    writeln!(input, "{}", serde_json::json!({"run": {"program": endless}})).unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    drop(input);
    assert!(!child.wait().unwrap().success());
}

/// Checked from outside, since the language cannot look.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn workers_inherit_nothing_and_may_open_nothing() {
    let (mark, tenant) = ("looked-at-by-its-test", TenantId::new("t"));
    let sandbox = marked(mark);
    let mut endless = Box::pin(sandbox.run(&tenant, program("for (;;);", LONG)));
    let confined = async {
        loop {
            let read = |file: &str| std::fs::read_to_string(workers(mark).first()?.join(file)).ok();
            let limits = read("limits").unwrap_or_default();
            let hard = |name: &str| {
                let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.split_whitespace().nth(1).map(str::to_owned)
            };
            // The last one that is set. A file would get a lower number, and those are taken.
            if hard("Max open files").as_deref() == Some("1") {
                for name in ["Max processes", "Max file size", "Max core file size"] {
                    assert_eq!(hard(name).as_deref(), Some("0"), "{limits}");
                }
                assert_eq!(read("environ").as_deref(), Some(""));
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ran = &mut endless => panic!("{ran:?}"),
        confined = tokio::time::timeout(Duration::from_secs(60), confined) => confined.expect("it is confined"),
    }
}
