//! Private keys taken out of what is said on stderr: a parser quotes the line it stumbled over, and people give the
//! wrong file. The last barrier, in front of the terminals, logs and tickets that complaints end in.

/// How every private key's text begins.
const PREFIX: &str = "PRIVATE+KEY+";

/// What is said instead of it.
const WITHHELD: &str = "(a private key, not repeated here)";

/// `text` with every word from `PRIVATE+KEY+` on left out.
pub(crate) fn without_private_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once(PREFIX) {
        out.push_str(before);
        out.push_str(WITHHELD);
        // To the end of the word: names and base64 hold no spaces, and a quotation mark lost with them harms nobody.
        let end = from.find(char::is_whitespace).unwrap_or(from.len());
        rest = from.get(end..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_keys_are_left_out_and_the_rest_stays() {
        assert_eq!(without_private_keys("line 1: no key"), "line 1: no key");
        assert_eq!(
            without_private_keys("1 | vkey = \"PRIVATE+KEY+gate+00000000+AQ==\"\n  | ^ PRIVATE+KEY+x"),
            format!("1 | vkey = \"{WITHHELD}\n  | ^ {WITHHELD}")
        );
    }
}
