//! Reports of many verdicts in all three forms: within their bounds, by their published schema, and harmless whatever
//! the receipts say.

use crate::verdicts;
use audit::completeness::{IssuerSpan, SpanMs};
use audit::{Family, Severity, Status, Verdict};
use base64::Engine;
use counterfoil_verifier::report::named::{Bodies, read_bodies};
use counterfoil_verifier::report::{html, json, text};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::BTreeSet;
use verdicts::world::START_MS;
use verdicts::{Case, completeness, hostile, huge, of_text, real, telling};

fn schema() -> Value {
    serde_json::from_str(include_str!("../../docs/verdict.schema.json")).unwrap()
}

fn value_of(verdict: &Verdict) -> Value {
    serde_json::from_str(&json::verdict_json(verdict).unwrap()).unwrap()
}

fn text_of(verdict: &Verdict) -> String {
    let mut out = Vec::new();
    text::write_text(verdict, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The text as it looks where colours are not shown.
fn plain_text_of(verdict: &Verdict) -> String {
    anstream::adapter::strip_str(&text_of(verdict)).to_string()
}

/// All kinds of verdicts, the hostile ones too.
fn all() -> Vec<(String, Verdict)> {
    let mut all: Vec<(String, Verdict)> = real().into_iter().map(|case| (case.name.to_owned(), case.verdict)).collect();
    all.push((String::from("telling"), telling().verdict));
    all.push((String::from("huge"), huge()));
    all.extend(hostile().iter().enumerate().map(|(place, text)| (format!("hostile {place}"), of_text(text))));
    all
}

#[test]
fn the_verdicts_here_are_of_every_ending_and_of_many_families() {
    let real = real();
    let endings: BTreeSet<u8> = real.iter().map(|case| case.verdict.exit_code).collect();
    assert_eq!(endings, [0, 1, 2].into());
    let families: BTreeSet<_> =
        real.iter().flat_map(|case| &case.verdict.checks).map(|check| check.family.as_str()).collect();
    for family in ["head", "quorum", "issuer", "sequence", "foreign"] {
        assert!(families.contains(family), "{family}");
    }
    let severities = |severity: Severity| {
        let findings = real.iter().flat_map(|case| &case.verdict.checks).flat_map(|check| &check.findings);
        findings.filter(|finding| finding.severity == severity).count()
    };
    assert!([Severity::Fail, Severity::NotChecked, Severity::Notice].map(severities).iter().all(|count| *count > 3));
    assert!(real.iter().any(|case| !case.verdict.evidence.is_empty()));
}

#[test]
fn every_verdict_is_as_the_published_schema_says() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    for (name, verdict) in all().into_iter().filter(|(name, _)| name != "huge") {
        let value = value_of(&verdict);
        let faults: Vec<String> =
            schema.iter_errors(&value).map(|fault| format!("{} {fault}", fault.instance_path())).take(3).collect();
        assert!(faults.is_empty(), "{name}: {faults:#?}");
    }
}

/// The document at each place of `value` that is unlike all others, changed in every way that changes its shape.
fn mutations(value: &Value) -> Vec<(String, Value)> {
    fn walk(whole: &Value, at: &Value, path: &str, seen: &mut BTreeSet<String>, out: &mut Vec<(String, Value)>) {
        let shape: String = path.split('/').map(|part| if part.parse::<u32>().is_ok() { "*" } else { part }).collect();
        // Evidence has formats of its own; counts are named by code.
        let open = path.starts_with("/evidence/") || path.ends_with("/counts") || path.ends_with("/outcomes");
        if seen.insert(shape) {
            let mut change = |what: &str, change: &dyn Fn(&mut Value)| {
                let mut changed = whole.clone();
                change(changed.pointer_mut(path).unwrap());
                out.push((format!("{what} {path}"), changed));
            };
            match at {
                Value::Object(members) if !open => {
                    change("surplus in", &|value| value["surplus"] = json!(1));
                    for name in members.keys() {
                        change(&format!("no {name} in"), &|value| {
                            value.as_object_mut().unwrap().remove(name);
                        });
                    }
                }
                Value::Number(_) => {
                    change("a fraction for", &|value| *value = json!(0.5));
                    change("a negative for", &|value| *value = json!(-1));
                    change("a text for", &|value| *value = json!("1"));
                }
                Value::String(_) | Value::Bool(_) => change("a number for", &|value| *value = json!(7)),
                Value::Array(_) => change("an object for", &|value| *value = json!({})),
                _ => {}
            }
        }
        match at {
            Value::Object(members) if !open => {
                for (name, member) in members {
                    walk(whole, member, &format!("{path}/{name}"), seen, out);
                }
            }
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    walk(whole, item, &format!("{path}/{place}"), seen, out);
                }
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    walk(value, value, "", &mut BTreeSet::new(), &mut out);
    out
}

#[test]
fn a_verdict_that_was_changed_in_shape_is_refused_by_the_schema() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let value = value_of(&telling().verdict);
    let mut mutations = mutations(&value);
    assert!(mutations.len() > 200, "{}", mutations.len());
    let mut other = |what: &str, path: &str, to: Value| {
        let mut changed = value.clone();
        *changed.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = to;
        mutations.push((what.to_owned(), changed));
    };
    other("an unknown ending", "/overall", json!("fine"));
    other("an unknown exit code", "/exit_code", json!(3));
    other("no code", "/checks/0/counts", json!({"<b>": 1}));
    other("a family nobody knows", "/checks/0/family", json!("weather"));
    other("three of two", "/coverage/cosigned_sizes", json!([1, 2, 3]));
    for (what, mutated) in mutations {
        assert!(!schema.is_valid(&mutated), "{what}");
    }
}

#[test]
fn the_schema_is_closed_and_says_what_every_member_is() {
    fn walk(path: &str, schema: &Value, objects: &mut usize) {
        if let Some(properties) = schema["properties"].as_object() {
            *objects += 1;
            let is_evidence = path.ends_with("/evidence") && path.starts_with("/$defs");
            assert!(schema["additionalProperties"] == json!(false) || is_evidence, "{path} is open");
            for (name, property) in properties {
                assert!(property["description"].as_str().is_some_and(|told| told.len() > 8), "{path}/{name}");
            }
        }
        let members = schema.as_object().into_iter().flatten();
        members.for_each(|(name, member)| walk(&format!("{path}/{name}"), member, objects));
    }
    let schema = schema();
    assert!(jsonschema::meta::is_valid(&schema));
    let mut objects = 0;
    walk("", &schema, &mut objects);
    assert!(objects > 15, "{objects}");
}

#[test]
fn the_json_is_ascii_and_reads_back_as_the_same_values() {
    for text in hostile() {
        let verdict = of_text(&text);
        let json = json::verdict_json(&verdict).unwrap();
        assert!(json.chars().all(|character| matches!(character, ' '..='~')), "{text:.40}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), serde_json::to_value(&verdict).unwrap());
    }
}

#[test]
fn a_text_fits_80_columns_and_obeys_nobody() {
    for (name, verdict) in all() {
        let text = plain_text_of(&verdict);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{name}: {} columns: {line}", line.chars().count());
            assert!(line.chars().all(|character| matches!(character, ' '..='~')), "{name}: {line:?}");
            assert!(!line.ends_with(' '), "{name}: {line:?}");
        }
        // Nothing but our own colours.
        let coloured = text_of(&verdict);
        let escapes = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];
        let rest = escapes.iter().fold(coloured, |text, escape| text.replace(escape, ""));
        assert_eq!(rest, text, "{name}");
        // Whatever was put into it, it says as the first thing how it ended, and only once.
        let words = ["ok: ", "FAIL: ", "not checked: "];
        let endings = text.lines().filter(|line| words.iter().any(|word| line.starts_with(word))).count();
        assert_eq!(endings, 1, "{name}: {text}");
    }
}

