//! `credentials.json`: what the log refuses because it looks like a credential, and near misses that pass.
//!
//! No value here opens anything. Each is put together here and written with an escape in the file, so that no scanner of
//! this repository takes a vector for a leak.

use super::{VectorFile, b64, members};
use receipt::find_credential;
use serde_json::{Value, json};

/// The file's name.
pub(super) const NAME: &str = "credentials.json";

pub(super) fn credentials() -> VectorFile {
    let mut cases: Vec<Value> = Vec::new();
    let mut add = |name: String, body: Value| {
        let found = find_credential(&members(&body));
        let (member, kind) = found.map(|found| (found.path.to_string(), found.kind.as_str())).unzip();
        cases.push(json!({"name": name, "body": body, "member": member, "kind": kind}));
    };
    for (name, secret) in shapes() {
        add(format!("{name}, alone"), json!({ "x": secret }));
        add(format!("{name}, within a text"), json!({"args": {"x": [0, format!("é\"{secret}\" was used")]}}));
        add(format!("{name}, as a member's name"), json!({"a": {(secret.clone()): 1}}));
        add(format!("{name}, in JSON in a string"), json!({"args": {"call": json!({"header": secret}).to_string()}}));
    }
    for name in NAMES {
        add(format!("a value under {name}"), json!({"args": {(*name): "correct horse"}}));
    }
    places().into_iter().chain(near_misses()).for_each(|(name, body)| add(name.to_owned(), body));
    VectorFile {
        name: NAME,
        about: "Search body. member is the JSON pointer of the first credential-shaped value in the order written (where a member's name is the credential: of the object it stands in, and (the whole object) for the body itself), null where there is none. kind says in words what it looks like.",
        cases,
    }
}

/// The text of the cases with an escape in each beginning of a credential: the same JSON.
pub(super) fn disguised(cases: &str) -> String {
    BEGINNINGS.iter().fold(cases.to_owned(), |text, beginning| {
        let (first, rest) = beginning.split_at(1);
        let code = u32::from(first.chars().next().unwrap_or_default());
        text.replace(beginning, &format!("\\u{code:04x}{rest}"))
    })
}

const BEGINNINGS: &[&str] = &[
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "AKIA",
    "ASIA",
    "sk-",
    "xoxa-",
    "xoxb-",
    "xoxe-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "AIza",
    "ya29.",
    "glpat-",
    "gldt-",
    "glrt-",
    "npm_",
    "pypi-",
    "dckr_pat_",
    "hf_",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "whsec_",
    "SG.",
    "shpat_",
    "dop_v1_",
    "lin_api_",
    "hvs.",
    "AGE-SECRET",
    "eyJ",
    "PRIVATE KEY",
    "PRIVATE+KEY",
    "PuTTY",
];

const RANDOM_36: &str = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

