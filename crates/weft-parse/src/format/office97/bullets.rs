//! Lists with bullets in documents of Word 97. There are two numbers for "no number", and the library knows the one that
//! Word itself does not write for a bullet: it would count the items.

use std::io::{Cursor, Read as _, Seek as _, SeekFrom, Write as _};

use cfb::CompoundFile;

/// Bytes of the head that are looked at.
const HEAD_BYTES: usize = 0x2ea;
/// Bytes of the lists, at most.
const LISTS_BYTES_MAX: u64 = 4 << 20;
/// What is said of one list, before the levels of all.
const LIST_BYTES: usize = 28;
/// What is said of one level, before what has no certain length.
const LEVEL_BYTES: usize = 28;
/// How a level is numbered: by a bullet, and not at all.
const BULLET: u8 = 0x17;
const NONE: u8 = 0xff;

/// The document with its bullets as the library knows them; `None` when there are none, or it is broken.
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

/// The stream with the lists, and where in it their bullets are.
fn found(bytes: &[u8]) -> Option<(&'static str, Vec<u64>)> {
    let mut file = CompoundFile::open(Cursor::new(bytes)).ok()?;
    let mut head = [0; HEAD_BYTES];
    file.open_stream("/WordDocument").ok()?.read_exact(&mut head).ok()?;
    let version = u16::from_le_bytes([head[2], head[3]]);
    // Before Word 97 the head is another one.
    if version < 0xc1 {
        return None;
    }
    let stream = if head[0xb] & 2 == 0 { "/0Table" } else { "/1Table" };
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

/// Where among the lists a level says that it has a bullet.
fn bullets(bytes: &[u8]) -> Option<Vec<usize>> {
    let (count, mut at) = (number(bytes, 0)?, 2);
    let mut levels = 0_usize;
    for _ in 0..count {
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
