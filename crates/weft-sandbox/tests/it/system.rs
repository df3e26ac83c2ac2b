//! The system's Python: the contract, packages, and programs that try to escape.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value as Json, json};
use weft_core::seam::Sandbox as _;
use weft_core::seam::sandbox::{Failure, Language, Limits, Program, Ran};
use weft_core::{ErrorKind, TenantId};
use weft_sandbox::{LIMITS, SystemInterpreter, SystemPython};
use weft_testkit::contracts::sandbox::{PYTHON_FILES, Programs, sandbox_keeps_its_contract};

use crate::kit::{failed, python, worker};
use crate::python::{CAUSED, WAITING};

const INTERPRETER: &str = "/usr/bin/python3";

/// With namespaces and without; none where the system has no such interpreter.
pub(crate) fn sandboxes(modules: &[&str]) -> Vec<SystemPython> {
    let imports = modules.iter().map(|name| format!("import {name}\n")).collect::<String>();
    let newest = format!("import sys\nassert sys.version_info >= (3, 11)\n{imports}");
    let there = Command::new(INTERPRETER).args(["-I", "-c", &newest]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        weft_testkit::skipped("no Python 3.11 of the system with what the test imports");
        return Vec::new();
    }
    vec![sandbox(modules), sandbox(modules).without_namespaces()]
}

fn sandbox(modules: &[&str]) -> SystemPython {
    let modules = modules.iter().map(|&name| name.to_owned()).collect();
    let interpreter = SystemInterpreter { program: PathBuf::from(INTERPRETER), modules };
    SystemPython::new(worker(), interpreter, LIMITS, 4)
}

pub(crate) async fn run(sandbox: &SystemPython, source: &str, limits: Limits) -> Ran {
    sandbox
        .run(&TenantId::new("t"), python(source, limits))
        .await
        .unwrap_or_else(|error| panic!("{}", error.full()))
}

#[tokio::test]
async fn programs_in_the_python_of_the_system_keep_the_contract() {
    for sandbox in sandboxes(&[]) {
        let programs = Programs { foreign: Some(Language::JavaScript), ..PYTHON_FILES };
        sandbox_keeps_its_contract(&sandbox, &programs).await;
    }
}

#[tokio::test]
async fn namespaces_are_used_if_bubblewrap_is_installed() {
    let [with, without] = sandboxes(&[]).try_into().unwrap_or_else(|_| [sandbox(&[]), sandbox(&[])]);
    let name =
        async |sandbox: &SystemPython| run(sandbox, "import os\nos.uname().nodename", LIMITS).await.result;
    if !Path::new("/usr/bin/bwrap").exists() || !Path::new(INTERPRETER).exists() {
        weft_testkit::skipped("no bubblewrap or no Python of the system");
        return;
    }
    assert_eq!(name(&with).await, Ok(json!("sandbox")));
    assert_ne!(name(&without).await, Ok(json!("sandbox")));
}