#[test]
fn a_text_is_short_when_all_is_well_and_bounded_when_nothing_is() {
    let real = real();
    let honest = &real.iter().find(|case| case.name == "honest, with a time").unwrap().verdict;
    assert_eq!(honest.overall, Status::Ok);
    let text = plain_text_of(honest);
    assert!(text.lines().count() <= 45, "{text}");

    // What an earlier audit judged is not said to have been read.
    let mut later = honest.clone();
    later.coverage.since = Some(20);
    for form in [plain_text_of(&later), html::page(&later, &Bodies::new())] {
        let told = form.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            told.contains("21 entries: 20 judged by the earlier audit whose saved state was given, and 1 read"),
            "{told}"
        );
        assert!(!told.contains("21 entries read"), "{told}");
    }

    // Twenty issuers at work, each with a moment after its last receipt, take little more than one.
    let mut many = honest.clone();
    let number =
        many.checks.iter().position(|check| check.family == Family::Issuer && check.name != "entries").unwrap();
    let mut check = many.checks[number].clone();
    let mut notice = telling().verdict.checks.iter().flat_map(|check| check.findings.clone()).next().unwrap();
    (notice.code, notice.severity) = ("unknown-type", Severity::Notice);
    (check.counts, check.findings) = ([("unknown-type", 1)].into(), vec![notice]);
    many.checks.splice(number..=number, vec![check; 20]);
    let issuer = many.completeness.issuers[0].clone();
    many.completeness.issuers = (1..=20)
        .map(|number| IssuerSpan {
            receipts: number,
            uncovered: Some(SpanMs { from_ms: START_MS, to_ms: START_MS + number }),
            ..issuer.clone()
        })
        .collect();
    let text = plain_text_of(&many);
    assert!(text.lines().count() <= 75, "{text}");
    assert!(text.contains("and 17 more issuers of which nothing is missing; --json has them"), "{text}");
    assert!(text.contains("and 19 more unknown-type, also in 19 other checks"), "{text}");
    // On the page, too, a notice of a kind stands once, and so do the receipts that it names.
    let page = html::page(&many, &Bodies::new());
    assert_eq!(page.matches("<article").count(), 1 + html::page(honest, &Bodies::new()).matches("<article").count());
    assert!(page.contains("and 19 more unknown-type, also in 19 other checks"));
    // One of which nothing is known stands before them.
    many.completeness.issuers.push(IssuerSpan { issuer: "gate.example/mute".to_owned(), ..IssuerSpan::default() });
    assert!(plain_text_of(&many).contains("Issuers\n  gate.example/mute\n"), "{}", plain_text_of(&many));

    let lines = plain_text_of(&huge()).lines().count();
    assert!(lines < 10_000, "{lines}");
}

