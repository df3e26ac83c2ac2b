//! PDFs encrypted with revision 5 of the standard security handler (AES-256 in Adobe's extension level 3).
//!
//! The file contains its key, wrapped with a key derived from the password. The library takes the wrapped key for the
//! key itself, and so finds nothing on any page. Revision 6, which the library supports, differs only in how the key is
//! wrapped. So the key is unwrapped here and wrapped anew as in revision 6, in a new trailer appended to the file as an
//! incremental update.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Cursor;

use pdf_oxide::PdfDocument;
use pdf_oxide::crypto::{AesKeySize, HashAlgorithm, Padding, active};
use pdf_oxide::object::{Object, ObjectRef};
use pdf_oxide::xref::find_xref_offset;

/// Positions of the two salts in the entry `U`: the one for checking the password, and the one for the key. The hash
/// that is checked precedes them.
const CHECK_SALT: std::ops::Range<usize> = 32..40;
const KEY_SALT: std::ops::Range<usize> = 40..48;
/// Length of the key in bytes, wrapped or not.
const KEY: usize = 32;
/// Length of the entry `O` in bytes.
const OWNER: usize = 48;
/// Parameters of [`hash`]: number of repetitions of the input that it encrypts, minimum number of rounds, and how far
/// the last byte must be below the number of rounds so far for it to stop.
const REPEATED: usize = 64;
const ROUNDS: usize = 64;
const ROUNDS_LESS: usize = 32;

/// The file as revision 6 would have encrypted it with the empty password; `None` if it is not revision 5, or its
/// entries are invalid.
pub(super) fn as_revision_6(document: &PdfDocument, bytes: &[u8]) -> Option<Vec<u8>> {
    let trailer = document.trailer().as_dict()?;
    let lock = document.resolve_object(trailer.get("Encrypt")?).ok()?;
    let entry = |key: &str| document.resolve_object(lock.as_dict()?.get(key)?).ok();
    if entry("R")?.as_integer() != Some(5) {
        return None;
    }
    let (user, owner, wrapped) = (entry("U")?, entry("O")?, entry("UE")?);
    let (user, owner) = (user.as_string()?, owner.as_string()?);
    let (check_salt, key_salt) = (user.get(CHECK_SALT)?, user.get(KEY_SALT)?);

    // Keys are wrapped with an initialization vector of zeros.
    let (cipher, start) = (active().symmetric(), [0; 16]);
    let wrapping = digest(HashAlgorithm::Sha256, key_salt)?;
    let wrapped = wrapped.as_string()?.get(..KEY)?;
    let key = cipher.aes_cbc_decrypt(AesKeySize::Aes256, &wrapping, &start, wrapped, Padding::None).ok()?;
    let wrapping = hash(key_salt)?;
    let wrapped = cipher.aes_cbc_encrypt(AesKeySize::Aes256, &wrapping, &start, &key, Padding::None).ok()?;
    let user = [hash(check_salt)?.as_slice(), check_salt, key_salt].concat();
    let lock = format!(
        "<< /Filter /Standard /V 5 /R 6 /P -1 /O <{}> /U <{}> /UE <{}> >>",
        hexadecimal(&owner[..owner.len().min(OWNER)]),
        hexadecimal(&user),
        hexadecimal(&wrapped)
    );
    appended(trailer, &lock, bytes)
}

/// The file with a trailer appended that is the same except for the encryption dictionary.
fn appended(trailer: &HashMap<String, Object>, lock: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let reference = |key: &str| {
        let ObjectRef { id, r#gen: generation } = trailer.get(key)?.as_reference()?;
        Some(format!("/{key} {id} {generation} R"))
    };
    let mut text = format!("\nxref\n0 0\ntrailer\n<< {} ", reference("Root")?);
    let size = trailer.get("Size").and_then(Object::as_integer).unwrap_or_default();
    write!(text, "/Size {size} {} ", reference("Info").unwrap_or_default()).ok()?;
    // A file without a cross-reference table is scanned for its objects, and its last trailer counts.
    if let Ok(before) = find_xref_offset(&mut Cursor::new(bytes)) {
        write!(text, "/Prev {before} ").ok()?;
    }
    // Last, since the library takes the first end of a dictionary in a trailer for the end of the trailer.
    write!(text, "/Encrypt {lock} >>\nstartxref\n{}\n%%EOF\n", bytes.len() + 1).ok()?;
    Some([bytes, text.as_bytes()].concat())
}

/// Hash of the empty password and a salt in revision 6 (ISO 32000-2, algorithm 2.B).
fn hash(salt: &[u8]) -> Option<Vec<u8>> {
    let mut key = digest(HashAlgorithm::Sha256, salt)?;
    // Terminates, because the last byte is at most 255.
    for round in 1..=ROUNDS_LESS + usize::from(u8::MAX) {
        let text = key.repeat(REPEATED);
        let (aes_key, start) = (key.get(..16)?, key.get(16..32)?);
        let cipher = active().symmetric();
        let text = cipher.aes_cbc_encrypt(AesKeySize::Aes128, aes_key, start, &text, Padding::None).ok()?;
        // 256 is 1 modulo 3, so the sum of the bytes stands for the number that they form.
        let algorithm = match text.iter().take(16).map(|byte| u32::from(*byte)).sum::<u32>() % 3 {
            0 => HashAlgorithm::Sha256,
            1 => HashAlgorithm::Sha384,
            _ => HashAlgorithm::Sha512,
        };
        key = digest(algorithm, &text)?;
        if round >= ROUNDS && usize::from(*text.last()?) + ROUNDS_LESS <= round {
            break;
        }
    }
    key.truncate(KEY);
    Some(key)
}

fn digest(algorithm: HashAlgorithm, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut hasher = active().hasher(algorithm).ok()?;
    hasher.update(bytes);
    Some(hasher.finalize())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