#[tokio::test]
async fn import_and_syntax_errors_are_reported() {
    if sandboxes(&[]).is_empty() {
        return;
    }
    let told = async |sandbox: SystemPython| {
        let error = sandbox.run(&TenantId::new("t"), python("1", LIMITS)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        error.full()
    };
    let message = told(sandbox(&["no_such_module"])).await;
    assert!(message.contains("No module named 'no_such_module'"), "{message}");
    let other = |program: &str| {
        let interpreter = SystemInterpreter { program: program.into(), modules: Vec::new() };
        SystemPython::new(worker(), interpreter, LIMITS, 1)
    };
    let message = told(other("/bin/true")).await;
    assert!(message.contains("it is not Python (set `sandbox.python`"), "{message}");
    told(other("/no/such/python")).await;
}

/// A process and a folder that programs would harm if they escaped.
struct Host {
    victim: Child,
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let victim = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kept"), "as it was").unwrap();
        Self { victim, folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn unharmed(mut self) {
        self.victim.stdin.as_mut().unwrap().write_all(b"still there\n").unwrap();
        let mut line = String::new();
        BufReader::new(self.victim.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "still there\n");
        self.victim.kill().unwrap();
        self.victim.wait().unwrap();
        assert_eq!(fs::read_to_string(self.path().join("kept")).unwrap(), "as it was");
        assert_eq!(fs::read_dir(self.path()).unwrap().count(), 1);
    }
}

/// Runs all of them, `{F}` being the target folder and `{P}` the target process, and checks each.
async fn each(bodies: &[&str], limits: Limits, check: impl Fn(&str, &Ran)) {
    for sandbox in sandboxes(&[]) {
        let host = Host::new();
        let (folder, pid) = (host.path().display().to_string(), host.victim.id().to_string());
        let runs = bodies.iter().map(|body| {
            let source = body.replace("{F}", &folder).replace("{P}", &pid).replace('\n', "\n  ");
            let source = format!("import ctypes, os, sys\nC = ctypes.CDLL(None)\ndef main():\n  {source}");
            let sandbox = &sandbox;
            async move { (body, run(sandbox, &source, limits).await) }
        });
        let mut runs = futures::stream::iter(runs).buffer_unordered(2);
        while let Some((body, ran)) = runs.next().await {
            check(body, &ran);
        }
        let ran = run(&sandbox, "def main(): return 6 * 7", LIMITS).await;
        assert_eq!(ran.result, Ok(json!(42)), "the next run is unaffected");
        host.unharmed();
    }
}

/// Attempts to reach the outside; each fails, or returns `refused` when the system has denied it.
const OUTWARD: [&str; 74] = [
    // Files.
    "open('{F}/kept').read()",
    "open('{F}/new', 'w').write('x')",
    "os.open('{F}/new', os.O_CREAT | os.O_WRONLY)",
    "os.open('{F}/kept', os.O_RDONLY)",
    "os.open('{F}/kept', os.O_PATH); os.listdir('{F}')",
    "os.listdir('{F}')",
    "os.remove('{F}/kept')",
    "os.rename('{F}/kept', '{F}/lost')",
    "os.mkdir('{F}/new')",
    "os.rmdir('{F}')",
    "os.symlink('/etc/passwd', '{F}/new')",
    "os.link('{F}/kept', '{F}/new')",
    "os.truncate('{F}/kept', 0)",
    "os.chmod('{F}/kept', 0o777)",
    "os.chown('{F}/kept', 1, 1)",
    "os.utime('{F}/kept', (1, 1))",
    "os.mkfifo('{F}/new')",
    "os.mknod('{F}/new')",
    "os.setxattr('{F}/kept', 'user.a', b'x')",
    "os.chdir('{F}')",
    "os.chroot('/')",
    "open('/etc/passwd').read()",
    "open('/etc/shadow').read()",
    "os.listdir('/root')",
    "os.open('/dev/mem', os.O_RDWR)",
    "os.open('/usr/lib/new', os.O_CREAT | os.O_WRONLY)",
    "import io; io.FileIO('{F}/kept').read()",
    "import _io; _io.open('{F}/kept').read()",
    "import shutil; shutil.rmtree('{F}')",
    "open('own', 'w').close(); os.rename('own', '{F}/new')",
    "import shutil; open('own', 'w').close(); shutil.copy('own', '{F}/new')",
    "open('own', 'w').close(); os.link('own', '{F}/new')",
    "import tempfile; tempfile.mkdtemp(dir='{F}')",
    "import pathlib; pathlib.Path('{F}/new').touch()",
    "import sqlite3; sqlite3.connect('{F}/new').execute('create table a (b)')",
    "C.open.restype = ctypes.c_int; assert C.open(b'{F}/kept', 0) >= 0",
    "assert C.unlink(b'{F}/kept') == 0",
    "assert C.creat(b'{F}/new', 0o644) >= 0",
    // Information the system gives about itself and others.
    "open('/proc/self/mem', 'rb').read(1)",
    "open('/proc/self/environ', 'rb').read()",
    "open('/proc/1/environ', 'rb').read()",
    "open('/proc/{P}/mem', 'rb').read(1)",
    "os.listdir('/proc/self/fd')[0]",
    "os.readlink('/proc/{P}/exe')",
    "os.listdir('/sys/class')[0]",
    // Other processes.
    "os.kill({P}, 9)",
    "os.kill(os.getppid(), 9)",
    "os.kill(-1, 9)",
    "os.killpg(0, 9)",
    "assert C.syscall(234, {P}, {P}, 9) == 0",
    "assert C.ptrace(16, {P}, 0, 0) == 0",
    "assert C.process_vm_readv({P}, 0, 0, 0, 0, 0) >= 0",
    "os.pidfd_open({P})",
    "os.fork()",
    "assert C.syscall(56, 17, 0, 0, 0, 0) >= 0",
    "assert C.syscall(435, 0, 0) >= 0",
    "os.execv('/bin/sh', ['sh', '-c', 'true'])",
    "assert os.system('true') == 0",
    "import subprocess; subprocess.run(['/bin/true'])",
    "os.posix_spawn('/bin/true', ['true'], {})",
    "import _thread; _thread.start_new_thread(print, ())",
    "import multiprocessing; multiprocessing.Process(target=print).start()",
    // The network, and other inter-process communication.
    "import socket; socket.create_connection(('127.0.0.1', 80))",
    "import socket; socket.socket(socket.AF_UNIX).connect('\\0abstract')",
    "import socket; socket.socketpair()",
    "import _socket; _socket.getaddrinfo('localhost', 80)[0][9]",
    "os.pipe()",
    "os.memfd_create('a')",
    "os.eventfd(0)",
    "import mmap; mmap.mmap(-1, 4096)",
    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1, 1))",
    "assert C.syscall(425, 8, 0) >= 0, 'io_uring'",
    "assert C.syscall(323, 0) >= 0, 'userfaultfd'",
    "assert C.unshare(0x10000000) == 0",
];

