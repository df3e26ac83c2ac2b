//! What the system takes away from a worker before it reads a file.

use std::time::Duration;

/// No new files, sockets or processes, nothing written to files, no dumps, and no more memory and
/// processor time than the limits, with some to spare for the worker itself.
///
/// # Errors
/// When the system refuses.
#[cfg(target_os = "linux")]
pub fn confine(time: Duration, memory_bytes: usize) -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};

    /// Memory of the worker beside the file's: its stack above all.
    const OWN_MEMORY: u64 = 128 << 20;
    /// Seconds of processor time of the worker beside the file's.
    const OWN_SECONDS: u64 = 2;

    let memory = u64::try_from(memory_bytes).unwrap_or(u64::MAX).saturating_add(OWN_MEMORY);
    let most = [
        (Resource::Data, memory),
        (Resource::Cpu, time.as_secs().saturating_add(OWN_SECONDS)),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
        (Resource::Core, 0),
        (Resource::Nofile, 0),
    ];
    for (resource, most) in most {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Other systems leave it at the process and its time.
///
/// # Errors
/// Never.
#[cfg(not(target_os = "linux"))]
pub fn confine(_: Duration, _: usize) -> std::io::Result<()> {
    Ok(())
}
