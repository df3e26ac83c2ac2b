//! The privileges that a worker drops before it begins, on Linux. Each part alone keeps work from the machine's files
//! and from other processes; together they still do so when one of them has a hole.
//!
//! | part | what it takes away |
//! |---|---|
//! | rights | root's capabilities, and gaining any by executing a program |
//! | files | every path: nothing can be opened, created, renamed or removed (Landlock) |
//! | limits | memory, processor time, new files and processes, file sizes, core dumps |
//! | calls | every system call except those for memory, locks, clocks, its own exit, and its two pipes (seccomp) |

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Number of bytes of memory for the worker itself, besides its work: mostly its stack.
const OWN_MEMORY: u64 = 128 << 20;
/// Number of seconds of processor time for the worker itself, besides its work.
const OWN_SECONDS: u64 = 2;

fn cannot(what: &str, cause: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{what}: {cause}"))
}

/// Drops the privileges of root, and the ability to gain any by starting a program; for this thread and those that it
/// starts.
///
/// # Errors
/// When the system refuses.
pub(crate) fn leave_rights() -> io::Result<()> {
    let failed = |cause: rustix::io::Errno| cannot("cannot drop the privileges of the process", cause);
    // Without root, Landlock and seccomp require it; it also holds for every program started later.
    set_no_new_privs(true).map_err(failed)?;
    // A kernel before 4.3 has none of these.
    let _ = clear_ambient_capability_set();
    if capabilities(None).map_err(failed)?.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter() {
            // A kernel that does not know the newest capabilities cannot grant them.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    // Last, because shrinking the bounding set needs one of these capabilities.
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(failed)
}

/// Drops access to all paths except those that `open` allows, to all ports, and to all processes outside this one; for
/// this thread and those that it starts. Paths that do not exist are left out.
///
/// # Errors
/// When the kernel has no Landlock (before 5.13, or switched off).
pub(crate) fn leave_files_but(open: &[(&Path, BitFlags<AccessFs>)]) -> io::Result<()> {
    let ruleset = || {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            // Restrictions that only newer kernels support; the system calls are blocked in any case.
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V5))?
            .handle_access(AccessNet::from_all(ABI::V4))?
            .scope(Scope::from_all(ABI::V6))?
            .create()?;
        for (path, what) in open {
            if let Ok(path) = PathFd::new(path) {
                ruleset = ruleset.add_rule(PathBeneath::new(path, *what))?;
            }
        }
        ruleset.restrict_self()
    };
    ruleset().map(drop).map_err(|cause| cannot("Landlock is not available", cause))
}

/// Drops access to all paths and ports, and to all processes outside this one; for this thread and those that it
/// starts.
///
/// # Errors
/// When the kernel has no Landlock (before 5.13, or switched off).
pub(crate) fn leave_files() -> io::Result<()> {
    leave_files_but(&[])
}

/// Forbids new files, sockets and processes, writing to files, and core dumps, and limits memory and processor time,
/// with a reserve for the worker itself.
///
/// # Errors
/// When the system refuses.
pub(crate) fn limit(time: Duration, memory_bytes: usize) -> io::Result<()> {
    limit_work(time, memory_bytes)?;
    // As many descriptors as the thread that watches for the end of the input polls. A new one would get a higher
    // number than those that are open, which the limit forbids.
    let most = [(Resource::Fsize, 0), (Resource::Nproc, 0), (Resource::Core, 0), (Resource::Nofile, 1)];
    for (resource, most) in most {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|cause| cannot("the limits cannot be set", cause))?;
    }
    Ok(())
}

/// Limits memory and processor time, with a reserve for the program itself.
///
/// # Errors
/// When the system refuses.
pub(crate) fn limit_work(time: Duration, memory_bytes: usize) -> io::Result<()> {
    let memory = u64::try_from(memory_bytes).unwrap_or(u64::MAX).saturating_add(OWN_MEMORY);
    let seconds = time.as_secs().saturating_add(OWN_SECONDS);
    // Not the address space, of which interpreters reserve much more than they use.
    for (resource, most) in [(Resource::Data, memory), (Resource::Cpu, seconds)] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|cause| cannot("the limits cannot be set", cause))?;
    }
    Ok(())
}

/// Blocks all system calls except those that computing needs; for all threads of the process. Blocked calls fail like
/// calls that a kernel does not have (`ENOSYS`): libraries then continue without them. A library that decodes pictures
/// would like more threads, and treats any other error as a defect of its own.
///
/// # Errors
/// When the kernel has no seccomp filters, or this machine's system calls are not known.
pub(crate) fn leave_calls() -> io::Result<()> {
    let filter = filter(std::process::id()).map_err(|cause| cannot("seccomp is not available", cause))?;
    seccompiler::apply_filter_all_threads(&filter).map_err(|cause| cannot("seccomp is not available", cause))
}

