//! The limits of a template and its rendering.

use std::io::{self, Write};

/// Maximum number of bytes of template source.
pub(crate) const SOURCE_MAX: usize = 64 * 1024;
/// Maximum number of steps of one rendering.
pub(crate) const STEPS_MAX: u64 = 100_000;
/// Maximum number of bytes in the rendered text.
pub(crate) const OUTPUT_MAX: usize = 4 * 1024 * 1024;
/// Limit on what a rendering may build besides its output: bytes of text plus [`NODE_COST`] for every value.
pub(crate) const WORK_MAX: usize = 16 * 1024 * 1024;
/// Number of bytes that steps may scan without building any: searching, comparing, counting, slicing. A byte takes up
/// to a few nanoseconds, so that a rendering ends within about a second; a text of 1 MB may be searched 500 times.
pub(crate) const READ_MAX: usize = 512 * 1024 * 1024;
/// Cost of a value besides its text.
pub(crate) const NODE_COST: usize = 32;
/// Maximum nesting depth of values.
// Traversing a value recurses once per level, and so does dropping it.
pub(super) const DEPTH_MAX: usize = 64;
/// Maximum width of a formatted value, and maximum indentation.
// A format makes a value as wide as it says, whatever the value is.
pub(super) const WIDTH_MAX: usize = 1_000;

/// A text that refuses to grow beyond a limit. `max` is set to 0 when the limit was reached.
pub(super) struct LimitedText {
    pub(super) bytes: Vec<u8>,
    pub(super) max: usize,
}

impl Write for LimitedText {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.max {
            self.max = 0;
            return Err(io::Error::other("too much is written"));
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
