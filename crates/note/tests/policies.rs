//! Policies: the file format of tlog-policy, all of it, and the exact arithmetic over quorums.
#![allow(clippy::unwrap_used, clippy::panic)]

use counterfoil_note as note;
use note::{KeyError, KeyKind, KeyName, MAX_POLICY_LEN, Member, Policy, PolicyErrorKind, SigningKey, Tolerance};
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn the_specs_example_is_read_and_judged_as_described() {
    let text = format!(
        "log {}\n\nwitness X1 {}\nwitness X2 {}\nwitness X3 {}\ngroup X-witnesses 2 X1 X2 X3\n\n\
         witness Y1 {}\nwitness Y2 {}\nwitness Y3 {}\ngroup Y-witnesses any Y1 Y2 Y3\n\n\
         group X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n",
        log(0),
        witness(1),
        witness(2),
        witness(3),
        witness(4),
        witness(5),
        witness(6)
    );
    let policy = parse(&text).unwrap();
    assert_eq!((policy.logs().len(), policy.witnesses().len(), policy.groups().len()), (1, 6, 3));
    assert_eq!(policy.quorum(), Some(Member::Group(2)));
    for (cosigners, satisfied) in [
        (vec![], false),
        (vec![0, 1], false),
        (vec![0, 1, 3], true),
        (vec![0, 3, 4, 5], false),
        (vec![0, 2, 5], true),
        (vec![0, 1, 2, 3, 4, 5], true),
    ] {
        assert_eq!(policy.satisfied_by(&cosigners.iter().copied().collect()), satisfied, "{cosigners:?}");
    }
    assert_eq!(policy.tolerance(), Tolerance { witnesses: 6, min_quorum: 3, liars_for_split_view: 1, max_silent: 1 });
}

#[test]
fn a_single_witness_or_nobody_can_be_the_quorum() {
    let policy = parse(&format!("witness w {}\nquorum w\n", witness(1))).unwrap();
    assert!(policy.satisfied_by(&BTreeSet::from([0])) && !policy.satisfied_by(&BTreeSet::new()));
    assert_eq!(policy.tolerance(), Tolerance { witnesses: 1, min_quorum: 1, liars_for_split_view: 1, max_silent: 0 });
    let nobody = parse("quorum none\n").unwrap();
    assert!(nobody.satisfied_by(&BTreeSet::new()));
    assert_eq!(nobody.tolerance(), Tolerance { witnesses: 0, min_quorum: 0, liars_for_split_view: 0, max_silent: 0 });
}

#[test]
fn flat_quorums_follow_two_k_minus_n() {
    for (k, n, liars) in [(2, 3, 1), (3, 5, 1), (3, 3, 3), (1, 3, 0), (2, 4, 0), (3, 4, 2), (5, 7, 3), (1, 1, 1)] {
        let policy = flat(k, n);
        let expected = Tolerance { witnesses: n, min_quorum: k, liars_for_split_view: liars, max_silent: n - k };
        assert_eq!(policy.tolerance(), expected, "{k} of {n}");
    }
}

#[test]
fn witnesses_of_one_operator_count_once_and_need_not_lie_to_look_two_ways() {
    let mut text = String::new();
    for number in 1..=6 {
        text += &format!("witness w{number} {}\n", witness(number));
    }
    text += "group a any w1 w2\ngroup b any w3 w4\ngroup c any w5 w6\ngroup two 2 a b c\nquorum two\n";
    let tolerance = parse(&text).unwrap().tolerance();
    // One operator's two witnesses can each be shown another view: honest, and yet a split.
    assert_eq!(tolerance, Tolerance { witnesses: 6, min_quorum: 2, liars_for_split_view: 0, max_silent: 3 });
}

#[test]
fn witnesses_outside_the_quorum_do_not_count() {
    let text = format!("witness a {}\nwitness b {}\nquorum b\nwitness c {}\n", witness(1), witness(2), witness(3));
    let policy = parse(&text).unwrap();
    assert_eq!(policy.witnesses().len(), 3);
    assert_eq!(policy.tolerance().witnesses, 1);
    assert!(!policy.satisfied_by(&BTreeSet::from([0, 2])));
}