/// System calls allowed with any arguments: memory, locks, clocks, randomness, signals to itself, exit.
const ALLOWED: [libc::c_long; 28] = [
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    // Used by the thread that watches for the end of the input.
    libc::SYS_ppoll,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_getuid,
    libc::SYS_geteuid,
];

fn filter(pid: u32) -> Result<BpfProgram, BackendError> {
    // The kernel reads only the lower half of such an argument.
    let is = |argument, value: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
    };
    let no_code = || {
        let exec = u64::from(libc::PROT_EXEC.unsigned_abs());
        SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(exec), 0)
    };
    let rule = |condition: Result<SeccompCondition, BackendError>| SeccompRule::new(vec![condition?]);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.into_iter().map(|call| (call, Vec::new())).collect();
    rules.extend([
        // The two pipes, and standard error, which leads nowhere.
        (libc::SYS_read, vec![rule(is(0, 0))?]),
        (libc::SYS_write, vec![rule(is(0, 1))?, rule(is(0, 2))?]),
        (libc::SYS_writev, vec![rule(is(0, 1))?, rule(is(0, 2))?]),
        // Memory that holds data, never code.
        (libc::SYS_mmap, vec![rule(no_code())?]),
        (libc::SYS_mprotect, vec![rule(no_code())?]),
        // Used by `abort`.
        (libc::SYS_tgkill, vec![rule(is(0, u64::from(pid)))?]),
    ]);
    let refused = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, machine)?.try_into()
}

/// Number of files that an interpreter may have open.
const FILES: u64 = 256;

/// Limits open files, and forbids writing to files and core dumps: for an interpreter that runs programs.
///
/// # Errors
/// When the system refuses.
pub(crate) fn limit_files() -> io::Result<()> {
    for (resource, most) in [(Resource::Fsize, 0), (Resource::Core, 0), (Resource::Nofile, FILES)] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|cause| cannot("the limits cannot be set", cause))?;
    }
    Ok(())
}

/// System calls that an interpreter makes with any arguments, besides [`ALLOWED`].
const INTERPRETERS: [libc::c_long; 37] = [
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getppid,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_getxattr,
    libc::SYS_lseek,
    libc::SYS_mincore,
    libc::SYS_munlock,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pselect6,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_rt_sigpending,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Older forms of such system calls, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: [libc::c_long; 7] = [
    libc::SYS_access,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [libc::c_long; 0] = [];

/// `ioctl` and `fcntl` requests that are made when a file is opened.
const ASKED_OF_FILES: [u64; 3] = [libc::TCGETS, libc::FIOCLEX, libc::FIONCLEX];
const DONE_TO_DESCRIPTORS: [i32; 5] =
    [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];

/// See [`crate::filter_for_programs`].
pub(crate) fn filter_for_programs() -> io::Result<Vec<u8>> {
    let program = interpreters_filter().map_err(|cause| cannot("seccomp is not available", cause))?;
    let bytes = |step: &seccompiler::sock_filter| {
        let [a, b] = step.code.to_ne_bytes();
        let [e, f, g, h] = step.k.to_ne_bytes();
        [a, b, step.jt, step.jf, e, f, g, h]
    };
    Ok(program.iter().flat_map(bytes).collect())
}

/// Blocks all system calls except those that this process needs to become another program, and those that the program
/// needs. For this thread, which is the only one.
///
/// # Errors
/// As [`leave_calls`].
pub(crate) fn leave_calls_but_to_become() -> io::Result<()> {
    let filter = program_rules(&BECOMING).and_then(compiled);
    apply(filter)
}

/// Blocks system calls for a program that computes on several threads: it may start threads, but no process, and its
/// shell, if it has one, may move descriptors.
///
/// # Errors
/// As [`leave_calls`].
pub(crate) fn leave_calls_but_to_become_threaded() -> io::Result<()> {
    apply(threaded_filter())
}

fn apply(filter: Result<BpfProgram, BackendError>) -> io::Result<()> {
    let filter = filter.map_err(|cause| cannot("seccomp is not available", cause))?;
    seccompiler::apply_filter(&filter).map_err(|cause| cannot("seccomp is not available", cause))
}

fn threaded_filter() -> Result<BpfProgram, BackendError> {
    let mut rules = program_rules(&BECOMING)?;
    // What is started must be a thread of this process. The newer system call for it (clone3) has its arguments where a
    // filter cannot see them; libraries that are denied it fall back to this one.
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let is_thread =
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(thread), thread)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_thread])?]);
    rules.extend(MOVING.into_iter().map(|call| (call, Vec::new())));
    compiled(rules)
}

