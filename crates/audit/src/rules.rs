//! The rule file: which orders of actions are attacks, which resources belong to whom, what a person must approve, and
//! what nobody untrusted may cause.
//!
//! ```toml
//! [[sequence]]
//! code = "R4_SEQUENCE"
//! first = ["IDENTITY_MUTATION"]
//! then = ["CREDENTIAL_RECOVERY"]
//! scope = "subject"                     # or "session", or "resource"
//!
//! [[relation]]
//! subject = "customer:cust_77"
//! resources = ["contact_77", "auth_77"]
//!
//! [[approval]]                          # an action of one of these classes or operations needs a person's yes
//! code = "FOUR_EYES"
//! classes = ["PAYMENT"]
//! operations = ["bank.transfer"]        # either list may be left out, not both
//!
//! [provenance]                          # each list replaces the built-in one
//! classes = ["IDENTITY_MUTATION", "PERMISSION_CHANGE", "OWNERSHIP_CHANGE"]
//! about = ["ownership", "permission"]
//!
//! [[foreign_key]]                       # a key of another system, whose receipts this log carries
//! format = "acta"
//! kid = "key-1"
//! key = "TLWr9q15+/WrvMr8wmnYXNJlHtS4hbWGnyQa7fCluik="
//! ```
//!
//! A sequence rule fires when an allowed action of a class in `then` follows an allowed action of a class in `first`
//! within one scope, however far apart, whichever gate allowed which. Denied calls neither fire nor count as prior.
//! An action on a resource of a relation also touches that relation's subject.
//!
//! Without a file, or with a file that has no `[[sequence]]`, the built-in rule `R4_SEQUENCE` stands at all three
//! scopes; a file with any `[[sequence]]` replaces it. What a file asks for is required: where nothing in the log
//! carries the scope, the check is `not_checked` and the verdict says so.
//!
//! An action that an approval rule names needs, before it is executed, an `approval` member in its decision or an
//! `approval` receipt of its request ([`crate::request`]). There is no built-in approval rule.
//!
//! The provenance classes are the actions that untrusted text must not cause; the words of `about` are what the agent
//! must not remember from untrusted text ([`crate::provenance`]).
//!
//! The keys of other systems are read by [`crate::foreign::PinnedKeys`].
//!
//! Holds the parse. Does not hold the evaluation ([`crate::sequence`]).

use crate::foreign::{JwksTable, KeyTable, PinnedKeys, ReadNamed};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Largest rule file in bytes: sixteen thousand relations of a usual length.
pub const MAX_RULES_LEN: usize = 1 << 20;

/// Most sequence rules: each is evaluated for every action.
pub const MAX_SEQUENCES: usize = 256;

/// Most approval rules: each is looked through for every allowed call.
pub const MAX_APPROVALS: usize = 256;

/// Action classes that untrusted text must not cause, unless the rule file has its own.
pub const PROVENANCE_CLASSES: [&str; 3] = ["IDENTITY_MUTATION", "PERMISSION_CHANGE", "OWNERSHIP_CHANGE"];

/// What the agent must not remember from untrusted text, unless the rule file has its own (protocol 3.5).
pub const PROVENANCE_ABOUT: [&str; 2] = ["ownership", "permission"];

/// Within what two actions belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One conversation.
    Session,
    /// One resource, over all sessions.
    Resource,
    /// One risk object (`customer:77`), over all its resources.
    Subject,
}

impl Scope {
    /// All scopes, narrowest first.
    pub const ALL: [Scope; 3] = [Scope::Session, Scope::Resource, Scope::Subject];

    /// As the rule file writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Session => "session",
            Scope::Resource => "resource",
            Scope::Subject => "subject",
        }
    }
}

/// One order of actions that is an attack.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceRule {
    /// The rule's name in checks and findings.
    pub code: String,
    /// Action classes that prepare.
    pub first: Vec<String>,
    /// Action classes that complete.
    pub then: Vec<String>,
    /// Within what.
    pub scope: Scope,
}

/// Which actions need a person's yes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// The rule's name in findings.
    pub code: String,
    /// Action classes.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Operations, as decisions write them.
    #[serde(default)]
    pub operations: Vec<String>,
}

