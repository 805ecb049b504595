//! Policies: which logs and witnesses somebody trusts, and how many witnesses it takes (tlog-policy).
//!
//! ```text
//! # comment
//! log <vkey> [<url>]
//! witness <name> <vkey> [<url>]
//! group <name> all|any|<k> <member>...
//! quorum <name>|none
//! ```
//!
//! Holds the file format, all of it, and the question whether a set of cosigners satisfies the quorum. Does not
//! hold the arithmetic over quorums (`quorum`) nor the check of a checkpoint (`proof`).
//!
//! A policy is octets, not text: names are compared byte for byte and never interpreted. This module's parser is
//! the one that accepts more than a printer prints (comments, blanks, `all` for a number), because people write the file.

use crate::key::{KeyError, KeyKind, PRIVATE_PREFIX, VerifierKey};
use crate::name::KeyName;
use crate::quorum::{Member, QuorumTree, Tolerance};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

/// Largest policy file in bytes. 256 logs, witnesses and groups with names of 255 bytes, ML-DSA-44 vkeys of 2,017 for
/// the witnesses, vkeys of 310 for the logs and URLs of 512 make 1.2 MB; the rest is for comments.
pub const MAX_POLICY_LEN: usize = 1 << 21;

/// Most logs, most witnesses, most groups. tlog-policy strongly recommends at least 32 of each.
pub const MAX_OF_EACH: usize = 256;

/// The name of a witness or group inside one policy file: opaque octets, meaningless elsewhere.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyName(Vec<u8>);

/// A log whose heads the policy accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyLog {
    /// Its key, of type `0x01`; the name is the log's origin.
    pub vkey: VerifierKey,
    /// Where to reach it. Octets that are not UTF-8 are percent-encoded.
    pub url: Option<String>,
}

/// A key of a witness that the policy knows. Keys of one key name are one witness (`Policy::witness_names`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWitness {
    /// What groups and the quorum call it.
    pub name: PolicyName,
    /// Its key, of type `0x04` or `0x06`. A witness that cosigns with both has a line for each; a group over the two
    /// says whether either is enough or both are asked for.
    pub vkey: VerifierKey,
    /// Where to reach it. Octets that are not UTF-8 are percent-encoded.
    pub url: Option<String>,
}

/// A group: satisfied when `threshold` of its members are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyGroup {
    /// What other groups and the quorum call it.
    pub name: PolicyName,
    /// How many members it takes: 1 to their number.
    pub threshold: usize,
    /// Witnesses, and groups of lower place.
    pub members: Vec<Member>,
}

/// A policy. Every reference in it resolves, no key is listed twice, and no name is a member twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    logs: Vec<PolicyLog>,
    witnesses: Vec<PolicyWitness>,
    groups: Vec<PolicyGroup>,
    quorum: Option<Member>,
}

/// Why octets are no policy, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy line {line}: {kind}")]
pub struct PolicyError {
    /// The line at fault, counted from 1; the last line where the whole file is at fault.
    pub line: usize,
    /// What is wrong with it.
    pub kind: PolicyErrorKind,
}

