//! Hexadecimal encoding.

const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

/// Encodes bytes as lower-case hexadecimal digits, two per byte.
pub fn hex(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    bytes.iter().flat_map(digits).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_byte_gives_two_digits() {
        assert_eq!(super::hex(&[0, 9, 10, 255, 0x5c]), "00090aff5c");
    }
}