/// What untrusted text must not cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenanceRule {
    /// Action classes.
    pub classes: Vec<String>,
    /// What a note must not be about.
    pub about: Vec<String>,
}

/// The rules of one audit.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Sequence rules, each `(code, scope)` once.
    pub sequences: Vec<SequenceRule>,
    /// Approval rules, each code once.
    pub approvals: Vec<ApprovalRule>,
    /// What untrusted text must not cause.
    pub provenance: ProvenanceRule,
    /// Keys of other systems: the only ones under which a carried receipt is believed.
    pub foreign_keys: PinnedKeys,
    /// Whether the auditor's file gave the sequence rules, so that they are required.
    pub from_file: bool,
    subjects_of: HashMap<String, Vec<String>>,
}

/// Why a rule file cannot be used. The auditor is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// Longer than [`MAX_RULES_LEN`].
    #[error("the rule file is longer than {MAX_RULES_LEN} bytes")]
    TooLong,
    /// Not TOML of this shape; the text names line and member.
    #[error("rule file: {0}")]
    Format(String),
    /// More than [`MAX_SEQUENCES`].
    #[error("the rule file has more than {MAX_SEQUENCES} sequence rules")]
    TooManySequences,
    /// A code that is empty or holds more than letters, digits, `-`, `_` and `.`.
    #[error("sequence {0}: write the code with letters, digits, '-', '_' and '.' only")]
    Code(usize),
    /// A rule without `first` or `then`.
    #[error("sequence {0}: first and then must each name at least one action class")]
    NoClasses(usize),
    /// The same code at the same scope again.
    #[error("sequence {0}: this code stands at this scope already")]
    Duplicate(usize),
    /// More than [`MAX_APPROVALS`].
    #[error("the rule file has more than {MAX_APPROVALS} approval rules")]
    TooManyApprovals,
    /// A code that is empty, holds more than letters, digits, `-`, `_` and `.`, or stands there already.
    #[error("approval {0}: write a code of its own with letters, digits, '-', '_' and '.' only")]
    ApprovalCode(usize),
    /// An approval rule that names nothing.
    #[error("approval {0}: classes or operations must name at least one")]
    ApprovalOfNothing(usize),
    /// An empty list.
    #[error("provenance: {0} must name at least one, or be left out")]
    ProvenanceOfNothing(&'static str),
    /// A key of another system that cannot be pinned.
    #[error("foreign_key {0}: {1}")]
    ForeignKey(usize, String),
    /// A set of such keys.
    #[error("foreign_jwks {0}: {1}")]
    ForeignJwks(usize, String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    sequence: Vec<SequenceRule>,
    #[serde(default)]
    relation: Vec<Relation>,
    #[serde(default)]
    approval: Vec<ApprovalRule>,
    #[serde(default)]
    provenance: ProvenanceTable,
    #[serde(default)]
    foreign_key: Vec<KeyTable>,
    #[serde(default)]
    foreign_jwks: Vec<JwksTable>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProvenanceTable {
    classes: Option<Vec<String>>,
    about: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Relation {
    subject: String,
    resources: Vec<String>,
}

impl Rules {
    /// The built-in rules, for an audit without a rule file.
    pub fn built_in() -> Rules {
        let sequences = Scope::ALL
            .into_iter()
            .map(|scope| SequenceRule {
                code: String::from("R4_SEQUENCE"),
                first: vec![String::from("IDENTITY_MUTATION")],
                then: vec![String::from("CREDENTIAL_RECOVERY")],
                scope,
            })
            .collect();
        let provenance = ProvenanceRule {
            classes: PROVENANCE_CLASSES.map(String::from).to_vec(),
            about: PROVENANCE_ABOUT.map(String::from).to_vec(),
        };
        Rules {
            sequences,
            approvals: Vec::new(),
            provenance,
            foreign_keys: PinnedKeys::default(),
            from_file: false,
            subjects_of: HashMap::new(),
        }
    }

    /// Reads a rule file that names no other file.
    ///
    /// # Errors
    /// [`RulesError`]; rules of one kind are numbered from 1.
    pub fn parse(text: &str) -> Result<Rules, RulesError> {
        Rules::parse_with(text, &mut |name| {
            Err(format!("the file {name:?} cannot be read here; write its content as jwks"))
        })
    }

    /// Reads a rule file; `read` gives the text of a file that it names (`jwks_file`), or says why it cannot.
    ///
    /// # Errors
    /// [`RulesError`]; rules of one kind are numbered from 1.
    pub fn parse_with(text: &str, read: ReadNamed<'_>) -> Result<Rules, RulesError> {
        if text.len() > MAX_RULES_LEN {
            return Err(RulesError::TooLong);
        }
        let file: RulesFile =
            toml::from_str(text).map_err(|error| RulesError::Format(error.to_string().trim_end().to_owned()))?;
        let mut rules = Rules::built_in();
        if !file.sequence.is_empty() {
            check_sequences(&file.sequence)?;
            rules.sequences = file.sequence;
            rules.from_file = true;
        }
        check_approvals(&file.approval)?;
        rules.approvals = file.approval;
        let ProvenanceTable { classes, about } = file.provenance;
        rules.provenance.classes = named(classes, "classes")?.unwrap_or(rules.provenance.classes);
        rules.provenance.about = named(about, "about")?.unwrap_or(rules.provenance.about);
        for (place, table) in file.foreign_key.into_iter().enumerate() {
            rules.foreign_keys.add_key(table).map_err(|why| RulesError::ForeignKey(place + 1, why))?;
        }
        for (place, table) in file.foreign_jwks.into_iter().enumerate() {
            rules.foreign_keys.add_jwks(table, read).map_err(|why| RulesError::ForeignJwks(place + 1, why))?;
        }
        for relation in file.relation {
            for resource in relation.resources {
                let subjects = rules.subjects_of.entry(resource).or_default();
                if !subjects.contains(&relation.subject) {
                    subjects.push(relation.subject.clone());
                }
            }
        }
        Ok(rules)
    }

    /// One text for each set of rules.
    pub(crate) fn canonical(&self) -> String {
        let subjects: BTreeMap<_, _> = self.subjects_of.iter().collect();
        let (sequences, approvals, provenance) = (&self.sequences, &self.approvals, &self.provenance);
        let (from_file, keys) = (self.from_file, &self.foreign_keys);
        format!("{sequences:?} {approvals:?} {provenance:?} {from_file:?} {subjects:?} {keys:?}")
    }

    /// The subjects that a resource belongs to by the file's relations.
    pub fn subjects_of(&self, resource: &str) -> &[String] {
        self.subjects_of.get(resource).map(Vec::as_slice).unwrap_or_default()
    }
}

fn check_sequences(sequences: &[SequenceRule]) -> Result<(), RulesError> {
    if sequences.len() > MAX_SEQUENCES {
        return Err(RulesError::TooManySequences);
    }
    let mut seen = HashSet::new();
    for (place, rule) in sequences.iter().enumerate() {
        if !is_code(&rule.code) {
            return Err(RulesError::Code(place + 1));
        }
        if rule.first.is_empty() || rule.then.is_empty() {
            return Err(RulesError::NoClasses(place + 1));
        }
        if !seen.insert((&rule.code, rule.scope)) {
            return Err(RulesError::Duplicate(place + 1));
        }
    }
    Ok(())
}

fn check_approvals(approvals: &[ApprovalRule]) -> Result<(), RulesError> {
    if approvals.len() > MAX_APPROVALS {
        return Err(RulesError::TooManyApprovals);
    }
    let mut seen = HashSet::new();
    for (place, rule) in approvals.iter().enumerate() {
        if !is_code(&rule.code) || !seen.insert(&rule.code) {
            return Err(RulesError::ApprovalCode(place + 1));
        }
        if rule.classes.is_empty() && rule.operations.is_empty() {
            return Err(RulesError::ApprovalOfNothing(place + 1));
        }
    }
    Ok(())
}

fn is_code(code: &str) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    !code.is_empty() && code.chars().all(is_word)
}

fn named(list: Option<Vec<String>>, member: &'static str) -> Result<Option<Vec<String>>, RulesError> {
    match list {
        Some(list) if list.is_empty() => Err(RulesError::ProvenanceOfNothing(member)),
        list => Ok(list),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const RULE: &str = "[[sequence]]\ncode = \"R4_SEQUENCE\"\nfirst = [\"A\"]\nthen = [\"B\"]\nscope = \"subject\"\n";

    #[test]
    fn a_file_with_a_sequence_replaces_the_built_in_rule() {
        let rules = Rules::parse(RULE).unwrap();
        assert!(rules.from_file);
        assert_eq!(rules.sequences.len(), 1);
        assert_eq!(rules.sequences[0].scope, Scope::Subject);
    }

    #[test]
    fn a_file_of_relations_only_keeps_the_built_in_rule_at_all_scopes() {
        let text = "[[relation]]\nsubject = \"customer:77\"\nresources = [\"contact_77\", \"auth_77\"]\n[[relation]]\nsubject = \"team:1\"\nresources = [\"auth_77\", \"auth_77\"]\n";
        let rules = Rules::parse(text).unwrap();
        assert_eq!(rules.sequences, Rules::built_in().sequences);
        assert!(!rules.from_file);
        assert_eq!(rules.subjects_of("contact_77"), ["customer:77"]);
        assert_eq!(rules.subjects_of("auth_77"), ["customer:77", "team:1"]);
        assert!(rules.subjects_of("other").is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_with_its_place() {
        assert!(matches!(Rules::parse("[[sequenec]]"), Err(RulesError::Format(_))));
        assert!(matches!(Rules::parse(&RULE.replace("subject", "customer")), Err(RulesError::Format(_))));
        assert!(matches!(Rules::parse(&format!("{RULE}severity = 1\n")), Err(RulesError::Format(_))));
        assert_eq!(Rules::parse(&format!("{RULE}{RULE}")).unwrap_err(), RulesError::Duplicate(2));
        assert_eq!(Rules::parse(&RULE.replace("[\"A\"]", "[]")).unwrap_err(), RulesError::NoClasses(1));
        assert_eq!(Rules::parse(&RULE.replace("R4_SEQUENCE", "R4/SEQUENCE")).unwrap_err(), RulesError::Code(1));
        assert_eq!(Rules::parse(&" ".repeat(MAX_RULES_LEN + 1)).unwrap_err(), RulesError::TooLong);
    }

    #[test]
    fn approvals_and_provenance_stand_beside_the_built_in_sequence() {
        let text = "[[approval]]\ncode = \"A\"\nclasses = [\"PAYMENT\"]\n[[approval]]\ncode = \"B\"\noperations = [\"x\"]\n[provenance]\nabout = [\"owner\"]\n";
        let rules = Rules::parse(text).unwrap();
        assert_eq!(rules.sequences, Rules::built_in().sequences);
        let codes: Vec<_> = rules.approvals.iter().map(|rule| rule.code.as_str()).collect();
        assert_eq!((codes, rules.approvals[1].operations.as_slice()), (vec!["A", "B"], &[String::from("x")][..]));
        assert_eq!(rules.provenance.classes, PROVENANCE_CLASSES);
        assert_eq!(rules.provenance.about, ["owner"]);
    }

    #[test]
    fn approvals_and_provenance_that_cannot_be_used_are_refused() {
        let approval =
            |code: &str, rest: &str| Rules::parse(&format!("[[approval]]\ncode = \"{code}\"\n{rest}")).unwrap_err();
        assert_eq!(approval("A", ""), RulesError::ApprovalOfNothing(1));
        assert_eq!(approval("A B", "classes = [\"X\"]"), RulesError::ApprovalCode(1));
        assert_eq!(
            approval("A", "classes = [\"X\"]\n[[approval]]\ncode = \"A\"\nclasses = [\"Y\"]"),
            RulesError::ApprovalCode(2)
        );
        assert!(matches!(approval("A", "scope = \"session\""), RulesError::Format(_)));
        let many: String =
            (0..=MAX_APPROVALS).map(|n| format!("[[approval]]\ncode = \"A{n}\"\nclasses = [\"X\"]\n")).collect();
        assert_eq!(Rules::parse(&many).unwrap_err(), RulesError::TooManyApprovals);
        let provenance = |text: &str| Rules::parse(&format!("[provenance]\n{text}")).unwrap_err();
        assert_eq!(provenance("classes = []"), RulesError::ProvenanceOfNothing("classes"));
        assert_eq!(provenance("about = []"), RulesError::ProvenanceOfNothing("about"));
        assert!(matches!(provenance("trust = 1"), RulesError::Format(_)));
    }
}
