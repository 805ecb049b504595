//! The exact text of what a gate signs: members in, one line of JSON out.
//!
//! Pure: no files, no clock, no randomness (salts come as an argument). Every SDK writes the same bytes for the same
//! members, and shared vectors hold them to it: compact JSON, characters as they are, the escapes that JSON needs and no
//! others, members in one order, numbers as ECMAScript writes them (RFC 8785, 3.2.2.3). Whether a body may be signed is
//! not judged here beyond what a decision may claim: that is the outbox's rule, and the log's.

use super::Report;
use super::decision::{ArgsMode, Decision};
use receipt::body::{ExecutedBy, Executes, Ruling};
use receipt::{Digest, Disclosure, JsonError, ReceiptId, Shown as _, commit, find_credential, ijson, jcs};
use serde::Serialize as _;
use serde_json::ser::Formatter;
use serde_json::{Map, Number, Serializer, Value, json};
use std::io;

/// Longest text of `error`, in characters: what a person reads of it at a glance. Nothing else is in a receipt for the
/// length of a stack trace.
pub const MAX_ERROR: usize = 300;

/// Most bytes of UTF-8 of a request id, a session and an agent's name: sixteen times a digest in hex. A gate keeps them
/// in memory for as long as a call is open, and has many calls open at once.
pub const MAX_CLAIM_BYTES: usize = 1_024;

/// The members of a decision that stand behind `type`, `request_id` and `decision`, in the order in which they are written.
/// What is in `extra` comes after them.
pub const DECISION_ORDER: [&str; 22] = [
    "rule",
    "why",
    "caller_reason",
    "operation",
    "resource",
    "action_class",
    "subjects",
    "session",
    "args",
    "args_digest",
    "authenticated",
    "proven",
    "claimed_agent",
    "bound_agent",
    "capability",
    "grant",
    "facts",
    "prior_action_classes",
    "prior_heads",
    "history",
    "executes",
    "approval",
];

/// What the gate itself must find again in its receipts after a crash, and so never commits to.
const NEVER_COMMITTED: [&str; 4] = ["type", "request_id", "decision", "executes"];

/// A decision, written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionText {
    /// The body.
    pub text: String,
    /// What opens its committed members, in the order in which they were named.
    pub disclosures: Vec<Disclosure>,
    /// The action digest (protocol 3.1) with the request id as nonce; what is absent stands as `null`.
    pub action_digest: Digest,
    /// The digest that the outcome states as `executed_digest`: the action's, where an auditor can hold it against the
    /// decision, which states a digest or shows all that goes into one.
    pub executed_digest: Option<Digest>,
}

/// Who acts: the agent that a verified capability is bound to, else the one that the caller claims to be. A committed
/// name is not repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The name.
    pub name: String,
    /// Whether it is only claimed: the outcome says `authenticated: false` then.
    pub claimed: bool,
}

/// Why a decision is not signed as its author wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsFault {
    /// A bound agent that nothing bound.
    #[error(
        "`bound_agent` stands only where the capability's signature was verified: put `capability_signature` into `proven` once it was, or name the agent as `claimed_agent`"
    )]
    BoundAgentUnproven,
    /// `extra` may not stand in for what has a meaning.
    #[error("`extra` holds `{0}`, which the protocol defines: give it by its own name")]
    ExtraDefined(String),
    /// What is to be committed is not there.
    #[error("`{0}` is to be committed and is not given: give it, or leave it out of `commit`")]
    CommitAbsent(String),
    /// What the gate needs to read again.
    #[error("`{0}` cannot be committed: the gate finds its own receipts by it; leave it out of `commit`")]
    CommitForbidden(String),
    /// A denied action is executed by nobody.
    #[error("a denied action is executed by nobody: leave `executes` out, or say \"none\"")]
    DenyExecutes,
    /// A call member that no decision has.
    #[error("a decision has no member `{0}`: put it into `extra` if it is one of your own")]
    UnknownMember(String),
    /// A call member of another type than it has.
    #[error("`{name}` must be {expected}")]
    WrongType {
        /// The member.
        name: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A name that is no name but a text.
    #[error("`{name}` is {bytes} bytes long, and {MAX_CLAIM_BYTES} are allowed: give a shorter one, or its digest")]
    TooLong {
        /// The member.
        name: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// A request id that is in use.
    #[error("the request id {0:?} belongs to a decision whose outcome is still to come: use each for one request only")]
    RequestIdInUse(String),
    /// A value that no JSON reader reads alike.
    #[error("{name}: {fault}")]
    Json {
        /// The member.
        name: String,
        /// What is wrong with it.
        fault: JsonError,
    },
}

impl ClaimsFault {
    /// `decision-claims`; `malformed` where the value itself is none.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json { .. } => "malformed",
            _ => "decision-claims",
        }
    }
}

