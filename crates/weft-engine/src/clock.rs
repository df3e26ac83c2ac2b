//! The operating system's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weft_core::seam::Clock;

/// The time of day as the operating system reports it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn running(&self) -> Duration {
        // A clock that keeps running while the machine is suspended, where there is one.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let clock = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(clock);
        Duration::new(
            u64::try_from(now.tv_sec).unwrap_or_default(),
            u32::try_from(now.tv_nsec).unwrap_or_default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_increases() {
        let before = SystemClock.running();
        std::thread::sleep(Duration::from_millis(20));
        let since = SystemClock.running() - before;
        assert!(since >= Duration::from_millis(20) && since < Duration::from_secs(20), "{since:?}");
    }
}
