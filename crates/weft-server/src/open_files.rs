//! The limit of open files of this process. Every connection needs one.

/// Upper limit. More would be of no use: child processes inherit the limit, and old ones iterate over all possible
/// descriptors.
#[cfg(unix)]
const ENOUGH: u64 = 32_768;

/// Raises the limit of open files as far as allowed and useful, and returns it. The usual 1,024 are a precaution for
/// very old programs.
#[cfg(unix)]
pub(crate) fn raise() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let now = getrlimit(Resource::Nofile);
    let current = now.current.unwrap_or(u64::MAX);
    // Never lowered: the limit may have been raised on purpose.
    let wanted = current.max(now.maximum.unwrap_or(u64::MAX).min(ENOUGH));
    // A failure to raise the limit is not an error: the server then accepts fewer connections.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: now.maximum }).is_ok();
    let count = if raised { wanted } else { current };
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(crate) fn raise() -> usize {
    usize::MAX
}