/// What is wrong with a line of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyErrorKind {
    /// More than [`MAX_POLICY_LEN`] bytes.
    #[error("the file is longer than {MAX_POLICY_LEN} bytes; shorten its comments or split the policy")]
    FileTooLong,
    /// More than [`MAX_OF_EACH`] of one kind.
    #[error("more than {MAX_OF_EACH} {0} lines; remove those that no quorum needs")]
    TooMany(&'static str),
    /// The last line does not end: the file may have been cut short, and a shorter name can be another name.
    #[error("the last line does not end in a newline; check that the file is whole, then add one")]
    Unterminated,
    /// A control character other than tab and newline.
    #[error(
        "byte {0:#04x} is not allowed, only tabs and newlines are; save the file as plain text with Unix line ends"
    )]
    Control(u8),
    /// A first word that is no keyword.
    #[error("unknown keyword {0}; a line starts with log, witness, group, quorum or #")]
    Keyword(PolicyName),
    /// Words missing.
    #[error("incomplete; it must read \"{0}\"")]
    TooFewWords(&'static str),
    /// Words too many.
    #[error("{1} is one word too many; it must read \"{0}\"")]
    TooManyWords(&'static str, PolicyName),
    /// A vkey that is none.
    #[error("bad vkey: {0}")]
    Key(KeyError),
    /// A vkey of a type that cannot do this job.
    #[error(
        "a {role} needs a key of type {wanted}, this one is of type {found:#04x}; copy the vkey that the {role} itself prints"
    )]
    KeyKind {
        /// `log` or `witness`.
        role: &'static str,
        /// The type bytes it may have.
        wanted: &'static str,
        /// The type byte it has.
        found: u8,
    },
    /// The same public key, under this name or another.
    #[error("this public key is already listed on line {0}, whatever its name; remove one of the two")]
    DuplicateKey(usize),
    /// A name defined twice.
    #[error("the name {0} is already defined; names of witnesses and groups must differ")]
    DuplicateName(PolicyName),
    /// `none` has a meaning of its own.
    #[error("the name none is reserved for \"quorum none\"; choose another")]
    ReservedName,
    /// A threshold that is no number, or outside 1..=n.
    #[error("the threshold {found} is not all, any or a number from 1 to the {members} members listed")]
    Threshold {
        /// The word found.
        found: PolicyName,
        /// How many members follow it.
        members: usize,
    },
    /// A name that no earlier line defines.
    #[error("{0} is not defined on an earlier line; define it first")]
    Undefined(PolicyName),
    /// `none` inside a group.
    #[error("none cannot be a member of a group; only a quorum line may say none")]
    NoneAsMember,
    /// A name that is a member already: it would count twice.
    #[error("{0} is already a member of a group; each name may be a member once, so that nobody counts twice")]
    MemberTwice(PolicyName),
    /// A second quorum line.
    #[error("the quorum is already defined on line {0}; keep one quorum line")]
    SecondQuorum(usize),
    /// No quorum line in the whole file.
    #[error("no quorum line in the file; add \"quorum <name>\", or \"quorum none\" if no witness is required")]
    NoQuorum,
}

impl PolicyErrorKind {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::FileTooLong => "policy-too-long",
            Self::TooMany(_) => "policy-too-many",
            Self::Unterminated => "policy-unterminated",
            Self::Control(_) => "policy-control",
            Self::Keyword(_) => "policy-keyword",
            Self::TooFewWords(_) => "policy-too-few-words",
            Self::TooManyWords(..) => "policy-too-many-words",
            Self::Key(error) => error.code(),
            Self::KeyKind { .. } => "policy-key-kind",
            Self::DuplicateKey(_) => "policy-duplicate-key",
            Self::DuplicateName(_) => "policy-duplicate-name",
            Self::ReservedName => "policy-reserved-name",
            Self::Threshold { .. } => "policy-threshold",
            Self::Undefined(_) => "policy-undefined",
            Self::NoneAsMember => "policy-none-as-member",
            Self::MemberTwice(_) => "policy-member-twice",
            Self::SecondQuorum(_) => "policy-second-quorum",
            Self::NoQuorum => "policy-no-quorum",
        }
    }
}

impl Policy {
    /// Reads a policy file (tlog-policy, Policy file syntax and structure).
    pub fn parse(octets: &[u8]) -> Result<Policy, PolicyError> {
        if octets.len() > MAX_POLICY_LEN {
            let line = octets[..MAX_POLICY_LEN].iter().filter(|octet| **octet == b'\n').count() + 1;
            return Err(PolicyError { line, kind: PolicyErrorKind::FileTooLong });
        }
        let mut reader = Reader::default();
        for line in octets.split_inclusive(|octet| *octet == b'\n') {
            reader.line += 1;
            let kind = match line.split_last() {
                Some((b'\n', line)) => match reader.read(line) {
                    Ok(()) => continue,
                    Err(kind) => kind,
                },
                _ => PolicyErrorKind::Unterminated,
            };
            return Err(PolicyError { line: reader.line, kind });
        }
        let Some((_, quorum)) = reader.quorum else {
            return Err(PolicyError { line: reader.line.max(1), kind: PolicyErrorKind::NoQuorum });
        };
        Ok(Policy { logs: reader.logs, witnesses: reader.witnesses, groups: reader.groups, quorum })
    }