/// More of them, by system calls that no library makes.
const OUTWARD_CALLS: [&str; 16] = [
    "assert C.mount(0, b'/', 0, 32, 0) == 0",
    "assert C.syscall(321, 0, 0, 0) >= 0, 'bpf'",
    "assert C.syscall(298, 0, 0, -1, -1, 0) >= 0, 'perf'",
    "assert C.syscall(250, 0, 0, 0) >= 0, 'keyctl'",
    "assert C.prctl(4, 1, 0, 0, 0) == 0",
    "assert C.prctl(22, 0, 0, 0, 0) == 0",
    "assert C.personality(0x40000) >= 0",
    "assert C.setuid(0) == 0",
    "assert C.setns(3, 0) == 0",
    "assert C.shmget(0, 4096, 0o1600) >= 0",
    "assert C.msgget(0, 0o1600) >= 0",
    "assert C.semget(0, 1, 0o1600) >= 0",
    "assert C.inotify_init() >= 0",
    "assert C.sethostname(b'x', 1) == 0",
    "assert C.fcntl(0, 8, {P}) == 0, 'F_SETOWN'",
    "assert C.syscall(437, -100, b'{F}/kept', 0, 0) >= 0, 'openat2'",
];

#[tokio::test]
async fn the_host_is_out_of_reach() {
    let refused = |body: &str, ran: &Ran| {
        let Err(Failure::Program { message, .. }) = &ran.result else { panic!("{body}: {ran:?}") };
        assert!(
            !message.starts_with("NameError") && !message.starts_with("AttributeError"),
            "{body}: {message}"
        );
    };
    each(&OUTWARD, LIMITS, refused).await;
    each(&OUTWARD_CALLS, LIMITS, refused).await;
}

