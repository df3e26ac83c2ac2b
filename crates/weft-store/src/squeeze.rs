//! Bytes in fewer bytes.
//!
//! What is squeezed here are small pieces of JSON with the same words in them, which a dictionary of these
//! words helps most. The dictionary is a part of the format: it is never changed, another one would be
//! another format.

use std::io;
use std::sync::{LazyLock, Mutex, TryLockError};

use weft_core::{Error, ErrorKind, Result};
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::CParameter;

/// The words of journals and states, the most frequent ones last.
const WORDS: &[u8] = include_bytes!("words_1.txt");

/// Beyond this the work grows faster than the bytes shrink.
const LEVEL: i32 = 6;

/// What every squeezed piece would begin with.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// More than one piece ever comes to; a damaged one may claim more.
const LENGTH_MAX: usize = 1 << 30;

static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(WORDS, LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(WORDS));

/// Setting up the tables of a compressor costs more than a small piece does.
static COMPRESSOR: Mutex<Option<Compressor<'static>>> = Mutex::new(None);

/// Squeezes bytes; absent when that does not make them fewer.
pub(crate) fn squeeze(bytes: &[u8]) -> Option<Vec<u8>> {
    let squeezed = match COMPRESSOR.try_lock() {
        Ok(mut kept) => {
            let mut compressor = kept.take().map_or_else(|| compressor(&ENCODER), Ok).ok()?;
            let squeezed = compressor.compress(bytes).ok()?;
            *kept = Some(compressor);
            squeezed
        }
        Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => {
            compressor(&ENCODER).ok()?.compress(bytes).ok()?
        }
    };
    let squeezed = squeezed.strip_prefix(&MAGIC)?;
    (squeezed.len() < bytes.len()).then(|| squeezed.to_vec())
}

/// What was squeezed.
///
/// # Errors
/// `Garbled` when it is damaged.
pub(crate) fn unsqueeze(squeezed: &[u8], length: usize) -> Result<Vec<u8>> {
    opened(Decompressor::with_prepared_dictionary(&DECODER), squeezed, length)
}

/// A dictionary for [`squeeze_with`].
pub(crate) fn encoder(content: &[u8]) -> EncoderDictionary<'static> {
    EncoderDictionary::copy(content, LEVEL)
}

/// Squeezes bytes with a dictionary of their own.
pub(crate) fn squeeze_with(encoder: &EncoderDictionary<'static>, bytes: &[u8]) -> Option<Vec<u8>> {
    let squeezed = compressor(encoder).ok()?.compress(bytes).ok()?;
    Some(squeezed.strip_prefix(&MAGIC)?.to_vec())
}

/// What was squeezed with the dictionary of this content.
///
/// # Errors
/// `Garbled` when it is damaged.
pub(crate) fn unsqueeze_with(content: &[u8], squeezed: &[u8], length: usize) -> Result<Vec<u8>> {
    opened(Decompressor::with_dictionary(content), squeezed, length)
}

fn opened(decompressor: io::Result<Decompressor<'_>>, squeezed: &[u8], length: usize) -> Result<Vec<u8>> {
    if length > LENGTH_MAX {
        return Err(damaged());
    }
    let whole = [&MAGIC, squeezed].concat();
    let bytes = decompressor.and_then(|mut open| open.decompress(&whole, length));
    let bytes = bytes.map_err(|cause| damaged().because(cause))?;
    if bytes.len() == length { Ok(bytes) } else { Err(damaged()) }
}

fn compressor<'a>(encoder: &'a EncoderDictionary<'static>) -> io::Result<Compressor<'a>> {
    let mut compressor = Compressor::with_prepared_dictionary(encoder)?;
    // The length is kept beside the piece, and damage shows in what comes out.
    compressor.set_parameter(CParameter::ContentSizeFlag(false))?;
    compressor.set_parameter(CParameter::ChecksumFlag(false))?;
    compressor.set_parameter(CParameter::DictIdFlag(false))?;
    Ok(compressor)
}

fn damaged() -> Error {
    Error::new(ErrorKind::Garbled, "a stored piece is damaged")
        .help("restore the store from a backup; what does not need this piece is not affected")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAID: &str = r#"{"type":"said","activation":3,"node":"Message:M","text":"w0 "}"#;

    #[test]
    fn what_was_squeezed_once_is_read_for_ever() {
        let kept = include_bytes!("squeezed_1.bin");
        assert_eq!(unsqueeze(kept, SAID.len()).unwrap(), SAID.as_bytes(), "{:?}", squeeze(SAID.as_bytes()));
    }

    #[test]
    fn the_words_of_a_journal_cost_little() {
        let squeezed = squeeze(SAID.as_bytes()).unwrap();
        assert!(squeezed.len() < 30, "{} bytes", squeezed.len());
    }

    proptest! {
        #[test]
        fn what_is_squeezed_comes_back(bytes in prop::collection::vec(0_u8..4, 0..3_000)) {
            if let Some(squeezed) = squeeze(&bytes) {
                prop_assert_eq!(unsqueeze(&squeezed, bytes.len()).unwrap(), bytes);
            }
        }

        #[test]
        fn damage_is_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), length in 0_usize..9_000) {
            let _ = unsqueeze(&bytes, length);
        }
    }
}
