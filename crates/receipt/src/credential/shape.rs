//! What a credential looks like, wherever in a string it stands.
//!
//! Each shape needs a prefix that nothing else has, at the beginning of a word, and as many characters
//! behind it as the provider writes; prose about a token and the tail of a base64 hash have neither.

use super::CredentialKind;
use super::name::stands_for_no_secret;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// The first credential shape in `text`.
pub(super) fn shape_of(text: &str) -> Option<CredentialKind> {
    // Every shape has at least this many characters; most strings in a receipt are shorter.
    const SHORTEST: usize = 12;
    if text.len() < SHORTEST {
        return None;
    }
    if holds_url_password(text) {
        return Some(CredentialKind::UrlPassword);
    }
    word_starts(text).find_map(|start| credential_at(text, start))
}

/// One provider's tokens: prefix, then a run of `alphabet`.
struct Token {
    prefix: &'static str,
    alphabet: fn(u8) -> bool,
    /// Least and most characters in the run.
    length: (usize, usize),
    looks: Looks,
}

/// What else a run must look like, where the prefix alone could be chance or prose.
enum Looks {
    AsItMay,
    /// A digit: words could have this prefix.
    HasDigit,
    /// An upper-case letter.
    HasUpper,
    /// No lower-case letter.
    AllUpper,
}

const fn token(prefix: &'static str, alphabet: fn(u8) -> bool, least: usize) -> Token {
    Token { prefix, alphabet, length: (least, usize::MAX), looks: Looks::AsItMay }
}

const fn with_digit(prefix: &'static str, alphabet: fn(u8) -> bool, least: usize) -> Token {
    Token { looks: Looks::HasDigit, ..token(prefix, alphabet, least) }
}

/// As providers document them, or as the tokens they give out show. Lengths are lower than the real ones
/// where a shorter run is no less telling.
const TOKENS: [Token; 37] = [
    // GitHub: 36 characters; fine-grained ones 82.
    token("ghp_", alphanumeric, 20),
    token("gho_", alphanumeric, 20),
    token("ghu_", alphanumeric, 20),
    token("ghs_", alphanumeric, 20),
    token("ghr_", alphanumeric, 20),
    token("github_pat_", word, 20),
    // AWS access key ids.
    Token { prefix: "AKIA", alphabet: alphanumeric, length: (16, 16), looks: Looks::AllUpper },
    Token { prefix: "ASIA", alphabet: alphanumeric, length: (16, 16), looks: Looks::AllUpper },
    // Slack.
    with_digit("xoxa-", url_safe, 10),
    with_digit("xoxb-", url_safe, 10),
    with_digit("xoxe-", url_safe, 10),
    with_digit("xoxp-", url_safe, 10),
    with_digit("xoxr-", url_safe, 10),
    with_digit("xoxs-", url_safe, 10),
    with_digit("xapp-", url_safe, 10),
    // Google: API keys and OAuth access tokens.
    Token { prefix: "AIza", alphabet: url_safe, length: (35, 35), looks: Looks::HasUpper },
    token("ya29.", url_safe, 30),
    // GitLab.
    token("glpat-", url_safe, 20),
    token("gldt-", url_safe, 20),
    token("glrt-", url_safe, 20),
    // Package registries.
    token("npm_", alphanumeric, 30),
    token("pypi-", url_safe, 50),
    token("dckr_pat_", url_safe, 20),
    // Model providers with a prefix of their own after `sk-`; the plain one is judged below.
    with_digit("sk-ant-", url_safe, 20),
    with_digit("sk-proj-", url_safe, 20),
    token("hf_", alphanumeric, 30),
    // Payments.
    token("sk_live_", alphanumeric, 16),
    token("sk_test_", alphanumeric, 16),
    token("rk_live_", alphanumeric, 16),
    token("rk_test_", alphanumeric, 16),
    token("whsec_", alphanumeric, 24),
    // Others.
    token("SG.", dotted, 60),
    token("shpat_", alphanumeric, 32),
    token("dop_v1_", alphanumeric, 60),
    token("lin_api_", alphanumeric, 30),
    token("hvs.", url_safe, 20),
    token("AGE-SECRET-KEY-1", alphanumeric, 50),
];

