//! Compression of small byte strings.
//!
//! The input is small pieces of JSON that share many words, so a dictionary of these words helps most. The dictionary
//! is part of the format and never changes; a different one would be a different format.

use std::sync::{LazyLock, Mutex, TryLockError};

use weft_core::{Error, ErrorKind, Result};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::{self, CCtx, DCtx};

/// The words that occur in journals and states, the most frequent ones last.
const WORDS: &[u8] = include_bytes!("words_1.txt");

/// At higher levels the work grows faster than the size shrinks.
const LEVEL: i32 = 6;

/// A sixth of the work for a tenth more bytes.
const LEVEL_FAST: i32 = 1;

/// The bytes with which every compressed frame would begin.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Longer than any piece; a damaged one may claim more.
const LENGTH_MAX: usize = 1 << 30;

static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(WORDS, LEVEL));
static ENCODER_FAST: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(WORDS, LEVEL_FAST));
static DECODER: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(WORDS));

/// Setting up the tables of a compressor costs more than compressing a small piece, so one of each is reused.
static COMPRESSOR: Reusable<CCtx<'static>> = Reusable(Mutex::new(None));
static DECOMPRESSOR: Reusable<DCtx<'static>> = Reusable(Mutex::new(None));

/// A value that is created on first use, or while another caller has it.
struct Reusable<T>(Mutex<Option<T>>);

impl<T> Reusable<T> {
    fn lend<U>(&self, make: fn() -> Option<T>, work: impl FnOnce(&mut T) -> U) -> Option<U> {
        // Not waited for: another thread may be compressing something large, and a second one is set up sooner.
        match self.0.try_lock() {
            Ok(mut kept) => {
                if kept.is_none() {
                    *kept = make();
                }
                kept.as_mut().map(work)
            }
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => make().as_mut().map(work),
        }
    }
}

/// Compresses bytes; `None` when that does not make them smaller.
pub(crate) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    compress_with(&ENCODER, bytes).filter(|compressed| compressed.len() < bytes.len())
}

/// Same as [`compress`] with less effort, for data that is not kept for long.
pub(crate) fn compress_fast(bytes: &[u8]) -> Option<Vec<u8>> {
    compress_with(&ENCODER_FAST, bytes).filter(|compressed| compressed.len() < bytes.len())
}

/// Decompresses the output of [`compress`].
///
/// # Errors
/// `Garbled` when it is damaged.
pub(crate) fn decompress(compressed: &[u8], length: usize) -> Result<Vec<u8>> {
    opened(&DECODER, compressed, length)
}

/// A dictionary for [`compress_with`].
pub(crate) fn encoder(content: &[u8]) -> EncoderDictionary<'static> {
    EncoderDictionary::copy(content, LEVEL)
}

/// Compresses bytes with the given dictionary.
pub(crate) fn compress_with(encoder: &EncoderDictionary<'static>, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut compressed = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    let made = COMPRESSOR.lend(CCtx::try_create, |context| {
        context.compress_using_cdict(&mut compressed, bytes, encoder.as_cdict()).is_ok()
    });
    let compressed = made?.then_some(compressed)?;
    // Copied, because the stored vector must not keep the unused capacity.
    compressed.strip_prefix(&MAGIC).map(<[u8]>::to_vec)
}

/// Decompresses data that was compressed with the dictionary of this content.
///
/// # Errors
/// `Garbled` when it is damaged.
pub(crate) fn decompress_with(content: &[u8], compressed: &[u8], length: usize) -> Result<Vec<u8>> {
    opened(&DecoderDictionary::copy(content), compressed, length)
}

fn opened(decoder: &DecoderDictionary<'static>, compressed: &[u8], length: usize) -> Result<Vec<u8>> {
    if length > LENGTH_MAX {
        return Err(damaged());
    }
    // The decompressor expects these bytes, which are not stored because they are always the same.
    let whole = [&MAGIC, compressed].concat();
    let mut bytes = Vec::new();
    // A damaged length may ask for more memory than there is: an error, and not the end of the process.
    bytes.try_reserve_exact(length).map_err(|cause| damaged().because(cause))?;
    let opened = DECOMPRESSOR.lend(DCtx::try_create, |context| {
        context.decompress_using_ddict(&mut bytes, &whole, decoder.as_ddict()).is_ok()
    });
    if opened == Some(true) && bytes.len() == length { Ok(bytes) } else { Err(damaged()) }
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
    fn data_compressed_by_earlier_versions_stays_readable() {
        let kept = include_bytes!("compressed_1.bin");
        assert_eq!(decompress(kept, SAID.len()).unwrap(), SAID.as_bytes(), "{:?}", compress(SAID.as_bytes()));
    }

    #[test]
    fn journal_records_compress_well() {
        let compressed = compress(SAID.as_bytes()).unwrap();
        assert!(compressed.len() < 30, "{} bytes", compressed.len());
    }

    proptest! {
        #[test]
        fn compression_round_trips(bytes in prop::collection::vec(0_u8..4, 0..3_000)) {
            if let Some(compressed) = compress(&bytes) {
                prop_assert_eq!(decompress(&compressed, bytes.len()).unwrap(), bytes);
            }
        }

        #[test]
        fn damage_is_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), length in 0_usize..9_000) {
            let _ = decompress(&bytes, length);
        }
    }
}
