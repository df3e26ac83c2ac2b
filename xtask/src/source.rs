//! The Rust files of the repository, with and without their tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A source file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Path from the root of the repository, with `/` as separator.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl SourceFile {
    /// The lines outside of tests, with line numbers starting at 1.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        without_tests(&self.text)
    }

    /// File name without `.rs`.
    pub(crate) fn stem(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs")
    }
}

/// Reads the sources of the workspace: `src` of every crate and of xtask, without files that contain only tests.
pub(crate) fn read(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for folder in crate_folders(root)? {
        collect(root, &folder.join("src"), &mut files)?;
    }
    files.retain(|file| file.stem() != "tests");
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Reads all files of one crate, including tests, benchmarks and examples; paths are relative to the crate's folder.
pub(crate) fn of_crate(folder: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    collect(folder, folder, &mut files)?;
    Ok(files)
}

fn crate_folders(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![root.join("xtask")];
    folders.extend(entries(&root.join("crates"))?.into_iter().filter(|path| path.is_dir()));
    Ok(folders)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) -> Result<()> {
    for path in entries(folder)? {
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(SourceFile { path: relative(root, &path), text: read_text(&path)? });
        }
    }
    Ok(())
}

/// Path relative to the root, with `/` as separator on every platform.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Reads a text file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Entries of a folder, sorted by name.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = listed.map(|entry| entry.map(|e| e.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Removes all `#[cfg(test)]` modules. rustfmt puts the closing brace at the start of a line, so no parser is needed.
fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::with_capacity(lines.len());
    let mut at = 0;
    while at < lines.len() {
        let next = lines.get(at + 1).copied().unwrap_or_default();
        if lines[at] == "#[cfg(test)]" && next.starts_with("mod ") {
            let inline = next.ends_with('{');
            at += 2;
            while inline && at < lines.len() && lines[at - 1] != "}" {
                at += 1;
            }
        } else {
            kept.push((at + 1, lines[at]));
            at += 1;
        }
    }
    kept.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_modules_are_left_out_and_numbers_stay() {
        let text = "fn a() {}\n#[cfg(test)]\nmod fakes;\nfn b() {}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\nfn c() {}\n";
        let kept: Vec<_> = without_tests(text).collect();
        assert_eq!(kept, [(1, "fn a() {}"), (4, "fn b() {}"), (9, "fn c() {}")]);
    }

    #[test]
    fn a_module_without_an_end_does_not_loop() {
        assert_eq!(without_tests("#[cfg(test)]\nmod tests {\n").count(), 0);
    }
}