    /// The logs, in file order. Any of them is accepted. May be empty where the log is known from elsewhere.
    pub fn logs(&self) -> &[PolicyLog] {
        &self.logs
    }

    /// The witnesses, in file order; their places are what `satisfied_by` and groups speak of.
    pub fn witnesses(&self) -> &[PolicyWitness] {
        &self.witnesses
    }

    /// The groups, in file order.
    pub fn groups(&self) -> &[PolicyGroup] {
        &self.groups
    }

    /// What must be satisfied; `None` is `quorum none`.
    pub fn quorum(&self) -> Option<Member> {
        self.quorum
    }

    /// Whether the witnesses at these places, together, satisfy the quorum.
    pub fn satisfied_by(&self, cosigners: &BTreeSet<usize>) -> bool {
        self.tree().satisfied_by(cosigners)
    }

    /// The names of the witnesses' keys. Keys of one name are one witness: whoever holds one of them holds all.
    pub fn witness_names(&self) -> BTreeSet<&KeyName> {
        self.witnesses.iter().map(|witness| witness.vkey.name()).collect()
    }

    /// What the quorum needs and survives, counted in witnesses, not keys.
    pub fn tolerance(&self) -> Tolerance {
        let mut first_of: HashMap<&KeyName, usize> = HashMap::new();
        let keys = self.witnesses.iter().enumerate();
        let witness_of: Vec<usize> =
            keys.map(|(place, key)| *first_of.entry(key.vkey.name()).or_insert(place)).collect();
        self.tree().tolerance(&witness_of)
    }

    /// The policy as a file again, without comments, thresholds as numbers.
    pub fn to_octets(&self) -> Vec<u8> {
        let mut file = Vec::new();
        for log in &self.logs {
            file.extend_from_slice(format!("log {}", log.vkey).as_bytes());
            end_line(&mut file, log.url.as_deref());
        }
        for witness in &self.witnesses {
            file.extend_from_slice(b"witness ");
            file.extend_from_slice(&witness.name.0);
            file.extend_from_slice(format!(" {}", witness.vkey).as_bytes());
            end_line(&mut file, witness.url.as_deref());
        }
        for group in &self.groups {
            file.extend_from_slice(b"group ");
            file.extend_from_slice(&group.name.0);
            file.extend_from_slice(format!(" {}", group.threshold).as_bytes());
            for member in &group.members {
                file.push(b' ');
                file.extend_from_slice(&self.name_of(*member).0);
            }
            end_line(&mut file, None);
        }
        file.extend_from_slice(b"quorum ");
        file.extend_from_slice(self.quorum.map_or(NONE, |member| &self.name_of(member).0));
        end_line(&mut file, None);
        file
    }

    /// The name of a witness or group of this policy.
    pub fn name_of(&self, member: Member) -> &PolicyName {
        match member {
            Member::Witness(place) => &self.witnesses[place].name,
            Member::Group(place) => &self.groups[place].name,
        }
    }

    fn tree(&self) -> QuorumTree<'_> {
        let groups = self.groups.iter().map(|group| (group.threshold, group.members.as_slice())).collect();
        QuorumTree { groups, quorum: self.quorum }
    }
}

impl PolicyName {
    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What stands for a word in messages that holds a private key: messages end in logs and tickets.
const WITHHELD: &str = "(a private key, not repeated here)";

impl PolicyName {
    /// As text, octets that are not UTF-8 replaced, and whatever may be a private key withheld.
    fn shown(&self) -> Cow<'_, str> {
        match self.0.windows(PRIVATE_PREFIX.len()).any(|part| part == PRIVATE_PREFIX.as_bytes()) {
            true => Cow::Borrowed(WITHHELD),
            false => String::from_utf8_lossy(&self.0),
        }
    }
}

/// As text, octets that are not UTF-8 replaced: for messages, never for comparison. A private key is not repeated.
impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown())
    }
}