#[test]
fn blanks_tabs_comments_and_urls_are_read_as_specified() {
    let text = format!(
        "# a comment\n#another\n \t # indented\n\n \t \n\tlog\t {}  https://log.example/x \t\nwitness all {} https://müller.example\ngroup any all all \nquorum any\n",
        log(0),
        witness(1)
    );
    let policy = parse(&text).unwrap();
    assert_eq!(policy.logs()[0].url.as_deref(), Some("https://log.example/x"));
    assert_eq!(policy.witnesses()[0].url.as_deref(), Some("https://müller.example"));
    assert_eq!((policy.groups()[0].name.as_bytes(), policy.groups()[0].threshold), (b"any".as_slice(), 1));
}

#[test]
fn names_are_opaque_octets() {
    // "K", the Kelvin sign, a no-break space and octets that are no UTF-8 are four different names.
    let mut text = Vec::new();
    let names: [&[u8]; 4] = [b"K", b"\xe2\x84\xaa", b"\xc2\xa0", b"\xff\xfe"];
    for (number, name) in (1..).zip(names) {
        text.extend_from_slice(b"witness ");
        text.extend_from_slice(name);
        text.extend_from_slice(format!(" {} ", witness(number)).as_bytes());
        text.extend_from_slice(b"https://w.example/\xff\n");
    }
    text.extend_from_slice(b"group \x80 all K \xe2\x84\xaa \xc2\xa0 \xff\xfe\nquorum \x80\n");
    let policy = Policy::parse(&text).unwrap();
    assert_eq!(policy.tolerance().min_quorum, 4);
    assert_eq!(policy.witnesses()[3].name.as_bytes(), b"\xff\xfe");
    assert_eq!(policy.witnesses()[0].url.as_deref(), Some("https://w.example/%FF"));
    assert_eq!(Policy::parse(&policy.to_octets()), Ok(policy));
}

#[test]
fn every_refusal_names_its_line_and_says_what_to_do() {
    use PolicyErrorKind as Kind;
    let (l, w, w2) = (log(0), witness(1), witness(2));
    let renamed =
        SigningKey::from_seed(KeyName::new("other.example").unwrap(), KeyKind::CosignatureV1, [1; 32]).verifier();
    let renamed_log =
        SigningKey::from_seed(KeyName::new("other.example").unwrap(), KeyKind::Ed25519, [0; 32]).verifier();
    let form = |text: &str| -> Kind { Kind::Keyword(name(text)) };
    for (text, line, kind) in [
        (String::new(), 1, Kind::NoQuorum),
        (format!("\nlog {l}\n"), 2, Kind::NoQuorum),
        ("quorum none".to_owned(), 1, Kind::Unterminated),
        ("quorum none\r\n".to_owned(), 1, Kind::Control(b'\r')),
        ("#\nquorum \0none\n".to_owned(), 2, Kind::Control(0)),
        ("# \u{7f}\nquorum none\n".to_owned(), 1, Kind::Control(0x7f)),
        ("Quorum none\n".to_owned(), 1, form("Quorum")),
        ("\u{feff}quorum none\n".to_owned(), 1, form("\u{feff}quorum")),
        ("quorum\u{a0}none\n".to_owned(), 1, form("quorum\u{a0}none")),
        ("quorum none # not a comment\n".to_owned(), 1, Kind::TooManyWords("quorum <name>|none", name("#"))),
        ("quorum\n".to_owned(), 1, Kind::TooFewWords("quorum <name>|none")),
        ("quorum none\n\nquorum none\n".to_owned(), 3, Kind::SecondQuorum(1)),
        ("quorum w\n".to_owned(), 1, Kind::Undefined(name("w"))),
        (format!("quorum w\nwitness w {w}\n"), 1, Kind::Undefined(name("w"))),
        ("log\n".to_owned(), 1, Kind::TooFewWords("log <vkey> [<url>]")),
        (format!("log {l} https://a x\n"), 1, Kind::TooManyWords("log <vkey> [<url>]", name("x"))),
        ("log nonsense\n".to_owned(), 1, Kind::Key(KeyError::Shape)),
        (format!("log {w}\n"), 1, Kind::KeyKind { role: "log", wanted: 1, found: 4 }),
        (format!("log {l}\nlog {l}\n"), 2, Kind::DuplicateKey(1)),
        (format!("log {l}\n#\nlog {renamed_log}\n"), 3, Kind::DuplicateKey(1)),
        ("witness w\n".to_owned(), 1, Kind::TooFewWords("witness <name> <vkey> [<url>]")),
        (format!("witness w {l}\n"), 1, Kind::KeyKind { role: "witness", wanted: 4, found: 1 }),
        (format!("witness none {w}\n"), 1, Kind::ReservedName),
        (format!("witness w {w}\nwitness w {w2}\n"), 2, Kind::DuplicateName(name("w"))),
        (format!("witness w {w}\nwitness v {renamed}\n"), 2, Kind::DuplicateKey(1)),
        (format!("witness w {w} url x\n"), 1, Kind::TooManyWords("witness <name> <vkey> [<url>]", name("x"))),
        (format!("witness w {w}\ngroup g any\n"), 2, Kind::TooFewWords("group <name> all|any|<k> <member>...")),
        (format!("witness w {w}\ngroup g 0 w\n"), 2, Kind::Threshold { found: name("0"), members: 1 }),
        (format!("witness w {w}\ngroup g 2 w\n"), 2, Kind::Threshold { found: name("2"), members: 1 }),
        (format!("witness w {w}\ngroup g 01 w\n"), 2, Kind::Threshold { found: name("01"), members: 1 }),
        (format!("witness w {w}\ngroup g +1 w\n"), 2, Kind::Threshold { found: name("+1"), members: 1 }),
        (format!("witness w {w}\ngroup g ALL w\n"), 2, Kind::Threshold { found: name("ALL"), members: 1 }),
        (format!("witness w {w}\ngroup w any w\n"), 2, Kind::DuplicateName(name("w"))),
        (format!("witness w {w}\ngroup g any w w\n"), 2, Kind::MemberTwice(name("w"))),
        (format!("witness w {w}\ngroup g any w\ngroup h any w\n"), 3, Kind::MemberTwice(name("w"))),
        (format!("witness w {w}\ngroup g any w\ngroup h any g\ngroup i any g\n"), 4, Kind::MemberTwice(name("g"))),
        (format!("witness w {w}\ngroup g any g\n"), 2, Kind::Undefined(name("g"))),
        (format!("witness w {w}\ngroup g any none\n"), 2, Kind::NoneAsMember),
        (format!("witness w {w}\ngroup none any w\n"), 2, Kind::ReservedName),
        ("#\n".repeat(MAX_POLICY_LEN / 2 + 1), MAX_POLICY_LEN / 2 + 1, Kind::FileTooLong),
    ] {
        let error = parse(&text).unwrap_err();
        assert_eq!((error.line, &error.kind), (line, &kind), "{:?}", &text[..text.len().min(300)]);
        assert!(error.to_string().starts_with(&format!("policy line {line}: ")), "{error}");
    }
}

