//! Memory that an idle server returns to the system: free memory that the allocator retains, and the parts of the
//! program that were only used once, mainly at start. The latter remain in the system's cache and are loaded again on
//! demand.

use std::time::Duration;

/// How often to check whether the process is idle.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Processor time between two checks that counts as idle: it covers timers and the checks themselves.
const NOTHING: Duration = Duration::from_millis(5);
/// Reloading afterwards costs up to 3 ms. So memory is only returned after this much work, which a start takes, or
/// after a long time.
const WORTH_IT: Duration = Duration::from_millis(50);
/// Number of consecutive idle checks that make a pause after much work.
const PAUSE: u32 = 2;
/// The same after little work.
const LONG_PAUSE: u32 = 40;

/// Limits the allocator to as many heaps as there are processors: with eight per processor, free memory in one is of
/// no use to the others. To be called before any threads exist.
pub(crate) fn limit_heaps() {
    os::limit_heaps();
}

/// Serves, and returns unneeded memory each time the process becomes idle.
pub(crate) async fn between<T>(serving: impl Future<Output = T>) -> T {
    tokio::select! {
        served = serving => served,
        never = give_back() => match never {},
    }
}

async fn give_back() -> std::convert::Infallible {
    let mut rest = IdleDetector::default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if rest.has_come(os::cpu_time()) {
            os::give_back();
        }
    }
}

/// Detects from the processor time of the process when it becomes idle.
#[derive(Default)]
struct IdleDetector {
    last_look: Duration,
    given_back: Duration,
    quiet: u32,
}

impl IdleDetector {
    /// Processes the processor time used so far. Returns true once for each period of work.
    fn has_come(&mut self, used: Duration) -> bool {
        let since_look = used.saturating_sub(self.last_look);
        self.last_look = used;
        if since_look > NOTHING {
            self.quiet = 0;
            return false;
        }
        self.quiet = self.quiet.saturating_add(1);
        let work = used.saturating_sub(self.given_back);
        let come = match self.quiet {
            PAUSE => work >= WORTH_IT,
            LONG_PAUSE => work > NOTHING,
            _ => false,
        };
        if come {
            self.given_back = used;
        }
        come
    }
}

#[cfg(target_os = "linux")]
mod os {
    use std::time::Duration;

    use rustix::mm::{Advice, madvise};
    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn cpu_time() -> Duration {
        clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default()
    }

    pub(super) fn limit_heaps() {
        #[cfg(target_env = "gnu")]
        {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let most = i32::try_from(processors).unwrap_or(i32::MAX);
            #[expect(unsafe_code, reason = "a function of the system's library")]
            // SAFETY: It takes two numbers, and the allocator's own lock. If it fails, the allocator keeps its
            // defaults.
            let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, most) };
        }
    }

    pub(super) fn give_back() {
        #[cfg(target_env = "gnu")]
        #[expect(unsafe_code, reason = "a function of the system's library")]
        // SAFETY: It takes the allocator's own locks, and may be called at any time.
        unsafe {
            libc::malloc_trim(0);
        }
        // Memory is accounted for per page, so nothing is lost if this cannot be read.
        let Ok(map) = std::fs::read_to_string("/proc/self/smaps") else { return };
        for part in unchanged_parts(&map) {
            #[expect(unsafe_code, reason = "there is no safe way to say what a mapping is not needed for")]
            // SAFETY: The mapping is of a file, private, not writable and has no page that differs from the file:
            // whoever reads or runs it next gets the same bytes from the file again.
            let given = unsafe {
                madvise(std::ptr::with_exposed_provenance_mut(part.start), part.len(), Advice::LinuxDontNeed)
            };
            if let Err(error) = given {
                tracing::debug!(%error, "a part of the program stays in memory");
            }
        }
    }

    /// Returns the mappings of files that the process can only read or execute, and of which no page was changed
    /// (such as by relocations at start).
    fn unchanged_parts(map: &str) -> Vec<std::ops::Range<usize>> {
        let mut parts = Vec::new();
        let mut current = None;
        for line in map.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(first) = words.next() else { continue };
            match first.strip_suffix(':') {
                None => {
                    let rights = words.next().unwrap_or_default();
                    let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
                    current = (is_file && matches!(rights, "r--p" | "r-xp")).then(|| range(first)).flatten();
                }
                // Pages that differ from the file only exist in this process.
                Some("Anonymous") if words.next() == Some("0") => parts.extend(current.take()),
                Some(_) => {}
            }
        }
        parts
    }

    fn range(addresses: &str) -> Option<std::ops::Range<usize>> {
        let (start, end) = addresses.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some(address(start)?..address(end)?)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const MAP: &str = "\
5000-6000 r--p 00000000 fe:00 12 /usr/bin/weft
Rss:                   4 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
6000-9000 r-xp 00001000 fe:00 12 /usr/bin/weft
Anonymous:             0 kB
9000-a000 r--p 00004000 fe:00 12 /usr/bin/weft
Anonymous:             4 kB
a000-b000 rw-p 00005000 fe:00 12 /usr/bin/weft
Anonymous:             0 kB
b000-c000 r--s 00000000 fe:00 13 /data/index
Anonymous:             0 kB
c000-d000 r--p 00000000 00:00 0
Anonymous:             0 kB
d000-e000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
";

        #[test]
        fn only_unchanged_file_mappings_are_released() {
            assert_eq!(unchanged_parts(MAP), [0x5000..0x6000, 0x6000..0x9000]);
            assert!(unchanged_parts("no such\n\nthing:").is_empty());
        }

        #[test]
        fn a_process_continues_after_releasing_memory() {
            let own = std::fs::read_to_string("/proc/self/smaps").unwrap();
            assert!(!unchanged_parts(&own).is_empty());
            give_back();
            assert_eq!(std::hint::black_box(3) + 4, 7);
            assert!(cpu_time() > Duration::ZERO);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    use std::time::Duration;

    pub fn cpu_time() -> Duration {
        Duration::ZERO
    }

    pub fn limit_heaps() {}

    pub fn give_back() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn idleness_is_reported_once_after_each_period_of_work() {
        let mut rest = IdleDetector::default();
        let mut look = |used| rest.has_come(ms(used));
        assert!(!look(400), "the process has just worked");
        assert!(!look(401));
        assert!(look(402), "a pause after much work");
        assert!((0..100).all(|_| !look(402)), "idleness is reported only once");
        assert!(!look(442));
        assert!(!look(442));
        assert!(!look(442), "little work needs a longer pause");
    }

    #[test]
    fn after_little_work_the_pause_is_longer() {
        let mut rest = IdleDetector { given_back: ms(300), ..IdleDetector::default() };
        let come: Vec<u32> = (0..200).filter(|_| rest.has_come(ms(340))).collect();
        assert_eq!(come, [LONG_PAUSE]);
        // The checks and timers alone do not count as work, however long they run.
        assert!((0..1_000).all(|look| !rest.has_come(ms(340 + look / 10))));
    }
}
