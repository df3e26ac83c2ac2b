//! Inside a worker every action but computing is refused, and its target is unchanged.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// `ENOSYS`.
pub(crate) const REFUSED: i32 = 38;

/// A process that holds some bytes; it does not outlive its test.
pub(crate) struct Victim {
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
    pub address: String,
}

impl Victim {
    pub(crate) fn start() -> Self {
        let mut child =
            attempts().arg("victim").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut output = BufReader::new(output);
        let mut address = String::new();
        output.read_line(&mut address).unwrap();
        Self { child, input, output, address: address.trim().to_owned() }
    }

    /// Its bytes at the end.
    pub(crate) fn end(mut self) -> String {
        drop(self.input.take());
        let mut held = String::new();
        self.output.read_to_string(&mut held).unwrap();
        assert!(self.child.wait().unwrap().success());
        held.trim().to_owned()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It has ended already if the test succeeded.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn attempts() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weft-child-attempts"))
}

/// The outcome of each attempt.
fn tried(how: &str, folder: &Path, victim: &Victim) -> BTreeMap<String, i32> {
    std::fs::write(folder.join("file"), "as it was").unwrap();
    let mut child = attempts()
        .arg(how)
        .arg(folder)
        .arg(victim.child.id().to_string())
        .arg(&victim.address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    // Until here its input stays open: the result is wanted.
    let mut input = child.stdin.take().unwrap();
    drop(input.flush());
    drop(input);
    assert!(child.wait().unwrap().success(), "{told}");
    read(&told)
}

pub(crate) fn read(told: &str) -> BTreeMap<String, i32> {
    told.lines()
        .map(|line| {
            let (name, came) = line.split_once(' ').unwrap();
            (name.to_owned(), came.parse().unwrap())
        })
        .collect()
}

#[test]
fn a_confined_process_can_only_compute() {
    let (folder, victim) = (tempfile::tempdir().unwrap(), Victim::start());
    let came = tried("confined", folder.path(), &victim);
    assert!(came.len() > 45, "{came:?}");
    let done: Vec<_> = came.iter().filter(|(_, came)| **came != REFUSED).collect();
    assert!(done.is_empty(), "{done:?}");
    assert_eq!(victim.end(), "precious");
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), "as it was");
}

/// Without this the test above would also pass for attempts that can never succeed.
#[test]
fn the_same_actions_succeed_unconfined() {
    let (folder, victim) = (tempfile::tempdir().unwrap(), Victim::start());
    let came = tried("free", folder.path(), &victim);
    for act in
        ["open", "create", "truncate", "unlink", "link", "fork", "kill", "socket", "pipe", "code", "rename"]
    {
        assert_eq!(came[act], 0, "{act}: {came:?}");
    }
    // Some machines let a process read its neighbours, some do not; where they do, it is a real attempt.
    let held = victim.end();
    assert_eq!(held, if came["write-memory"] == 0 { "tampered" } else { "precious" });
}

#[test]
fn a_threaded_program_cannot_start_a_process() {
    let came = |how: &str| {
        let output = attempts().arg(how).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{told}");
        read(&told)
    };
    let confined = came("threaded");
    assert_eq!((confined["thread"], confined["process"]), (0, REFUSED));
    let free = came("threads");
    assert_eq!((free["thread"], free["process"]), (0, 0));
}