/// One value of each shape.
fn shapes() -> Vec<(&'static str, String)> {
    let web_token = ["eyJ", "hbGciOiJIUzI1NiJ9.", "eyJ", "zdWIiOiIxMjM0In0.", "c2lnbmF0dXJlLWJ5dGVz"].concat();
    let encrypted = ["eyJ", "hbGciOiJkaXIifQ", "..48V1_ALb6US04U3b.5eym8TW_c8SuK0lt.XFBoMYUZodetZdvT"].concat();
    let with = |prefix: &str| format!("{prefix}{RANDOM_36}");
    let pem = |kind: &str| ["-----BEGIN ", kind, "PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA=="].concat();
    let twice = |prefix: &str| format!("{prefix}{RANDOM_36}{RANDOM_36}");
    vec![
        ("a GitHub token", with("ghp_")),
        ("a GitHub OAuth token", with("gho_")),
        ("a GitHub user token", with("ghu_")),
        ("a GitHub server token", with("ghs_")),
        ("a GitHub refresh token", with("ghr_")),
        ("a fine-grained GitHub token", with("github_pat_11ABCDEFG0abcdefghijkl_")),
        ("an AWS key id", "AKIAIOSFODNN7EXAMPLE".to_owned()),
        ("a temporary AWS key id", "ASIAIOSFODNN7EXAMPLE".to_owned()),
        ("a plain sk key", with("sk-")),
        ("a plain sk key in hex", "sk-0123456789abcdef0123456789abcdef".to_owned()),
        ("a project key", with("sk-proj-abc_def-")),
        ("another model provider's key", with("sk-ant-api03-")),
        ("a Slack bot token", "xoxb-123456789012-1234567890123-abcdefghijkl".to_owned()),
        ("a Slack user token", "xoxp-1234567890-abc".to_owned()),
        ("a Slack workspace token", "xoxa-2-1234567890".to_owned()),
        ("a Slack refresh token", "xoxr-2-1234567890".to_owned()),
        ("a Slack export token", "xoxe-1-1234567890".to_owned()),
        ("a Slack session token", "xoxs-1-1234567890".to_owned()),
        ("a Slack app token", "xapp-1-A0123456789".to_owned()),
        ("a Google API key", "AIzaSyA1234567890abcdefghijklmnopqrstuv".to_owned()),
        ("a Google access token", with("ya29.")),
        ("a GitLab token", "glpat-abcdefghij0123456789".to_owned()),
        ("a GitLab deploy token", "gldt-abcdefghij0123456789".to_owned()),
        ("a GitLab runner token", "glrt-abcdefghij0123456789".to_owned()),
        ("an npm token", with("npm_")),
        ("a PyPI token", twice("pypi-")),
        ("a Docker token", with("dckr_pat_")),
        ("a model hub token", with("hf_")),
        ("a live payment key", "sk_live_abcdefghijklmnop01234567".to_owned()),
        ("a test payment key", "sk_test_abcdefghijklmnop01234567".to_owned()),
        ("a restricted payment key", "rk_live_abcdefghijklmnop01234567".to_owned()),
        ("a webhook secret", with("whsec_")),
        ("a mail provider's key", twice("SG.")),
        ("a shop's token", with("shpat_")),
        ("a cloud token", twice("dop_v1_")),
        ("an issue tracker's key", with("lin_api_")),
        ("a vault token", with("hvs.")),
        ("an age key", twice("AGE-SECRET-KEY-1")),
        ("a web token", web_token),
        ("an encrypted web token", encrypted),
        ("a PEM key", pem("")),
        ("an RSA PEM key", pem("RSA ")),
        ("an EC PEM key", pem("EC ")),
        ("an encrypted PEM key", pem("ENCRYPTED ")),
        ("an OpenSSH key", pem("OPENSSH ")),
        ("a PGP key", ["-----BEGIN ", "PGP PRIVATE KEY BLOCK-----"].concat()),
        ("a PuTTY key", ["PuTTY-User-Key-File-", "3: ssh-ed25519"].concat()),
        ("a note key", ["PRIVATE+KEY+", "gate.example+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"].concat()),
        ("a bearer header", "Bearer 0a1b2c3d4e5f60718293a4b5c6d7e8f9".to_owned()),
        ("a bearer header in lower case", "bearer mF_9.B5f-4.1JqM".to_owned()),
        ("a basic header", "Basic dXNlcjpwYXNzd29yZA==".to_owned()),
        ("a basic header in upper case", "BASIC QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned()),
        ("a basic header without padding", "Basic dXNlcjpwYXNzd29yZA".to_owned()),
        ("a short bearer header with its name", "Authorization: Bearer abcd1234".to_owned()),
        ("a database URL", ["postgres://app:", "hunter2@db.internal:5432/app"].concat()),
        ("a web URL", ["https://user:", "p%40ss@example.test/path"].concat()),
    ]
}

/// Names whose values are secret.
const NAMES: &[&str] = &[
    "password",
    "Password",
    "PASSWORD",
    "passwd",
    "db_password",
    "userPassword",
    "pass-phrase",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "client_secret",
    "clientSecret",
    "webhook-secret",
    "token",
    "access_token",
    "accessToken",
    "refresh_token",
    "session_token",
    "id_token",
    "github_token",
    "api_key",
    "apiKey",
    "apikey",
    "API-KEY",
    "APIKey",
    "X-Api-Key",
    "x_api_key",
    "stripe.api_key",
    "private_key",
    "privateKey",
    "secret_key",
    "aws_secret_access_key",
    "authorization",
    "Authorization",
    "proxy-authorization",
    "x-authorization",
    "encryption_key",
    "master_key",
    "db_pwd",
    "seed_phrase",
    "recovery phrase",
    "mnemonic",
    "accesstoken",
    "bearer",
    "myapitoken",
];

/// The same, where they stand.
fn places() -> Vec<(&'static str, Value)> {
    let nested = |value: Value, times: usize| (0..times).fold(value, |inner, _| json!({"text": inner.to_string()}));
    let token = format!("token=ghp_{RANDOM_36}");
    vec![
        ("an array under a secret's name, the empty one passed over", json!({"passwords": ["", "hunter2"]})),
        ("a value within an object under a secret's name", json!({"secret": {"value": "hunter2"}})),
        ("another member within an object under a secret's name", json!({"secret": {"id": "hunter2"}})),
        ("a cookie with a value", json!({"Cookie": "sid=31d4d96e407aad42"})),
        ("set-cookie with a value", json!({"set-cookie": "sid=31d4d96e407aad42"})),
        (
            "a list of headers",
            json!({"headers": [{"name": "Accept", "value": "*/*"}, {"name": "X-Api-Key", "value": "hunter2"}]}),
        ),
        ("a list of variables", json!({"env": [{"key": "DB_PASSWORD", "value": "hunter2"}]})),
        ("a label behind its value", json!({"env": [{"value": "hunter2", "key": "DB_PASSWORD"}]})),
        ("a header by the word header", json!({"h": {"header": "Authorization", "value": "hunter2"}})),
        (
            "a private web key",
            json!({"jwk": {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}}),
        ),
        ("a symmetric web key", json!({"jwk": {"kty": "oct", "k": "GawgguFyGrWKav7AX4VKUg"}})),
        (
            "a carried receipt",
            json!({"type": "foreign", "format": "capbroker", "receipt": {"args": {"password": "hunter2"}}}),
        ),
        (
            "the exact bytes of a carried receipt",
            json!({"type": "foreign", "receipt_b64": b64(br#"{"event":"decision","args":{"api_key":"hunter2"}}"#)}),
        ),
        ("exact bytes that are text", json!({"receipt_b64": b64(token.as_bytes())})),
        ("exact bytes under another name are not searched", json!({"receipt_base64": b64(token.as_bytes())})),
        ("exact bytes within an object", json!({"a": {"receipt_b64": b64(token.as_bytes())}})),
        ("JSON in a string", json!({"args": {"arguments": r#"{"user":"a","password":"hunter2"}"#}})),
        ("JSON in a string, behind white space", json!({"args": {"arguments": " \n{\"password\":\"hunter2\"}"}})),
        ("an array in a string", json!({"x": r#"[1,{"password":"hunter2"}]"#})),
        ("JSON in JSON in a string", nested(json!({"password": "hunter2"}), 2)),
        ("three times in a string", nested(json!({"password": "hunter2"}), 3)),
        ("four times in a string, which is not searched", nested(json!({"password": "hunter2"}), 4)),
        ("the first of two in the order written", json!({"b": {"password": "hunter2"}, "a": {"token": "hunter2"}})),
        (
            "a value before a name in the order written",
            json!({"a": ["x", {"password": "hunter2"}], "secret": "hunter2"}),
        ),
        ("a member with slashes and tildes in its name", json!({"a/b~c": {"password": "hunter2"}})),
        ("a short bearer header alone", json!({"x": "Bearer abc12345"})),
        ("a short bearer header with spaces around", json!({"x": " bearer  abc12345 "})),
        ("a short bearer header in a command", json!({"x": "curl -H 'authorization: Bearer abc12345'"})),
        ("a short bearer header and more", json!({"x": "AUTHORIZATION:Bearer abc12345 and more"})),
    ]
}

/// What only looks like a credential, and must pass.
fn near_misses() -> Vec<(&'static str, Value)> {
    let hash = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    let hex = "5d92c50332615f7def021f7059da39bc84e8a125c69b7af1817c941e5ce0488b";
    let digest = format!("sha256:{hex}");
    let vkey = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
    vec![
        (
            "counts and ids",
            json!({"capability_id": "cap_01", "token_count": 1523, "max_tokens": 4096, "tokens": ["the", "cat"], "password_length": 12}),
        ),
        (
            "the words of decisions",
            json!({"verified_via": "session_token", "proven": ["capability_signature", "request_signature", "nonce_fresh"]}),
        ),
        (
            "digests, hashes, vkeys, uuids",
            json!({"args_digest": digest, "prev": hash, "vkey": vkey, "id": hex, "uuid": "7f5c2a0e-1d3b-4c58-9a60-2f1e8d7b6c5a"}),
        ),
        (
            "digests under a secret's name",
            json!({"token": digest, "secret": format!("hmac-sha256:{hex}"), "password": {"#": digest}, "api_key": format!("sha512:{hash}")}),
        ),
        (
            "no strings",
            json!({"password": "", "secret": null, "token": true, "api_key": 7, "private_key": {}, "authorization": []}),
        ),
        (
            "masked",
            json!({"password": "***", "token": "[REDACTED]", "secret": "<secret>", "api_key": "••••••••1234", "authorization": "****ab12"}),
        ),
        (
            "placeholders",
            json!({"password": "${DB_PASSWORD}", "token": "$GITHUB_TOKEN", "secret": "{{ secret }}", "api_key": "%API_KEY%", "authorization": "redacted"}),
        ),
        (
            "references",
            json!({"password": "vault:secret/data/db#password", "token": "env:TOKEN", "secret": "arn:aws:secretsmanager:eu-west-1:1:secret:x", "api_key": "op://vault/item/key"}),
        ),
        (
            "words about a state",
            json!({"authorization": "granted", "token": "expired", "password": "changed", "secret": "none", "api_key": "missing"}),
        ),
        (
            "names of kinds",
            json!({"authorization": "bearer", "token": "session_token", "secret": "client_secret", "password": "N/A"}),
        ),
        (
            "tokens that are places",
            json!({"next_page_token": "CAUQAA", "continuationToken": "abc", "eos_token": "</s>", "stop_token": "###", "csrf_token": "x"}),
        ),
        (
            "keys that are public",
            json!({"public_key": hex, "signer_key": hex, "idempotency_key": "r-1", "primary_key": "id", "risk_key": "cust_77", "key": "v"}),
        ),
        (
            "names that say more",
            json!({"reset_password_url_sent": "yes", "secret_name": "prod/db", "token_type": "Bearer", "password_policy": "strong", "authorization_id": "a-1"}),
        ),
        (
            "prose about headers",
            json!({"why": "bearer token not presented", "error": "Basic authentication failed", "note": "bearer authentication is required here"}),
        ),
        (
            "prose about bearers",
            json!({"why": "the caller is bearer of capability cap_01", "text": "basic support plan", "summary": "a Bearer [REDACTED] header"}),
        ),
        ("a bearer named in passing", json!({"x": "the bearer cap_0123 was refused"})),
        (
            "headers without a secret",
            json!({"why": "Bearer token", "a": "Bearer <token>", "b": "Basic realm=\"x\"", "c": format!("Bearer {digest}")}),
        ),
        (
            "hyphenated words",
            json!({"branch": "task-force-one-two-three-four-five", "model": "sk-learn-classification-pipeline-v2", "file": "risk-20261129-report"}),
        ),
        (
            "prefixes alone",
            json!({"package": "npm_config_registry", "text": "use ghp_ and gho_ tokens", "aws": "AKIA is a prefix", "google": "AIza", "pre": "sk-"}),
        ),
        (
            "URLs without a password",
            json!({"url": "https://example.test:8443/a?b=c:d@e", "mail": "mailto:a:b@c.test", "ssh": "ssh://git@example.test/x", "masked": "https://u:***@h"}),
        ),
        (
            "public PEM",
            json!({"pem": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "pub": "-----BEGIN PUBLIC KEY-----\nMCow"}),
        ),
        (
            "a public web key",
            json!({"kid": "3iR-H6Xx_3rpt7eNMUVNazSZkUclb_cekBJZZL4mlUs", "jwk": {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}),
        ),
        (
            "a proof value",
            json!({"proofValue": "ul_wFLgGWlzFaYt2ckT4wZfoeRa7ZqL0tt3y10dgr7FdsVMivs5tc9ZrUYBJ_FKEE4aFApeAzPH6jp57irtgDCw"}),
        ),
        (
            "the tail of a hash",
            json!({"hash": "x/AKIAAAAAAAAAAAAAAAAb+eyJabcdefghijklmnopqrstuvwxyz0=", "host": "eyJ.example.test", "d": "day", "k": "v"}),
        ),
        (
            "an AWS key id in lower case, or longer",
            json!({"a": "akiaiosfodnn7example", "b": "AKIAIOSFODNN7EXAMPLEX", "c": "AKIAIOSFODNN7EXAMPL"}),
        ),
        (
            "text that is no JSON, bytes that are no text",
            json!({"receipt_b64": b64(&[0xff, 0xfe, 0x00]), "text": "{not json", "list": "[1,2", "json": r#"{"password":""}"#}),
        ),
        ("cookies without a value", json!({"cookie": "accepted", "cookies": "a=b", "set-cookie": "sid=***"})),
        ("a long name is no identifier", json!({(format!("{}_password", "x".repeat(60))): "hunter2"})),
        (
            "a d that is no web key's",
            json!({"d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", "k": "GawgguFyGrWKav7AX4VKUg"}),
        ),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn all_shapes_and_names_are_found_and_all_near_misses_pass() {
        for (name, secret) in shapes() {
            assert!(find_credential(&members(&json!({ "x": secret }))).is_some(), "{name}");
        }
        for name in NAMES {
            assert!(find_credential(&members(&json!({ *name: "correct horse" }))).is_some(), "{name}");
        }
        for (name, body) in near_misses() {
            assert_eq!(find_credential(&members(&body)), None, "{name}");
        }
    }

    #[test]
    fn a_disguised_text_is_the_same_json_and_shows_no_token() {
        let token = ["gh", "p_", RANDOM_36].concat();
        let text = json!({"a": token, "b": json!({"c": token}).to_string()}).to_string();
        let disguised = disguised(&text);
        assert!(!disguised.contains(&token[..4]));
        assert_eq!(serde_json::from_str::<Value>(&disguised).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
    }
}