#[test]
fn a_notice_says_what_to_do_unless_that_is_nothing() {
    let mut verdict = telling().verdict;
    let mut notice = verdict.checks.iter().flat_map(|check| check.findings.clone()).next().unwrap();
    (notice.code, notice.severity) = ("journal-alarm", Severity::Notice);
    notice.next = String::from("ask the witness for its evidence");
    verdict.checks.truncate(1);
    (verdict.checks[0].counts, verdict.checks[0].findings) = ([("journal-alarm", 1)].into(), vec![notice]);
    assert!(plain_text_of(&verdict).contains("      next       ask the witness for its evidence\n"));
    verdict.checks[0].findings[0].next = String::from("nothing to do; it was so before");
    assert!(!plain_text_of(&verdict).contains("nothing to do"));
}

#[test]
fn every_form_says_what_was_not_checked() {
    for Case { name, verdict, .. } in real() {
        let text = plain_text_of(&verdict);
        let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let page = html::page(&verdict, &Bodies::new());
        for check in verdict.checks.iter().filter(|check| check.status == Status::NotChecked) {
            let id = format!("{}/{}", check.family.as_str(), check.name);
            assert!(told.contains(&id), "{name}: {id} in {text}");
            assert!(told.contains(&check.covers), "{name}: {} in {text}", check.covers);
            let heading =
                if check.required { "Required, and not checked (" } else { "Not required, and not checked (" };
            assert!(text.contains(heading), "{name}: {text}");
            assert!(page.contains(&check.name), "{name}: {id}");
        }
    }
}

#[test]
fn issuers_and_witnesses_are_told_the_torn_ones_first() {
    let text = plain_text_of(&telling().verdict);
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(place("gate.example/payments") < place("gate.example/never-seen"));
    assert!(place("gate.example/never-seen") < place("gate.example/trial"));
    for told in
        ["! 1 gap missing: seq 42 to 57", "? no receipt in the log", "! it alone shows 1 head", "closed: nothing"]
    {
        place(told);
    }
}

/// Names and values, in order.
type Attributes = Vec<(String, String)>;

/// What a browser sees: start tags with their attributes in order, and whatever text is between them.
#[derive(Default)]
struct Seen {
    tags: RefCell<Vec<(String, Attributes)>>,
    text: RefCell<String>,
    other: RefCell<Vec<String>>,
}

