//! Signatures with a shared secret (RFC 2104): of incoming webhook calls, and of outgoing notifications.

use sha2::{Digest, Sha256, Sha384, Sha512};
use weft_core::webhook::HmacAlgorithm;

/// Signs the concatenation of the parts.
pub fn sign(algorithm: HmacAlgorithm, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    match algorithm {
        HmacAlgorithm::Hs256 => hmac::<Sha256, 64>(key, parts),
        HmacAlgorithm::Hs384 => hmac::<Sha384, 128>(key, parts),
        HmacAlgorithm::Hs512 => hmac::<Sha512, 128>(key, parts),
    }
}

fn hmac<D: Digest, const BLOCK: usize>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut block = [0_u8; BLOCK];
    // A key that is longer than a block is replaced by its hash (RFC 2104, 2).
    let short = if key.len() > BLOCK { D::digest(key).to_vec() } else { key.to_vec() };
    block.iter_mut().zip(short).for_each(|(to, from)| *to = from);
    let padded = |with: u8| block.map(|byte| byte ^ with);
    let mut inner = D::new();
    inner.update(padded(0x36));
    parts.iter().for_each(|part| inner.update(part));
    let mut outer = D::new();
    outer.update(padded(0x5c));
    outer.update(inner.finalize());
    outer.finalize().to_vec()
}

/// Returns whether two byte strings are equal, in a time that reveals neither where they differ nor how long they
/// are.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (Sha256::digest(one), Sha256::digest(other));
    // Otherwise the compiler might stop at the first difference.
    let differs = one.iter().zip(other).fold(0_u8, |differs, (one, other)| differs | (one ^ other));
    std::hint::black_box(differs) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test cases of RFC 4231.
    #[test]
    fn signatures_match_the_test_vectors_of_the_rfc() {
        let check = |algorithm, key: &[u8], parts: &[&[u8]], begins: &str| {
            let signed = weft_core::hex(&sign(algorithm, key, parts));
            assert!(signed.starts_with(begins), "{signed}");
        };
        let (jefe, what): (&[u8], [&[u8]; 2]) = (b"Jefe", [b"what do ya want ", b"for nothing?"]);
        check(
            HmacAlgorithm::Hs256,
            jefe,
            &what,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        check(
            HmacAlgorithm::Hs384,
            jefe,
            &what,
            "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e",
        );
        check(
            HmacAlgorithm::Hs512,
            jefe,
            &what,
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554",
        );
        let long: &[u8] = &[0xaa; 131];
        let text: &[u8] = b"Test Using Larger Than Block-Size Key - Hash Key First";
        check(
            HmacAlgorithm::Hs256,
            long,
            &[text],
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
    }

    #[test]
    fn comparison_tells_equal_texts_from_different_ones() {
        assert!(same(b"a", b"a") && same(b"", b""));
        assert!(!same(b"a", b"b") && !same(b"a", b"aa") && !same(b"", b"a"));
    }
}
