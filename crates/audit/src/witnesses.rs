//! What the witnesses left in a bundle: cosignatures, their own copies of the log's head, their journals.
//!
//! Holds reading and verifying them. A witness is known by the policy's vkey alone; its directory is found by its
//! name, and so the keys of one witness, of which the policy has a line each, share it. The journals are read by
//! [`crate::journal`].

use crate::amount::amount;
use crate::bundle::{BundleSource, MAX_NOTE_BYTES, ReadError, read_part, witness_dir};
use crate::heads::{Heads, KnownHead, Source};
use crate::journal::{JOURNAL_LAG_MS, Journal, JournalEnd, JournalReading};
use crate::quote::{plain, quoted, witness_name};
use crate::time::show_time;
use crate::verdict::CheckBuilder;
use crate::watch::{Cosigning, Watch};
use merkle::RootHash;
use note::{Policy, SignedCheckpoint, SignedNote, Verified, VerifierKey, verified_cosignatures};
use receipt::UnixMillis;

/// Most cosignatures kept: a few for each witness, and those on kept proofs.
const MAX_COSIGNATURES: usize = 100_000;

/// Most bytes of notes kept for evidence. A usual one has a few hundred; one with a megabyte of extension lines on
/// each of a hundred thousand proofs must not fill the memory.
const MAX_NOTES_KEPT: usize = 64 << 20;

/// A witness's good cosignature over some head of the log.
#[derive(Clone, Debug)]
pub(crate) struct Cosigned {
    /// Its place in the policy.
    pub(crate) witness: usize,
    pub(crate) size: u64,
    pub(crate) root: RootHash,
    pub(crate) timestamp_s: u64,
    /// The note it stands on, by place in [`Cosignatures::notes`], if it was kept.
    note: Option<usize>,
}

/// All good cosignatures in a bundle.
#[derive(Debug, Default)]
pub(crate) struct Cosignatures {
    pub(crate) good: Vec<Cosigned>,
    notes: Vec<SignedCheckpoint<Verified>>,
    kept_bytes: usize,
}

impl Cosignatures {
    /// The note that a cosignature stands on, while few enough were kept.
    pub(crate) fn note_of(&self, cosigned: &Cosigned) -> Option<&SignedCheckpoint<Verified>> {
        self.notes.get(cosigned.note?)
    }

    /// Takes over those of another bundle.
    pub(crate) fn absorb(&mut self, other: Cosignatures) {
        let before = self.notes.len();
        let moved = |cosigned: Cosigned| Cosigned { note: cosigned.note.map(|place| place + before), ..cosigned };
        self.good.extend(other.good.into_iter().map(moved));
        self.notes.extend(other.notes);
        self.kept_bytes = self.kept_bytes.saturating_add(other.kept_bytes);
    }

    /// Verifies the policy's witnesses' lines on a checkpoint that the log signed. Bad ones and lines of nobody's
    /// key are findings in `lines`.
    pub(crate) fn read(
        &mut self,
        policy: &Policy,
        log: &VerifierKey,
        checkpoint: &SignedCheckpoint<Verified>,
        found_in: &str,
        lines: &mut CheckBuilder,
    ) {
        let keys: Vec<VerifierKey> = policy.witnesses().iter().map(|witness| witness.vkey.clone()).collect();
        report_unknown_lines(checkpoint.note(), log, &keys, found_in, lines);
        let kept_bytes = self.kept_bytes.saturating_add(checkpoint.bytes().len());
        let place = (kept_bytes <= MAX_NOTES_KEPT).then_some(self.notes.len());
        let mut used = false;
        for line in verified_cosignatures(checkpoint.note(), &keys) {
            lines.checked();
            match line {
                Ok((witness, cosignature)) if self.good.len() < MAX_COSIGNATURES => {
                    let head = checkpoint.checkpoint();
                    self.good.push(Cosigned {
                        witness,
                        size: head.size.0,
                        root: head.root,
                        timestamp_s: cosignature.timestamp_s,
                        note: place,
                    });
                    used = true;
                }
                Ok(_) => {}
                Err(bad) => lines.fail("bad-cosignature", &[], || {
                    [
                        format!(
                            "a line under the key of witness {} on the checkpoint in {found_in} is bad: {}",
                            witness_name(&keys[bad.witness]),
                            bad.reason
                        ),
                        String::from("who wrote it: anybody can write a line under anybody's name"),
                        String::from("fetch the witness's own checkpoint; ask whoever served this line"),
                    ]
                }),
            }
        }
        if used && place.is_some() {
            self.notes.push(checkpoint.clone());
            self.kept_bytes = kept_bytes;
        }
    }
}

