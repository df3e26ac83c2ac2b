//! How many files this process may open. Every connection is one.

/// More are of no use: programs that this one starts inherit them, and old ones look at each.
#[cfg(unix)]
const ENOUGH: u64 = 32_768;

/// Raises what this process may open as far as it may and as is of use, and says how many that is. The usual
/// 1,024 are a precaution for programs of long ago.
#[cfg(unix)]
pub(crate) fn raise() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let now = getrlimit(Resource::Nofile);
    let current = now.current.unwrap_or(u64::MAX);
    let wanted = current.max(now.maximum.unwrap_or(u64::MAX).min(ENOUGH));
    // A limit that cannot be raised is no reason not to serve: there are fewer connections then.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: now.maximum }).is_ok();
    let count = if raised { wanted } else { current };
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(crate) fn raise() -> usize {
    usize::MAX
}
