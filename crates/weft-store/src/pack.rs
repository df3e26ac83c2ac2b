//! Encodes several journal entries in one row.
//!
//! A packed body starts with the format number. In format 1 each entry follows: its event number, the milliseconds
//! since the previous entry, and the length and bytes of its record. Numbers have variable length, so an entry costs
//! about six bytes in addition to its record. Format 2 is the length of a body with the same parts in another order
//! (the number of entries, then all event numbers, all times, all lengths, all records), followed by that body in
//! compressed form. An old reader rejects a newer format; a new reader must still read both.

use std::sync::Arc;

use weft_core::seam::run_store::StoredEntry;
use weft_core::{Error, ErrorKind, Result};

use crate::compress::{compress, compress_fast, decompress};

/// Entries one after the other, uncompressed.
const PLAIN: u8 = 1;

/// Entries grouped by part, compressed.
const COMPRESSED: u8 = 2;

/// Smaller bodies stay uncompressed: they are soon packed together with others.
const COMPRESSED_FROM: usize = 400;

/// How the event number of an entry is encoded: absent, one more than the last, or in full.
const EVENT_NONE: u64 = 0;
const EVENT_NEXT: u64 = 1;
const EVENT_IS: u64 = 2;

/// The approximate length of the entries as encoded by [`pack_plain`], never too small.
pub(crate) fn plain_length(entries: &[StoredEntry]) -> usize {
    entries.iter().map(|entry| entry.record.len() + 16).sum()
}

/// Packs consecutive entries; the row stores the number of the first.
pub(crate) fn pack(entries: &[StoredEntry]) -> Vec<u8> {
    packed(entries, compress)
}

/// Same as [`pack`] with less effort, for a row that is compacted with others when its run has ended.
pub(crate) fn pack_fast(entries: &[StoredEntry]) -> Vec<u8> {
    packed(entries, compress_fast)
}

