//! The interpreter as machine code, cached in a folder: one file for each kind of processor and version.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use wasmtime::Engine;

use super::machine;

/// The component, compressed.
static COMPONENT: &[u8] = include_bytes!("../../python/program.wasm.zst");
/// Its digest, which identifies it here.
static DIGEST: &str = include_str!("../../python/program.sha256");

/// Maximum number of bytes in the component.
const COMPONENT_MAX: usize = 128 << 20;
pub(crate) const ENDING: &str = "cwasm";
/// How long the files of other versions are kept, since another process may use them.
const OTHERS_KEPT: Duration = Duration::from_hours(24 * 7);

/// Returns the file with the code for this machine and version.
pub(crate) fn file(folder: &Path, engine: &Engine) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    DIGEST.hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    folder.join(format!("cpython-{:016x}.{ENDING}", hasher.finish()))
}

/// Compiles the code and caches it, unless it exists. One process does so while others wait.
///
/// # Errors
/// When the folder cannot be written to, or there is no compiler for this processor.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    let engine = machine::engine().map_err(io::Error::other)?;
    let target = file(folder, &engine);
    fs::create_dir_all(folder)?;
    // Released when the file is closed, even if the process is killed.
    let alone = File::create(folder.join("lock"))?;
    alone.lock()?;
    // Another process may have compiled it while this one waited.
    if target.is_file() {
        return Ok(());
    }
    let component = zstd::bulk::decompress(COMPONENT, COMPONENT_MAX)?;
    let code = engine.precompile_component(&component).map_err(io::Error::other)?;
    // One name is enough, because only the holder of the lock writes it.
    let unfinished = folder.join(format!("unfinished.{ENDING}"));
    let written = write(&unfinished, &code).and_then(|()| fs::rename(&unfinished, &target));
    if written.is_err() {
        drop(fs::remove_file(&unfinished));
    }
    written?;
    forget_others(folder, &target);
    Ok(())
}

/// Writes a file and syncs it before it gets its final name: a partial file would be code with arbitrary behaviour.
pub(crate) fn write(path: &Path, code: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(code)?;
    file.sync_all()
}

/// Removes old files of other versions.
pub(crate) fn forget_others(folder: &Path, kept: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let age = entry.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
        let ours = path.extension().is_some_and(|ending| ending == ENDING);
        if ours && path != kept && age.is_some_and(|age| age > OTHERS_KEPT) {
            drop(fs::remove_file(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// `python/build.sh` must be run after its sources have changed.
    #[test]
    fn the_component_matches_its_sources() {
        let digest = |bytes: &[u8]| weft_core::hex(&Sha256::digest(bytes));
        let sources = include_str!("../../python/sources.sha256");
        for (name, text) in [
            ("app.py", include_str!("../../python/app.py")),
            ("files.py", include_str!("../../python/files.py")),
            ("guest.py", include_str!("../../python/guest.py")),
            ("modules.py", include_str!("../../python/modules.py")),
            ("threads.py", include_str!("../../python/threads.py")),
            ("world.wit", include_str!("../../python/world.wit")),
            ("zones.py", include_str!("../../python/zones.py")),
        ] {
            assert!(
                sources.contains(&format!("{}  {name}\n", digest(text.as_bytes()))),
                "{name} has changed"
            );
        }
        assert!(DIGEST.starts_with(&digest(COMPONENT)));
    }

    #[test]
    fn only_old_files_of_other_versions_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let old = std::time::SystemTime::now() - OTHERS_KEPT * 2;
        for (name, at) in [
            ("kept.cwasm", old),
            ("other.cwasm", old),
            ("notes.txt", old),
            ("new.cwasm", old + OTHERS_KEPT * 2),
        ] {
            File::create(path(name)).unwrap().set_modified(at).unwrap();
        }
        forget_others(folder.path(), &path("kept.cwasm"));
        let there = ["kept.cwasm", "other.cwasm", "notes.txt", "new.cwasm"].map(|name| path(name).exists());
        assert_eq!(there, [true, false, true, true]);
    }
}
