//! PDFs that revision 5 of the standard security handler encrypts (AES-256 as extension level 3 of Adobe has it).
//!
//! Such a file has its key wrapped by what the password gives. The library takes the wrapping for the key, and so
//! sees nothing on any page. Revision 6 wraps the key in another way and does all else alike, and that the library knows:
//! so the key is taken out here and wrapped anew, and the file says so in a trailer behind its end, as files do that were
//! changed without being written again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Cursor;

use pdf_oxide::PdfDocument;
use pdf_oxide::crypto::{AesKeySize, HashAlgorithm, Padding, active};
use pdf_oxide::object::{Object, ObjectRef};
use pdf_oxide::xref::find_xref_offset;

/// Where what checks a password, what salts that check and what salts the key are in the entry `U`.
const CHECK_SALT: std::ops::Range<usize> = 32..40;
const KEY_SALT: std::ops::Range<usize> = 40..48;
/// Bytes of the key, wrapped or not.
const KEY: usize = 32;
/// Bytes of the entry `O`.
const OWNER: usize = 48;
/// How often [`hash`] has what it encrypts behind itself, its rounds at least, and by how many the last byte is below the
/// rounds so far when it ends.
const REPEATED: usize = 64;
const ROUNDS: usize = 64;
const ROUNDS_LESS: usize = 32;

/// The file as revision 6 would have encrypted it for the empty password; nothing when it is not of revision 5, or its
/// entries are not what they should be.
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

/// The file with a trailer behind its end that has everything as before but the lock.
fn appended(trailer: &HashMap<String, Object>, lock: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let reference = |key: &str| {
        let ObjectRef { id, r#gen: generation } = trailer.get(key)?.as_reference()?;
        Some(format!("/{key} {id} {generation} R"))
    };
    let mut text = format!("\nxref\n0 0\ntrailer\n<< {} ", reference("Root")?);
    let size = trailer.get("Size").and_then(Object::as_integer).unwrap_or_default();
    write!(text, "/Size {size} {} ", reference("Info").unwrap_or_default()).ok()?;
    // A file without a table is searched for its objects, and what its last trailer says counts.
    if let Ok(before) = find_xref_offset(&mut Cursor::new(bytes)) {
        write!(text, "/Prev {before} ").ok()?;
    }
    // Last, since the library looks for the end of a trailer at the first end of a dictionary in it.
    write!(text, "/Encrypt {lock} >>\nstartxref\n{}\n%%EOF\n", bytes.len() + 1).ok()?;
    Some([bytes, text.as_bytes()].concat())
}

/// What revision 6 makes of the empty password and a salt (ISO 32000-2, algorithm 2.B).
fn hash(salt: &[u8]) -> Option<Vec<u8>> {
    let mut key = digest(HashAlgorithm::Sha256, salt)?;
    // A last byte is below 256, so this ends.
    for round in 1..=ROUNDS_LESS + usize::from(u8::MAX) {
        let text = key.repeat(REPEATED);
        let (aes_key, start) = (key.get(..16)?, key.get(16..32)?);
        let cipher = active().symmetric();
        let text = cipher.aes_cbc_encrypt(AesKeySize::Aes128, aes_key, start, &text, Padding::None).ok()?;
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
