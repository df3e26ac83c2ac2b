//! Compression dictionaries for the journals of a session.
//!
//! Two runs of one canvas in one session differ in little: the question, the answer, some numbers. The first journal
//! that this process packs for a session becomes the dictionary of the following ones, which shrink to a fraction of
//! the size they would have alone. A dictionary is a piece of its session, so it is removed when no journal refers to
//! it any more, and its content is never shared with another session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weft_core::Result;
use weft_core::id::SessionKey;
use zstd::dict::EncoderDictionary;

use crate::compress;
use crate::pack::{put, take};
use crate::pieces::{self, Name};
use crate::rows::piece::Model;

/// The first byte of a body with a dictionary.
pub(crate) const BASED: u8 = 4;

/// Number of sessions whose dictionary is cached. An evicted session gets a new one with its next run.
const DICTIONARIES_MAX: usize = 256;

/// The beginning of a journal beyond this length contains nothing new.
const DICTIONARY_BYTES_MAX: usize = 16 * 1024;

/// A smaller journal is not worth a dictionary.
const DICTIONARY_BYTES_MIN: usize = 512;

/// A dictionary is replaced when it saves less than one byte in this many.
const SAVED_PART_MIN: usize = 8;

/// Maximum number of uses of a dictionary: it can only be removed with the last of the runs that depend on it.
const USES_MAX: u32 = 256;

/// The beginning of an earlier journal of a session.
pub(crate) struct SessionDictionary {
    pub(crate) row: Model,
    content: Vec<u8>,
    name: Name,
    encoder: OnceLock<EncoderDictionary<'static>>,
}

/// The dictionaries of the sessions that this process packs for.
#[derive(Default)]
pub(crate) struct SessionDictionaries(Mutex<HashMap<SessionKey, (Arc<SessionDictionary>, u32)>>);

impl SessionDictionaries {
    /// Packs the parts of a journal, with the dictionary of its session if that helps.
    pub(crate) fn pack(
        &self,
        session: &SessionKey,
        parts: &[u8],
    ) -> Option<(Vec<u8>, Option<Arc<SessionDictionary>>)> {
        let dictionary = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get_mut(session).map(|(dictionary, uses)| {
                *uses += 1;
                (Arc::clone(dictionary), *uses)
            })
        };
        // From here on without the lock: compression takes time, and other sessions pack as well.
        let alone = || crate::pack::compressed(parts);
        let Some((dictionary, uses)) = dictionary else {
            self.begin(session, parts);
            return Some((alone()?, None));
        };
        let with_dictionary = dictionary.compress(parts)?;
        // Alone it would hardly shrink to less than an eighth.
        if with_dictionary.len() * SAVED_PART_MIN <= parts.len() && uses < USES_MAX {
            return Some((with_dictionary, Some(dictionary)));
        }
        let alone = alone()?;
        if with_dictionary.len() + with_dictionary.len() / SAVED_PART_MIN < alone.len() && uses < USES_MAX {
            return Some((with_dictionary, Some(dictionary)));
        }
        self.begin(session, parts);
        Some((alone, None))
    }

    /// Drops a dictionary that cannot be stored.
    pub(crate) fn forget(&self, session: &SessionKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }

    fn begin(&self, session: &SessionKey, parts: &[u8]) {
        if parts.len() < DICTIONARY_BYTES_MIN {
            return;
        }
        let content = parts[..parts.len().min(DICTIONARY_BYTES_MAX)].to_vec();
        let name = pieces::name(&content);
        let row = pieces::row(session, name, &content);
        let dictionary = Arc::new(SessionDictionary { row, content, name, encoder: OnceLock::new() });
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // All at once: no order of use has to be kept, and each session makes a new one with its next run.
        if known.len() >= DICTIONARIES_MAX {
            known.clear();
        }
        known.insert(session.clone(), (dictionary, 0));
    }
}

impl SessionDictionary {
    fn compress(&self, parts: &[u8]) -> Option<Vec<u8>> {
        let encoder = self.encoder.get_or_init(|| compress::encoder(&self.content));
        let compressed = compress::compress_with(encoder, parts)?;
        let mut body = vec![BASED];
        body.extend_from_slice(&self.name);
        put(&mut body, parts.len() as u64);
        body.extend_from_slice(&compressed);
        Some(body)
    }
}

/// The name of the dictionary that a body was compressed with.
pub(crate) fn named(body: &[u8]) -> Option<Name> {
    body.strip_prefix(&[BASED])?.get(..size_of::<Name>())?.try_into().ok()
}

/// Decompresses the parts of a journal with the content of its dictionary.
///
/// # Errors
/// `Garbled` when either is damaged.
pub(crate) fn parts(body: &[u8], content: &[u8]) -> Result<Vec<u8>> {
    let mut rest = body.get(1 + size_of::<Name>()..).unwrap_or_default();
    let length = usize::try_from(take(&mut rest)?).unwrap_or(usize::MAX);
    compress::decompress_with(content, rest, length)
}

#[cfg(test)]
mod tests {
    use weft_core::id::TenantId;

    use super::*;

    fn session(id: &str) -> SessionKey {
        SessionKey::new(&TenantId::from("t"), id)
    }

    fn parts_of(words: &str, turn: usize) -> Vec<u8> {
        let many = (0..200_usize).map(|n| format!("{words} {}; ", n * n * 7_919 % 10_007));
        many.chain([format!("this is turn {turn}")]).collect::<String>().into_bytes()
    }

    #[test]
    fn later_states_are_packed_against_the_first() {
        let bases = SessionDictionaries::default();
        let (first, none) = bases.pack(&session("s"), &parts_of("something", 1)).unwrap();
        assert!(none.is_none());
        let second = parts_of("something", 2);
        let (body, dictionary) = bases.pack(&session("s"), &second).unwrap();
        assert!(body.len() * 10 < first.len(), "{} and {}", body.len(), first.len());
        let dictionary = dictionary.unwrap();
        assert_eq!(named(&body).unwrap(), dictionary.name);
        assert_eq!(parts(&body, &dictionary.content).unwrap(), second);
        assert!(
            parts(&body, b"another content").is_err() && parts(&body[..20], &dictionary.content).is_err()
        );
        assert!(
            bases.pack(&session("another"), &second).unwrap().1.is_none(),
            "sessions share no dictionary"
        );
    }

    #[test]
    fn a_dictionary_that_no_longer_helps_is_replaced() {
        let bases = SessionDictionaries::default();
        let noise = |seed: u32| {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            (0..3_000).map(|_| next()).collect::<Vec<u8>>()
        };
        let text = parts_of("something", 1)[..300].to_vec();
        let mixed = |seed: u32| [noise(seed), text.clone()].concat();
        bases.pack(&session("s"), &mixed(1)).unwrap();
        let (_, dictionary) = bases.pack(&session("s"), &mixed(1)).unwrap();
        let before = dictionary.unwrap().name;
        assert!(bases.pack(&session("s"), &mixed(2)).unwrap().1.is_none());
        let (_, dictionary) = bases.pack(&session("s"), &mixed(2)).unwrap();
        assert_ne!(dictionary.unwrap().name, before);
    }
}