#[tokio::test]
async fn unavailable_features_are_reported_as_by_the_built_in_interpreter() {
    for sandbox in sandboxes(&[]) {
        let check = async |source: &str, part: &str| {
            let (message, _) = failed(run(&sandbox, source, LIMITS).await.result);
            assert!(message.contains(part), "{source}: {message}");
        };
        check(
            "import socket\nsocket.create_connection(('127.0.0.1', 80))",
            "OSError: a program has no network",
        )
        .await;
        check("import urllib.request as u\nu.urlopen('http://127.0.0.1')", "a program has no network").await;
        check("import subprocess\nsubprocess.run(['id'])", "OSError: a program has no other processes").await;
        check("import os\nos.system('id')", "OSError: a program has no other processes").await;
        check("import os\nos.pipe()", "(a program has no network and no other processes)").await;
        for (source, call, _) in WAITING {
            check(source, &format!("`{call}` would wait for ever")).await;
        }
        for (source, expected) in CAUSED {
            assert_eq!(failed(run(&sandbox, source, LIMITS).await.result).0, expected, "{source}");
        }
    }
}

const SHORT: Limits = Limits { time: Duration::from_millis(700), memory_bytes: 16 << 20, ..LIMITS };

#[tokio::test]
async fn endless_and_crashing_programs_are_stopped() {
    let bodies = [
        "while True: pass",
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        "import time; time.sleep(10 ** 9)",
        "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass",
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
        "import asyncio; asyncio.run(asyncio.sleep(10 ** 6))",
        "C.pause() if C.pause() == -1 else 0\nwhile True: pass",
        "pow(3, 10 ** 99999, 10 ** 9999 + 7)",
        "try:\n  while True: pass\nfinally:\n  while True: pass",
    ];
    each(&bodies, SHORT, |body, ran| assert_eq!(ran.result, Err(Failure::Time), "{body}")).await;
    let bodies = [
        "ctypes.string_at(0)",
        "os.abort()",
        "os._exit(0)",
        "os._exit(67)",
        "os.close(3)",
        "os.write(3, b'{\"ended\": \"exit\"}\\n' * 99); os._exit(0)",
        "os.write(3, b'x' * 10 ** 6); os._exit(1)",
        "sys.setrecursionlimit(10 ** 9); f = lambda: [*map(lambda x: f(), [1])]; f()",
    ];
    each(&bodies, SHORT, |body, ran| assert_eq!(ran.result, Err(Failure::Broken), "{body}")).await;
    let bodies = [
        "a = []\nwhile True: a.append('x' * 1000 + str(len(a)))",
        "a = 'x'\nwhile True: a += a",
        "return bytearray(2 ** 30)",
        "a = []\nwhile True: a.append(bytearray(10 ** 6))",
        "import mmap; return len([mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for i in range(999)])",
    ];
    each(&bodies, Limits { memory_bytes: 16 << 20, ..LIMITS }, |body, ran| {
        let refused = matches!(&ran.result, Err(Failure::Memory))
            || matches!(&ran.result, Err(Failure::Program { message, .. }) if message.contains("OSError"));
        assert!(refused, "{body}: {ran:?}");
    })
    .await;
}

#[tokio::test]
async fn nothing_remains_of_a_run_and_tenants_have_separate_processes() {
    for sandbox in sandboxes(&[]) {
        let parent = async |tenant: &str| {
            let source = "import builtins, os, random\nseen = getattr(builtins, 'mark', None)\nbuiltins.mark = 1\n\
                          there = os.path.exists('left')\nopen('left', 'w').write('x')\n[seen, there, id(builtins)]";
            let program: Program = python(source, LIMITS);
            let ran = sandbox.run(&TenantId::new(tenant), program).await.unwrap();
            let Ok(Json::Array(values)) = ran.result else { panic!("{ran:?}") };
            assert_eq!(values[..2], [Json::Null, json!(false)]);
            values[2].clone()
        };
        let first = parent("a").await;
        assert_eq!(parent("a").await, first, "its parent process stays");
        // Addresses are randomised for each.
        assert_ne!(parent("b").await, first);
    }
}