#[test]
fn the_limits_exceed_32_of_each_and_hold() {
    let many = |count: usize| {
        let mut text = String::new();
        for number in 0..count {
            text += &format!(
                "log {}\nwitness w{number} {}\ngroup g{number} any w{number}\n",
                numbered("log", number, KeyKind::Ed25519),
                numbered("witness", number, KeyKind::CosignatureV1)
            );
        }
        text + "quorum none\n"
    };
    assert_eq!(parse(&many(256)).unwrap().witnesses().len(), 256);
    let error = parse(&many(257)).unwrap_err();
    assert_eq!((error.line, error.kind), (256 * 3 + 1, PolicyErrorKind::TooMany("log")));
}

#[test]
fn groups_nested_to_the_limit_are_judged() {
    let mut text = format!("witness w {}\ngroup g0 any w\n", witness(1));
    for depth in 1..256 {
        text += &format!("group g{depth} all g{}\n", depth - 1);
    }
    text += "quorum g255\n";
    assert_eq!(parse(&text).unwrap().tolerance().liars_for_split_view, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_arithmetic_agrees_with_all_subsets_of_random_nested_policies(shape in nested(7)) {
        let policy = shape.policy();
        prop_assert_eq!(policy.tolerance(), brute_force(&policy));
        prop_assert_eq!(Policy::parse(&policy.to_octets()), Ok(policy));
    }

    #[test]
    fn arbitrary_octets_never_panic(octets: Vec<u8>, words in "((log|witness|group|quorum|none|any|all|[a-c]|[0-3]|#)[ \t\n]){0,30}") {
        let _ = Policy::parse(&octets);
        let _ = Policy::parse(words.as_bytes());
    }
}

/// Every number by looking at every subset of the witnesses.
fn brute_force(policy: &Policy) -> Tolerance {
    let n = policy.witnesses().len();
    let set = |bits: u32| -> BTreeSet<usize> { (0..n).filter(|place| bits & (1 << place) != 0).collect() };
    let satisfied: Vec<bool> = (0..1 << n).map(|bits| policy.satisfied_by(&set(bits))).collect();
    // Reachable: those whose signature can ever make a difference.
    let counts = |place: usize| {
        (0..1_u32 << n).any(|bits| {
            bits & (1 << place) == 0 && !satisfied[bits as usize] && satisfied[(bits | 1 << place) as usize]
        })
    };
    let min_quorum =
        (0..1_u32 << n).filter(|bits| satisfied[*bits as usize]).map(u32::count_ones).min().unwrap() as usize;
    // Liars cosign both views, every other witness one view or the other.
    let splits = |liars: u32| {
        (0..1_u32 << n)
            .any(|left| satisfied[(left | liars) as usize] && satisfied[(!left & ((1 << n) - 1) | liars) as usize])
    };
    let liars = (0..1_u32 << n).filter(|liars| splits(*liars)).map(u32::count_ones).min().unwrap() as usize;
    let all = (1_u32 << n) - 1;
    let survives = |silent: usize| {
        (0..1_u32 << n)
            .filter(|down| down.count_ones() as usize == silent)
            .all(|down| satisfied[(all & !down) as usize])
    };
    let max_silent = (0..=n).filter(|silent| survives(*silent)).max().unwrap();
    let witnesses = (0..n).filter(|place| counts(*place)).count();
    Tolerance { witnesses, min_quorum, liars_for_split_view: liars, max_silent }
}

/// A random tree: a witness, or a group with a threshold.
#[derive(Debug, Clone)]
enum Shape {
    Witness,
    Group(usize, Vec<Shape>),
}

impl Shape {
    fn policy(&self) -> Policy {
        let (mut text, mut witnesses, mut groups) = (String::new(), 0, 0);
        let top = self.write(&mut text, &mut witnesses, &mut groups);
        parse(&format!("{text}quorum {top}\n")).unwrap()
    }

    fn write(&self, text: &mut String, witnesses: &mut u8, groups: &mut u8) -> String {
        match self {
            Shape::Witness => {
                *witnesses += 1;
                *text += &format!("witness w{witnesses} {}\n", witness(*witnesses));
                format!("w{witnesses}")
            }
            Shape::Group(threshold, members) => {
                let names: Vec<String> = members.iter().map(|member| member.write(text, witnesses, groups)).collect();
                *groups += 1;
                *text += &format!("group g{groups} {threshold} {}\n", names.join(" "));
                format!("g{groups}")
            }
        }
    }

    fn witnesses(&self) -> usize {
        match self {
            Shape::Witness => 1,
            Shape::Group(_, members) => members.iter().map(Shape::witnesses).sum(),
        }
    }
}

/// Trees of at most `most` witnesses.
fn nested(most: usize) -> impl Strategy<Value = Shape> {
    let leaf = Just(Shape::Witness).boxed();
    let group = |member: BoxedStrategy<Shape>| {
        (proptest::collection::vec(member, 1..5), any::<prop::sample::Index>())
            .prop_map(|(members, threshold)| Shape::Group(threshold.index(members.len()) + 1, members))
    };
    leaf.prop_recursive(4, 12, 4, group).prop_filter("few enough to enumerate", move |shape| shape.witnesses() <= most)
}

fn parse(text: &str) -> Result<Policy, note::PolicyError> {
    Policy::parse(text.as_bytes())
}

fn flat(threshold: usize, witnesses: usize) -> Policy {
    Shape::Group(threshold, vec![Shape::Witness; witnesses]).policy()
}

fn name(text: &str) -> note::PolicyName {
    // Names have no constructor outside the parser: take one out of a refusal.
    match parse(&format!("quorum {text}\n")).unwrap_err().kind {
        PolicyErrorKind::Undefined(name) => name,
        other => panic!("{other}"),
    }
}

fn log(seed: u8) -> note::VerifierKey {
    SigningKey::from_seed(KeyName::new("log.example/agents").unwrap(), KeyKind::Ed25519, [seed; 32]).verifier()
}

fn witness(seed: u8) -> note::VerifierKey {
    SigningKey::from_seed(KeyName::new(&format!("w{seed}.example")).unwrap(), KeyKind::CosignatureV1, [seed; 32])
        .verifier()
}

fn numbered(role: &str, number: usize, kind: KeyKind) -> note::VerifierKey {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_be_bytes());
    SigningKey::from_seed(KeyName::new(&format!("{role}{number}.example")).unwrap(), kind, seed).verifier()
}
