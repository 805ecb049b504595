//! `keys.json` and `ed25519.json`: the text forms of keys, and strict verification.

use super::{VectorFile, b64, key, seed};
use note::{KeyKind, KeyName, SigningKey, VerifierKey};
use serde_json::{Value, json};

pub(super) fn keys() -> VectorFile {
    let good = [
        ("a gate's key", "gate.example/support-1", KeyKind::Ed25519, 0u8),
        ("its next key", "gate.example/support-1", KeyKind::Ed25519, 1),
        ("a witness's key", "witness.example/1", KeyKind::CosignatureV1, 2),
        ("the same seed under another kind is another key", "gate.example/support-1", KeyKind::CosignatureV1, 0),
        ("a name beyond ASCII", "prüf.example/tor-é✓", KeyKind::Ed25519, 3),
        ("a name of one letter", "g", KeyKind::Ed25519, 4),
    ];
    let mut cases: Vec<Value> = good
        .into_iter()
        .map(|(name, key_name, kind, number)| {
            let signing = key(key_name, kind, number);
            json!({
                "name": name, "seed_hex": hex::encode(seed(number)), "key_name": key_name, "kind": kind.byte(),
                "private": *signing.to_private_text(), "vkey": signing.verifier(),
            })
        })
        .collect();
    let longest = "n".repeat(255);
    let long = key(&longest, KeyKind::Ed25519, 5);
    cases.push(json!({
        "name": "the longest name", "seed_hex": hex::encode(seed(5)), "key_name": longest, "kind": 1,
        "private": *long.to_private_text(), "vkey": long.verifier(),
    }));
    cases.extend(hostile_vkeys().into_iter().map(|(name, vkey)| {
        json!({"name": name, "vkey": vkey, "code": vkey.parse::<VerifierKey>().err().map(|error| error.code())})
    }));
    cases.extend(hostile_privates().into_iter().map(|(name, private)| {
        let code = SigningKey::from_private_text(&private).err().map(|error| error.code());
        json!({"name": name, "private": private, "code": code})
    }));
    VectorFile {
        name: "keys.json",
        about: "With seed_hex: the key of that seed, name and kind prints as private and vkey, and both read back. With code: vkey (or private) is refused. Kinds: 1 signs notes, 4 cosigns.",
        cases,
    }
}

/// A vkey's text with the right id for whatever stands in it.
fn vkey_text(name: &str, kind: u8, public: &[u8]) -> String {
    let mut material = vec![kind];
    material.extend_from_slice(public);
    let mut hashed = name.as_bytes().to_vec();
    hashed.push(b'\n');
    hashed.extend_from_slice(&material);
    let id = receipt::Digest::of_bytes(&hashed).0;
    format!("{name}+{}+{}", hex::encode(&id[..4]), b64(&material))
}