/// Writes a decision. `salt` makes 16 fresh random bytes for each committed member.
///
/// # Errors
/// [`ClaimsFault`].
pub fn decision(
    ruling: Ruling,
    call: &Decision,
    request_id: &str,
    salt: &mut dyn FnMut() -> [u8; 16],
) -> Result<DecisionText, ClaimsFault> {
    check_claims(ruling, call)?;
    check_lengths(call, request_id)?;
    let args = call.members.get("args");
    check_json("args", args)?;
    for name in &call.commit {
        check_json(name, call.members.get(name.as_str()).or_else(|| call.extra.get(name)))?;
    }
    let mut members = call.members.clone();
    let is_committed = |name: &str| call.commit.iter().any(|committed| committed == name);
    if call.args_mode == ArgsMode::Digest
        && !is_committed("args")
        && let Some(args) = members.remove("args")
    {
        members.insert("args_digest".into(), json!(Digest::of_json(&args)));
    }
    let executes = match ruling {
        Ruling::Allow => Executes::Gate,
        Ruling::Deny => Executes::None,
    };
    members.entry("executes").or_insert_with(|| json!(executes.as_str()));
    let mut body = Map::new();
    body.insert("type".into(), json!("decision"));
    body.insert("request_id".into(), json!(request_id));
    body.insert("decision".into(), json!(ruling.as_str()));
    for name in DECISION_ORDER {
        body.extend(members.remove(name).map(|value| (name.to_owned(), value)));
    }
    body.extend(call.extra.clone());
    let mut disclosures = Vec::with_capacity(call.commit.len());
    for name in &call.commit {
        let value = body.get_mut(name).ok_or_else(|| ClaimsFault::CommitAbsent(name.clone()))?;
        let (committed, disclosure) = commit(name, value, salt());
        *value = committed;
        disclosures.push(disclosure);
    }
    let action_digest = action_digest(call, request_id);
    Ok(DecisionText {
        executed_digest: is_comparable(&body).then_some(action_digest),
        action_digest,
        text: text(&body),
        disclosures,
    })
}

/// What became of an allowed action, for [`outcome`]. Members that are `None` are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeMembers {
    /// The request; none where its decision does not show it.
    pub request_id: Option<String>,
    /// The receipt of the decision.
    pub decision: ReceiptId,
    /// Whether it is known to have taken place.
    pub executed: bool,
    /// Whether that is not known; left out where it is.
    pub unknown: bool,
    /// Who performed it.
    pub executed_by: Option<ExecutedBy>,
    /// The action digest of what was dispatched.
    pub executed_digest: Option<Digest>,
    /// Who acted.
    pub agent: Option<Agent>,
    /// What went wrong, as [`error_text`] writes it.
    pub error: Option<String>,
    /// The digest of what the action answered.
    pub result_digest: Option<Digest>,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at: Option<u64>,
    /// When it ended.
    pub ended_at: Option<u64>,
}

/// Longest text of an outcome: header and signature of a receipt take less than the rest of an entry.
const MAX_OUTCOME: usize = 64_000;

/// What an outcome does without, in this order, where it could not be signed with it: a decision's own id tells it from
/// all others. An outcome that cannot be signed would be owed for ever, and hold up everything behind it.
const DISPENSABLE: [&[&str]; 3] = [&["error"], &["agent", "authenticated"], &["request_id"]];

