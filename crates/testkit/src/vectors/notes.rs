//! `notes.json`: splitting notes, and whose signatures on them are good.

use super::{VectorFile, b64, key};
use note::{KeyKind, SignedNote, SigningKey, VerifierKey, cosign, sign_note};
use serde_json::json;

pub(super) fn notes() -> VectorFile {
    let (ann, bob, witness) =
        (signer("ann.example"), signer("bob.example"), key("w.example/1", KeyKind::CosignatureV1, 3));
    let vkeys = [ann.verifier(), bob.verifier()];
    let cases = inputs(&ann, &bob, &witness).into_iter().map(|(name, note)| match SignedNote::parse(&note) {
        Err(error) => json!({"name": name, "note_b64": b64(&note), "code": error.code()}),
        Ok(parsed) => json!({
            "name": name, "note_b64": b64(&note), "text": parsed.text(), "signatures": parsed.signatures().len(),
            "vkeys": vkeys, "answers": vkeys.iter().map(|vkey| answer(&parsed, vkey)).collect::<Vec<_>>(),
        }),
    });
    VectorFile {
        name: "notes.json",
        about: "Split note_b64 as a signed note: text is what was signed, signatures how many lines there are, answers what checking each of vkeys gives: ok, signature-missing, or signature-bad where any line under that name and key id fails. code where it is no note.",
        cases: cases.collect(),
    }
}

fn answer(note: &SignedNote, vkey: &VerifierKey) -> &'static str {
    note.verify(vkey).map_or_else(|error| error.code(), |()| "ok")
}

fn signer(name: &str) -> SigningKey {
    key(name, KeyKind::Ed25519, 0)
}

fn inputs(ann: &SigningKey, bob: &SigningKey, witness: &SigningKey) -> Vec<(&'static str, Vec<u8>)> {
    let signed =
        |text: &str, keys: &[&SigningKey]| sign_note(text, keys).expect("the texts of the vectors can be signed");
    let good = String::from_utf8(signed("a text\n", &[ann])).expect("a note is UTF-8");
    let (text, line) = good.split_once("\n\n").unwrap_or_default();
    let by_bob = String::from_utf8(signed("a text\n", &[bob])).expect("a note is UTF-8");
    let bobs = by_bob.split("\n\n").nth(1).unwrap_or_default();
    let other_text = String::from_utf8(signed("another text\n", &[ann])).expect("a note is UTF-8");
    let foreign = other_text.split("\n\n").nth(1).unwrap_or_default();
    let unknown = "— ann.example AAAAAAECAwQ=\n";
    let cosigned = cosign("a text\n", witness, 1).map(|cosignature| cosignature.line).unwrap_or_default();
    let of = |lines: &[&str]| format!("{text}\n\n{}", lines.concat()).into_bytes();
    vec![
        ("one signature", good.clone().into_bytes()),
        ("two signatures", signed("a text\n", &[ann, bob])),
        ("a text of several lines", signed("a\nb\n c \n", &[ann])),
        ("a text with a blank line: the last one ends it", signed("a\n\nb\n", &[ann])),
        ("a text that ends in a blank line", signed("a\n\n", &[ann])),
        ("a text that holds signature lines", signed(&good, &[bob])),
        ("a text of one newline", signed("\n", &[ann])),
        ("a text beyond ASCII", signed("prüfen ✓ \u{1f600}\n", &[ann])),
        ("a text with a delete character", signed("\u{7f}\n", &[ann])),
        ("the same line twice", of(&[line, line])),
        ("a good line and a bad one under one key", of(&[line, foreign])),
        ("a bad line and a good one under one key", of(&[foreign, line])),
        ("one key's good line beside another's bad one", of(&[bobs, foreign])),
        ("a line of an unknown key id under a known name", of(&[unknown, line])),
        ("only a line of an unknown key id", of(&[unknown])),
        ("a witness's line beside", of(&[line, &format!("{}\n", cosigned.trim_end())])),
        ("another text under the same line", good.replacen("a text", "A text", 1).into_bytes()),
        ("a space more in the text", good.replacen("a text", "a text ", 1).into_bytes()),
        ("64 lines", of(&[line; 64])),
        ("65 lines", of(&[line; 65])),
        ("nothing", Vec::new()),
        ("a text alone", b"a text\n".to_vec()),
        ("a text and a blank line", b"a text\n\n".to_vec()),
        ("no blank line", good.replace("\n\n", "\n").into_bytes()),
        ("no text", format!("\n\n{line}").into_bytes()),
        ("no text and no line before the signatures", format!("\n{line}").into_bytes()),
        ("the last newline missing", good.trim_end().as_bytes().to_vec()),
        ("a newline more", format!("{good}\n").into_bytes()),
        ("text behind the signatures", format!("{good}more\n").into_bytes()),
        ("a blank line between signatures", format!("{text}\n\n{line}\n{bobs}").into_bytes()),
        ("carriage returns", good.replace('\n', "\r\n").into_bytes()),
        ("a tab in the text", good.replacen("a text", "a\ttext", 1).into_bytes()),
        ("a zero byte in the text", good.replacen("a text", "a\0text", 1).into_bytes()),
        ("an escape byte in the text", good.replacen("a text", "a\u{1b}[2Jtext", 1).into_bytes()),
        ("bytes that are no UTF-8", [b"a text \xff\n\n", line.as_bytes()].concat()),
        ("a surrogate in UTF-8", [b"a text \xed\xa0\x80\n\n", line.as_bytes()].concat()),
        ("a hyphen for the dash", good.replace('—', "-").into_bytes()),
        ("an en dash for the dash", good.replace('—', "–").into_bytes()),
        ("no space behind the dash", good.replace("— ", "—").into_bytes()),
        ("two spaces behind the dash", good.replace("— ", "—  ").into_bytes()),
        ("a name with a plus", good.replace("— ann.example", "— ann+example").into_bytes()),
        ("a name with a no-break space", good.replace("— ann.example", "— ann\u{a0}example").into_bytes()),
        ("a space behind the line", format!("{} \n", good.trim_end()).into_bytes()),
        ("base64 without padding", good.replace("=\n", "\n").into_bytes()),
        ("a key id alone", of(&["— ann.example AAAAAA==\n"])),
        ("a line without base64", of(&["— ann.example \n"])),
        ("a line without a name", of(&["— AAAAAAECAwQ=\n"])),
        ("unused bits set", of(&["— ann.example AAAAAAECAwR=\n"])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn every_answer_and_every_code_is_shown() {
        let cases = notes().cases;
        let codes: BTreeSet<&str> = cases.iter().filter_map(|case| case["code"].as_str()).collect();
        let known = ["bad-signature-line", "control-character", "not-utf8", "too-many-signatures", "unsigned"];
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), known);
        let answers: BTreeSet<&str> =
            cases.iter().filter_map(|case| case["answers"].as_array()).flatten().filter_map(Value::as_str).collect();
        assert_eq!(answers.into_iter().collect::<Vec<_>>(), ["ok", "signature-bad", "signature-missing"]);
    }
}
