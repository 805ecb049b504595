//! What the witnesses left in a bundle: cosignatures, their own copies of the log's head, their journals.
//!
//! Holds reading and verifying them. A witness is known by the policy's vkey alone; its directory is found by its
//! name. What a journal line says is believed for one thing only: a head in it that the log's own key signed.

use crate::bundle::{BundleSource, MAX_NOTE_BYTES, ReadError, read_part, witness_dir};
use crate::heads::{Heads, KnownHead};
use crate::quote::{plain, quoted};
use crate::time::show_time_s;
use crate::tree::Resources;
use crate::verdict::CheckBuilder;
use merkle::RootHash;
use note::{Policy, SignedCheckpoint, SignedNote, Verified, VerifierKey, verified_cosignatures};
use receipt::ijson;
use serde_json::{Map, Value};

/// Most cosignatures kept: a few for each witness, and those on kept proofs.
const MAX_COSIGNATURES: usize = 100_000;

/// Most bytes of notes kept for evidence. A usual one has a few hundred; one with a megabyte of extension lines on
/// each of a hundred thousand proofs must not fill the memory.
const MAX_NOTES_KEPT: usize = 64 << 20;

/// How far a journal may lag behind its witness's own cosignature: a minute of unchanged polls is folded into one
/// line, written when the minute is over; with room for a slow fetch.
const JOURNAL_LAG_MS: u64 = 5 * 60_000;

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
                            quoted(keys[bad.witness].name().as_str()),
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
) -> Result<(), ReadError> {
    for (place, witness) in policy.witnesses().iter().enumerate() {
        let dir = witness_dir(witness.vkey.name());
        let name = quoted(witness.vkey.name().as_str());
        let path = format!("{dir}/checkpoint");
        match read_part(bundle, &path, MAX_NOTE_BYTES)? {
            None => known.not_checked("witness-checkpoint-missing", &[], || {
                [
                    format!("the bundle holds no checkpoint fetched from witness {name}"),
                    String::from("whether that witness saw a newer or another head"),
                    String::from("fetch again while the witness answers, or take it out of the policy"),
                ]
            }),
            Some(bytes) => {
                match SignedCheckpoint::parse(&bytes).and_then(|checkpoint| checkpoint.verify(log)) {
                    Ok(checkpoint) => {
                        known.checked();
                        if checkpoint.note().signatures_by(&witness.vkey).next().is_none() {
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
                        heads.learn(KnownHead { checkpoint, found_in });
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
            }
        }
        let newest = cosignatures.good.iter().filter(|cosigned| cosigned.witness == place);
        let newest = newest.max_by_key(|cosigned| (cosigned.timestamp_s, cosigned.size));
        read_journal(bundle, paths, &dir, &witness.vkey, policy, log, newest, heads, known)?;
    }
    Ok(())
}

/// Reads one witness's journal: a tiled log of its own, of whose lines only heads that the log signed are used.
///
/// ```text
/// {"time":…,"origin":"<log>","outcome":"…","checkpoint":"<signed note>",…}
/// ```
///
/// A witness journals what it cosigns before anybody gets the cosignature, and the journal is fetched after it. So a
/// journal without `newest`, the newest head that the witness cosigned, is an old one, and what the witness saw since
/// is not in it: an old journal of a witness is as genuine as its newest.
#[allow(clippy::too_many_arguments)] // One pass over one journal; a struct for its arguments would be used once.
fn read_journal(
    bundle: &dyn BundleSource,
    paths: &[String],
    dir: &str,
    witness: &VerifierKey,
    policy: &Policy,
    log: &VerifierKey,
    newest: Option<&Cosigned>,
    heads: &mut Heads,
    known: &mut CheckBuilder,
) -> Result<(), ReadError> {
    let prefix = format!("{dir}/journal/");
    let name = quoted(witness.name().as_str());
    let Some(bytes) = read_part(bundle, &format!("{prefix}checkpoint"), MAX_NOTE_BYTES)? else {
        known.not_checked("journal-missing", &[], || {
            [
                format!("the bundle holds no journal of witness {name}"),
                String::from("whether that witness fetched a head that the log's own list leaves out"),
                String::from("fetch again while the witness answers, or take it out of the policy"),
            ]
        });
        return Ok(());
    };
    let size = match trusted_journal(&bytes, witness, policy) {
        Ok(checkpoint) => checkpoint,
        Err(why) => {
            known.not_checked("journal-unusable", &[], || {
                [
                    format!("the journal of witness {name} cannot be relied on: {why}"),
                    String::from("that nothing was cut from it"),
                    String::from(
                        "have the witness cosign its journal, or add the journal's vkey to the policy as a log",
                    ),
                ]
            });
            match SignedCheckpoint::parse(&bytes) {
                Ok(checkpoint) => checkpoint.claimed().clone(),
                Err(_) => return Ok(()),
            }
        }
    };
    let resources = Resources::below(&prefix, paths);
    let found_in = format!("the journal of witness {name}");
    let mut lines = 0;
    let mut unreadable = 0;
    let mut reach = Reach::default();
    let replayed = resources.replay(bundle, size.size.0, &[size.size.0], &mut |entries| {
        for entry in entries {
            lines += 1;
            match std::str::from_utf8(&entry.bytes).ok().and_then(|text| ijson::parse_object(text).ok()) {
                None => unreadable += 1,
                Some(line) => {
                    reach.follow(&line, log, newest);
                    learn_heads(line.values(), log, heads, &found_in, entry.index);
                }
            }
        }
        Ok(())
    })?;
    known.checked();
    let whole = replayed.roots.get(&size.size.0) == Some(&size.root);
    if !whole || replayed.wrong_pages.count > 0 {
        known.fail("journal-root-mismatch", &[], || {
            [
                format!("the {} lines of the journal of witness {name} in the bundle are not those its checkpoint of {} lines was made over", replayed.entries, size.size.0),
                String::from("who cut or changed them: the witness, or whoever made the bundle"),
                String::from("fetch the journal from the witness itself"),
            ]
        });
    }
    if let Some(newest) = newest.filter(|newest| !reach.reaches(newest)) {
        known.not_checked("journal-behind", &[], || {
            [
                format!(
                    "the journal of witness {name} ends before the head of size {} that the witness cosigned at {}",
                    newest.size,
                    show_time_s(newest.timestamp_s)
                ),
                String::from(
                    "what the witness saw since; nor who left it out: an old journal is as genuine as the newest",
                ),
                String::from("fetch the journal from the witness itself"),
            ]
        });
    }
    if replayed.tiles.different.count + replayed.tiles.missing.count > 0 {
        known.not_checked("journal-tiles", &[], || {
            [
                format!(
                    "tiles of the journal of witness {name} are missing or differ from its lines: {} {}",
                    replayed.tiles.missing.show(),
                    replayed.tiles.different.show()
                ),
                String::from("that the bundle is as the witness serves it"),
                String::from("fetch the journal from the witness itself"),
            ]
        });
    }
    if unreadable > 0 {
        known.not_checked("journal-line-unreadable", &[], || {
            [
                format!("{unreadable} of {lines} lines of the journal of witness {name} are no JSON objects"),
                String::from("what the witness saw at those times"),
                String::from("ask the witness's operator which version wrote them"),
            ]
        });
    }
    Ok(())
}

/// How far a journal reaches.
#[derive(Default)]
struct Reach {
    /// The latest time of a line about the log, milliseconds by the witness's clock.
    until_ms: u64,
    /// Whether it holds the newest head that the witness cosigned.
    holds_newest: bool,
}

impl Reach {
    fn follow(&mut self, line: &Map<String, Value>, log: &VerifierKey, newest: Option<&Cosigned>) {
        if line.get("origin").and_then(Value::as_str) != Some(log.name().as_str()) {
            return;
        }
        let times = ["time", "until"].into_iter().filter_map(|name| line.get(name)?.as_u64());
        self.until_ms = times.fold(self.until_ms, u64::max);
        let Some(newest) = newest.filter(|_| !self.holds_newest) else { return };
        let head = line.get("checkpoint").and_then(Value::as_str);
        let head = head.and_then(|text| SignedCheckpoint::parse(text.as_bytes()).ok());
        self.holds_newest =
            head.is_some_and(|head| (head.claimed().size.0, head.claimed().root) == (newest.size, newest.root));
    }

    fn reaches(&self, newest: &Cosigned) -> bool {
        self.holds_newest && newest.timestamp_s.saturating_mul(1000) <= self.until_ms.saturating_add(JOURNAL_LAG_MS)
    }
}

/// Learns every head in a journal line that the log signed, whichever member carries it.
fn learn_heads<'line>(
    members: impl Iterator<Item = &'line Value>,
    log: &VerifierKey,
    heads: &mut Heads,
    found_in: &str,
    line: u64,
) {
    for text in members.filter_map(Value::as_str) {
        let Ok(parsed) = SignedCheckpoint::parse(text.as_bytes()) else { continue };
        let claimed = parsed.claimed();
        if claimed.origin != *log.name() {
            continue;
        }
        if heads.lists(claimed.size.0, claimed.root) {
            // The list has it under a good signature; this copy adds nothing.
            heads.others += 1;
            heads.largest_other = heads.largest_other.max(claimed.size.0);
        } else if let Ok(checkpoint) = parsed.verify(log) {
            heads.learn(KnownHead { checkpoint, found_in: format!("line {line} of {found_in}") });
        }
    }
}

/// The journal's head, if it is the witness's word: cosigned by the witness's own key, or signed by a key that the
/// policy lists as a log under the journal's origin.
fn trusted_journal(bytes: &[u8], witness: &VerifierKey, policy: &Policy) -> Result<note::Checkpoint, String> {
    let origin = format!("{}/journal", witness.name().as_str());
    let parsed = SignedCheckpoint::parse(bytes).map_err(|error| plain(&error.to_string()))?;
    if parsed.claimed().origin.as_str() != origin {
        return Err(format!("its origin is {}, not {}", quoted(parsed.claimed().origin.as_str()), quoted(&origin)));
    }
    let lines = verified_cosignatures(parsed.note(), std::slice::from_ref(witness));
    if let Some(bad) = lines.iter().find_map(|line| line.as_ref().err()) {
        return Err(format!("the witness's line on it is bad: {}", bad.reason));
    }
    match policy.logs().iter().find(|log| log.vkey.name().as_str() == origin) {
        Some(pinned) => {
            let verified = parsed.verify(&pinned.vkey).map_err(|error| plain(&error.to_string()))?;
            Ok(verified.checkpoint().clone())
        }
        None if lines.is_empty() => Err(String::from(
            "its key is not pinned: the policy lists no log of that name, and the witness did not cosign it",
        )),
        None => Ok(parsed.claimed().clone()),
    }
}
