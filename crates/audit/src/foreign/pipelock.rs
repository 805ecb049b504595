//! Action receipts of pipelock, version 1, by that format's own rules.
//!
//! ```text
//! {"version":1,"action_record":{…},"signature":"ed25519:<128 hex digits>","signer_key":"<64 hex digits>","ext"?}
//! signature        over the SHA-256 of action_record in the form of `go_json`
//! chain_prev_hash  hex SHA-256 of the whole receipt before in the same form, signature and ext included; "genesis"
//! chain_seq        from 0
//! ```
//!
//! A receipt also comes as the `detail` of a line of that system's recorder, `{"v","seq","ts","type":"action_receipt",…}`;
//! then the line around it is signed by nobody and is not read. No member but `ext` may be unknown: what the form does not
//! have, no signature covers.
//!
//! Holds the parse. Its action types are not the classes of the auditor's rules, so no sequence rule judges these receipts.

use super::go_json::{Field, Shape, always, compacted, shaped, struct_text, unless_zero, write_string};
use super::pinned::PinnedKeys;
use super::signed::{Closing, Place, Signed, SignedChecks, Unread, signature_of_hex, strict_json};
use crate::verdict::{Check, ReceiptRef};
use receipt::jcs;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub(super) const FORMAT: &str = "pipelock";

/// The link of a first receipt.
const GENESIS: &str = "genesis";

const TAINT_SOURCE: [Field; 6] = [
    always("url"),
    always("kind"),
    always("level"),
    always("timestamp"),
    unless_zero("receipt_id"),
    unless_zero("match_reason"),
];

const REDACTION: [Field; 6] = [
    unless_zero("profile"),
    unless_zero("provider"),
    unless_zero("parser"),
    unless_zero("total_redactions"),
    shaped("by_class", Shape::Map),
    unless_zero("cache_boundary_kept"),
];

const SHIELD: [Field; 16] = [
    unless_zero("pipeline"),
    unless_zero("total_rewrites"),
    unless_zero("extension_probes"),
    unless_zero("tracking_beacons"),
    unless_zero("agent_traps"),
    unless_zero("fingerprint_shim_injected"),
    unless_zero("svg_foreign_objects"),
    unless_zero("svg_event_handlers"),
    unless_zero("svg_external_references"),
    unless_zero("svg_hidden_text"),
    unless_zero("svg_animation_injections"),
    unless_zero("body_bytes"),
    unless_zero("scanned_bytes"),
    unless_zero("partial"),
    unless_zero("adaptive_signals_recorded"),
    unless_zero("adaptive_signal_max_per_body"),
];

const KEY_TRANSITION: [Field; 3] = [always("prior_signer_key"), always("prior_chain_seq"), always("prior_chain_hash")];

const SESSION_OPEN: [Field; 16] = [
    always("run_nonce"),
    always("open_nonce"),
    always("recorder_session"),
    always("policy_hash"),
    always("signer_key_epoch"),
    always("heartbeat_seconds"),
    always("chain_open_seq"),
    unless_zero("prior_chain_head"),
    unless_zero("prior_chain_seq"),
    unless_zero("genesis_hash"),
    unless_zero("genesis_anchor_head"),
    unless_zero("genesis_anchor_log"),
    unless_zero("posture_capsule_sha256"),
    unless_zero("posture_signer_key_id"),
    unless_zero("containment_nonce"),
    unless_zero("contained_uid"),
];

const SESSION_HEARTBEAT: [Field; 8] = [
    always("run_nonce"),
    always("open_nonce"),
    always("beat"),
    always("chain_head"),
    always("chain_seq_head"),
    always("heartbeat_time"),
    always("fsync_errors_gated"),
    always("durability_blocks"),
];

const SESSION_CLOSE: [Field; 8] = [
    always("run_nonce"),
    always("open_nonce"),
    always("final_seq"),
    always("root_hash"),
    always("receipt_count"),
    always("close_reason"),
    always("fsync_errors_gated"),
    always("durability_blocks"),
];

const SESSION_CONTROL: [Field; 4] = [
    always("kind"),
    shaped("open", Shape::Struct(&SESSION_OPEN)),
    shaped("heartbeat", Shape::Struct(&SESSION_HEARTBEAT)),
    shaped("close", Shape::Struct(&SESSION_CLOSE)),
];