#[tokio::test]
async fn a_dead_parent_process_is_replaced_and_ends_with_its_sandbox() {
    for sandbox in sandboxes(&[]) {
        assert_eq!(run(&sandbox, "1 + 1", LIMITS).await.result, Ok(json!(2)));
        let of_this_process = || {
            let listed =
                fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            listed.filter(|id| is_parent_below(id, std::process::id())).collect::<Vec<_>>()
        };
        let before = of_this_process();
        assert!(!before.is_empty());
        for id in &before {
            drop(Command::new("kill").args(["-9", id]).status());
        }
        assert_eq!(run(&sandbox, "1 + 1", LIMITS).await.result, Ok(json!(2)));
        drop(sandbox);
        for _ in 0..200 {
            if of_this_process().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(of_this_process(), Vec::<String>::new());
    }
}

/// Longer than any test waits: a process that ends earlier has been stopped.
const LONG: Limits = Limits { time: Duration::from_secs(3_600), ..LIMITS };

/// Waits until this many processes have this in their command lines.
async fn until_there_are(mark: &str, count: usize) {
    let marked = || {
        let lines = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("cmdline")).ok());
        lines.filter(|line| line.contains(mark)).count()
    };
    let there = async {
        while marked() != count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), there).await.expect("the processes start and end");
}

#[tokio::test]
async fn dropping_a_run_stops_its_program() {
    if sandboxes(&[]).is_empty() {
        return;
    }
    let tenant = TenantId::new("t");
    let sandbox = || {
        let interpreter = SystemInterpreter { program: INTERPRETER.into(), modules: Vec::new() };
        SystemPython::new(worker(), interpreter, LONG, 1)
    };
    for (sandbox, idle) in [(sandbox(), 1_000_001), (sandbox().without_namespaces(), 1_000_002)] {
        // The argument is visible in the command line of the process and of its forks.
        let (sandbox, mark) =
            (sandbox.with_idle(Duration::from_secs(idle)), format!("\"idle_seconds\":{idle}"));
        for body in ["while True: pass", "import time\ntime.sleep(3600)"] {
            let mut endless = sandbox.run(&tenant, python(body, LONG));
            tokio::select! {
                ran = &mut endless => panic!("{ran:?}"),
                // The forking process, the program's guard, and the program.
                () = until_there_are(&mark, 3) => {}
            }
            drop(endless);
            until_there_are(&mark, 1).await;
            // Its slot is free again.
            assert_eq!(run(&sandbox, "6 * 7", LONG).await.result, Ok(json!(42)), "{body}");
        }
    }
}

#[tokio::test]
async fn an_idle_parent_process_ends_and_is_replaced() {
    const IDLE: Duration = Duration::from_secs(1);
    for sandbox in sandboxes(&[]) {
        let sandbox = sandbox.with_idle(IDLE);
        // The address of something in the memory that all programs of a parent share.
        let parent = async || run(&sandbox, "import builtins\nid(builtins)", LIMITS).await.result.unwrap();
        let first = parent().await;
        // It stays as long as a program runs.
        let slow = format!("import time\ntime.sleep({})\n1", 3 * IDLE.as_secs());
        assert_eq!(run(&sandbox, &slow, LIMITS).await.result, Ok(json!(1)));
        let mut later = first.clone();
        for _ in 0..20 {
            tokio::time::sleep(2 * IDLE).await;
            later = parent().await;
            if later != first {
                break;
            }
        }
        assert_ne!(later, first);
    }
}

#[tokio::test]
async fn confinement_without_namespaces_is_reported() {
    let reason = sandbox(&[]).without_namespaces().lacks_namespaces().await;
    assert!(reason.is_some_and(|reason| reason.contains("bwrap")), "{reason:?}");
    let there = Path::new("/usr/bin/bwrap").exists();
    assert!(there || sandbox(&[]).lacks_namespaces().await.is_some());
}

/// Whether it is an interpreter of this test that serves programs.
fn is_parent_below(id: &str, root: u32) -> bool {
    let text = |of: &str, file: &str| fs::read_to_string(format!("/proc/{of}/{file}")).unwrap_or_default();
    if !text(id, "cmdline").contains("python") || !text(id, "cmdline").contains("LISTENER") {
        return false;
    }
    let mut of = id.to_owned();
    for _ in 0..8 {
        let status = text(&of, "status");
        let Some(parent) = status.lines().find_map(|line| line.strip_prefix("PPid:")) else { return false };
        parent.trim().clone_into(&mut of);
        if of == root.to_string() {
            return true;
        }
    }
    false
}
