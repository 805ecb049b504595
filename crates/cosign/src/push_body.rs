//! The body of an `add-checkpoint` call (C2SP tlog-witness): a head that is pushed, with the proof that it grew.
//!
//! ```text
//! old <size>\n                 decimal, the size that the caller believes to be held
//! <hash, base64>\n             the consistency proof, at most 63 lines
//! \n
//! <checkpoint>                 the rest, a signed note
//! ```
//!
//! Holds the parser. Does not hold the rule ([`crate::decide_push`]) nor statuses, which are the shell's.

use crate::subtree::MAX_PROOF_LINES;
use merkle::{ConsistencyProof, Hash, TreeSize};
use note::{CheckpointError, Origin, SignedCheckpoint, Unverified};

/// Most bytes of a call: 63 lines of 45 bytes and a checkpoint with 64 signature lines, of which the largest, with ML-DSA-44,
/// have 3.6 kB.
pub const MAX_PUSH_BYTES: u64 = 256 * 1024;

/// Most bytes of the first line: `old `, twenty digits and some.
const MAX_OLD_LINE: usize = 32;

/// A call, parsed. Nothing in it is verified.
#[derive(Debug, Clone)]
pub struct Push {
    /// The size that the caller believes to be held.
    pub old: TreeSize,
    /// From there to the checkpoint.
    pub proof: ConsistencyProof,
    /// The checkpoint.
    pub checkpoint: SignedCheckpoint<Unverified>,
}

/// Why a body is no call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The first line.
    #[error("the first line is not `old`, a space and a size in decimal digits")]
    Old,
    /// A line of the proof.
    #[error("proof line {0} is not the canonical base64 of a hash of 32 bytes")]
    Proof(usize),
    /// Too many of them.
    #[error("there are more than {MAX_PROOF_LINES} proof lines")]
    TooLong,
    /// No blank line.
    #[error("no blank line ends the proof")]
    NoBlankLine,
    /// What follows is no checkpoint.
    #[error("what follows the blank line is no checkpoint: {0}")]
    Checkpoint(CheckpointError),
}

impl Push {
    /// Reads a call.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(body: &[u8]) -> Result<Push, Malformed> {
        let (old, mut rest) = line(body).filter(|(old, _)| old.len() <= MAX_OLD_LINE).ok_or(Malformed::Old)?;
        let old = std::str::from_utf8(old).ok().and_then(|old| old.strip_prefix("old ")).ok_or(Malformed::Old)?;
        let old = merkle::decimal::parse_u64(old).map(TreeSize).ok_or(Malformed::Old)?;
        let mut hashes = Vec::new();
        loop {
            let (hash, after) = line(rest).ok_or(Malformed::NoBlankLine)?;
            rest = after;
            if hash.is_empty() {
                break;
            }
            if hashes.len() == MAX_PROOF_LINES {
                return Err(Malformed::TooLong);
            }
            let hash = std::str::from_utf8(hash).ok().and_then(Hash::from_base64);
            hashes.push(hash.ok_or(Malformed::Proof(hashes.len() + 1))?);
        }
        let checkpoint = SignedCheckpoint::parse(rest).map_err(Malformed::Checkpoint)?;
        Ok(Push { old, proof: ConsistencyProof::new(hashes), checkpoint })
    }

    /// The origin that the checkpoint claims.
    pub fn origin(&self) -> &Origin {
        &self.checkpoint.claimed().origin
    }
}

/// The first line, without its end, and what follows it.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const HASH: &str = "PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=";
    const HEAD: &str = "log.example\n5\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\u{2014} log.example Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";

    #[test]
    fn a_call_is_an_old_size_a_proof_a_blank_line_and_a_checkpoint() {
        let push = Push::parse(format!("old 3\n{HASH}\n{HASH}\n\n{HEAD}").as_bytes()).unwrap();
        assert_eq!((push.old, push.proof.hashes().len()), (TreeSize(3), 2));
        assert_eq!(push.origin().as_str(), "log.example");
        assert!(Push::parse(format!("old 0\n\n{HEAD}").as_bytes()).unwrap().proof.hashes().is_empty());
        assert!(Push::parse(format!("old 0\n{}\n{HEAD}", format!("{HASH}\n").repeat(63)).as_bytes()).is_ok());
    }

    #[test]
    fn what_is_not_spelled_so_is_malformed() {
        for (body, why) in [
            (String::new(), Malformed::Old),
            (format!("old  3\n\n{HEAD}"), Malformed::Old),
            (format!("old 03\n\n{HEAD}"), Malformed::Old),
            (format!("old +3\n\n{HEAD}"), Malformed::Old),
            (format!("old -1\n\n{HEAD}"), Malformed::Old),
            (format!("old 3 \n\n{HEAD}"), Malformed::Old),
            (format!("Old 3\n\n{HEAD}"), Malformed::Old),
            (format!("old 3\r\n\n{HEAD}"), Malformed::Old),
            (format!("old 18446744073709551616\n\n{HEAD}"), Malformed::Old),
            ("old 3\n".to_owned(), Malformed::NoBlankLine),
            (format!("old 3\n{HASH}\n"), Malformed::NoBlankLine),
            (format!("old 3\n{HASH}\n{HEAD}"), Malformed::Proof(2)),
            (format!("old 3\n{HASH}\r\n\n{HEAD}"), Malformed::Proof(1)),
            (format!("old 3\n {HASH}\n\n{HEAD}"), Malformed::Proof(1)),
            (format!("old 3\n{}\n\n{HEAD}", HASH.trim_end_matches('=')), Malformed::Proof(1)),
            // The last character carries bits that are not the hash's.
            (format!("old 3\n{}\n\n{HEAD}", HASH.replace("kaw=", "kax=")), Malformed::Proof(1)),
            (format!("old 3\n{}\n{HEAD}", format!("{HASH}\n").repeat(64)), Malformed::TooLong),
        ] {
            assert_eq!(Push::parse(body.as_bytes()).unwrap_err(), why, "{body:?}");
        }
        for rest in ["", "\n", "nonsense", HEAD.trim_end(), &HEAD.replace('\n', "\r\n")] {
            let error = Push::parse(format!("old 3\n\n{rest}").as_bytes()).unwrap_err();
            assert!(matches!(error, Malformed::Checkpoint(_)), "{rest:?}: {error}");
        }
    }
}
