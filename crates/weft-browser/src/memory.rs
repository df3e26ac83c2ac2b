//! Memory use of a program and the processes that it has started.

use std::collections::HashMap;
use std::fs;

/// Returns the bytes of a process and all of its descendants, as far as the system reports them.
pub(crate) fn used(root: u32) -> u64 {
    // Without `/proc` the memory use is unknown, and the limit is not enforced.
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let processes: HashMap<u32, (u32, u64)> = ids.filter_map(|id| Some((id, process(id)?))).collect();
    let below = |mut id: u32| {
        // The chain of parents is short; processes that have just exited may break it.
        for _ in 0..64 {
            match processes.get(&id) {
                _ if id == root => return true,
                Some((parent, _)) => id = *parent,
                None => return false,
            }
        }
        false
    };
    // Pages have separate processes, so the browser's main process says little.
    processes.iter().filter(|(id, _)| below(**id)).map(|(_, (_, bytes))| bytes).sum()
}

/// Returns the parent of a process, and its bytes in memory.
fn process(id: u32) -> Option<(u32, u64)> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let number = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let parent = u32::try_from(number("PPid:")?).ok()?;
    // Kernel threads and processes that are exiting have no such line.
    Some((parent, number("VmRSS:").unwrap_or(0) * 1_024))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio, id};

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_of_child_processes_counts() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Once it has answered, it has loaded everything, and its usage stays constant.
        child.stdin.as_mut().unwrap().write_all(b"there\n").unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let (parent, bytes) = super::process(child.id()).unwrap();
        assert_eq!(parent, id());
        assert_eq!(super::used(child.id()), bytes);
        assert!(bytes > 0 && super::used(id()) > bytes);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
