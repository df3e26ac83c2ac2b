//! The inner side: what a worker does before it begins.

use std::io::Read as _;
use std::thread;
use std::time::Duration;

/// Exit code: the work went on after its time was up and could not be interrupted.
pub const LATE: u8 = 64;
/// Exit code: what is asked makes no sense, or the worker cannot be confined.
pub const REFUSED: u8 = 65;
/// Nobody wants the result any more.
const UNWANTED: u8 = 66;
/// How much later than its limit work ends that cannot be interrupted.
const GRACE: Duration = Duration::from_millis(250);

/// Ends this process soon after `time`, and as soon as nobody wants its result any more: when its standard
/// input ends, which must have been read up to where nothing more is expected.
///
/// # Errors
/// When a thread cannot be started.
pub fn watched(time: Duration) -> std::io::Result<()> {
    let late = time.saturating_add(GRACE);
    ended_when(LATE, move || thread::sleep(late))?;
    ended_when(UNWANTED, wait_for_the_end_of_input)
}

/// Ends the process as soon as `wait` returns, whatever else it does.
fn ended_when(code: u8, wait: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let watch = move || {
        wait();
        std::process::exit(i32::from(code));
    };
    thread::Builder::new().spawn(watch).map(drop)
}

fn wait_for_the_end_of_input() {
    let mut rest = [0; 64];
    while std::io::stdin().lock().read(&mut rest).is_ok_and(|count| count > 0) {}
}

/// No new files, sockets or processes, nothing written to files, no dumps, and no more memory and
/// processor time than these, with some to spare for the worker itself.
///
/// # Errors
/// When the system refuses.
#[cfg(target_os = "linux")]
pub fn confine(time: Duration, memory_bytes: usize) -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};

    /// Memory of the worker beside that of its work: its stack above all.
    const OWN_MEMORY: u64 = 128 << 20;
    /// Seconds of processor time of the worker beside those of its work.
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

/// Other systems leave it at the process and its limits of time and memory.
///
/// # Errors
/// Never.
#[cfg(not(target_os = "linux"))]
pub fn confine(_: Duration, _: usize) -> std::io::Result<()> {
    Ok(())
}
