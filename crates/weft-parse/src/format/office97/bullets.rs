//! Fixes bullet lists in documents of Word 97. There are two codes for "no number", and the library knows only the one
//! that Word itself does not write for a bullet; with the other it would number the items.

use std::io::{Cursor, Read as _, Seek as _, SeekFrom, Write as _};

use cfb::CompoundFile;

/// Number of header bytes that are read.
const HEAD_BYTES: usize = 0x2ea;
/// Maximum size of the list data, in bytes.
const LISTS_BYTES_MAX: u64 = 4 << 20;
/// Size of the data of one list, which precedes the levels of all lists, in bytes.
const LIST_BYTES: usize = 28;
/// Size of the fixed part of the data of one level, in bytes.
const LEVEL_BYTES: usize = 28;
/// Number formats of a level: bullet, and none.
const BULLET: u8 = 0x17;
const NONE: u8 = 0xff;

/// Rewrites a document so that the library recognizes its bullets; `None` if there are none, or the document is broken.
pub(super) fn known(bytes: &[u8]) -> Option<Vec<u8>> {
    let (stream, bullets) = found(bytes)?;
    if bullets.is_empty() {
        return None;
    }
    let mut file = CompoundFile::open(Cursor::new(bytes.to_vec())).ok()?;
    let mut table = file.open_stream(stream).ok()?;
    for bullet in bullets {
        table.seek(SeekFrom::Start(bullet)).ok()?;
        table.write_all(&[NONE]).ok()?;
    }
    table.flush().ok()?;
    drop(table);
    file.flush().ok()?;
    Some(file.into_inner().into_inner())
}

/// The stream that contains the lists, and the offsets of their bullets.
fn found(bytes: &[u8]) -> Option<(&'static str, Vec<u64>)> {
    let mut file = CompoundFile::open(Cursor::new(bytes)).ok()?;
    let mut head = [0; HEAD_BYTES];
    file.open_stream("/WordDocument").ok()?.read_exact(&mut head).ok()?;
    let version = u16::from_le_bytes([head[2], head[3]]);
    // Before Word 97 the header has another layout.
    if version < 0xc1 {
        return None;
    }
    // A bit of the header says which of the two streams is in use.
    let stream = if head[0xb] & 2 == 0 { "/0Table" } else { "/1Table" };
    // The offset and the length of the lists (`fcPlfLst`, `lcbPlfLst`).
    let start = u64::from(u32::from_le_bytes([head[0x2e2], head[0x2e3], head[0x2e4], head[0x2e5]]));
    if head[0x2e6..] == [0_u8; 4] {
        return None;
    }
    let mut table = file.open_stream(stream).ok()?;
    table.seek(SeekFrom::Start(start)).ok()?;
    let mut lists = Vec::new();
    table.take(LISTS_BYTES_MAX).read_to_end(&mut lists).ok()?;
    let bullets = bullets(&lists)?.into_iter().filter_map(|place| Some(start + u64::try_from(place).ok()?));
    Some((stream, bullets.collect()))
}

/// Offsets in the list data at which a level says that it has a bullet.
fn bullets(bytes: &[u8]) -> Option<Vec<usize>> {
    let (count, mut at) = (number(bytes, 0)?, 2);
    let mut levels = 0_usize;
    for _ in 0..count {
        // The flag `fSimpleList`: such a list has one level instead of nine.
        let is_simple = bytes.get(at + 24)? & 1 == 1;
        levels += if is_simple { 1 } else { 9 };
        at += LIST_BYTES;
    }
    let mut bullets = Vec::new();
    for _ in 0..levels {
        let Some(level) = bytes.get(at..).and_then(|rest| rest.first_chunk::<LEVEL_BYTES>()) else { break };
        if level[4] == BULLET {
            bullets.push(at + 4);
        }
        at += LEVEL_BYTES + usize::from(level[24]) + usize::from(level[25]);
        let Some(letters) = number(bytes, at) else { break };
        at += 2 + 2 * usize::from(letters);
    }
    Some(bullets)
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_le_bytes(*two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bullets_are_found_among_numbers() {
        let list = |flags: u8| [&[7; 24][..], &[flags, 0, 0, 0]].concat();
        let level = |kind: u8, more: u8| {
            let mut level = [0; LEVEL_BYTES];
            (level[4], level[24], level[25]) = (kind, more, 1);
            [&level[..], &vec![9; usize::from(more) + 1][..], &[1, 0], &[b'x', 0]].concat()
        };
        let levels: Vec<u8> = [level(0, 2), level(BULLET, 5)].concat();
        let lists = [&[2, 0][..], &list(1)[..], &list(1)[..], &levels[..]].concat();
        let second = 2 + 2 * LIST_BYTES + level(0, 2).len() + 4;
        assert_eq!(bullets(&lists), Some(vec![second]));
        assert_eq!(bullets(&lists[..second]), Some(Vec::new()));
        assert_eq!(bullets(&lists[..20]), None);
        assert_eq!(known(b"no such file"), None);
    }
}
