//! The attempts.

use std::ffi::{CString, c_long};
use std::io::{Read as _, Write as _};
use std::time::Duration;

use weft_child::{Bounds, Confinement};

pub(crate) const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(60),
    memory_bytes: 64 << 20,
    stack_bytes: 1 << 20,
    confinement: Confinement::Required,
};
/// What the victim holds.
const HELD: [u8; 8] = *b"precious";
const FOUND: [u8; 8] = *b"tampered";

/// What the attempts aim at.
pub(crate) struct Target {
    file: CString,
    other: CString,
    gone: CString,
    pid: c_long,
    address: c_long,
}

impl Target {
    pub(crate) fn new(folder: &str, pid: c_long, address: c_long) -> Self {
        let path = |name: &str| CString::new(format!("{folder}/{name}")).unwrap_or_default();
        Self { file: path("file"), other: path("other"), gone: path("gone"), pid, address }
    }
}

/// Holds bytes until its input ends.
pub(crate) fn be_a_victim() {
    let held = Box::new(HELD);
    let mut out = std::io::stdout();
    let told = writeln!(out, "{}", std::ptr::from_ref(&*held).addr()).and_then(|()| out.flush());
    if told.is_ok() && std::io::stdin().read_to_end(&mut Vec::new()).is_ok() {
        // Read as the machine has them now: somebody else may have written there.
        // SAFETY: it points to a living box of eight bytes.
        let now = unsafe { std::ptr::read_volatile(&raw const *held) };
        drop(writeln!(out, "{}", String::from_utf8_lossy(&now)));
    }
}

/// Calls the system: `0`, or the number of its refusal.
fn call(number: c_long, arguments: [c_long; 6]) -> i32 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: every pointer among the arguments below points to memory that lives as long as the call, or
    // is null; calls that make a process or map memory are handled beside this one.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(-1),
        _ => 0,
    }
}

fn at<T>(thing: &T) -> c_long {
    std::ptr::from_ref(thing).addr().cast_signed() as c_long
}

fn text(text: &CString) -> c_long {
    text.as_ptr().addr().cast_signed() as c_long
}

/// Room for what a call writes.
struct Room([u64; 64]);

impl Room {
    fn address(&mut self) -> c_long {
        self.0.as_mut_ptr().addr().cast_signed() as c_long
    }
}

/// A process of its own, which ends at once.
fn fork() -> i32 {
    // SAFETY: the child does nothing but end.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    match pid {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(-1),
        0 => {
            // SAFETY: ends the process without anything else.
            unsafe { libc::_exit(0) }
        }
        _ => 0,
    }
}

/// Writes into the victim, or reads it.
fn memory_of_another(number: c_long, target: &Target) -> i32 {
    let mut bytes = FOUND;
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let theirs = [target.address, c_long::try_from(bytes.len()).unwrap_or(0)];
    call(number, [target.pid, at(&ours), 1, at(&theirs), 1, 0])
}

/// Every attempt and what came of it. Those that open, make or destroy something come in an order in which
/// each finds what it needs when nothing stops it.
pub(crate) fn all(target: &Target) -> Vec<(&'static str, i32)> {
    let mut came = files(target);
    came.extend(processes(target));
    came.extend(system(target));
    came
}

fn files(target: &Target) -> Vec<(&'static str, i32)> {
    use libc::{AT_FDCWD, O_CREAT, O_RDONLY, O_RDWR};
    let here = c_long::from(AT_FDCWD);
    let (file, other, gone) = (text(&target.file), text(&target.other), text(&target.gone));
    let mut room = Room([0; 64]);
    let open = |path, how: i32| call(libc::SYS_openat, [here, path, c_long::from(how), 0o600, 0, 0]);
    vec![
        ("open", open(file, O_RDONLY)),
        ("open-write", open(file, O_RDWR)),
        ("create", open(other, O_RDWR | O_CREAT)),
        ("stat", call(libc::SYS_newfstatat, [here, file, room.address(), 0, 0, 0])),
        ("access", call(libc::SYS_faccessat, [here, file, 0, 0, 0, 0])),
        ("truncate", call(libc::SYS_truncate, [file, 3, 0, 0, 0, 0])),
        ("chmod", call(libc::SYS_fchmodat, [here, file, 0o777, 0, 0, 0])),
        ("chown", call(libc::SYS_fchownat, [here, file, -1, -1, 0, 0])),
        ("times", call(libc::SYS_utimensat, [here, file, 0, 0, 0, 0])),
        ("link", call(libc::SYS_linkat, [here, file, here, gone, 0, 0])),
        ("unlink", call(libc::SYS_unlinkat, [here, gone, 0, 0, 0, 0])),
        ("symlink", call(libc::SYS_symlinkat, [file, here, gone, 0, 0, 0])),
        ("rename", call(libc::SYS_renameat2, [here, file, here, gone, 0, 0])),
        ("mkdir", call(libc::SYS_mkdirat, [here, other, 0o700, 0, 0, 0])),
        ("folder", call(libc::SYS_chdir, [text(&target.file), 0, 0, 0, 0, 0])),
        ("pipe", call(libc::SYS_pipe2, [room.address(), 0, 0, 0, 0, 0])),
        ("dup", call(libc::SYS_dup, [1, 0, 0, 0, 0, 0])),
        ("memfd", call(libc::SYS_memfd_create, [text(&target.file), 0, 0, 0, 0, 0])),
        ("inotify", call(libc::SYS_inotify_init1, [0; 6])),
    ]
}