impl TokenSink for Seen {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(Tag { kind: TagKind::StartTag, name, attrs, .. }) => {
                let attributes =
                    attrs.iter().map(|attribute| (attribute.name.local.to_string(), attribute.value.to_string()));
                self.tags.borrow_mut().push((name.to_string(), attributes.collect()));
                // What a tree builder does for these two, so that their content is read as a browser reads it.
                match &*name {
                    "style" => return TokenSinkResult::RawData(RawKind::Rawtext),
                    "title" if self.tags.borrow().iter().all(|(tag, _)| tag != "svg") => {
                        return TokenSinkResult::RawData(RawKind::Rcdata);
                    }
                    _ => {}
                }
            }
            Token::CharacterTokens(text) => self.text.borrow_mut().push_str(&text),
            Token::CommentToken(_) | Token::NullCharacterToken | Token::ParseError(_) => {
                self.other.borrow_mut().push(format!("{token:?}"));
            }
            Token::TagToken(_) | Token::DoctypeToken(_) | Token::EOFToken => {}
        }
        TokenSinkResult::Continue
    }
}

fn seen(page: &str) -> Seen {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(page));
    let tokenizer = Tokenizer::new(Seen::default(), Default::default());
    let _scripts_are_not_run = tokenizer.feed(&input);
    assert!(input.is_empty());
    tokenizer.end();
    tokenizer.sink
}

fn page_with_bodies(verdict: &Verdict, body: &str) -> String {
    let receipts = verdict.checks.iter().flat_map(|check| &check.findings).flat_map(|finding| &finding.receipts);
    html::page(verdict, &receipts.map(|receipt| (receipt.id.0, body.to_owned())).collect())
}

#[test]
fn no_element_and_no_attribute_of_a_page_comes_from_a_receipt() {
    let without_fold = |tags: &[(String, Attributes)]| -> Vec<(String, Attributes)> {
        // Whether a body is folded away hangs on its length.
        let attributes = |all: &[(String, String)]| all.iter().filter(|(name, _)| name != "open").cloned().collect();
        tags.iter().map(|(tag, all)| (tag.clone(), attributes(all))).collect()
    };
    let harmless = seen(&page_with_bodies(&of_text("x"), "x"));
    let expected = without_fold(&harmless.tags.borrow());
    assert!(expected.len() > 300, "{}", expected.len());
    for text in hostile() {
        let page = page_with_bodies(&of_text(&text), &text);
        let seen = seen(&page);
        assert_eq!(*seen.other.borrow(), [] as [String; 0], "{text:.40}");
        assert_eq!(without_fold(&seen.tags.borrow()), expected, "{text:.40}");
        let ours = |character| matches!(character, ' '..='~' | '\n' | '\u{2715}' | '\u{2713}' | '\u{2013}');
        assert!(page.chars().all(ours), "{text:.40}");
        // It is there all the same, as text.
        let start: String = text.chars().take_while(|character| matches!(character, ' '..='~')).take(60).collect();
        assert!(seen.text.borrow().contains(&start), "{start}");
    }
}

#[test]
fn a_page_asks_for_nothing_and_allows_nothing_but_its_own_style() {
    let page = html::page(&telling().verdict, &Bodies::new());
    let seen = seen(&page);
    let tags = seen.tags.borrow();
    for forbidden in
        ["script", "img", "link", "iframe", "object", "embed", "form", "input", "base", "image", "use", "a:"]
    {
        assert!(tags.iter().all(|(tag, _)| tag != forbidden), "{forbidden}");
    }
    let ids: BTreeSet<&str> =
        tags.iter().flat_map(|(_, all)| all).filter(|(name, _)| name == "id").map(|(_, id)| id.as_str()).collect();
    for (name, value) in tags.iter().flat_map(|(_, all)| all) {
        assert!(!name.starts_with("on") && name != "style" && name != "src", "{name}");
        if name == "href" {
            assert!(value.strip_prefix('#').is_some_and(|id| ids.contains(id)), "{value}");
        }
        if value.contains("url(") {
            assert!(["url(#hatch)", "url(#dots)"].contains(&value.as_str()), "{value}");
        }
    }
    let (_, style) = page.split_once("<style>").unwrap();
    let (style, _) = style.split_once("</style>").unwrap();
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(style.as_bytes()));
    let policy = tags.iter().find(|(tag, all)| tag == "meta" && all[0].1 == "Content-Security-Policy").unwrap();
    assert_eq!(
        policy.1[1].1,
        format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
    );
    assert!(!style.contains("url(") && !style.contains("@import"), "the style asks for something");
}