fn report_unknown_lines(
    note: &SignedNote,
    log: &VerifierKey,
    witnesses: &[VerifierKey],
    found_in: &str,
    lines: &mut CheckBuilder,
) {
    let is_known =
        |line: &note::NoteSignature| line.claims(log) || witnesses.iter().any(|witness| line.claims(witness));
    for line in note.signatures().iter().filter(|line| !is_known(line)) {
        lines.notice("unknown-signature-line", &[], || {
            [
                format!(
                    "the checkpoint in {found_in} carries a line by {} under a key that the policy does not list",
                    quoted(line.name.as_str())
                ),
                String::from("anything: the line was not looked at"),
                String::from("add the witness to the policy if you trust it"),
            ]
        });
    }
}

/// What the witnesses left, one element of each a witness, in the order of the policy.
#[derive(Debug, Default)]
pub(crate) struct Witnesses {
    pub(crate) watches: Vec<Watch>,
    /// The journals that are there and can be read, to make documents from their lines.
    pub(crate) journals: Vec<Option<Journal>>,
}

impl Witnesses {
    /// The lanes of what was read: with the cosignatures on all notes of the bundle, which are read after the journals.
    pub(crate) fn complete(&mut self, cosignatures: &Cosignatures) {
        for cosigned in &cosignatures.good {
            if let Some(watch) = self.watches.iter_mut().find(|watch| watch.places.contains(&cosigned.witness)) {
                let (at_s, size) = (cosigned.timestamp_s, cosigned.size);
                watch.cosigned(Cosigning { from_s: at_s, to_s: at_s, size, count: 1 });
                watch.saw(size, cosigned.root);
            }
        }
    }
}

/// Reads the checkpoint and the journal of each of the policy's witnesses. What is missing there is a finding in
/// `known`: a head that only an absent journal holds cannot be found.
pub(crate) fn read_witnesses(
    bundle: &dyn BundleSource,
    paths: &[String],
    policy: &Policy,
    log: &VerifierKey,
    heads: &mut Heads,
    cosignatures: &mut Cosignatures,
    (known, lines): (&mut CheckBuilder, &mut CheckBuilder),
) -> Result<Witnesses, ReadError> {
    let mut witnesses = Witnesses::default();
    let mut ends = Vec::new();
    for (first, witness) in policy.witnesses().iter().enumerate() {
        let is_namesake = |place: &usize| policy.witnesses()[*place].vkey.name() == witness.vkey.name();
        if (0..first).any(|place| is_namesake(&place)) {
            continue;
        }
        let places: Vec<usize> = (first..policy.witnesses().len()).filter(is_namesake).collect();
        let number = witnesses.watches.len();
        let dir = witness_dir(witness.vkey.name());
        read_checkpoint(bundle, &dir, policy, log, (number, &places), heads, cosignatures, (known, lines))?;
        // The keys that it vouches with, as far as the bundle shows; it vouches for its journal with no fewer.
        let used = |place: &&usize| cosignatures.good.iter().any(|cosigned| cosigned.witness == **place);
        let used: Vec<usize> = places.iter().filter(used).copied().collect();
        let keys = if used.is_empty() { &places } else { &used };
        let keys: Vec<VerifierKey> = keys.iter().map(|place| policy.witnesses()[*place].vkey.clone()).collect();
        let newest = cosignatures.good.iter().filter(|cosigned| places.contains(&cosigned.witness));
        let newest = newest.max_by_key(|cosigned| (cosigned.timestamp_s, cosigned.size));
        let mut watch = Watch::new(witness.vkey.name(), places.clone());
        let mut reading = JournalReading { bundle, paths, policy, log, number, watch: &mut watch, heads, known };
        let read = reading.read(&dir, &keys, newest)?;
        let (journal, end) = read.unzip();
        witnesses.watches.push(watch);
        witnesses.journals.push(journal);
        ends.push(end);
    }
    judge_ends(&witnesses.watches, &ends, known);
    Ok(witnesses)
}