fn processes(target: &Target) -> Vec<(&'static str, i32)> {
    const PTRACE_SEIZE: c_long = 0x4206;
    let (pid, me) = (target.pid, c_long::from(std::process::id().cast_signed()));
    vec![
        ("fork", fork()),
        ("execute", call(libc::SYS_execve, [text(&target.file), 0, 0, 0, 0, 0])),
        ("kill", call(libc::SYS_kill, [pid, c_long::from(libc::SIGCONT), 0, 0, 0, 0])),
        ("tgkill", call(libc::SYS_tgkill, [pid, pid, c_long::from(libc::SIGCONT), 0, 0, 0])),
        ("pidfd", call(libc::SYS_pidfd_open, [pid, 0, 0, 0, 0, 0])),
        ("read-memory", memory_of_another(libc::SYS_process_vm_readv, target)),
        ("write-memory", memory_of_another(libc::SYS_process_vm_writev, target)),
        ("ptrace", call(libc::SYS_ptrace, [PTRACE_SEIZE, pid, 0, 0, 0, 0])),
        ("priority", call(libc::SYS_setpriority, [0, pid, 19, 0, 0, 0])),
        ("limits", call(libc::SYS_prlimit64, [me, 7, at(&[64_u64; 2]), 0, 0, 0])),
        ("user", call(libc::SYS_setuid, [0; 6])),
        ("new-process-group", call(libc::SYS_setpgid, [0; 6])),
    ]
}

fn system(target: &Target) -> Vec<(&'static str, i32)> {
    use libc::{AF_INET, AF_UNIX, MAP_ANONYMOUS, MAP_PRIVATE, PROT_EXEC, PROT_READ, SOCK_DGRAM, SOCK_STREAM};
    let socket = |family: i32, kind: i32| {
        call(libc::SYS_socket, [c_long::from(family), c_long::from(kind), 0, 0, 0, 0])
    };
    let code =
        [0, 4096, c_long::from(PROT_READ | PROT_EXEC), c_long::from(MAP_ANONYMOUS | MAP_PRIVATE), -1, 0];
    let (name, mut room) = (text(&target.file), Room([0; 64]));
    vec![
        ("socket", socket(AF_INET, SOCK_STREAM)),
        ("socket-datagram", socket(AF_INET, SOCK_DGRAM)),
        ("socket-local", socket(AF_UNIX, SOCK_STREAM)),
        ("socket-pair", call(libc::SYS_socketpair, [1, 1, 0, room.address(), 0, 0])),
        ("code", call(libc::SYS_mmap, code)),
        ("mount", call(libc::SYS_mount, [name, name, name, 0, 0, 0])),
        ("unmount", call(libc::SYS_umount2, [name, 0, 0, 0, 0, 0])),
        ("chroot", call(libc::SYS_chroot, [name, 0, 0, 0, 0, 0])),
        ("namespace", call(libc::SYS_unshare, [c_long::from(libc::CLONE_NEWUSER), 0, 0, 0, 0, 0])),
        ("enter-namespace", call(libc::SYS_setns, [0, 0, 0, 0, 0, 0])),
        ("bpf", call(libc::SYS_bpf, [-1, 0, 0, 0, 0, 0])),
        ("perf", call(libc::SYS_perf_event_open, [0, 0, -1, -1, 0, 0])),
        ("io-uring", call(libc::SYS_io_uring_setup, [0; 6])),
        ("user-faults", call(libc::SYS_userfaultfd, [-1, 0, 0, 0, 0, 0])),
        ("key", call(libc::SYS_keyctl, [-1, 0, 0, 0, 0, 0])),
        ("settings-of-process", call(libc::SYS_prctl, [c_long::from(libc::PR_SET_DUMPABLE), 1, 0, 0, 0, 0])),
        ("device-call", call(libc::SYS_ioctl, [1, 0x5401, room.address(), 0, 0, 0])),
        ("host-name", call(libc::SYS_sethostname, [name, 0, 0, 0, 0, 0])),
        ("clock", call(libc::SYS_clock_settime, [-1, 0, 0, 0, 0, 0])),
        ("module", call(libc::SYS_delete_module, [name, 0, 0, 0, 0, 0])),
    ]
}