/// System calls that give a descriptor the number of another one.
#[cfg(target_arch = "x86_64")]
const MOVING: [libc::c_long; 2] = [libc::SYS_dup2, libc::SYS_dup3];
#[cfg(not(target_arch = "x86_64"))]
const MOVING: [libc::c_long; 1] = [libc::SYS_dup3];

/// System calls by which a program replaces this one and is started.
#[cfg(target_arch = "x86_64")]
const BECOMING: [libc::c_long; 2] = [libc::SYS_execve, libc::SYS_arch_prctl];
#[cfg(not(target_arch = "x86_64"))]
const BECOMING: [libc::c_long; 1] = [libc::SYS_execve];

fn interpreters_filter() -> Result<BpfProgram, BackendError> {
    program_rules(&[]).and_then(compiled)
}

/// System calls that are allowed, each under any one of its conditions.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Returns the rules for a program that reads files, plus these system calls.
fn program_rules(more: &[libc::c_long]) -> Result<Rules, BackendError> {
    let is = |argument, length, value: u64| {
        let condition = SeccompCondition::new(argument, length, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![condition])
    };
    // `MAP_SHARED_VALIDATE` contains this bit, too.
    let private = SeccompCondition::new(
        3,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(u64::from(libc::MAP_SHARED.unsigned_abs())),
        0,
    )?;
    let mut rules: Rules = ALLOWED
        .into_iter()
        .chain(INTERPRETERS)
        .chain(OLDER)
        .chain(more.iter().copied())
        .map(|call| (call, Vec::new()))
        .collect();
    let asked = ASKED_OF_FILES.map(|what| is(1, SeccompCmpArgLen::Dword, what));
    let done = DONE_TO_DESCRIPTORS.map(|what| is(1, SeccompCmpArgLen::Dword, u64::from(what.unsigned_abs())));
    rules.extend([
        // Shared memory counts towards no limit. Code may come from libraries that are loaded later.
        (libc::SYS_mmap, vec![SeccompRule::new(vec![private])?]),
        (libc::SYS_mprotect, Vec::new()),
        (libc::SYS_ioctl, asked.into_iter().collect::<Result<_, _>>()?),
        (libc::SYS_fcntl, done.into_iter().collect::<Result<_, _>>()?),
        // Limits may be read, but not set.
        (libc::SYS_prlimit64, vec![is(2, SeccompCmpArgLen::Qword, 0)?]),
    ]);
    Ok(rules)
}

/// Returns the filter that allows these system calls and no others.
fn compiled(rules: Rules) -> Result<BpfProgram, BackendError> {
    let refused = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, machine)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Landlock and privileges are per thread, so each part can be tested separately.
    fn on_a_thread<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(look).join().unwrap()
    }

    #[test]
    fn landlock_alone_keeps_every_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "x").unwrap();
        on_a_thread({
            let (folder, file) = (folder.path().to_owned(), file.clone());
            move || {
                leave_files().unwrap();
                let refused = |done: io::Result<()>| {
                    assert_eq!(done.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
                };
                refused(std::fs::read(&file).map(drop));
                refused(std::fs::write(&file, "y"));
                refused(std::fs::remove_file(&file));
                refused(std::fs::rename(&file, folder.join("b")));
                refused(std::fs::create_dir(folder.join("c")));
                refused(std::fs::read_dir(&folder).map(drop));
                refused(std::process::Command::new("/bin/true").status().map(drop));
            }
        });
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
    }

    #[test]
    fn dropped_rights_cannot_be_regained() {
        on_a_thread(|| {
            leave_rights().unwrap();
            let CapabilitySets { effective, permitted, inheritable } = capabilities(None).unwrap();
            assert!((effective | permitted | inheritable).is_empty());
            assert!(rustix::thread::no_new_privs().unwrap());
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let of = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                u64::from_str_radix(line.trim(), 16).unwrap()
            };
            assert_eq!(of("CapAmb:"), 0);
            // A process without the right to drop them had none to lose.
            if rustix::process::geteuid().is_root() {
                assert_eq!(of("CapBnd:") & CapabilitySet::all().bits(), 0);
            }
        });
    }

    #[test]
    fn the_filter_matches_this_architecture() {
        assert!(!filter(1).unwrap().is_empty());
        assert_eq!(filter_for_programs().unwrap().len() % 8, 0);
        assert!(threaded_filter().unwrap().len() > filter_for_programs().unwrap().len() / 8);
    }
}
