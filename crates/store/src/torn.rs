//! What a crash leaves of a record that was being written, told from one that somebody changed.
//!
//! A disk writes sectors whole or not at all, and a file system may grow a file before its data is there. So of a
//! record that never became durable either the end is missing, or what it has of some sector reads as zeroes. Records
//! that are looked at here are text and hold no zero byte.

/// What a disk writes whole or not at all; larger sectors are made of these.
const SECTOR: usize = 512;

/// Whether `bytes`, which begin at `offset` of their file, end in zeroes or are zeroes as far as they lie in some sector.
pub(crate) fn lacks_a_sector(bytes: &[u8], offset: u64) -> bool {
    let first = SECTOR - (offset % SECTOR as u64) as usize;
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    let mut parts = std::iter::once(head).chain(rest.chunks(SECTOR)).filter(|part| !part.is_empty());
    bytes.last() == Some(&0) || parts.any(|part| part.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_sector_is_one_that_is_zero_as_far_as_the_record_lies_in_it() {
        let with_zeroes = |from: usize, to: usize| {
            let mut bytes = vec![b'x'; 1500];
            bytes[from..to].fill(0);
            bytes
        };
        // From 500 on: sectors end at 12, 524, 1036 of the record.
        assert!(lacks_a_sector(&with_zeroes(0, 12), 500));
        assert!(lacks_a_sector(&with_zeroes(12, 524), 500));
        assert!(lacks_a_sector(&with_zeroes(1036, 1500), 500));
        assert!(lacks_a_sector(&with_zeroes(1499, 1500), 500));
        assert!(lacks_a_sector(&with_zeroes(500, 1100), 500));
        for (from, to) in [(0, 0), (0, 11), (1, 12), (13, 524), (12, 523), (700, 701), (600, 1400), (1036, 1499)] {
            assert!(!lacks_a_sector(&with_zeroes(from, to), 500), "{from} {to}");
        }
        assert!(!lacks_a_sector(&[], 3));
    }
}
