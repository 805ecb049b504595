//! Text within the width of a screen. The text is ours or already quoted; nothing is escaped here.

/// Columns of every report, and of a screen that does not say how many it has.
pub const WIDTH: usize = 80;

/// Columns of the terminal that results are printed on; [`WIDTH`] where there is none. Never so few that nothing fits.
pub fn columns() -> usize {
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0).max(60))
}

/// Breaks `text` at spaces into lines of at most [`WIDTH`] columns; the first begins with `head`, the others with as
/// many spaces. A word longer than a line (a key, an id, a path) gets a line of its own and is never broken: people
/// copy it.
pub fn hanging(head: &str, text: &str) -> Vec<String> {
    hanging_within(WIDTH, head, text)
}

/// As [`hanging`], but no line is longer than [`WIDTH`], whatever the text: a word that is, is cut into pieces. For
/// text that somebody else may have made long.
pub fn fitted(head: &str, text: &str) -> Vec<String> {
    let room = WIDTH.saturating_sub(head.chars().count()).max(1);
    let mut cut = String::with_capacity(text.len());
    for (place, word) in text.split(' ').enumerate() {
        if place > 0 {
            cut.push(' ');
        }
        for (place, character) in word.chars().enumerate() {
            if place > 0 && place.is_multiple_of(room) {
                cut.push(' ');
            }
            cut.push(character);
        }
    }
    hanging(head, &cut)
}

/// At most `width` characters of `text`. What is left out is left out of its middle: names begin alike and end differently.
pub fn cut_middle(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(3);
    let (front, back) = (kept / 2, kept - kept / 2);
    text.chars().take(front).chain("...".chars()).chain(text.chars().skip(length - back)).collect()
}

/// As [`hanging`], within `width` columns.
pub fn hanging_within(width: usize, head: &str, text: &str) -> Vec<String> {
    let indent = head.chars().count();
    let room = width.saturating_sub(indent).max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        let columns = word.chars().count();
        if length > 0 && length + 1 + columns > room {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += columns;
    }
    lines.push(line);
    let prefixed = lines.into_iter().enumerate();
    prefixed
        .map(|(place, line)| if place == 0 { format!("{head}{line}") } else { format!("{:indent$}{line}", "") })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn lines_keep_their_width_and_their_indent() {
        let lines = hanging("next  ", &"word ".repeat(40));
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert!(lines[0].starts_with("next  word") && lines[1].starts_with("      word"));
    }

    #[test]
    fn a_word_longer_than_a_line_stays_whole() {
        let (key, path) = ("k".repeat(200), "p".repeat(81));
        let lines = hanging("key  ", &format!("it is {key} in {path}"));
        assert_eq!(lines, ["key  it is", &format!("     {key}"), "     in", &format!("     {path}")]);
        assert_eq!(hanging("a ", ""), ["a "]);
    }

    #[test]
    fn fitted_text_has_no_line_longer_than_the_screen() {
        let text = format!("short {} end {}", "\u{e9}".repeat(200), "k".repeat(75));
        let lines = fitted("next ", &text);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:?}");
        assert_eq!(lines.concat().chars().filter(|character| *character == '\u{e9}').count(), 200);
        assert_eq!(fitted("next ", "all is well"), hanging("next ", "all is well"));
    }

    #[test]
    fn a_long_name_keeps_both_its_ends() {
        assert_eq!(cut_middle("witness.example/agents/7", 24), "witness.example/agents/7");
        assert_eq!(cut_middle("witness.example/agents/7", 15), "witnes...ents/7");
        assert_eq!(cut_middle("\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}", 4), "...\u{e9}");
    }
}
