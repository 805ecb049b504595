//! A witness's journal: a tiled log of its own, of what it saw and when.
//!
//! ```text
//! {"time":…,"until":…,"count":…,"origin":"<log>","outcome":"…","size":…,"root":"…","checkpoint":"<signed note>","cosigned_at":…,…}
//! ```
//!
//! Holds reading one, and documents made from its lines. Heads in it are believed for the log's own signature on them.
//! Times, counts and outcomes are the witness's word, and are taken only from a journal that it vouches for.

use crate::amount::amount;
use crate::bundle::{BundleSource, MAX_NOTE_BYTES, ReadError, read_part};
use crate::completeness::JournalState;
use crate::heads::{Heads, KnownHead, Source};
use crate::judge::read_entry;
use crate::quote::{plain, quoted, witness_name};
use crate::time::{show_duration, show_time_s};
use crate::tree::Resources;
use crate::verdict::CheckBuilder;
use crate::watch::{Cosigning, MAX_TIMES, Watch};
use crate::witnesses::Cosigned;
use cosign::OmittedHead;
use merkle::{LeafIndex, tiles_for_inclusion};
use note::{Checkpoint, Policy, SignedCheckpoint, VerifierKey, verified_cosignatures};
use receipt::ijson;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How far a journal may lag behind its witness's own cosignature: a minute of unchanged polls is folded into one
/// line, written when the minute is over; with room for a slow fetch.
pub(crate) const JOURNAL_LAG_MS: u64 = 5 * 60_000;

/// Outcomes that an honest log never brings about.
const ALARMS: [&str; 4] = ["fork", "inadmissible", "refused", "bad-empty-root"];

/// Most kinds of outcomes told apart. There are 13.
const MAX_OUTCOMES: usize = 32;

/// Longest word of an outcome. The longest there is has 17 bytes.
const MAX_OUTCOME_LEN: usize = 32;

/// Most journals of other witnesses that one tells of. A witness has a few peers.
const MAX_PEERS: usize = 1000;

/// What follows a witness's name in the name of its journal.
const SUFFIX: &str = "/journal";

/// A journal in a bundle that its witness vouches for, to make documents from.
#[derive(Debug)]
pub(crate) struct Journal {
    resources: Resources,
    head: SignedCheckpoint,
    /// The key that vouches for it.
    vouching: VerifierKey,
}

/// Where a journal ends, and where it says that others did.
#[derive(Debug, Default)]
pub(crate) struct JournalEnd {
    pub(crate) size: u64,
    /// The latest time of a line, milliseconds by the witness's clock.
    pub(crate) until_ms: u64,
    /// By the name of another witness: the largest size of its journal, and when that was seen.
    pub(crate) peers: BTreeMap<String, (u64, u64)>,
}

/// One pass over one witness's journal, and all that learns from it.
pub(crate) struct JournalReading<'pass> {
    pub(crate) bundle: &'pass dyn BundleSource,
    pub(crate) paths: &'pass [String],
    pub(crate) policy: &'pass Policy,
    pub(crate) log: &'pass VerifierKey,
    /// Which witness.
    pub(crate) number: usize,
    pub(crate) watch: &'pass mut Watch,
    pub(crate) heads: &'pass mut Heads,
    pub(crate) known: &'pass mut CheckBuilder,
}