/// How everything else begins that is looked for at the beginning of a word.
const OTHERS: [&str; 9] = ["sk-", "eyJ", "Bearer ", "bearer ", "BEARER ", "Basic ", "basic ", "BASIC ", "BEGIN "];

/// For each first byte of a word, which second bytes any shape has. Almost every word ends here.
const BEGINNINGS: [u128; 128] = {
    let mut second_bytes = [0; 128];
    let mut place = 0;
    while place < TOKENS.len() + OTHERS.len() + KEY_FILES.len() {
        let prefix = if place < TOKENS.len() {
            TOKENS[place].prefix
        } else if place < TOKENS.len() + OTHERS.len() {
            OTHERS[place - TOKENS.len()]
        } else {
            KEY_FILES[place - TOKENS.len() - OTHERS.len()]
        };
        let (first, second) = (prefix.as_bytes()[0], prefix.as_bytes()[1]);
        second_bytes[first as usize] |= 1 << second;
        place += 1;
    }
    second_bytes
};

/// Private keys in forms of their own: the note package's and PuTTY's.
const KEY_FILES: [&str; 2] = ["PRIVATE+KEY+", "PuTTY-User-Key-File-"];

/// The credential that begins at `start`, where a word begins.
fn credential_at(text: &str, start: usize) -> Option<CredentialKind> {
    let rest = &text.as_bytes()[start..];
    let &[first, second, ..] = rest else { return None };
    let is_beginning = first.is_ascii() && second.is_ascii() && BEGINNINGS[usize::from(first)] >> second & 1 == 1;
    if !is_beginning {
        return None;
    }
    let is_token = TOKENS.iter().any(|token| rest.starts_with(token.prefix.as_bytes()) && token.matches(rest));
    // Behind a hyphen `sk-` may be a part of base64url, or of a name.
    let is_sk_key = !text[..start].ends_with('-') && is_plain_sk_key(rest);
    if is_token || is_sk_key {
        Some(CredentialKind::ApiToken)
    } else if is_web_token(rest) {
        Some(CredentialKind::WebToken)
    } else if is_private_key(text, start) {
        Some(CredentialKind::PrivateKey)
    } else if is_authorization(text, start) {
        Some(CredentialKind::AuthorizationHeader)
    } else {
        None
    }
}

impl Token {
    fn matches(&self, rest: &[u8]) -> bool {
        let tail = run(&rest[self.prefix.len()..], self.alphabet);
        let (least, most) = self.length;
        (least..=most).contains(&tail.len())
            && match self.looks {
                Looks::AsItMay => true,
                Looks::HasDigit => tail.iter().any(u8::is_ascii_digit),
                Looks::HasUpper => tail.iter().any(u8::is_ascii_uppercase),
                Looks::AllUpper => !tail.iter().any(u8::is_ascii_lowercase),
            }
    }
}

/// `sk-` and at least 20 characters, of which 16 in a row hold letters and digits: no hyphenated words.
fn is_plain_sk_key(rest: &[u8]) -> bool {
    let Some(tail) = rest.strip_prefix(b"sk-") else { return false };
    let tail = run(tail, url_safe);
    let is_key_material = |part: &[u8]| {
        part.len() >= 16 && part.iter().any(u8::is_ascii_digit) && part.iter().any(u8::is_ascii_alphabetic)
    };
    tail.len() >= 20 && tail.split(|byte| *byte == b'-' || *byte == b'_').any(is_key_material)
}

/// `eyJ` is how base64url writes `{"`. A signed token has two dots, an encrypted one four.
fn is_web_token(rest: &[u8]) -> bool {
    let text = run(rest, dotted);
    text.starts_with(b"eyJ") && text.len() >= 36 && text.iter().filter(|byte| **byte == b'.').count() >= 2
}