/// Writes an outcome. The text alone is no receipt: a gate signs only what its own scopes ended in.
pub fn outcome(end: &OutcomeMembers) -> String {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
    put("type", Some(json!("outcome")));
    put("request_id", end.request_id.as_ref().map(|id| json!(id)));
    put("decision", Some(json!(end.decision.to_string())));
    put("executed", Some(json!(end.executed)));
    put("unknown", end.unknown.then(|| json!(true)));
    put("executed_by", end.executed_by.map(|by| json!(by.as_str())));
    put("executed_digest", end.executed_digest.map(|digest| json!(digest)));
    put("agent", end.agent.as_ref().map(|agent| json!(agent.name)));
    put("authenticated", end.agent.as_ref().filter(|agent| agent.claimed).map(|_| json!(false)));
    put("error", end.error.as_ref().map(|error| json!(error)));
    put("result_digest", end.result_digest.map(|digest| json!(digest)));
    put("started_at", end.started_at.map(|time| json!(time)));
    put("ended_at", end.ended_at.map(|time| json!(time)));
    for names in DISPENSABLE {
        if may_be_signed(&body) {
            break;
        }
        body.retain(|name, _| !names.contains(&name.as_str()));
    }
    text(&body)
}

fn may_be_signed(body: &Map<String, Value>) -> bool {
    body.values().all(|value| ijson::check_value(value).is_ok())
        && find_credential(body).is_none()
        && text(body).len() <= MAX_OUTCOME
}

/// The outcome of an allowed call that a gate left when it stopped. Only the gate that starts next knows that it
/// knows nothing.
pub fn outcome_left(request_id: Option<String>, decision: ReceiptId, agent: Option<Agent>) -> OutcomeMembers {
    OutcomeMembers {
        request_id,
        decision,
        executed: false,
        unknown: true,
        executed_by: Some(ExecutedBy::Gate),
        executed_digest: None,
        agent,
        error: Some("outcome-unknown: the gate stopped before it could tell".to_owned()),
        result_digest: None,
        started_at: None,
        ended_at: None,
    }
}

/// The outcome of a call that its caller executes, by the caller's word.
pub fn outcome_reported(request_id: Option<String>, decision: ReceiptId, report: &Report) -> OutcomeMembers {
    OutcomeMembers {
        request_id,
        decision,
        executed: report.executed,
        unknown: false,
        executed_by: Some(ExecutedBy::Caller),
        executed_digest: report.executed_digest,
        agent: None,
        error: report.error.as_deref().map(reason_text),
        result_digest: None,
        started_at: None,
        ended_at: None,
    }
}

/// Writes that a person agreed to the action with this digest.
pub fn approval(request_id: &str, decision: &ReceiptId, by: &str, digest: &Digest) -> String {
    let body = json!({
        "type": "approval",
        "request_id": request_id,
        "decision": decision.to_string(),
        "verdict": "approved",
        "by": by,
        "digest": digest,
    });
    body.to_string()
}

/// Writes that so many actions ran without a receipt, the first and the last at these times (milliseconds).
pub fn dropped(count: u64, since: u64, until: u64, why: &str) -> String {
    json!({"type": "dropped", "count": count, "since": since, "until": until, "why": why}).to_string()
}

/// What an outcome says of an error: its type, a colon, its message, at most [`MAX_ERROR`] characters. The type
/// alone where the message holds what looks like a credential, or characters that no receipt may hold; `Error` where the
/// type does.
pub fn error_text(type_name: &str, message: &str) -> String {
    let whole = format!("{type_name}: {message}");
    match (may_be_told(message) && may_be_told(&whole), may_be_told(type_name)) {
        (true, _) => cut(&whole),
        (false, true) => cut(type_name),
        (false, false) => "Error".to_owned(),
    }
}

/// What an outcome says where the author gave the reason: the reason, at most [`MAX_ERROR`] characters.
pub fn reason_text(reason: &str) -> String {
    if may_be_told(reason) { cut(reason) } else { "the reason given cannot stand in a receipt".to_owned() }
}

/// The text of a body: compact JSON with numbers as ECMAScript writes them.
pub fn text(body: &Map<String, Value>) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, EcmaNumbers);
    body.serialize(&mut serializer).expect("members have string keys and finite numbers, and a Vec takes all bytes");
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

struct EcmaNumbers;

impl Formatter for EcmaNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // A Value holds no infinity and no NaN.
        let number = Number::from_f64(value).unwrap_or_else(|| Number::from(0));
        writer.write_all(jcs::canonical(&Value::Number(number)).as_bytes())
    }
}