fn packed(entries: &[StoredEntry], compress: fn(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    let plain = pack_plain(entries);
    if plain.len() < COMPRESSED_FROM {
        return plain;
    }
    let parts = parts(entries);
    match compress(&parts).map(|compressed| with_length(&parts, &compressed)) {
        Some(body) if body.len() < plain.len() => body,
        _ => plain,
    }
}

/// Compresses parts to a body of format 2; `None` when that would not be smaller.
pub(crate) fn compressed(parts: &[u8]) -> Option<Vec<u8>> {
    compress(parts).map(|compressed| with_length(parts, &compressed))
}

fn with_length(parts: &[u8], compressed: &[u8]) -> Vec<u8> {
    let mut body = vec![COMPRESSED];
    put(&mut body, parts.len() as u64);
    body.extend_from_slice(compressed);
    body
}

/// Unpacks a body whose first entry has the number `first_seq`.
///
/// # Errors
/// `Garbled` when the body is damaged, `Unsupported` when it was written by a newer version.
pub(crate) fn unpack(first_seq: u64, body: &[u8]) -> Result<Vec<StoredEntry>> {
    let (&format, mut rest) = body.split_first().ok_or_else(damaged)?;
    match format {
        PLAIN => unpack_plain(first_seq, rest),
        COMPRESSED => {
            let length = usize::try_from(take(&mut rest)?).map_err(|_| damaged())?;
            entries_of(first_seq, &decompress(rest, length)?)
        }
        _ => Err(Error::new(ErrorKind::Unsupported, format!("the journal row has format {format}"))
            .help("it was written by another version of Weft: use that version")),
    }
}

/// The bytes that format 2 compresses.
pub(crate) fn parts(entries: &[StoredEntry]) -> Vec<u8> {
    let records: usize = entries.iter().map(|entry| entry.record.len()).sum();
    let mut parts = Vec::with_capacity(records + entries.len() * 6 + 8);
    put(&mut parts, entries.len() as u64);
    let mut next = 0_u64;
    for entry in entries {
        match entry.event {
            None => put(&mut parts, EVENT_NONE),
            Some(event) if event == next => put(&mut parts, EVENT_NEXT),
            Some(event) => {
                put(&mut parts, EVENT_IS);
                put(&mut parts, event);
            }
        }
        next = entry.event.map_or(next, |event| event.wrapping_add(1));
    }
    let mut before = 0_i64;
    for entry in entries {
        // A difference takes one or two bytes; it is signed, because a clock may be set back.
        put(&mut parts, zigzag(entry.at_ms.wrapping_sub(before)));
        before = entry.at_ms;
    }
    entries.iter().for_each(|entry| put(&mut parts, entry.record.len() as u64));
    entries.iter().for_each(|entry| parts.extend_from_slice(entry.record.as_bytes()));
    parts
}

/// Decodes the entries from their parts.
///
/// # Errors
/// `Garbled` when they are damaged.
pub(crate) fn entries_of(first_seq: u64, mut rest: &[u8]) -> Result<Vec<StoredEntry>> {
    let rest = &mut rest;
    let count = usize::try_from(take(rest)?).map_err(|_| damaged())?;
    // Each entry takes at least three numbers: a damaged count must not allocate memory.
    if count > rest.len() / 3 {
        return Err(damaged());
    }
    let (mut events, mut times) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut next = 0_u64;
    for _ in 0..count {
        let event = match take(rest)? {
            EVENT_NONE => None,
            EVENT_NEXT => Some(next),
            EVENT_IS => Some(take(rest)?),
            _ => return Err(damaged()),
        };
        next = event.map_or(next, |event| event.wrapping_add(1));
        events.push(event);
    }
    let mut at_ms = 0_i64;
    for _ in 0..count {
        at_ms = at_ms.wrapping_add(unzigzag(take(rest)?));
        times.push(at_ms);
    }
    let lengths = (0..count).map(|_| take(rest)).collect::<Result<Vec<u64>>>()?;
    let mut entries = Vec::with_capacity(count);
    for (nth, ((event, at_ms), length)) in (0_u64..).zip(events.into_iter().zip(times).zip(lengths)) {
        let seq = first_seq.checked_add(nth).ok_or_else(damaged)?;
        entries.push(StoredEntry { seq, event, at_ms, record: record(rest, length)? });
    }
    if rest.is_empty() { Ok(entries) } else { Err(damaged()) }
}

fn record(rest: &mut &[u8], length: u64) -> Result<Arc<str>> {
    let length = usize::try_from(length).map_err(|_| damaged())?;
    let (record, after) = rest.split_at_checked(length).ok_or_else(damaged)?;
    *rest = after;
    Ok(std::str::from_utf8(record).map_err(|_| damaged())?.into())
}

/// Same as [`pack`], without compression.
pub(crate) fn pack_plain(entries: &[StoredEntry]) -> Vec<u8> {
    let records: usize = entries.iter().map(|entry| entry.record.len()).sum();
    let mut body = Vec::with_capacity(1 + records + entries.len() * 16);
    body.push(PLAIN);
    let mut at_before = 0_i64;
    for entry in entries {
        // Event numbers start at 1, but 0 has to be restored as 0: absent has its own code.
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

fn unpack_plain(first_seq: u64, mut rest: &[u8]) -> Result<Vec<StoredEntry>> {
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
        let length = take(&mut rest)?;
        let record = record(&mut rest, length)?;
        entries.push(StoredEntry { seq, event, at_ms, record });
        seq = seq.checked_add(1).ok_or_else(damaged)?;
    }
    Ok(entries)
}

fn damaged() -> Error {
    Error::new(ErrorKind::Garbled, "a row of the journal is damaged")
        .help("restore the store from a backup; other runs are not affected")
}

/// Writes a number with seven bits per byte, lowest first; the top bit marks that more bytes follow.
pub(crate) fn put(body: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        body.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    body.push(number as u8);
}

pub(crate) fn take(rest: &mut &[u8]) -> Result<u64> {
    let mut number = 0_u64;
    // Ten bytes hold 64 bits: a number that goes on after them is damaged.
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

/// Maps numbers of small magnitude, positive or negative, to small unsigned numbers.
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
    fn format_one_stays_readable() {
        let body = b"\x01\x01\x07\xa0\x1f\x03{1}\x00\x03\x02{}";
        let entries = [entry(5, Some(7), 2000, "{1}"), entry(6, None, 1998, "{}")];
        assert_eq!(unpack(5, body).unwrap(), entries);
        assert_eq!(pack(&entries), body);
    }

    #[test]
    fn format_two_stays_readable() {
        let body = include_bytes!("packed_2.bin");
        let said = |n: u64| {
            format!("{{\"type\":\"said\",\"activation\":3,\"node\":\"Message:M\",\"text\":\"w{n} \"}}")
        };
        let entries: Vec<_> = (5..25)
            .map(|n| entry(n, (n != 9).then_some(n + 2), 1_700_000_000_000 - n.cast_signed(), &said(n)))
            .collect();
        assert_eq!(unpack(5, body).unwrap(), entries, "{:?}", pack(&entries));
        assert!(pack(&entries).len() < 160, "{}", pack(&entries).len());
    }

    #[test]
    fn an_entry_takes_at_most_ten_bytes_beyond_its_record() {
        let record = "x".repeat(300);
        let entries: Vec<_> =
            (1..=40).map(|n| entry(n, Some(n), 1_700_000_000_000 + n as i64 * 50, &record)).collect();
        assert!(pack_plain(&entries).len() <= 40 * (300 + 10));
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        assert_eq!(unpack(1, &[9, 0]).unwrap_err().kind, ErrorKind::Unsupported);
    }

    proptest! {
        #[test]
        fn packing_round_trips(
            first in 1_u64..1_000_000,
            parts in prop::collection::vec((any::<Option<u64>>(), any::<i64>(), ".{0,40}"), 1..40),
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
