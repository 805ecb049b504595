//! What a member is called: whether its name says that its value is secret.

use merkle::decode_base64;

/// What a member's name says of its value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NamedAs {
    /// Nothing.
    Nothing,
    /// Cookies: secret where they carry a value.
    Cookie,
    /// A secret.
    Secret,
}

/// Last words of names whose values are secret, whatever stands before.
const SECRET: [&str; 7] = ["password", "passwords", "passwd", "passphrase", "passcode", "secret", "secrets"];

/// Names run into one word.
const RUN_TOGETHER: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "apitoken",
    "accesstoken",
    "authtoken",
    "refreshtoken",
    "clientsecret",
    "privatekey",
    "secretkey",
    "accesskey",
];

/// What a `key` must be to be secret: `api_key` is, `public_key` and `idempotency_key` are not.
const SECRET_KEYS: [&str; 6] = ["api", "private", "secret", "access", "encryption", "master"];

/// What a `token` may be without being secret: places in a listing, and the vocabulary of language models.
const HARMLESS_TOKENS: [&str; 17] = [
    "page",
    "next",
    "continuation",
    "cursor",
    "sync",
    "pagination",
    "idempotency",
    "stop",
    "eos",
    "bos",
    "pad",
    "unk",
    "sep",
    "cls",
    "mask",
    "special",
    "csrf",
];

/// How every name ends that says anything.
const ENDS: [&str; 14] = [
    "key",
    "token",
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "pwd",
    "phrase",
    "passcode",
    "cookie",
    "authorization",
    "bearer",
    "mnemonic",
];