fn hostile_vkeys() -> Vec<(&'static str, String)> {
    let good = key("gate.example/support-1", KeyKind::Ed25519, 0).verifier();
    let (text, public) = (good.to_string(), good.public_key_bytes());
    let part = |place: usize| text.split('+').nth(place).unwrap_or_default().to_owned();
    let (id, material) = (part(1), text.splitn(3, '+').nth(2).unwrap_or_default().to_owned());
    let with_name = |name: &str| vkey_text(name, 1, public);
    let hex_key = |digits: &str| vkey_text("weak.example", 1, &hex::decode(digits).unwrap_or_default());
    let mut padded_bits = material.clone();
    // 33 bytes are 44 characters without padding, so the last character has no unused bits: a shorter key has.
    padded_bits.truncate(42);
    vec![
        ("nothing", String::new()),
        ("a name alone", "gate.example/support-1".to_owned()),
        ("two parts", format!("gate.example/support-1+{id}")),
        ("a newline behind", format!("{text}\n")),
        ("a space before", format!(" {text}")),
        ("a private key", key("gate.example/support-1", KeyKind::Ed25519, 0).to_private_text().to_string()),
        ("the id in upper case", format!("gate.example/support-1+{}+{material}", id.to_uppercase())),
        ("an id of seven digits", format!("gate.example/support-1+{}+{material}", &id[1..])),
        ("an id of nine digits", format!("gate.example/support-1+0{id}+{material}")),
        ("an id that is no hex", format!("gate.example/support-1+zzzzzzzz+{material}")),
        ("another key's id", format!("gate.example/support-1+00000000+{material}")),
        ("another name", format!("gate.example/support-2+{id}+{material}")),
        ("an empty name", with_name("")),
        ("a name with a space", with_name("gate example")),
        ("a name with a no-break space", with_name("gate\u{a0}example")),
        ("a name with an ideographic space", with_name("gate\u{3000}")),
        ("a name with an em space", with_name("gate\u{2003}example")),
        ("a name with a line separator", with_name("gate\u{2028}example")),
        ("a name with a next line character", with_name("gate\u{85}example")),
        ("a name with a newline", with_name("gate\nexample")),
        ("a name with a zero byte", with_name("gate\0example")),
        ("a name with a delete character", with_name("gate\u{7f}example")),
        ("a name with a zero-width space, which is no space", with_name("gate\u{200b}example")),
        ("a name with a byte order mark, which is no space", with_name("\u{feff}gate")),
        ("a name of 256 bytes", with_name(&"n".repeat(256))),
        ("a name of 128 characters that are 256 bytes", with_name(&"é".repeat(128))),
        (
            "no padding where there is some",
            vkey_text("gate.example", 1, &public[..31]).trim_end_matches('=').to_owned(),
        ),
        ("base64 of the other alphabet", format!("gate.example/support-1+{id}+{}", material.replace(['/', '+'], "_"))),
        ("unused bits set", format!("gate.example/support-1+{id}+{padded_bits}B=")),
        ("a space in the base64", format!("gate.example/support-1+{id}+{} {}", &material[..10], &material[10..])),
        ("type 0", vkey_text("gate.example", 0, public)),
        ("type 2", vkey_text("gate.example", 2, public)),
        ("type 5", vkey_text("gate.example", 5, public)),
        ("type 255", vkey_text("gate.example", 255, public)),
        ("31 bytes of key", vkey_text("gate.example", 1, &public[..31])),
        ("33 bytes of key", vkey_text("gate.example", 1, &[public, &[0]].concat())),
        ("a type alone", vkey_text("gate.example", 1, &[])),
        ("y = 2, which is no point", hex_key("0200000000000000000000000000000000000000000000000000000000000000")),
        ("the neutral point", hex_key("0100000000000000000000000000000000000000000000000000000000000000")),
        ("the point of order 2", hex_key("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")),
        ("a point of order 4", hex_key("0000000000000000000000000000000000000000000000000000000000000000")),
        ("the other point of order 4", hex_key("0000000000000000000000000000000000000000000000000000000000000080")),
        ("a point of order 8", hex_key("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")),
        ("a second point of order 8", hex_key("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85")),
        ("a third point of order 8", hex_key("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")),
        ("a fourth point of order 8", hex_key("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa")),
        ("the prime itself for y", hex_key("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")),
        ("the prime and one for y", hex_key("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")),
        ("the greatest y", hex_key("ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")),
        ("minus zero for x", hex_key("0100000000000000000000000000000000000000000000000000000000000080")),
        ("a witness's key of a point that is none", vkey_text("w.example", 4, &[2; 32])),
    ]
}

fn hostile_privates() -> Vec<(&'static str, String)> {
    let text = key("gate.example/support-1", KeyKind::Ed25519, 0).to_private_text().to_string();
    let vkey = key("gate.example/support-1", KeyKind::Ed25519, 0).verifier().to_string();
    let other = key("gate.example/support-1", KeyKind::Ed25519, 1).to_private_text().to_string();
    let material = |text: &str| text.rsplit_once('+').map(|(_, end)| end.to_owned()).unwrap_or_default();
    vec![
        ("a vkey", vkey),
        ("a private key with a newline behind", format!("{text}\n")),
        ("a private key in lower case", text.replace("PRIVATE+KEY", "private+key")),
        ("a private key cut short", text[..text.len() - 4].to_owned()),
        ("a private key with another seed", text.replace(&material(&text), &material(&other))),
        ("a private key under another name", text.replace("support-1", "support-2")),
        ("a private key without a name", text.replace("gate.example/support-1", "")),
        ("a private key of type 2", text.replace(&material(&text), &b64(&[&[2u8][..], &seed(0)].concat()))),
    ]
}

/// The order of the group, little-endian: 2^252 + 27742317777372353535851937790883648493.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

