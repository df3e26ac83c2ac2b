//! What the runs of a session have in common, kept once.
//!
//! Two runs of one canvas in one session differ in little: what was asked, what was answered, some numbers.
//! The first journal that this process packs for a session becomes the base of those that follow; these are
//! squeezed with the base as their dictionary, to a fraction of what they would be alone. A base is a piece
//! of its session, so it goes when no journal names it any more, and its content is never in another
//! session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weft_core::Result;
use weft_core::id::SessionKey;
use zstd::dict::EncoderDictionary;

use crate::pack::{put, take};
use crate::pieces::{self, Name};
use crate::rows::piece::Model;
use crate::squeeze;

/// The first byte of a body with a base.
pub(crate) const BASED: u8 = 4;

/// Sessions whose base is known. What is forgotten here gets a new base with its next run.
const BASES_MAX: usize = 256;

/// A longer beginning has nothing new in it.
const BASE_BYTES_MAX: usize = 16 * 1024;

/// A journal of a smaller size is small enough.
const BASE_BYTES_MIN: usize = 512;

/// A base that saves less than one byte in so many is of no use any more.
const SAVED_PART_MIN: usize = 8;

/// A run goes with its base, and a base only with the last of its runs.
const USES_MAX: u32 = 256;

/// The beginning of an earlier journal of a session.
pub(crate) struct Base {
    pub(crate) row: Model,
    content: Vec<u8>,
    name: Name,
    encoder: OnceLock<EncoderDictionary<'static>>,
}

/// The bases of the sessions that this process packs for.
#[derive(Default)]
pub(crate) struct Bases(Mutex<HashMap<SessionKey, (Arc<Base>, u32)>>);

impl Bases {
    /// Packs the parts of a journal, with the base of its session if that helps.
    pub(crate) fn pack(&self, session: &SessionKey, parts: &[u8]) -> Option<(Vec<u8>, Option<Arc<Base>>)> {
        let base = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get_mut(session).map(|(base, uses)| {
                *uses += 1;
                (Arc::clone(base), *uses)
            })
        };
        let alone = || crate::pack::squeezed(parts);
        let Some((base, uses)) = base else {
            self.begin(session, parts);
            return Some((alone()?, None));
        };
        let based = base.squeeze(parts)?;
        // Alone it would hardly come to less than an eighth.
        if based.len() * SAVED_PART_MIN <= parts.len() && uses < USES_MAX {
            return Some((based, Some(base)));
        }
        let alone = alone()?;
        if based.len() + based.len() / SAVED_PART_MIN < alone.len() && uses < USES_MAX {
            return Some((based, Some(base)));
        }
        self.begin(session, parts);
        Some((alone, None))
    }

    /// Forgets a base that cannot be stored.
    pub(crate) fn forget(&self, session: &SessionKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }

    fn begin(&self, session: &SessionKey, parts: &[u8]) {
        if parts.len() < BASE_BYTES_MIN {
            return;
        }
        let content = parts[..parts.len().min(BASE_BYTES_MAX)].to_vec();
        let name = pieces::name(&content);
        let row = pieces::row(session, name, &content);
        let base = Arc::new(Base { row, content, name, encoder: OnceLock::new() });
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= BASES_MAX {
            known.clear();
        }
        known.insert(session.clone(), (base, 0));
    }
}

impl Base {
    fn squeeze(&self, parts: &[u8]) -> Option<Vec<u8>> {
        let encoder = self.encoder.get_or_init(|| squeeze::encoder(&self.content));
        let squeezed = squeeze::squeeze_with(encoder, parts)?;
        let mut body = vec![BASED];
        body.extend_from_slice(&self.name);
        put(&mut body, parts.len() as u64);
        body.extend_from_slice(&squeezed);
        Some(body)
    }
}

/// The name of the base that a body was squeezed with.
pub(crate) fn named(body: &[u8]) -> Option<Name> {
    body.strip_prefix(&[BASED])?.get(..size_of::<Name>())?.try_into().ok()
}

/// The parts of a journal from a body and the content of its base.
///
/// # Errors
/// `Garbled` when one of the two is damaged.
pub(crate) fn parts(body: &[u8], content: &[u8]) -> Result<Vec<u8>> {
    let mut rest = body.get(1 + size_of::<Name>()..).unwrap_or_default();
    let length = usize::try_from(take(&mut rest)?).unwrap_or(usize::MAX);
    squeeze::unsqueeze_with(content, rest, length)
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
    fn what_follows_the_first_costs_what_is_new_in_it() {
        let bases = Bases::default();
        let (first, none) = bases.pack(&session("s"), &parts_of("something", 1)).unwrap();
        assert!(none.is_none());
        let second = parts_of("something", 2);
        let (body, base) = bases.pack(&session("s"), &second).unwrap();
        assert!(body.len() * 10 < first.len(), "{} and {}", body.len(), first.len());
        let base = base.unwrap();
        assert_eq!(named(&body).unwrap(), base.name);
        assert_eq!(parts(&body, &base.content).unwrap(), second);
        assert!(parts(&body, b"another content").is_err() && parts(&body[..20], &base.content).is_err());
        assert!(bases.pack(&session("another"), &second).unwrap().1.is_none(), "sessions share nothing");
    }

    #[test]
    fn a_base_that_is_of_no_use_any_more_is_replaced() {
        let bases = Bases::default();
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
        let (_, base) = bases.pack(&session("s"), &mixed(1)).unwrap();
        let before = base.unwrap().name;
        assert!(bases.pack(&session("s"), &mixed(2)).unwrap().1.is_none());
        let (_, base) = bases.pack(&session("s"), &mixed(2)).unwrap();
        assert_ne!(base.unwrap().name, before);
    }
}