impl JournalReading<'_> {
    /// Reads the journal below `dir`. `keys` are those that the witness vouches for it with.
    ///
    /// A witness journals what it cosigns before anybody gets the cosignature, and the journal is fetched after it. So a
    /// journal without `newest`, the newest head that the witness cosigned, is an old one, and what the witness saw
    /// since is not in it: an old journal of a witness is as genuine as its newest.
    pub(crate) fn read(
        &mut self,
        dir: &str,
        keys: &[VerifierKey],
        newest: Option<&Cosigned>,
    ) -> Result<Option<(Journal, JournalEnd)>, ReadError> {
        let prefix = format!("{dir}/journal/");
        let name = quoted(keys[0].name().as_str());
        let Some(bytes) = read_part(self.bundle, &format!("{prefix}checkpoint"), MAX_NOTE_BYTES)? else {
            self.known.not_checked("journal-missing", &[], || {
                [
                    format!("the bundle holds no journal of witness {name}"),
                    String::from("whether that witness fetched a head that the log's own list leaves out"),
                    String::from("fetch again while the witness answers, or take it out of the policy"),
                ]
            });
            return Ok(None);
        };
        self.watch.journal = JournalState::Unreadable;
        let (head, vouching) = match trusted_journal(&bytes, keys, self.policy) {
            Ok((head, vouching)) => (head, Some(vouching)),
            Err(why) => {
                self.known.not_checked("journal-unusable", &[], || {
                    [
                        format!("the journal of witness {name} cannot be relied on: {why}"),
                        String::from("that nothing was cut from it"),
                        String::from(
                            "have the witness cosign its journal, or add the journal's vkey to the policy as a log",
                        ),
                    ]
                });
                match SignedCheckpoint::parse(&bytes) {
                    Ok(head) => (head, None),
                    Err(_) => return Ok(None),
                }
            }
        };
        let (size, root) = (head.claimed().size.0, head.claimed().root);
        let resources = Resources::below(&prefix, self.paths);
        let found_in = format!("the journal of witness {name}");
        let mut lines = Lines::default();
        let replayed = resources.replay(self.bundle, size, &[size], &mut |index, entry| {
            lines.read += 1;
            match std::str::from_utf8(entry).ok().and_then(|text| ijson::parse_object(text).ok()) {
                None => lines.unreadable += 1,
                Some(line) => {
                    lines.follow(&line, self.log, newest);
                    self.learn_heads(line.values(), &found_in, index);
                }
            }
        })?;
        self.known.checked();
        self.watch.journal_lines = lines.read;
        let whole = replayed.roots.get(&size) == Some(&root) && replayed.wrong_pages.count == 0;
        if !whole {
            self.known.fail("journal-root-mismatch", &[], || {
                [
                    format!("the journal of witness {name} in the bundle, of {}, is not what its checkpoint of {} was made over", amount(replayed.entries, "line", "lines"), amount(size, "line", "lines")),
                    String::from("who cut or changed them: the witness, or whoever made the bundle"),
                    String::from("fetch the journal from the witness itself"),
                ]
            });
        }
        if let Some(newest) = newest.filter(|newest| !lines.reach_to(newest)) {
            self.known.not_checked("journal-behind", &[], || {
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
            self.known.not_checked("journal-tiles", &[], || {
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
        if replayed.tiles.beyond.count > 0 {
            self.known.notice("tile-beyond", &[], || {
                [
                    format!(
                        "pages and tiles of the journal of witness {name} reach beyond its checkpoint: {}",
                        replayed.tiles.beyond.show()
                    ),
                    String::from(
                        "anything that only they hold: no head in the bundle covers it, and nobody looked at it",
                    ),
                    String::from("nothing to do"),
                ]
            });
        }
        if lines.unreadable > 0 {
            self.known.not_checked("journal-line-unreadable", &[], || {
                [
                    format!(
                        "{} of {} lines of the journal of witness {name} are no JSON objects",
                        lines.unreadable, lines.read
                    ),
                    String::from("what the witness saw at those times"),
                    String::from("ask the witness's operator which version wrote them"),
                ]
            });
        }
        if lines.times_back > 0 {
            self.known.notice("journal-time-back", &[], || {
                [
                    format!(
                        "the times in the journal of witness {name} go back in {}, by {} at most",
                        amount(lines.times_back, "line", "lines"),
                        show_duration(lines.most_back_ms)
                    ),
                    String::from("that a line is false: the witness's clock was set back; the lines stand in the order in which they were written"),
                    String::from("ask the witness's operator; rely on its times no closer than that"),
                ]
            });
        }
        let Some(vouching) = vouching.filter(|_| whole) else { return Ok(None) };
        self.watch.journal = JournalState::Read;
        for outcome in ALARMS {
            let Some(count) = lines.outcomes.get(outcome) else { continue };
            self.known.notice("journal-alarm", &[], || {
                [
                    format!(
                        "the journal of witness {name} tells of {} at this log with the outcome {outcome}",
                        amount(*count, "look", "looks")
                    ),
                    String::from("what the witness met: this is its word, and what of it can be proven is told by other findings"),
                    String::from("ask the witness for its evidence, at /evidence/ below its address"),
                ]
            });
        }
        self.watch.outcomes = lines.outcomes;
        for cosigning in lines.cosigned {
            self.watch.cosigned(cosigning);
        }
        let end = JournalEnd { size, until_ms: lines.until_ms, peers: lines.peers };
        Ok(Some((Journal { resources, head, vouching }, end)))
    }

    /// Learns every head in a journal line that the log signed, whichever member carries it. One that stands in the log's
    /// list under a good signature tells nothing new, and is not verified again.
    fn learn_heads<'line>(&mut self, members: impl Iterator<Item = &'line Value>, found_in: &str, line: u64) {
        for text in members.filter_map(Value::as_str) {
            let Some(claimed) = claimed(text).filter(|claimed| claimed.origin == *self.log.name()) else { continue };
            let (size, root, source) = (claimed.size.0, claimed.root, Source::Journal(self.number, line));
            if !self.heads.knows(size, root, source) {
                let verified = SignedCheckpoint::parse(text.as_bytes()).and_then(|head| head.verify(self.log));
                let Ok(checkpoint) = verified else { continue };
                self.heads.learn(KnownHead::new(checkpoint, format!("line {line} of {found_in}"), source));
            }
            self.watch.saw(size, root);
        }
    }
}

impl Journal {
    /// A document about the head that a line holds, if the bundle has what it takes.
    pub(crate) fn omitted_head(
        &self,
        bundle: &dyn BundleSource,
        log: &VerifierKey,
        line: LeafIndex,
    ) -> Result<Option<OmittedHead>, ReadError> {
        let size = self.head.claimed().size;
        let Some(entry) = read_entry(bundle, &self.resources, size.0, line)? else { return Ok(None) };
        let tiles = self.resources.read_tiles(bundle, tiles_for_inclusion(line, size))?;
        let text = String::from_utf8_lossy(&entry);
        Ok(OmittedHead::make(log, &self.vouching, &self.head, line, &text, &tiles).ok())
    }
}

/// What a text says if it is a signed checkpoint: cheaply, its signatures are not looked at.
fn claimed(text: &str) -> Option<Checkpoint> {
    let end = text.rfind("\n\n")?;
    Checkpoint::parse(text.get(..=end)?).ok()
}

/// What the lines say besides heads.
#[derive(Default)]
struct Lines {
    read: u64,
    unreadable: u64,
    /// The latest time of a line, milliseconds by the witness's clock, and of one about the log.
    until_ms: u64,
    log_until_ms: u64,
    /// Whether it holds the newest head that the witness cosigned.
    holds_newest: bool,
    /// Lines whose time is earlier than one before them by more than folding explains.
    times_back: u64,
    most_back_ms: u64,
    outcomes: BTreeMap<String, u64>,
    cosigned: Vec<Cosigning>,
    peers: BTreeMap<String, (u64, u64)>,
}

impl Lines {
    fn follow(&mut self, line: &Map<String, Value>, log: &VerifierKey, newest: Option<&Cosigned>) {
        let number = |name: &str| line.get(name).and_then(Value::as_u64);
        let text = |name: &str| line.get(name).and_then(Value::as_str);
        let Some(origin) = text("origin") else { return };
        let (time_ms, until_ms) = (number("time").unwrap_or(0), number("until"));
        let until_ms = until_ms.map_or(time_ms, |until| until.max(time_ms));
        let back_ms = self.until_ms.saturating_sub(until_ms);
        if back_ms > JOURNAL_LAG_MS {
            self.times_back += 1;
            self.most_back_ms = self.most_back_ms.max(back_ms);
        }
        self.until_ms = self.until_ms.max(until_ms);
        let head = text("checkpoint").and_then(claimed).map(|head| (head.size.0, head.root));
        let size = number("size").or(head.map(|(size, _)| size));
        if origin != log.name().as_str() {
            if let (Some(peer), Some(size), None) = (origin.strip_suffix(SUFFIX), size, text("peer"))
                && (self.peers.len() < MAX_PEERS || self.peers.contains_key(peer))
            {
                let seen = self.peers.entry(peer.to_owned()).or_default();
                *seen = (*seen).max((size, until_ms));
            }
            return;
        }
        self.log_until_ms = self.log_until_ms.max(until_ms);
        if let Some(newest) = newest {
            self.holds_newest |= head == Some((newest.size, newest.root));
        }
        let count = number("count").unwrap_or(1);
        let outcome = text("outcome")
            .filter(|outcome| outcome.len() <= MAX_OUTCOME_LEN)
            .map_or_else(|| String::from("other"), plain);
        let is_full = self.outcomes.len() >= MAX_OUTCOMES && !self.outcomes.contains_key(&outcome);
        let outcome = if is_full { String::from("other") } else { outcome };
        if matches!(outcome.as_str(), "cosigned" | "unchanged") && text("peer").is_none() {
            // Where the clock went back, the cosignature has a later time than the look.
            let to_s = number("cosigned_at").unwrap_or(until_ms / 1000);
            let from_s = if line.contains_key("cosigned_at") { to_s } else { time_ms / 1000 };
            // One more than are kept, so that it is known that there are more.
            if self.cosigned.len() <= MAX_TIMES {
                self.cosigned.push(Cosigning { from_s, to_s, size: size.unwrap_or(0), count });
            }
        }
        let seen = self.outcomes.entry(outcome).or_insert(0);
        *seen = seen.saturating_add(count);
    }

    fn reach_to(&self, newest: &Cosigned) -> bool {
        self.holds_newest && newest.timestamp_s.saturating_mul(1000) <= self.log_until_ms.saturating_add(JOURNAL_LAG_MS)
    }
}

/// The journal's head and the key that makes it the witness's word: one of the witness's own keys, each of which cosigned
/// it, or one that the policy lists as a log under the journal's origin, which signed it.
fn trusted_journal(
    bytes: &[u8],
    keys: &[VerifierKey],
    policy: &Policy,
) -> Result<(SignedCheckpoint, VerifierKey), String> {
    let origin = format!("{}{SUFFIX}", keys[0].name().as_str());
    let parsed = SignedCheckpoint::parse(bytes).map_err(|error| plain(&error.to_string()))?;
    if parsed.claimed().origin.as_str() != origin {
        return Err(format!("its origin is {}, not {}", quoted(parsed.claimed().origin.as_str()), quoted(&origin)));
    }
    let lines = verified_cosignatures(parsed.note(), keys);
    let silent = |place: &usize| !lines.iter().any(|line| line.as_ref().is_ok_and(|(by, _)| by == place));
    if let Some(bad) = lines.iter().find_map(|line| line.as_ref().err()) {
        return Err(format!("the witness's line on it is bad: {}", bad.reason));
    }
    match policy.logs().iter().find(|log| log.vkey.name().as_str() == origin) {
        Some(pinned) => {
            let verified = parsed.verify(&pinned.vkey).map_err(|error| plain(&error.to_string()))?;
            Ok((verified.into_unverified(), pinned.vkey.clone()))
        }
        None => match (0..keys.len()).find(silent) {
            Some(place) => Err(format!(
                "its key is not pinned: the policy lists no log of that name, and the witness {} did not cosign it",
                witness_name(&keys[place])
            )),
            None => Ok((parsed, keys[0].clone())),
        },
    }
}