pub(super) fn ed25519() -> VectorFile {
    // One row of each combination of flags; the licence stands in the file.
    let sample = include_str!("../../../note/tests/cctv_sample.txt");
    let mut cases: Vec<Value> = sample
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| cctv_row(&line.split(';').collect::<Vec<_>>()))
        .collect();
    cases.extend(own_signatures());
    VectorFile {
        name: "ed25519.json",
        about: "Whether signature_hex is the key's over message_hex by strict verification: canonical A, R and S, no A or R of small order, the equation without cofactor. A key that is refused when it is read verifies nothing. The cases named cctv are from ed25519vectors.json of the Community Cryptography Test Vectors (c2sp.org/CCTV, directory ed25519), copyright 2019 Google LLC and 2022 Filippo Valsorda, under the BSD 3-clause licence that is printed in vectors/README.md; one row of each combination of flags.",
        cases,
    }
}

fn cctv_row(parts: &[&str]) -> Option<Value> {
    let &[number, key, signature, message, flags] = parts else { return None };
    let case =
        verified(&format!("cctv {number}"), &hex::decode(key).ok()?, message.as_bytes(), &hex::decode(signature).ok()?);
    Some(super::with(case, "flags", json!(flags.split(',').collect::<Vec<_>>())))
}

fn verified(name: &str, key: &[u8], message: &[u8], signature: &[u8]) -> Value {
    let key_name = KeyName::new("key.example").ok();
    let read = key_name.and_then(|key_name| VerifierKey::new(key_name, KeyKind::Ed25519, key).ok());
    let ok = read.is_some_and(|read| read.verify(message, signature));
    json!({"name": name, "key_hex": hex::encode(key), "message_hex": hex::encode(message), "signature_hex": hex::encode(signature), "ok": ok})
}

fn own_signatures() -> Vec<Value> {
    let signer = key("key.example", KeyKind::Ed25519, 0);
    let verifier = signer.verifier();
    let public = verifier.public_key_bytes();
    let message = b"counterfoil\n";
    let note = note::sign_note("counterfoil\n", &[&signer]).unwrap_or_default();
    let parsed = note::SignedNote::parse(&note);
    let signature =
        parsed.ok().and_then(|note| note.signatures().first().map(|line| line.blob.clone())).unwrap_or_default();
    let changed = |place: usize| {
        let mut other = signature.clone();
        other[place] ^= 1;
        other
    };
    vec![
        verified("a signature", public, message, &signature),
        verified("another message", public, b"counterfoil", &signature),
        verified("a bit of R changed", public, message, &changed(0)),
        verified("a bit of S changed", public, message, &changed(32)),
        verified(
            "another key",
            key("key.example", KeyKind::Ed25519, 1).verifier().public_key_bytes(),
            message,
            &signature,
        ),
        verified("S with the order added", public, message, &with_order_added(&signature)),
        verified("the top bit of S set", public, message, &{
            let mut other = signature.clone();
            other[63] |= 0x80;
            other
        }),
        verified("63 bytes", public, message, &signature[..63]),
        verified("65 bytes", public, message, &[&signature[..], &[0]].concat()),
        verified("no signature", public, message, &[]),
        verified("31 bytes of key", &public[..31], message, &signature),
    ]
}

/// The signature with another number for S that means the same: S + order, which still fits 32 bytes.
fn with_order_added(signature: &[u8]) -> Vec<u8> {
    let mut changed = signature.to_vec();
    let mut carry = 0u16;
    for (byte, add) in changed[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = (sum & 0xff) as u8;
        carry = sum >> 8;
    }
    changed
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_hand_made_vkeys_have_the_ids_of_real_ones() {
        let real = key("gate.example", KeyKind::Ed25519, 0).verifier();
        let made = vkey_text("gate.example", 1, real.public_key_bytes());
        assert_eq!(made, real.to_string());
    }

    #[test]
    fn of_the_known_rows_nine_are_good_and_of_our_own_one_is() {
        let file = ed25519();
        let good = |own: bool| {
            let is_own = |case: &&Value| case["name"].as_str().unwrap().starts_with("cctv") != own;
            file.cases.iter().filter(is_own).filter(|case| case["ok"] == true).count()
        };
        assert_eq!((file.cases.len(), good(false), good(true)), (83, 9, 1));
    }
}
