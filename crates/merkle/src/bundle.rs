//! Entry bundles (tlog-tiles, "Log entries") and everything else that is a run of length-prefixed strings.
//!
//! ```text
//! u16 length, big-endian | that many bytes | u16 length | …
//! ```

/// The longest entry a length prefix can announce.
pub const MAX_ENTRY_LEN: usize = u16::MAX as usize;

/// The entry is longer than its length prefix can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the entry has {length} bytes; at most {MAX_ENTRY_LEN} fit one")]
pub struct EntryTooLong {
    /// Bytes in the entry.
    pub length: usize,
}

/// The bundle ends in the middle of an entry or of its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bundle ends inside entry {entry} of it")]
pub struct BundleCut {
    /// Place of the entry that is cut; the first is 0.
    pub entry: usize,
}

/// Appends one entry with its length in front.
///
/// # Errors
/// When the entry is longer than [`MAX_ENTRY_LEN`]; nothing is appended then.
pub fn encode_entry(bundle: &mut Vec<u8>, entry: &[u8]) -> Result<(), EntryTooLong> {
    let length = u16::try_from(entry.len()).map_err(|_| EntryTooLong { length: entry.len() })?;
    bundle.extend_from_slice(&length.to_be_bytes());
    bundle.extend_from_slice(entry);
    Ok(())
}

/// Splits a bundle into its entries, oldest first.
///
/// # Errors
/// When the bundle ends inside an entry.
pub fn decode_entries(bundle: &[u8]) -> Result<Vec<&[u8]>, BundleCut> {
    let mut entries = Vec::new();
    let mut rest = bundle;
    while !rest.is_empty() {
        let cut = BundleCut { entry: entries.len() };
        let (length, tail) = rest.split_first_chunk::<2>().ok_or(cut)?;
        let (entry, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*length))).ok_or(cut)?;
        entries.push(entry);
        rest = tail;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_decode_to_what_was_encoded_and_every_cut_is_told() {
        let mut bundle = Vec::new();
        for entry in [&b"one"[..], b"", b"three"] {
            encode_entry(&mut bundle, entry).unwrap();
        }
        assert_eq!(&bundle[..5], b"\x00\x03one");
        assert_eq!(decode_entries(&bundle).unwrap(), [&b"one"[..], b"", b"three"]);
        for length in 0..bundle.len() {
            let whole = [0, 5, 7].contains(&length);
            assert_eq!(decode_entries(&bundle[..length]).is_ok(), whole, "{length}");
        }
    }

    #[test]
    fn an_entry_that_its_prefix_cannot_announce_is_refused() {
        let mut bundle = Vec::new();
        assert!(encode_entry(&mut bundle, &[0; MAX_ENTRY_LEN]).is_ok());
        assert_eq!(encode_entry(&mut bundle, &[0; MAX_ENTRY_LEN + 1]), Err(EntryTooLong { length: MAX_ENTRY_LEN + 1 }));
        assert_eq!(bundle.len(), MAX_ENTRY_LEN + 2);
    }
}
