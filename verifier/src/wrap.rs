//! Text within the width of a screen. The text is ours or already quoted; nothing is escaped here.

/// Columns of every report.
pub(crate) const WIDTH: usize = 80;

/// Breaks `text` at spaces into lines of at most [`WIDTH`] columns; the first begins with `head`, the others with as
/// many spaces. A word longer than a line (a key, an id, a path) gets a line of its own and is never broken: people
/// copy it.
pub(crate) fn hanging(head: &str, text: &str) -> Vec<String> {
    let indent = head.chars().count();
    let room = WIDTH.saturating_sub(indent).max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if length > 0 && length + 1 + width > room {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += width;
    }
    lines.push(line);
    let prefixed = lines.into_iter().enumerate();
    prefixed
        .map(|(place, line)| if place == 0 { format!("{head}{line}") } else { format!("{:indent$}{line}", "") })
        .collect()
}

#[cfg(test)]
mod tests {
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
}