#[test]
fn a_page_stays_one_that_can_be_mailed_whatever_it_is_about() {
    let verdict = huge();
    let page = page_with_bodies(&verdict, &"\u{202e}".repeat(60_000));
    assert!(page.len() < html::MAX_PAGE_BYTES, "{} bytes", page.len());
    let text = seen(&page).text.into_inner();
    for said in ["more of gap", "more receipts", "more documents", "Drawn: 24 of 120 issuers", "none of them worse"] {
        assert!(text.contains(said), "{said}");
    }
}

#[test]
fn a_page_shows_the_receipts_that_findings_name_as_the_bundle_holds_them() {
    let Case { verdict, mut bundle, .. } = real().into_iter().find(|case| case.name == "attacked").unwrap();
    let bodies = read_bodies(&bundle, &verdict).unwrap();
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    let page = html::page(&verdict, &bodies);
    let seen = seen(&page);
    assert!(seen.text.borrow().contains(r#""action_class":"CREDENTIAL_RECOVERY""#), "{page}");
    for anchor in ["receipt-1", "receipt-2"] {
        let attribute = |name: &str, value: &str| {
            seen.tags.borrow().iter().flat_map(|(_, all)| all).filter(|all| all.0 == name && all.1 == value).count()
        };
        assert_eq!(attribute("id", anchor), 1);
        assert!(attribute("href", &format!("#{anchor}")) >= 1);
    }
    // Bytes that are not the receipt's are not shown as if they were.
    let path = "log/tile/entries/000.p/3";
    let changed =
        String::from_utf8_lossy(bundle.get(path).unwrap()).replace("CREDENTIAL_RECOVERY", "CREDENTIAL_RECOVERX");
    bundle.insert(path, changed);
    assert!(read_bodies(&bundle, &verdict).unwrap().values().all(|body| !body.contains("RECOVERX")));
}

#[test]
fn a_lane_shows_every_kind_of_mark() {
    let mut verdict = telling().verdict;
    verdict.completeness = completeness();
    let page = html::page(&verdict, &Bodies::new());
    let text = seen(&page).text.into_inner();
    for told in [
        "missing: seq 42 to 57",
        "fork: a second seq 77, index 231",
        "silent longer than its heartbeat",
        "there was more: seq 131 is shown by proofs/131.tlog-proof",
        "not covered: ",
        "closed: nothing is to come",
        "no receipt in the log",
        "no cosignature: ",
        "no head that a quorum saw: ",
        "cosigned at 2026-11-29T12:01:00Z",
        "the time of the audit: ",
    ] {
        assert!(text.contains(told), "{told}");
    }
    // With nothing known there is no picture, and it says so.
    verdict.completeness = Default::default();
    assert!(html::page(&verdict, &Bodies::new()).contains("There is no time to draw"));
}

#[test]
fn times_that_make_no_sense_are_drawn_within_the_picture() {
    let mut verdict = telling().verdict;
    for issuer in &mut verdict.completeness.issuers {
        issuer.last.iter_mut().for_each(|last| last.issued_at_ms = u64::MAX);
        issuer.first.iter_mut().for_each(|first| first.issued_at_ms = 0);
        issuer.uncovered.iter_mut().for_each(|span| (span.from_ms, span.to_ms) = (u64::MAX, 0));
        issuer.gaps.iter_mut().for_each(|gap| gap.before.issued_at_ms = 0);
        issuer.activity = vec![u64::MAX; 240];
    }
    for witness in &mut verdict.completeness.witnesses {
        witness.cosigned_at_s = vec![0, u64::MAX];
    }
    let page = html::page(&verdict, &Bodies::new());
    let tags = seen(&page).tags.into_inner();
    let places = tags.iter().flat_map(|(_, all)| all).filter(|(name, _)| matches!(name.as_str(), "x" | "x1" | "x2"));
    let mut count = 0;
    for (_, place) in places.filter(|(_, place)| place.ends_with('%')) {
        let percent: f64 = place.trim_end_matches('%').parse().unwrap();
        assert!((0.0..=100.0).contains(&percent), "{place}");
        count += 1;
    }
    assert!(count > 20 && !page.contains("NaN") && !page.contains("inf%"), "{count}");
    assert!(plain_text_of(&verdict).lines().all(|line| line.len() <= 80));
}
