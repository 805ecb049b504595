//! Base64 as every format here writes it: standard alphabet, padded, canonical. The one place that decodes it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Encodes in the standard alphabet with padding (RFC 4648, section 4).
pub fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes what [`encode_base64`] prints and nothing else: `None` for missing padding, a foreign alphabet,
/// white space, or trailing bits that are not zero.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_base64_is_decoded() {
        assert_eq!(decode_base64("AAE="), Some(vec![0, 1]));
        assert_eq!(decode_base64(""), Some(Vec::new()));
        for text in ["AAF=", "AAE", "AAE==", "AA E=", "AAE=\n", "-_8=", "A", "AAE=AAE="] {
            assert_eq!(decode_base64(text), None, "{text:?}");
        }
    }

    #[test]
    fn encoding_and_decoding_are_inverse() {
        for length in 0..40u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            assert_eq!(decode_base64(&encode_base64(&bytes)), Some(bytes));
        }
    }
}