/// What `name` says of its member's value.
pub(super) fn named_as(name: &str) -> NamedAs {
    // Identifiers only: no name we know is longer, and a map keyed by long data need not be split up.
    // Nor need a name of which none of the last words below is the end, which is nearly every name.
    if name.len() > 64 || !ENDS.iter().any(|end| ends_with_ignoring_case(name, end)) {
        return NamedAs::Nothing;
    }
    let words = words_of(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let secret = match words.as_slice() {
        [.., "cookie"] => return NamedAs::Cookie,
        [.., last] if SECRET.contains(last) => true,
        [.., last] if RUN_TOGETHER.iter().any(|run| last.ends_with(run)) => true,
        [.., _, "pwd"] => true,
        [.., which, "key"] => SECRET_KEYS.contains(which),
        [.., which, "token"] => !HARMLESS_TOKENS.contains(which),
        [.., "seed" | "recovery" | "pass", "phrase"] => true,
        ["proxy" | "x", "authorization"] => true,
        ["token" | "authorization" | "bearer" | "mnemonic"] => true,
        _ => false,
    };
    if secret { NamedAs::Secret } else { NamedAs::Nothing }
}

/// Whether `value` is a secret, standing in a member of such a name.
pub(super) fn is_secret(named: NamedAs, value: &str) -> bool {
    match named {
        NamedAs::Nothing => false,
        NamedAs::Cookie => value.split_once('=').is_some_and(|(_, content)| !stands_for_no_secret(content)),
        NamedAs::Secret => !stands_for_no_secret(value),
    }
}

/// The members of a JSON web key (RFC 7518) that must stay private: `d` of every asymmetric key, `k` of a
/// symmetric one. The primes of an RSA key never come without its `d`.
pub(super) fn is_private_part_of_web_key(name: &str) -> bool {
    matches!(name, "d" | "k")
}

/// Whether a value says that there is no secret here: empty, redacted, a digest, a reference to where the
/// secret is kept, a word about its state, or the name of a kind of secret.
pub(super) fn stands_for_no_secret(value: &str) -> bool {
    let value = value.trim();
    is_masked(value)
        || is_placeholder(value)
        || is_digest(value)
        || is_reference(value)
        || is_word_about_secrets(&value.to_ascii_lowercase())
}

/// Nothing but masking characters, or so many of them that at most four others show.
fn is_masked(value: &str) -> bool {
    let masking = value.chars().filter(|character| "*•●…".contains(*character)).count();
    let all = value.chars().count();
    masking >= 3 && all - masking <= 4 || value.chars().all(|character| "*•●….xX#-_".contains(character))
}

/// `<token>`, `[REDACTED]`, `{{ token }}`, `${TOKEN}`, `%TOKEN%`, `$TOKEN`, `***REDACTED***`.
fn is_placeholder(value: &str) -> bool {
    const BRACKETS: [(&str, &str); 5] = [("<", ">"), ("[", "]"), ("{{", "}}"), ("${", "}"), ("%", "%")];
    let bracketed =
        BRACKETS.iter().any(|(open, close)| value.len() > 2 && value.starts_with(open) && value.ends_with(close));
    let variable = value.strip_prefix('$').is_some_and(|name| {
        name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    });
    // A value that says so itself; bounded, so that a real secret with a remark beside it is still found.
    let lowercase = value.to_ascii_lowercase();
    let says_so = value.len() <= 40
        && ["redacted", "masked", "withheld", "omitted", "scrubbed"].iter().any(|word| lowercase.contains(word));
    bracketed || variable || says_so
}

/// `sha256:…`, `hmac-sha256:…` and the like, in hex or base64.
fn is_digest(value: &str) -> bool {
    const ALGORITHMS: [&str; 7] = ["sha1", "sha256", "sha384", "sha512", "hmac-sha256", "blake2b", "blake3"];
    value.split_once(':').is_some_and(|(algorithm, digest)| {
        let is_hex = digest.len() >= 40 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        ALGORITHMS.contains(&algorithm) && (is_hex || decode_base64(digest).is_some_and(|bytes| bytes.len() >= 20))
    })
}

/// Says where the secret is kept.
fn is_reference(value: &str) -> bool {
    const KEPT_IN: [&str; 9] =
        ["vault:", "env:", "arn:", "op://", "ref:", "keychain:", "keyring:", "secret://", "file:"];
    KEPT_IN.iter().any(|prefix| value.starts_with(prefix))
}

/// A word about a secret's state, or the name of a kind of secret (lowercase).
fn is_word_about_secrets(word: &str) -> bool {
    const STATES: [&str; 34] = [
        "none",
        "null",
        "nil",
        "n/a",
        "true",
        "false",
        "yes",
        "no",
        "ok",
        "missing",
        "absent",
        "present",
        "provided",
        "required",
        "optional",
        "valid",
        "invalid",
        "verified",
        "unverified",
        "expired",
        "revoked",
        "unknown",
        "granted",
        "denied",
        "approved",
        "allowed",
        "allow",
        "deny",
        "refused",
        "removed",
        "hidden",
        "unset",
        "set",
        "changed",
    ];
    const KINDS: [&str; 10] =
        ["bearer", "basic", "digest", "jwt", "oauth", "oauth2", "oidc", "saml", "mtls", "negotiate"];
    STATES.contains(&word) || KINDS.contains(&word) || named_as(word) == NamedAs::Secret && is_identifier(word)
}

/// `session_token` names a kind of secret; `Tr0ub4dor&3 password` is one.
fn is_identifier(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'-')
}

fn ends_with_ignoring_case(name: &str, end: &str) -> bool {
    // From behind: of nearly every name the last letter already is another one.
    let mut pairs = name.bytes().rev().zip(end.bytes().rev());
    name.len() >= end.len() && pairs.all(|(own, wanted)| own.eq_ignore_ascii_case(&wanted))
}

/// `API-Key`, `apiKey`, `APIKey` and `api_key` are the words `api`, `key`.
fn words_of(name: &str) -> Vec<String> {
    let characters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (place, &character) in characters.iter().enumerate() {
        let before = place.checked_sub(1).map(|place| characters[place]);
        let after = characters.get(place + 1);
        let begins = character.is_uppercase()
            && (before.is_some_and(|before| before.is_lowercase() || before.is_ascii_digit())
                || before.is_some_and(char::is_uppercase) && after.is_some_and(|after| after.is_lowercase()));
        if !character.is_alphanumeric() || begins {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_alphanumeric(), words.last_mut()) {
            word.extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
