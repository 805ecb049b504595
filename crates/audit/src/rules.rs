//! The rule file: which orders of actions are attacks, and which resources belong to whom.
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
//! Holds the parse. Does not hold the evaluation ([`crate::sequence`]).

use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Largest rule file in bytes: sixteen thousand relations of a usual length.
pub const MAX_RULES_LEN: usize = 1 << 20;

/// Most sequence rules: each is evaluated for every action.
pub const MAX_SEQUENCES: usize = 256;

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

/// The rules of one audit.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Sequence rules, each `(code, scope)` once.
    pub sequences: Vec<SequenceRule>,
    /// Whether the auditor's file gave them, so that they are required.
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    sequence: Vec<SequenceRule>,
    #[serde(default)]
    relation: Vec<Relation>,
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
        Rules { sequences, from_file: false, subjects_of: HashMap::new() }
    }

    /// Reads a rule file.
    ///
    /// # Errors
    /// [`RulesError`]; sequence rules are numbered from 1.
    pub fn parse(text: &str) -> Result<Rules, RulesError> {
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
        let is_word = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
        if rule.code.is_empty() || !rule.code.chars().all(is_word) {
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
}
