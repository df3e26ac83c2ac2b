//! Processes that are measured: started, looked at, ended.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A tick of `/proc/PID/stat`; the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// A server in a process of its own; it ends with this.
pub(crate) struct Process {
    pub address: String,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the system says of a process.
struct Stat {
    id: u32,
    parent: u32,
    /// User and system time.
    own: Duration,
    /// The same of its children that have ended.
    ended: Duration,
}

impl Stat {
    fn read(stat: &str) -> Self {
        // The name in brackets may hold anything.
        let (before, after) = (stat.find(' ').unwrap(), stat.rfind(')').unwrap() + 2);
        let fields: Vec<&str> = stat[after..].split(' ').collect();
        let field = |at: usize| fields[at].parse::<u32>().unwrap();
        let ticks = |at: usize| TICK * (field(at) + field(at + 1));
        Self { id: stat[..before].parse().unwrap(), parent: field(1), own: ticks(11), ended: ticks(13) }
    }
}

/// An address that nobody listens at.
pub(crate) fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

impl Process {
    /// This program in another role; it says its address.
    pub(crate) fn this(arguments: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { address: address.trim().to_owned(), child }
    }

    /// Another program that will listen at this address.
    pub(crate) fn server(mut command: Command, address: String) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { address, child }
    }

    /// Waits until it listens.
    pub(crate) async fn answers(&self) {
        for _ in 0..2_000 {
            if tokio::net::TcpStream::connect(&self.address).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server did not begin to listen");
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap()
    }

    /// User and system time so far.
    pub(crate) fn cpu(&self) -> Duration {
        Stat::read(&self.file("stat")).own
    }

    /// The same with that of the processes that it has started, and of those that these have.
    pub(crate) fn cpu_of_all(&self) -> Duration {
        let all: Vec<Stat> = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
            .map(|stat| Stat::read(&stat))
            .collect();
        let (mut sum, mut found) = (Duration::ZERO, vec![self.child.id()]);
        while let Some(id) = found.pop() {
            sum +=
                all.iter().filter(|stat| stat.id == id).map(|stat| stat.own + stat.ended).sum::<Duration>();
            found.extend(all.iter().filter(|stat| stat.parent == id).map(|stat| stat.id));
        }
        sum
    }

    fn kib(&self, name: &str) -> f64 {
        let status = self.file("status");
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// MiB in memory now.
    pub(crate) fn memory(&self) -> f64 {
        self.kib("VmRSS:") / 1024.0
    }

    /// MiB in memory when it were most.
    pub(crate) fn memory_at_most(&self) -> f64 {
        self.kib("VmHWM:") / 1024.0
    }
}

/// How long this thread has been at work, to the nanosecond.
pub(crate) fn thread_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}