const ACTION_RECORD: [Field; 58] = [
    always("version"),
    always("action_id"),
    unless_zero("parent_action_id"),
    always("action_type"),
    always("timestamp"),
    always("principal"),
    always("actor"),
    always("delegation_chain"),
    always("target"),
    unless_zero("intent"),
    unless_zero("data_classes_in"),
    unless_zero("data_classes_out"),
    always("side_effect_class"),
    always("reversibility"),
    always("policy_hash"),
    always("verdict"),
    unless_zero("decision_phase"),
    unless_zero("defer_id"),
    unless_zero("resolution_policy"),
    unless_zero("resolution_source"),
    unless_zero("session_id"),
    unless_zero("session_id_original"),
    unless_zero("session_taint_level"),
    unless_zero("session_contaminated"),
    shaped("recent_taint_sources", Shape::Structs(&TAINT_SOURCE)),
    unless_zero("session_task_id"),
    unless_zero("session_task_label"),
    unless_zero("authority_kind"),
    unless_zero("taint_decision"),
    unless_zero("taint_decision_reason"),
    unless_zero("task_override_applied"),
    unless_zero("contract_winning_source"),
    unless_zero("contract_live_verdict"),
    unless_zero("contract_policy_sources"),
    unless_zero("contract_rule_id"),
    unless_zero("active_manifest_hash"),
    unless_zero("contract_hash"),
    unless_zero("contract_selector_id"),
    unless_zero("contract_generation"),
    always("transport"),
    unless_zero("method"),
    unless_zero("layer"),
    unless_zero("pattern"),
    unless_zero("severity"),
    shaped("redaction", Shape::Struct(&REDACTION)),
    shaped("shield", Shape::Struct(&SHIELD)),
    unless_zero("request_id"),
    always("chain_prev_hash"),
    always("chain_seq"),
    unless_zero("run_nonce"),
    shaped("key_transition", Shape::Struct(&KEY_TRANSITION)),
    shaped("session_control", Shape::Struct(&SESSION_CONTROL)),
    unless_zero("venue"),
    unless_zero("jurisdiction"),
    unless_zero("rulebook_id"),
    unless_zero("remedy_class"),
    unless_zero("contestation_window"),
    unless_zero("precedent_refs"),
];

/// The parts of a carried text whose own spelling counts.
#[derive(Deserialize)]
struct Spelling<'text> {
    #[serde(borrow)]
    ext: Option<&'text RawValue>,
    #[serde(borrow)]
    detail: Option<&'text RawValue>,
}

/// Reads a carried text.
pub(super) fn parse(text: &str) -> Result<Signed, Unread> {
    let value = strict_json(text)?;
    let members = value.as_object().ok_or("it is no JSON object")?;
    let spelling: Spelling<'_> = serde_json::from_str(text).map_err(|_| "it is no JSON object")?;
    let (receipt, is_wrapped) = unwrapped(members)?;
    let ext = match (is_wrapped, spelling.detail) {
        (true, Some(detail)) => {
            let inner: Spelling<'_> = serde_json::from_str(detail.get()).map_err(|_| "detail is no JSON object")?;
            inner.ext
        }
        _ => spelling.ext,
    };
    // `null` is a spelling like any other, and reads as nothing.
    let ext = receipt.contains_key("ext").then(|| ext.map_or("null", RawValue::get));
    Ok(signed(receipt, ext, is_wrapped)?)
}

/// Reads a value that came through a strict parser. The error completes "not a receipt: …". Of `ext` the link covers the
/// spelling, which a value does not have.
pub(super) fn read(value: &Value) -> Result<Signed, &'static str> {
    let members = value.as_object().ok_or("it is no JSON object")?;
    let (receipt, is_wrapped) = unwrapped(members)?;
    let ext = receipt.get("ext").map(Value::to_string);
    let mut signed = signed(receipt, ext.as_deref(), is_wrapped)?;
    signed.place.respelt = ext.is_some();
    Ok(signed)
}

/// The receipt, out of the recorder's line if it stands in one.
fn unwrapped(members: &Map<String, Value>) -> Result<(&Map<String, Value>, bool), &'static str> {
    if !members.contains_key("detail") {
        return Ok((members, false));
    }
    if members.contains_key("action_record") {
        return Err("it is a receipt and a recorder's line at once");
    }
    if members.get("type").and_then(Value::as_str) != Some("action_receipt") {
        return Err("it is a recorder's line about something else than an action receipt; import without it");
    }
    let detail = members.get("detail").and_then(Value::as_object).ok_or("detail is no object")?;
    Ok((detail, true))
}

