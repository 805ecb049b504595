//! receipt: entries, strict JSON, the credential finder, disclosures.

use crate::world::World;
use receipt::commit::Disclosure;
use receipt::{IssuerState, Receipt, ReceiptId, ReceiptText, UnixMillis, admit, find_credential, ijson, jcs};
use serde_json::Value;
use std::sync::LazyLock;

static STATE: LazyLock<IssuerState> = LazyLock::new(|| IssuerState::registered(World::new().gates[0].key().verifier()));

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
    assert_eq!(ijson::parse_object(receipt.body_text()).as_ref(), Ok(receipt.members()));
    let _ = receipt.credential();
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
