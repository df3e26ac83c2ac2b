//! Several journal entries in one row.
//!
//! A packed body is the format number, then for each entry: its event number, the milliseconds
//! since the entry before it, and the length and bytes of its record. Numbers are variable in
//! length, so an entry costs about six bytes beyond its record. An old reader refuses a newer format;
//! a new reader must go on reading [`FORMAT`] 1.

use std::sync::Arc;

use weft_core::seam::run_store::StoredEntry;
use weft_core::{Error, ErrorKind, Result};

/// The format of what [`pack`] writes.
const FORMAT: u8 = 1;

/// Packs entries that follow one another; the row keeps the number of the first.
pub(crate) fn pack(entries: &[StoredEntry]) -> Vec<u8> {
    let records: usize = entries.iter().map(|entry| entry.record.len()).sum();
    let mut body = Vec::with_capacity(1 + records + entries.len() * 16);
    body.push(FORMAT);
    let mut at_before = 0_i64;
    for entry in entries {
        // Event numbers begin at 1, but 0 must come back as 0: absent is its own number.
        match entry.event {
            None => body.push(0),
            Some(event) => {
                body.push(1);
                put(&mut body, event);
            }
        }
        put(&mut body, zigzag(entry.at_ms.wrapping_sub(at_before)));
        at_before = entry.at_ms;
        put(&mut body, entry.record.len() as u64);
        body.extend_from_slice(entry.record.as_bytes());
    }
    body
}

/// The entries of a packed body, the first of which has the number `first_seq`.
///
/// # Errors
/// `Garbled` when the body is damaged, `Unsupported` when a newer version wrote it.
pub(crate) fn unpack(first_seq: u64, body: &[u8]) -> Result<Vec<StoredEntry>> {
    let (&format, mut rest) = body.split_first().ok_or_else(damaged)?;
    if format != FORMAT {
        return Err(Error::new(ErrorKind::Unsupported, format!("the journal row has format {format}"))
            .help("it was written by another version of weft: use that version"));
    }
    let mut entries = Vec::new();
    let mut at_ms = 0_i64;
    let mut seq = first_seq;
    while !rest.is_empty() {
        let event = match take(&mut rest)? {
            0 => None,
            1 => Some(take(&mut rest)?),
            _ => return Err(damaged()),
        };
        at_ms = at_ms.wrapping_add(unzigzag(take(&mut rest)?));
        let length = usize::try_from(take(&mut rest)?).map_err(|_| damaged())?;
        let (record, after) = rest.split_at_checked(length).ok_or_else(damaged)?;
        let record: Arc<str> = std::str::from_utf8(record).map_err(|_| damaged())?.into();
        rest = after;
        entries.push(StoredEntry { seq, event, at_ms, record });
        seq = seq.checked_add(1).ok_or_else(damaged)?;
    }
    Ok(entries)
}

fn damaged() -> Error {
    Error::new(ErrorKind::Garbled, "a row of the journal is damaged")
        .help("restore the store from a backup; other runs are not affected")
}

/// Seven bits a byte, lowest first; the top bit says that more follow.
fn put(body: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        body.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    body.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Result<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or_else(damaged)?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(damaged())
}

/// Small numbers of either sign become small numbers.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(seq: u64, event: Option<u64>, at_ms: i64, record: &str) -> StoredEntry {
        StoredEntry { seq, event, at_ms, record: record.into() }
    }

    #[test]
    fn format_one_is_read_for_ever() {
        let body = b"\x01\x01\x07\xa0\x1f\x03{1}\x00\x03\x02{}";
        let entries = [entry(5, Some(7), 2000, "{1}"), entry(6, None, 1998, "{}")];
        assert_eq!(unpack(5, body).unwrap(), entries);
        assert_eq!(pack(&entries), body);
    }

    #[test]
    fn an_entry_costs_at_most_ten_bytes_beyond_its_record() {
        let record = "x".repeat(300);
        let entries: Vec<_> =
            (1..=40).map(|n| entry(n, Some(n), 1_700_000_000_000 + n as i64 * 50, &record)).collect();
        assert!(pack(&entries).len() <= 40 * (300 + 10));
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        assert_eq!(unpack(1, &[2, 0]).unwrap_err().kind, ErrorKind::Unsupported);
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(
            first in 1_u64..1_000_000,
            parts in prop::collection::vec((any::<Option<u64>>(), any::<i64>(), ".{0,40}"), 1..20),
        ) {
            let entries: Vec<_> = parts
                .iter()
                .zip(first..)
                .map(|((event, at_ms, record), seq)| entry(seq, *event, *at_ms, record))
                .collect();
            prop_assert_eq!(unpack(first, &pack(&entries)).unwrap(), entries);
        }

        #[test]
        fn damage_is_an_error_and_no_panic(body in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = unpack(u64::MAX - 3, &body);
        }
    }
}