const NONE: &[u8] = b"none";
const LOG_FORM: &str = "log <vkey> [<url>]";
const WITNESS_FORM: &str = "witness <name> <vkey> [<url>]";
const GROUP_FORM: &str = "group <name> all|any|<k> <member>...";
const QUORUM_FORM: &str = "quorum <name>|none";

/// A policy half read.
#[derive(Default)]
struct Reader {
    /// The line being read, from 1.
    line: usize,
    logs: Vec<PolicyLog>,
    witnesses: Vec<PolicyWitness>,
    groups: Vec<PolicyGroup>,
    /// Its line and what it asks.
    quorum: Option<(usize, Option<Member>)>,
    defined: HashMap<PolicyName, Member>,
    /// Members of groups so far.
    taken: HashSet<Member>,
    /// Lines of the log keys and of the witness keys so far, by public key.
    log_keys: HashMap<Vec<u8>, usize>,
    witness_keys: HashMap<Vec<u8>, usize>,
}

impl Reader {
    fn read(&mut self, line: &[u8]) -> Result<(), PolicyErrorKind> {
        if let Some(octet) = line.iter().find(|octet| matches!(octet, 0..=8 | 10..=31 | 127)) {
            return Err(PolicyErrorKind::Control(*octet));
        }
        let mut words = line.split(|octet| matches!(octet, b' ' | b'\t')).filter(|word| !word.is_empty());
        let Some(keyword) = words.next() else {
            return Ok(());
        };
        let words: Vec<&[u8]> = words.collect();
        match keyword {
            [b'#', ..] => Ok(()),
            b"log" => self.log(&words),
            b"witness" => self.witness(&words),
            b"group" => self.group(&words),
            b"quorum" => self.quorum(&words),
            _ if keyword.starts_with(PRIVATE_PREFIX.as_bytes()) => Err(PolicyErrorKind::Key(KeyError::PrivateKey)),
            _ => Err(PolicyErrorKind::Keyword(name(keyword))),
        }
    }

    fn log(&mut self, words: &[&[u8]]) -> Result<(), PolicyErrorKind> {
        let (key, url) = match words {
            [] => return Err(PolicyErrorKind::TooFewWords(LOG_FORM)),
            [key] => (key, None),
            [key, url] => (key, Some(url_text(url))),
            [_, _, extra, ..] => return Err(PolicyErrorKind::TooManyWords(LOG_FORM, name(extra))),
        };
        let vkey = vkey(key)?;
        if vkey.kind() != KeyKind::Ed25519 {
            return Err(PolicyErrorKind::KeyKind { role: "log", wanted: "0x01", found: vkey.kind().byte() });
        }
        if let Some(line) = self.log_keys.insert(vkey.public_key_bytes().to_vec(), self.line) {
            return Err(PolicyErrorKind::DuplicateKey(line));
        }
        push_within_limit(&mut self.logs, PolicyLog { vkey, url }, "log")
    }

    fn witness(&mut self, words: &[&[u8]]) -> Result<(), PolicyErrorKind> {
        let (witness, key, url) = match words {
            [] | [_] => return Err(PolicyErrorKind::TooFewWords(WITNESS_FORM)),
            [witness, key] => (witness, key, None),
            [witness, key, url] => (witness, key, Some(url_text(url))),
            [_, _, _, extra, ..] => return Err(PolicyErrorKind::TooManyWords(WITNESS_FORM, name(extra))),
        };
        let name = self.new_name(witness)?;
        let vkey = vkey(key)?;
        if !vkey.kind().cosigns() {
            let found = vkey.kind().byte();
            return Err(PolicyErrorKind::KeyKind { role: "witness", wanted: "0x04 or 0x06", found });
        }
        if let Some(line) = self.witness_keys.insert(vkey.public_key_bytes().to_vec(), self.line) {
            return Err(PolicyErrorKind::DuplicateKey(line));
        }
        self.defined.insert(name.clone(), Member::Witness(self.witnesses.len()));
        push_within_limit(&mut self.witnesses, PolicyWitness { name, vkey, url }, "witness")
    }