fn signed(members: &Map<String, Value>, ext: Option<&str>, is_wrapped: bool) -> Result<Signed, &'static str> {
    if members
        .keys()
        .any(|name| !["version", "action_record", "signature", "signer_key", "ext"].contains(&name.as_str()))
    {
        return Err("it holds a member that the format does not have, and that no signature covers");
    }
    let text = |name: &str, missing: &'static str| members.get(name).and_then(Value::as_str).ok_or(missing);
    let record =
        members.get("action_record").and_then(Value::as_object).ok_or("action_record is missing or no object")?;
    let is_one = |value: Option<&Value>| value.and_then(Value::as_u64) == Some(1);
    if !is_one(members.get("version")) || !is_one(record.get("version")) {
        return Err("version is not 1");
    }
    let written = text("signature", "it is not signed")?;
    let signature = written.strip_prefix("ed25519:").ok_or("signature does not begin with \"ed25519:\"")?;
    let signature =
        signature_of_hex(signature).ok_or("signature is not 128 lowercase hex digits behind \"ed25519:\"")?;
    let kid = text("signer_key", "signer_key is missing or no string")?;
    if kid.len() != 64 || !kid.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return Err("signer_key is not 64 lowercase hex digits");
    }
    for name in ["action_id", "action_type", "timestamp", "target", "verdict", "transport"] {
        if record.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(
                "one of action_id, action_type, timestamp, target, verdict and transport is missing or no string",
            );
        }
    }
    let record_text = struct_text(record, &ACTION_RECORD)?;
    let mut whole = format!("{{\"version\":1,\"action_record\":{record_text},\"signature\":");
    write_string(written, &mut whole);
    whole.push_str(",\"signer_key\":");
    write_string(kid, &mut whole);
    if let Some(ext) = ext {
        whole.push_str(",\"ext\":");
        whole.push_str(&compacted(ext));
    }
    whole.push('}');
    Ok(Signed {
        issuer: String::new(),
        kid: kid.to_owned(),
        message: Sha256::digest(&record_text).to_vec(),
        signature,
        beside: members.get("ext").map(jcs::canonical).unwrap_or_default(),
        place: place(record, hex::encode(Sha256::digest(whole)))?,
        uncovered: match (ext.is_some(), is_wrapped) {
            (false, false) => None,
            (true, false) => Some("ext"),
            (false, true) => Some("the recorder's line around it"),
            (true, true) => Some("ext, and the recorder's line around it"),
        },
    })
}

fn place(record: &Map<String, Value>, link: String) -> Result<Place, &'static str> {
    let number = record.get("chain_seq").and_then(Value::as_u64).ok_or("chain_seq is missing or no whole number")?;
    let previous =
        record.get("chain_prev_hash").and_then(Value::as_str).ok_or("chain_prev_hash is missing or no string")?;
    if (number == 0) != (previous == GENESIS) {
        return Err("of chain_seq 0 and chain_prev_hash \"genesis\" it has one without the other");
    }
    let closes = record.get("session_control").and_then(|control| control.get("close")).is_some_and(Value::is_object);
    Ok(Place {
        // A run's nonce is no name of a chain: a later run may continue the chain of an earlier one.
        chain: None,
        number: Some(number),
        previous: (previous != GENESIS).then(|| previous.to_owned()),
        link,
        respelt: false,
        closes: if closes { Closing::Rests } else { Closing::No },
    })
}

/// The format's checks over all its receipts in a log, in the order of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PipelockChecks(SignedChecks);

impl PipelockChecks {
    pub(super) fn new() -> PipelockChecks {
        PipelockChecks(SignedChecks::new(FORMAT))
    }

    /// Checks one carried receipt.
    pub(super) fn add(&mut self, at: &ReceiptRef, read: Result<Signed, Unread>, pins: &PinnedKeys) {
        match read {
            Err(why) => self.0.unread(at, &why),
            Ok(signed) => drop(self.0.add(at, &signed, pins)),
        }
    }

    pub(super) fn finish(self) -> Vec<Check> {
        self.0.finish()
    }
}
