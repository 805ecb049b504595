//! receipt: entries, strict JSON, the credential finder, disclosures.

use crate::bytes::Bytes;
use crate::world::World;
use merkle::LeafIndex;
use receipt::breach::{Exhibit, breaks};
use receipt::commit::Disclosure;
use receipt::{
    IssuerState, LogAdmitted, OmittedReceipt, Receipt, ReceiptId, ReceiptText, RefusalCode, UnixMillis, admit,
    find_credential, find_credential_in, ijson, jcs,
};
use serde_json::{Map, Value};
use std::sync::LazyLock;

static STATE: LazyLock<IssuerState> = LazyLock::new(|| IssuerState::registered(World::new().gates[0].key().verifier()));

/// The entries of an honest log: two gates, taken in turns.
static HONEST: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut world = World::new();
    world.log_heartbeats(6);
    world.log.entries
});

/// A receipt prints as it was read, and is admitted or refused with one code.
pub fn entry(data: &[u8]) {
    let admitted = admit(Some(&STATE), data, &|_| Some(ReceiptId::NONE), Some(UnixMillis(u64::MAX)));
    let Ok(receipt) = Receipt::parse(data) else {
        assert!(admitted.is_err());
        return;
    };
    assert_eq!(receipt.bytes(), data);
    assert_eq!(receipt.to_string().as_bytes(), data);
    assert_eq!(receipt.id(), ReceiptId::of(data));
    let text = ReceiptText {
        issuer: receipt.issuer().clone(),
        seq: receipt.seq(),
        prev: receipt.prev(),
        issued_at: receipt.issued_at(),
        body: receipt.body_text().to_owned(),
    };
    assert_eq!(text.to_string(), receipt.text());
    let inspected = Receipt::parse_inspecting(data, |members| {
        let _ = find_credential_in(members);
        Map::from(members.clone())
    });
    assert_eq!(inspected.map(|(_, members)| Ok(members)), Ok(ijson::parse_object(receipt.body_text())));
}

/// What strict JSON accepts, everybody's JSON reads alike, and its canonical text is one.
pub fn json(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(value) = ijson::parse_value(text) else { return };
    assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(&value));
    assert_eq!(ijson::check_value(&value), Ok(()));
    assert_eq!(ijson::parse_value(&value.to_string()), Ok(value.clone()));
    let canonical = jcs::canonical(&value);
    let again = ijson::parse_value(&canonical).unwrap();
    assert_eq!(jcs::canonical(&again), canonical);
}

/// Looking for credentials ends, and answers the same for a value that was printed and read again.
pub fn credential(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(members) = ijson::parse_object(text) else { return };
    let found = find_credential(&members).map(|found| found.to_string());
    let again = ijson::parse_object(&Value::Object(members).to_string()).unwrap();
    assert_eq!(find_credential(&again).map(|found| found.to_string()), found);
}

/// A disclosure, printed, is the same disclosure.
pub fn disclosure(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(disclosure) = Disclosure::parse(text) else { return };
    let again = Disclosure::parse(&disclosure.to_string()).unwrap();
    assert!(again == disclosure);
    assert_eq!(again.digest(), disclosure.digest());
}

/// Evidence, printed, is the same evidence, and is checked without a panic.
pub fn log_admitted(data: &[u8]) {
    let Ok(admitted) = serde_json::from_slice::<LogAdmitted>(data) else { return };
    let again = serde_json::to_string(&admitted).unwrap();
    assert_eq!(serde_json::from_str::<LogAdmitted>(&again).unwrap(), admitted);
    if let Ok(accusation) = admitted.check() {
        assert_eq!(&accusation.key, admitted.log());
        assert!(admitted.accused().is_some());
    }
}

/// Evidence, printed, is the same evidence, and is checked without a panic.
pub fn omitted_receipt(data: &[u8]) {
    let Ok(omitted) = serde_json::from_slice::<OmittedReceipt>(data) else { return };
    let again = serde_json::to_string(&omitted).unwrap();
    assert_eq!(serde_json::from_str::<OmittedReceipt>(&again).unwrap(), omitted);
    if let Ok(accusation) = omitted.check() {
        assert_eq!(&accusation.key, omitted.log());
        assert!(omitted.proven().is_some());
    }
}

/// Whatever entries an honest log holds, and whatever is picked from them, nothing accuses it: the bytes choose entries
/// of a world that admission made, a code and a key.
pub fn breach(data: &[u8]) {
    let entries = &*HONEST;
    let mut data = Bytes(data);
    let code = RefusalCode::ALL[usize::from(data.byte()) % RefusalCode::ALL.len()];
    let key = Some(STATE.registered_key()).filter(|_| data.byte() % 2 == 0);
    let places: Vec<usize> = data.chunk(64).iter().map(|place| usize::from(*place) % entries.len()).collect();
    let exhibit = |place: &usize| Exhibit { index: LeafIndex(*place as u64), entry: &entries[*place] };
    let exhibits: Vec<Exhibit<'_>> = places.iter().map(exhibit).collect();
    assert!(breaks(code, &exhibits, key).is_err(), "an honest log was accused");
}
