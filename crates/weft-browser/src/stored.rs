//! What pages have stored in the profiles of a tenant: how much it is, and which profiles are removed.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long an unused profile is kept.
// The same as the default for files of conversations.
pub(crate) const PROFILE_KEPT: Duration = Duration::from_hours(90 * 24);
/// The file whose time is the last use of a profile, and whose lock marks the profile as in use.
pub(crate) const MARK: &str = "in-use";
/// The folder of a profile in which its browser writes.
pub(crate) const PAGES: &str = "profile";
/// The file with the size of a profile, written when its browser has exited; absent while it is in use.
pub(crate) const SIZE: &str = "bytes";
/// What each entry takes at least: pages may store many small things.
const ENTRY_BYTES: u64 = 4 << 10;

/// Removes profiles that have not been used for long: each conversation has one, and its end is never announced. Then
/// removes those that were used least recently, until all of them together take at most `bytes_max` bytes; 0 means
/// unlimited. The profile that is about to be opened comes first, and one in use is not removed.
pub(crate) fn make_room(profiles: &Path, opened: &Path, now: SystemTime, bytes_max: u64) {
    let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
    // What cannot be checked now is checked by the next window.
    for folder in fs::read_dir(profiles).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Ok(mark) = File::open(folder.join(MARK)) else { continue };
        let Ok(used) = mark.metadata().and_then(|about| about.modified()) else { continue };
        let is_old = now.duration_since(used).is_ok_and(|age| age > PROFILE_KEPT);
        if is_old && mark.try_lock().is_ok() {
            remove(&folder);
        } else {
            kept.push((used, folder));
        }
    }
    if bytes_max == 0 {
        return;
    }
    kept.sort_unstable_by_key(|(used, folder)| Reverse((folder == opened, *used)));
    let mut bytes: u64 = 0;
    for (_, folder) in kept {
        let Ok(mark) = File::open(folder.join(MARK)) else { continue };
        let all = bytes.saturating_add(size_of_profile(&folder, bytes_max));
        if all > bytes_max && mark.try_lock().is_ok() {
            remove(&folder);
        } else {
            bytes = all;
        }
    }
}

/// Removes a profile, its mark last: without one, nobody would count or remove what is left after a crash.
fn remove(folder: &Path) {
    match fs::remove_dir_all(folder.join(PAGES)) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {}
        _ => drop(fs::remove_dir_all(folder)),
    }
}

fn size_of_profile(folder: &Path, enough: u64) -> u64 {
    let noted = fs::read_to_string(folder.join(SIZE)).ok();
    noted.and_then(|noted| noted.trim().parse().ok()).unwrap_or_else(|| size_of(folder, enough))
}

/// Returns about how many bytes a folder takes with everything in it, or some number above `enough`. What cannot be
/// read counts nothing.
pub(crate) fn size_of(folder: &Path, enough: u64) -> u64 {
    let mut bytes: u64 = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // It describes a link and not its target.
            let Ok(about) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(about.len().max(ENTRY_BYTES));
            if bytes > enough {
                return bytes;
            }
            if about.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile that takes `kib` KiB and was used some minutes ago.
    fn profile(root: &Path, name: &str, (kib, minutes): (usize, u64)) -> File {
        let folder = root.join(name);
        fs::create_dir_all(folder.join(PAGES)).unwrap();
        fs::write(folder.join(PAGES).join("data"), vec![0_u8; kib << 10]).unwrap();
        let mark = File::create(folder.join(MARK)).unwrap();
        mark.set_modified(SystemTime::now() - Duration::from_mins(minutes)).unwrap();
        mark
    }

    /// Makes room for a profile with this name.
    fn within(root: &Path, opened: &str, bytes_max: u64) {
        make_room(root, &root.join(opened), SystemTime::now(), bytes_max);
    }

    #[test]
    fn profiles_that_were_used_least_recently_make_room() {
        let root = tempfile::tempdir().unwrap();
        let there = |name: &str| root.path().join(name).exists();
        let newest = profile(root.path(), "newest", (100, 1));
        let large = profile(root.path(), "large", (500, 2));
        let open = profile(root.path(), "open", (300, 3));
        let oldest = profile(root.path(), "oldest", (100, 4));
        drop((newest, large, oldest));
        open.lock().unwrap();
        within(root.path(), "another", 0);
        assert!(["newest", "large", "open", "oldest"].into_iter().all(there), "0 is no limit");
        within(root.path(), "another", 1 << 20);
        assert!(there("newest") && there("large") && there("open") && !there("oldest"));
        within(root.path(), "another", 450 << 10);
        assert!(there("newest") && !there("large") && there("open"));
        // A profile in use stays, however much it takes.
        within(root.path(), "another", 1);
        assert!(!there("newest") && there("open"));
    }

    #[test]
    fn other_profiles_make_room_for_the_one_that_is_opened() {
        let root = tempfile::tempdir().unwrap();
        let there = |name: &str| root.path().join(name).exists();
        drop((profile(root.path(), "opened", (300, 9)), profile(root.path(), "newest", (300, 1))));
        within(root.path(), "opened", 450 << 10);
        assert!(there("opened") && !there("newest"));
        // Too large by itself.
        within(root.path(), "opened", 200 << 10);
        assert!(!there("opened"));
    }

    #[test]
    fn a_profile_that_cannot_be_removed_keeps_its_mark() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("odd");
        fs::create_dir(&folder).unwrap();
        drop(File::create(folder.join(MARK)).unwrap());
        // Not a folder, which is what the removal expects.
        fs::write(folder.join(PAGES), "").unwrap();
        within(root.path(), "another", 1);
        assert!(folder.join(MARK).exists());
    }

    #[test]
    fn the_noted_size_of_a_profile_is_used() {
        let root = tempfile::tempdir().unwrap();
        drop(profile(root.path(), "noted", (1, 1)));
        fs::write(root.path().join("noted").join(SIZE), "5000000").unwrap();
        within(root.path(), "another", 5_000_000);
        assert!(root.path().join("noted").exists());
        within(root.path(), "another", 4_999_999);
        assert!(!root.path().join("noted").exists());
    }

    #[test]
    fn small_files_are_counted_with_what_they_take() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/b/c"), "").unwrap();
        fs::write(root.path().join("d"), vec![0_u8; 10_000]).unwrap();
        assert!(size_of(root.path(), u64::MAX) >= 3 * ENTRY_BYTES + 10_000);
        assert!(size_of(root.path(), 1) > 1);
        assert_eq!(size_of(&root.path().join("nothing"), u64::MAX), 0);
    }
}
