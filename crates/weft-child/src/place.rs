//! Where this process runs, and whether another process of the same machine still does.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use weft_core::seam::process_store::ProcessPlace;

/// Looked up once: it does not change while the process runs.
static HERE: LazyLock<Option<ProcessPlace>> = LazyLock::new(|| find(Path::new("/proc")));

/// Returns where this process runs; `None` if the system does not report it.
pub fn here() -> Option<&'static ProcessPlace> {
    HERE.as_ref()
}

/// Whether a process is known to be gone: it ran on this machine, since the last boot and in the same PID namespace,
/// and its process number is unused or belongs to another process. Of any other process, nothing is known.
pub fn is_gone(place: &ProcessPlace) -> bool {
    here().is_some_and(|here| (&here.host, &here.boot) == (&place.host, &place.boot))
        && match stat(Path::new("/proc"), &place.pid.to_string()) {
            // A zombie does nothing any more, even if nobody has collected its exit status.
            Ok(Some((state, started))) => matches!(state, 'Z' | 'X') || started != place.started,
            Ok(None) => false,
            // Some systems hide the processes of other users there.
            Err(error) => error.kind() == io::ErrorKind::NotFound && nobody_has(place.pid),
        }
}

#[cfg(target_os = "linux")]
fn nobody_has(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

#[cfg(not(target_os = "linux"))]
fn nobody_has(_: u32) -> bool {
    false
}

fn find(proc: &Path) -> Option<ProcessPlace> {
    let line = |path: &str| fs::read_to_string(proc.join(path)).ok().map(|text| text.trim().to_owned());
    let pid = std::process::id();
    // If `/proc` belongs to another PID namespace than this process, its contents are of no use.
    if fs::read_link(proc.join("self")).ok()?.to_str()? != pid.to_string() {
        return None;
    }
    let space = fs::read_link(proc.join("self/ns/pid")).ok()?;
    let (_, started) = stat(proc, "self").ok()??;
    let boot = format!("{} {}", line("sys/kernel/random/boot_id")?, space.display());
    Some(ProcessPlace { host: line("sys/kernel/hostname")?, boot, pid, started })
}

/// Returns a process's state and start time, in ticks since boot.
fn stat(proc: &Path, process: &str) -> io::Result<Option<(char, u64)>> {
    let text = fs::read(proc.join(process).join("stat"))?;
    Ok(parsed(&String::from_utf8_lossy(&text)))
}

/// Parses the state and start time. The name comes second, in parentheses, and may contain any character.
fn parsed(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The start time is field 22 of `proc(5)`, and the first three have been passed.
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_gone_when_its_pid_is_free_or_reused() {
        let here = here().unwrap();
        assert!(!is_gone(here));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (_, started) = stat(Path::new("/proc"), &child.id().to_string()).unwrap().unwrap();
        let other = ProcessPlace { pid: child.id(), started, ..here.clone() };
        assert!(!is_gone(&other));
        assert!(
            is_gone(&ProcessPlace { started: started + 1, ..other.clone() }),
            "an earlier process had the number"
        );
        child.kill().unwrap();
        while !is_gone(&other) {
            // Nobody has collected its exit status yet: it counts as gone anyway.
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_gone(&other));
        // Nothing is known of other machines, or of this one before its last boot.
        assert!(!is_gone(&ProcessPlace { host: "elsewhere".into(), ..other.clone() }));
        assert!(!is_gone(&ProcessPlace { boot: "earlier".into(), ..other }));
    }

    #[test]
    fn process_names_may_contain_anything() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parsed(&format!("7 (a) b ( c)) {rest}")), Some(('S', 4_711)));
        assert_eq!(parsed("7 (a) S 1 2"), None);
        assert_eq!(parsed(""), None);
    }
}