    fn group(&mut self, words: &[&[u8]]) -> Result<(), PolicyErrorKind> {
        let [group, threshold, listed @ ..] = words else {
            return Err(PolicyErrorKind::TooFewWords(GROUP_FORM));
        };
        if listed.is_empty() {
            return Err(PolicyErrorKind::TooFewWords(GROUP_FORM));
        }
        let group = self.new_name(group)?;
        let threshold = match *threshold {
            b"any" => 1,
            b"all" => listed.len(),
            number => threshold_number(number, listed.len())?,
        };
        let mut members = Vec::with_capacity(listed.len());
        for listed in listed {
            if *listed == NONE {
                return Err(PolicyErrorKind::NoneAsMember);
            }
            let member = self.resolve(listed)?;
            if !self.taken.insert(member) {
                return Err(PolicyErrorKind::MemberTwice(name(listed)));
            }
            members.push(member);
        }
        // Defined only now: a group cannot be its own member.
        self.defined.insert(group.clone(), Member::Group(self.groups.len()));
        push_within_limit(&mut self.groups, PolicyGroup { name: group, threshold, members }, "group")
    }

    fn quorum(&mut self, words: &[&[u8]]) -> Result<(), PolicyErrorKind> {
        let word = match words {
            [] => return Err(PolicyErrorKind::TooFewWords(QUORUM_FORM)),
            [word] => word,
            [_, extra, ..] => return Err(PolicyErrorKind::TooManyWords(QUORUM_FORM, name(extra))),
        };
        if let Some((line, _)) = self.quorum {
            return Err(PolicyErrorKind::SecondQuorum(line));
        }
        let quorum = if *word == NONE { None } else { Some(self.resolve(word)?) };
        self.quorum = Some((self.line, quorum));
        Ok(())
    }

    fn new_name(&self, word: &[u8]) -> Result<PolicyName, PolicyErrorKind> {
        let name = name(word);
        if word == NONE {
            Err(PolicyErrorKind::ReservedName)
        } else if self.defined.contains_key(&name) {
            Err(PolicyErrorKind::DuplicateName(name))
        } else {
            Ok(name)
        }
    }

    fn resolve(&self, word: &[u8]) -> Result<Member, PolicyErrorKind> {
        let name = name(word);
        self.defined.get(&name).copied().ok_or(PolicyErrorKind::Undefined(name))
    }
}

fn name(word: &[u8]) -> PolicyName {
    PolicyName(word.to_vec())
}

fn vkey(word: &[u8]) -> Result<VerifierKey, PolicyErrorKind> {
    let text = std::str::from_utf8(word).map_err(|_| PolicyErrorKind::Key(KeyError::Shape))?;
    text.parse().map_err(PolicyErrorKind::Key)
}

fn threshold_number(word: &[u8], members: usize) -> Result<usize, PolicyErrorKind> {
    let number = std::str::from_utf8(word).ok().and_then(merkle::decimal::parse_u64);
    let number = number.and_then(|number| usize::try_from(number).ok());
    match number {
        Some(number) if (1..=members).contains(&number) => Ok(number),
        _ => Err(PolicyErrorKind::Threshold { found: name(word), members }),
    }
}

/// A URL as text: octets are opaque to a policy, but whoever fetches needs a `str`, and percent-encoding is how a
/// URL carries an octet that is no character.
fn url_text(word: &[u8]) -> String {
    let mut text = String::new();
    for chunk in word.utf8_chunks() {
        text.push_str(chunk.valid());
        for octet in chunk.invalid() {
            text.push_str(&format!("%{octet:02X}"));
        }
    }
    text
}

fn push_within_limit<T>(list: &mut Vec<T>, item: T, kind: &'static str) -> Result<(), PolicyErrorKind> {
    if list.len() == MAX_OF_EACH {
        return Err(PolicyErrorKind::TooMany(kind));
    }
    list.push(item);
    Ok(())
}

fn end_line(file: &mut Vec<u8>, url: Option<&str>) {
    if let Some(url) = url {
        file.push(b' ');
        file.extend_from_slice(url.as_bytes());
    }
    file.push(b'\n');
}