fn check_claims(ruling: Ruling, call: &Decision) -> Result<(), ClaimsFault> {
    let proven = call.members.get("proven").and_then(Value::as_array);
    let is_bound = proven.is_some_and(|proven| proven.iter().any(|word| word == "capability_signature"));
    if call.members.contains_key("bound_agent") && !is_bound {
        return Err(ClaimsFault::BoundAgentUnproven);
    }
    let is_defined = |name: &str| NEVER_COMMITTED.contains(&name) || DECISION_ORDER.contains(&name);
    if let Some(name) = call.extra.keys().find(|name| is_defined(name)) {
        return Err(ClaimsFault::ExtraDefined(name.clone()));
    }
    for name in &call.commit {
        if NEVER_COMMITTED.contains(&name.as_str()) {
            return Err(ClaimsFault::CommitForbidden(name.clone()));
        }
        if !call.members.contains_key(name) && !call.extra.contains_key(name) {
            return Err(ClaimsFault::CommitAbsent(name.clone()));
        }
    }
    let executes = call.members.get("executes");
    if ruling == Ruling::Deny && executes.is_some_and(|executes| executes != Executes::None.as_str()) {
        return Err(ClaimsFault::DenyExecutes);
    }
    Ok(())
}

fn check_lengths(call: &Decision, request_id: &str) -> Result<(), ClaimsFault> {
    let named = ["claimed_agent", "bound_agent", "session"]
        .into_iter()
        .filter_map(|name| Some((name, call.members.get(name)?.as_str()?)));
    for (name, text) in [("request_id", request_id)].into_iter().chain(named) {
        if text.len() > MAX_CLAIM_BYTES {
            return Err(ClaimsFault::TooLong { name, bytes: text.len() });
        }
    }
    Ok(())
}

fn check_json(name: &str, value: Option<&Value>) -> Result<(), ClaimsFault> {
    let checked = value.map_or(Ok(()), ijson::check_value);
    checked.map_err(|fault| ClaimsFault::Json { name: name.to_owned(), fault })
}

/// The digest of the action as the author gave it, whatever of it the receipt shows.
fn action_digest(call: &Decision, request_id: &str) -> Digest {
    let member = |name: &str| call.members.get(name).cloned().unwrap_or(Value::Null);
    let capability_id = member("capability").get("id").cloned().unwrap_or(Value::Null);
    Digest::of_json(&json!({
        "operation": member("operation"),
        "resource": member("resource"),
        "args": member("args"),
        "capability_id": capability_id,
        "nonce": request_id,
    }))
}

/// Whether an auditor can tell the action digest from the decision: it states one, or shows all that goes in.
fn is_comparable(body: &Map<String, Value>) -> bool {
    let is_text = |name: &str| body.get(name).is_some_and(Value::is_string);
    let states = body.get("approval").and_then(|approval| approval.get("digest")).is_some_and(Value::is_string);
    let capability = body.get("capability").is_none_or(|capability| capability.get("id").is_some_and(Value::is_string));
    let args = body.get("args").is_some_and(|args| !holds_commitment(args));
    // A nonce of its own stands in the request id's place, for an auditor.
    states || is_text("operation") && is_text("resource") && args && capability && !body.contains_key("nonce")
}

fn holds_commitment(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(holds_commitment),
        Value::Object(members) => commit::committed_digest(value).is_some() || members.values().any(holds_commitment),
        _ => false,
    }
}

/// Who acts, by a decision.
pub fn agent_of(decision: &receipt::body::Decision) -> Option<Agent> {
    // A bound agent that is committed to is not told by what the caller claims either.
    let (member, claimed) = match &decision.bound_agent {
        Some(_) => (&decision.bound_agent, false),
        None => (&decision.claimed_agent, true),
    };
    member.shown().map(|name| Agent { name: name.clone(), claimed })
}

/// Whole, so that no part of a secret is told; and cut, since a cut can make a token out of a longer word.
fn may_be_told(text: &str) -> bool {
    [text.to_owned(), cut(text)].into_iter().all(|text| {
        let value = json!(text);
        ijson::check_value(&value).is_ok() && find_credential(&Map::from_iter([("error".to_owned(), value)])).is_none()
    })
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_ERROR).collect()
}
