//! Reading files of a limited size.

use std::io::Read as _;
use std::path::Path;

/// Reads the bytes of a file; `None` if there are more than `max`.
pub(crate) fn read_at_most(path: &Path, max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    // Reading one byte more than allowed shows whether there is more, without a second look at the file.
    std::fs::File::open(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= max))
}
