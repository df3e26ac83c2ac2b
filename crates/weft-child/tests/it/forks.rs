//! Workers forked from a prepared one.

use std::path::PathBuf;
use std::time::Duration;

use weft_child::{AskLimits, Confinement, Duty, ForkParent, ForkServer, Worker, WorkerEnd};

use crate::boundary::{REFUSED, Victim, read};

const DUTY: Duty = Duty { thing: "an attempt", does: "attempts", section: "attempts" };
const LONG: Duration = Duration::from_secs(60);

fn worker(arguments: &[&str]) -> Worker {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_weft-child-attempts"));
    Worker { program, arguments: arguments.iter().map(Into::into).collect() }
}

fn required(worker: &Worker) -> ForkParent<'_> {
    ForkParent { worker, confinement: Confinement::Required, task: "" }
}

async fn ask(server: &ForkServer, line: &str, time: Duration) -> WorkerEnd {
    let (worker, line) = (worker(&["answers"]), format!("{line}\n"));
    let asked = [line.as_bytes()];
    let ended = server.ask(required(&worker), &DUTY, &asked, AskLimits { time, answer_max: 1 << 20 }).await;
    ended.unwrap().expect("it is a fork server")
}

/// The process that the fork of an answer was forked from.
async fn parent(server: &ForkServer, line: &str) -> u32 {
    let WorkerEnd::Answered(told) = ask(server, line, LONG).await else { panic!("no answer to {line}") };
    let told = String::from_utf8(told).unwrap();
    told.strip_prefix(line).unwrap().trim().parse().unwrap()
}

/// How many processes were forked from one.
fn forks(parent: u32) -> usize {
    let of = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("stat")).ok();
    let stats = std::fs::read_dir("/proc").unwrap().flatten().filter_map(of);
    let is_child = |stat: &String| {
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        fields[1] == parent.to_string()
    };
    stats.filter(is_child).count()
}

async fn until_there_are(count: usize, parent: u32) {
    let there = async {
        while forks(parent) != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, there).await.expect("forks start and end");
}

#[tokio::test]
async fn each_job_runs_in_its_own_fork() {
    let server = ForkServer::default();
    let first = parent(&server, "first").await;
    let lines: Vec<String> = (0..20).map(|at| format!("line {at}")).collect();
    let parents = futures::future::join_all(lines.iter().map(|line| parent(&server, line))).await;
    assert!(parents.iter().all(|parent| *parent == first), "{parents:?}");
    until_there_are(0, first).await;
}

#[tokio::test]
async fn a_crashed_fork_fails_alone() {
    let server = ForkServer::default();
    let first = parent(&server, "first").await;
    let (broken, other) = tokio::join!(ask(&server, "break", LONG), parent(&server, "beside"));
    assert!(matches!(broken, WorkerEnd::Broken), "{broken:?}");
    assert_eq!((other, parent(&server, "after").await), (first, first));
}

#[tokio::test]
async fn a_fork_ends_when_its_handle_is_dropped() {
    let server = ForkServer::default();
    let first = parent(&server, "first").await;
    tokio::select! {
        ended = ask(&server, "hang", LONG) => panic!("{ended:?}"),
        () = until_there_are(1, first) => {}
    }
    until_there_are(0, first).await;
    drop(server);
    let gone = async {
        while std::fs::exists(format!("/proc/{first}")).unwrap() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("it ends with its parent process");
}

#[tokio::test]
async fn a_killed_fork_server_is_replaced() {
    let server = ForkServer::default();
    let first = parent(&server, "first").await;
    let killed = std::process::Command::new("kill").args(["-KILL", &first.to_string()]).status();
    assert!(killed.unwrap().success());
    assert_ne!(parent(&server, "second").await, first);
}

#[tokio::test]
async fn a_program_that_is_not_a_fork_server_is_refused() {
    let worker = Worker { program: PathBuf::from("/bin/true"), arguments: Vec::new() };
    let server = ForkServer::default();
    let ended = server.ask(required(&worker), &DUTY, &[], AskLimits { time: LONG, answer_max: 9 }).await;
    assert!(ended.unwrap().is_none());
}

/// The same as inside a worker that was started for its job.
#[tokio::test]
async fn a_confined_fork_can_only_compute() {
    let (folder, victim) = (tempfile::tempdir().unwrap(), Victim::start());
    std::fs::write(folder.path().join("file"), "as it was").unwrap();
    let pid = victim.child.id().to_string();
    let worker = worker(&["confined", folder.path().to_str().unwrap(), &pid, &victim.address]);
    let server = ForkServer::default();
    let limits = AskLimits { time: LONG, answer_max: 1 << 20 };
    let ended = server.ask(required(&worker), &DUTY, &[], limits).await.unwrap();
    let Some(WorkerEnd::Answered(told)) = ended else { panic!("{ended:?}") };
    let came = read(&String::from_utf8(told).unwrap());
    assert!(came.len() > 45, "{came:?}");
    let done: Vec<_> = came.iter().filter(|(_, came)| **came != REFUSED).collect();
    assert!(done.is_empty(), "{done:?}");
    assert_eq!(victim.end(), "precious");
    assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), "as it was");
}