/// `Bearer` and something that no word looks like, or `Basic` and base64 of `user:password`.
fn is_authorization(text: &str, start: usize) -> bool {
    let bytes = &text.as_bytes()[start..];
    let after = |schemes: [&str; 3]| {
        let scheme = schemes.into_iter().find(|scheme| bytes.starts_with(scheme.as_bytes()))?;
        Some(run(bytes[scheme.len()..].trim_ascii_start(), token68))
    };
    if let Some(credentials) = after(["Bearer ", "bearer ", "BEARER "]) {
        let least = if is_whole_header(text, start, credentials) { 8 } else { 12 };
        credentials.len() >= least && looks_random(credentials)
    } else if let Some(credentials) = after(["Basic ", "basic ", "BASIC "]) {
        let decoded = STANDARD.decode(credentials).or_else(|_| STANDARD_NO_PAD.decode(credentials)).unwrap_or_default();
        std::str::from_utf8(&decoded).is_ok_and(|pair| pair.contains(':') && !pair.contains(char::is_control))
    } else {
        false
    }
}

/// Whether the scheme stands where only a header has it: alone in its string, or after `authorization:`.
fn is_whole_header(text: &str, start: usize, credentials: &[u8]) -> bool {
    let before = text[..start].trim_end();
    let ends = text.trim_end().as_bytes().ends_with(credentials);
    let after_name = before.strip_suffix(':').is_some_and(|name| {
        let tail = name.len().checked_sub("authorization".len()).and_then(|from| name.as_bytes().get(from..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(b"authorization"))
    });
    before.is_empty() && ends || after_name
}

/// Letters and digits together, or upper case after lower case: no word of prose.
fn looks_random(credentials: &[u8]) -> bool {
    let has_digit = credentials.iter().any(u8::is_ascii_digit);
    let has_letter = credentials.iter().any(u8::is_ascii_alphabetic);
    let changes_case = credentials.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    has_digit && has_letter || changes_case
}

/// PEM of any kind of private key, or a key file in a form of its own.
fn is_private_key(text: &str, start: usize) -> bool {
    let rest = &text[start..];
    let is_pem = text[..start].ends_with("-----")
        && rest
            .strip_prefix("BEGIN ")
            .and_then(|rest| rest.split("-----").next())
            .is_some_and(|title| title.contains("PRIVATE KEY"));
    is_pem || KEY_FILES.iter().any(|beginning| rest.starts_with(beginning))
}

/// `scheme://user:password@host`.
fn holds_url_password(text: &str) -> bool {
    text.as_bytes().contains(&b'@')
        && text.split("://").skip(1).any(|rest| {
            let authority =
                rest.split(|character: char| "/?#\"'<> ".contains(character) || character.is_whitespace()).next();
            let login = authority.and_then(|authority| authority.rsplit_once('@')).map(|(login, _)| login);
            let password = login.and_then(|login| login.split_once(':')).map(|(_, password)| password);
            password.is_some_and(|password| !stands_for_no_secret(password))
        })
}

/// Where words begin: the first byte, and every one after a byte that belongs to no word. All are
/// character boundaries, since only words that begin with an ASCII letter are looked at.
fn word_starts(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).filter(move |&place| bytes[place].is_ascii_alphabetic() && (place == 0 || !word(bytes[place - 1])))
}

fn run(bytes: &[u8], alphabet: fn(u8) -> bool) -> &[u8] {
    let length = bytes.iter().position(|byte| !alphabet(*byte)).unwrap_or(bytes.len());
    &bytes[..length]
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn url_safe(byte: u8) -> bool {
    word(byte) || byte == b'-'
}

fn dotted(byte: u8) -> bool {
    url_safe(byte) || byte == b'.'
}

/// RFC 9110, section 11.2.
fn token68(byte: u8) -> bool {
    dotted(byte) || b"~+/=".contains(&byte)
}
