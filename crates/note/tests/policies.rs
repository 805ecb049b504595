//! Policies: the file format of tlog-policy, all of it, and the exact arithmetic over quorums.

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
    assert_eq!(policy.tolerance(), one_key_each(6, 3, 1, 1));
}

#[test]
fn a_single_witness_or_nobody_can_be_the_quorum() {
    let policy = parse(&format!("witness w {}\nquorum w\n", witness(1))).unwrap();
    assert!(policy.satisfied_by(&BTreeSet::from([0])) && !policy.satisfied_by(&BTreeSet::new()));
    assert_eq!(policy.tolerance(), one_key_each(1, 1, 1, 0));
    let nobody = parse("quorum none\n").unwrap();
    assert!(nobody.satisfied_by(&BTreeSet::new()));
    assert_eq!(nobody.tolerance(), one_key_each(0, 0, 0, 0));
}

#[test]
fn flat_quorums_follow_two_k_minus_n() {
    for (k, n, liars) in [(2, 3, 1), (3, 5, 1), (3, 3, 3), (1, 3, 0), (2, 4, 0), (3, 4, 2), (5, 7, 3), (1, 1, 1)] {
        let policy = flat(k, n);
        assert_eq!(policy.tolerance(), one_key_each(n, k, liars, n - k), "{k} of {n}");
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
    assert_eq!(tolerance, one_key_each(6, 2, 0, 3));
}

#[test]
fn the_keys_of_one_witness_are_one_witness_that_lies_once() {
    // Each line: groups over keys called <witness>.<key>; then witnesses, keys, fewest of each, liars, silent.
    for (groups, [witnesses, keys, min_quorum, min_keys, liars, silent]) in [
        ("group q any 1.1 1.2\n", [1, 2, 1, 1, 1, 0]),
        ("group q all 1.1 1.2\n", [1, 2, 1, 2, 1, 0]),
        ("group q 2 1.1 1.2 2.1\n", [2, 3, 1, 2, 1, 0]),
        // Either kind of each of three, two must agree.
        ("group a any 1.1 1.2\ngroup b any 2.1 2.2\ngroup c any 3.1 3.2\ngroup q 2 a b c\n", [3, 6, 2, 2, 1, 1]),
        // Two of three for each kind: whoever has both keys lies with both, and the honest ones stand with both.
        ("group old 2 1.1 2.1 3.1\ngroup new 2 1.2 2.2 3.2\ngroup q all old new\n", [3, 6, 2, 4, 1, 1]),
        // Either kind will do: the old keys for one view and the new for the other, but two of three hold both.
        ("group old 2 1.1 2.1 3.1\ngroup new 2 1.2 2.2 3.2\ngroup q any old new\n", [3, 6, 2, 2, 1, 1]),
        // The first witness is a quorum, and the other two are another.
        ("group old any 1.1 2.1\ngroup new any 1.2 3.1\ngroup q all old new\n", [3, 4, 1, 2, 0, 1]),
        ("group old any 1.1 2.1\ngroup new any 1.2 3.1\ngroup q any old new\n", [3, 4, 1, 1, 0, 2]),
        // A second key outside the quorum changes nothing.
        ("group q 2 1.1 2.1 3.1\n", [3, 3, 2, 2, 1, 1]),
    ] {
        let mut text = String::new();
        for (number, (witness, key)) in (1..=3).flat_map(|witness| [(witness, 1), (witness, 2)]).enumerate() {
            text += &format!("witness {witness}.{key} {}\n", key_of(witness, number as u8 + 1));
        }
        let policy = parse(&format!("{text}{groups}quorum q\n")).unwrap();
        let liars_for_split_view = liars;
        let expected =
            Tolerance { witnesses, keys, min_quorum, min_keys, liars_for_split_view, max_silent: silent, exact: true };
        assert_eq!(policy.tolerance(), expected, "{groups}");
        assert_eq!(policy.witness_names().len(), 3);
    }
}

#[test]
fn ninety_witnesses_with_two_keys_are_counted_exactly() {
    let policy = |group: &str| {
        let mut text = String::new();
        for number in 0..90 {
            text += &format!("witness old{number} {}\n", numbered("w", number, KeyKind::CosignatureV1));
            text += &format!("witness new{number} {}\n", numbered("w", number, KeyKind::MlDsa44));
        }
        parse(&(text + group)).unwrap().tolerance()
    };
    let all = |kind: &str| (0..90).map(|number| format!(" {kind}{number}")).collect::<String>();
    let kinds = format!("group old 60{}\ngroup new 60{}\ngroup q all old new\nquorum q\n", all("old"), all("new"));
    let pairs: String = (0..90).map(|number| format!("group w{number} any old{number} new{number}\n")).collect();
    let pairs = format!("{pairs}group q 60{}\nquorum q\n", all("w"));
    let expected = |min_keys| Tolerance {
        witnesses: 90,
        keys: 180,
        min_quorum: 60,
        min_keys,
        liars_for_split_view: 30,
        max_silent: 30,
        exact: true,
    };
    assert_eq!((policy(&kinds), policy(&pairs)), (expected(120), expected(60)));
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
        (format!("log {w}\n"), 1, Kind::KeyKind { role: "log", wanted: "0x01", found: 4 }),
        (format!("log {l}\nlog {l}\n"), 2, Kind::DuplicateKey(1)),
        (format!("log {l}\n#\nlog {renamed_log}\n"), 3, Kind::DuplicateKey(1)),
        ("witness w\n".to_owned(), 1, Kind::TooFewWords("witness <name> <vkey> [<url>]")),
        (format!("witness w {l}\n"), 1, Kind::KeyKind { role: "witness", wanted: "0x04 or 0x06", found: 1 }),
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
    fn the_arithmetic_agrees_with_all_subsets_of_random_nested_policies(
        shape in nested(7),
        owners in prop_oneof![Just((1..=7).collect::<Vec<u8>>()), proptest::collection::vec(1..5_u8, 7)],
    ) {
        let policy = shape.policy(&owners);
        prop_assert_eq!(policy.tolerance(), brute_force(&policy));
        prop_assert_eq!(Policy::parse(&policy.to_octets()), Ok(policy));
    }

    #[test]
    fn arbitrary_octets_never_panic(octets: Vec<u8>, words in "((log|witness|group|quorum|none|any|all|[a-c]|[0-3]|#)[ \t\n]){0,30}") {
        let _ = Policy::parse(&octets);
        let _ = Policy::parse(words.as_bytes());
    }
}

/// Every number by looking at every subset of the witnesses, each with all of its keys.
fn brute_force(policy: &Policy) -> Tolerance {
    let keys = policy.witnesses().len();
    let names = Vec::from_iter(policy.witness_names());
    let n = names.len();
    let set = |bits: u32| -> BTreeSet<usize> { (0..keys).filter(|place| bits & (1 << place) != 0).collect() };
    let key_satisfied: Vec<bool> = (0..1 << keys).map(|bits| policy.satisfied_by(&set(bits))).collect();
    let keys_of = |witnesses: u32| -> u32 {
        let owned = |place: usize| {
            names.iter().position(|name| *name == policy.witnesses()[place].vkey.name()).map(|owner| 1 << owner)
        };
        (0..keys).filter(|place| witnesses & owned(*place).unwrap() != 0).map(|place| 1 << place).sum()
    };
    let satisfied: Vec<bool> = (0..1 << n).map(|bits| key_satisfied[keys_of(bits) as usize]).collect();
    let fewest = |satisfied: &[bool]| {
        (0..satisfied.len()).filter(|bits| satisfied[*bits]).map(usize::count_ones).min().unwrap() as usize
    };
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
    Tolerance {
        // The tree of a random policy holds every key.
        witnesses: n,
        keys,
        min_quorum: fewest(&satisfied),
        min_keys: fewest(&key_satisfied),
        liars_for_split_view: liars,
        max_silent: (0..=n).filter(|silent| survives(*silent)).max().unwrap(),
        exact: true,
    }
}

fn one_key_each(witnesses: usize, min_quorum: usize, liars_for_split_view: usize, max_silent: usize) -> Tolerance {
    let (keys, min_keys) = (witnesses, min_quorum);
    Tolerance { witnesses, keys, min_quorum, min_keys, liars_for_split_view, max_silent, exact: true }
}

/// A random tree: a witness, or a group with a threshold.
#[derive(Debug, Clone)]
enum Shape {
    Witness,
    Group(usize, Vec<Shape>),
}

impl Shape {
    /// The policy whose first key is one of witness `owners[0]`, and so on.
    fn policy(&self, owners: &[u8]) -> Policy {
        let (mut text, mut keys, mut groups) = (String::new(), 0, 0);
        let top = self.write(owners, &mut text, &mut keys, &mut groups);
        parse(&format!("{text}quorum {top}\n")).unwrap()
    }

    fn write(&self, owners: &[u8], text: &mut String, keys: &mut u8, groups: &mut u8) -> String {
        match self {
            Shape::Witness => {
                let owner = owners[usize::from(*keys)];
                *keys += 1;
                *text += &format!("witness w{keys} {}\n", key_of(owner, *keys));
                format!("w{keys}")
            }
            Shape::Group(threshold, members) => {
                let names: Vec<String> =
                    members.iter().map(|member| member.write(owners, text, keys, groups)).collect();
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
    let owners: Vec<u8> = (1..=witnesses as u8).collect();
    Shape::Group(threshold, vec![Shape::Witness; witnesses]).policy(&owners)
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
    key_of(seed, seed)
}

/// A key of witness `owner`, made from a seed of its own.
fn key_of(owner: u8, seed: u8) -> note::VerifierKey {
    SigningKey::from_seed(KeyName::new(&format!("w{owner}.example")).unwrap(), KeyKind::CosignatureV1, [seed; 32])
        .verifier()
}

fn numbered(role: &str, number: usize, kind: KeyKind) -> note::VerifierKey {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_be_bytes());
    SigningKey::from_seed(KeyName::new(&format!("{role}{number}.example")).unwrap(), kind, seed).verifier()
}