/// Reads a witness's own copy of the log's head. `(number, places)`: which witness, and its keys by place in the policy.
#[allow(clippy::too_many_arguments)] // One file, and the three collectors that learn of it.
fn read_checkpoint(
    bundle: &dyn BundleSource,
    dir: &str,
    policy: &Policy,
    log: &VerifierKey,
    (number, places): (usize, &[usize]),
    heads: &mut Heads,
    cosignatures: &mut Cosignatures,
    (known, lines): (&mut CheckBuilder, &mut CheckBuilder),
) -> Result<(), ReadError> {
    let keys: Vec<&VerifierKey> = places.iter().map(|place| &policy.witnesses()[*place].vkey).collect();
    let name = quoted(keys[0].name().as_str());
    let Some(bytes) = read_part(bundle, &format!("{dir}/checkpoint"), MAX_NOTE_BYTES)? else {
        known.not_checked("witness-checkpoint-missing", &[], || {
            [
                format!("the bundle holds no checkpoint fetched from witness {name}"),
                String::from("whether that witness saw a newer or another head"),
                String::from("fetch again while the witness answers, or take it out of the policy"),
            ]
        });
        return Ok(());
    };
    match SignedCheckpoint::parse(&bytes).and_then(|checkpoint| checkpoint.verify(log)) {
        Ok(checkpoint) => {
            known.checked();
            if !keys.iter().any(|key| checkpoint.note().signatures_by(key).next().is_some()) {
                known.not_checked("witness-checkpoint-unusable", &[], || {
                    [
                        format!("what the bundle holds as the checkpoint of witness {name} is not cosigned by it"),
                        String::from("what that witness saw"),
                        String::from("fetch it from the witness itself"),
                    ]
                });
            }
            let found_in = format!("the checkpoint of witness {name}");
            cosignatures.read(policy, log, &checkpoint, &found_in, lines);
            heads.learn(KnownHead::new(checkpoint, found_in, Source::Witness(number)));
        }
        Err(error) => known.not_checked("witness-checkpoint-unusable", &[], || {
            [
                format!(
                    "what the bundle holds as the checkpoint of witness {name} is no head of this log: {}",
                    plain(&error.to_string())
                ),
                String::from("anything about the log: it is not signed by the log"),
                String::from("fetch it from the witness itself"),
            ]
        }),
    }
    Ok(())
}

/// `journal-short`: a witness whose journal another witness saw longer, and not just now. Whoever makes a bundle fetches one
/// journal after the other, and meanwhile they grow.
fn judge_ends(watches: &[Watch], ends: &[Option<JournalEnd>], known: &mut CheckBuilder) {
    for (watch, end) in watches.iter().zip(ends) {
        let Some(end) = end else { continue };
        let longer = watches.iter().zip(ends).filter_map(|(other, other_end)| {
            let (size, at_ms) = *other_end.as_ref()?.peers.get(watch.name.as_str())?;
            (size > end.size && at_ms.abs_diff(end.until_ms) > JOURNAL_LAG_MS).then_some((other, size, at_ms))
        });
        for (other, size, at_ms) in longer {
            known.not_checked("journal-short", &[], || {
                let (name, other) = (quoted(watch.name.as_str()), quoted(other.name.as_str()));
                [
                    format!(
                        "the journal of witness {name} has {}, the last one of {}; the journal of witness {other} tells of {size} at {}",
                        amount(end.size, "line", "lines"),
                        show_time(UnixMillis(end.until_ms)),
                        show_time(UnixMillis(at_ms))
                    ),
                    String::from("what stands in the missing lines, nor who left them out: the witness, or whoever made the bundle"),
                    format!("fetch the journal of {name} from the witness itself"),
                ]
            });
        }
    }
}
