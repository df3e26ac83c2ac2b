//! Which lines of a program stand in nothing else, as far as that can be told without reading it as its language.

/// Where lines begin that stand in no text, no comment and no brackets. Where a program is odd there are fewer of them.
pub(super) fn outer_lines(source: &str) -> Vec<usize> {
    let bytes = source.as_bytes();
    let mut lines = vec![0];
    // The brackets around; a backtick stands for the text around a `${`.
    let mut open: Vec<u8> = Vec::new();
    let mut before = b';';
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let next = at + 1;
        at = match byte {
            b'\n' => {
                if open.is_empty() {
                    lines.push(next);
                }
                next
            }
            b'\'' | b'"' => after_text(bytes, next, byte),
            b'`' => in_template(bytes, next, &mut open),
            b'/' => match bytes.get(next) {
                Some(b'/') => line_end(bytes, next),
                Some(b'*') => after_comment(bytes, next + 1),
                _ if ends_value(before) => next,
                _ => after_text(bytes, next, b'/'),
            },
            b'(' | b'[' | b'{' => {
                open.push(byte);
                next
            }
            b')' | b']' | b'}' => match open.pop() {
                Some(b'`') => in_template(bytes, next, &mut open),
                _ => next,
            },
            _ => next,
        };
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    lines
}

/// Whether a `/` after this divides; else it begins a pattern.
fn ends_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || !byte.is_ascii()
        || matches!(byte, b'_' | b'$' | b')' | b']' | b'}' | b'\'' | b'"' | b'`')
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    let length = bytes.iter().skip(from).position(|byte| *byte == b'\n');
    length.map_or(bytes.len(), |length| from + length)
}

fn after_comment(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let length = rest.windows(2).position(|two| two == b"*/");
    length.map_or(bytes.len(), |length| from + length + 2)
}

/// Behind a text or a pattern that ends with this; neither goes on in the next line.
fn after_text(bytes: &[u8], from: usize, end: u8) -> usize {
    let mut at = from;
    // A `/` among the characters of a class does not end a pattern.
    let mut in_class = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\n' => return at,
            b'\\' => at += 1,
            b'[' => in_class = end == b'/',
            b']' => in_class = false,
            _ if byte == end && !in_class => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Behind a template, or in the first `${` of it.
fn in_template(bytes: &[u8], from: usize, open: &mut Vec<u8>) -> usize {
    let mut at = from;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'`' => return at + 1,
            b'$' if bytes.get(at + 1) == Some(&b'{') => {
                open.push(b'`');
                return at + 2;
            }
            _ => {}
        }
        at += 1;
    }
    // It has no end, and what follows is in it.
    open.push(b'`');
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_texts_comments_and_brackets_are_none() {
        for (source, expected) in [
            ("", &[""] as &[&str]),
            ("a\nb", &["a", "b"]),
            ("f(1,\n2)\nb", &["f(1,", "b"]),
            ("/*\na\n*/\nb", &["/*", "b"]),
            ("`\n${ {a: `}`}\n}\n`\nb", &["`", "b"]),
            ("x = '\\'{' // {\nb", &["x = '\\'{' // {", "b"]),
            ("x = /[/`]'/g\nb", &["x = /[/`]'/g", "b"]),
            ("x = a / b / '{'\nb", &["x = a / b / '{'", "b"]),
            ("`\nb", &["`"]),
            ("}\nb", &["}", "b"]),
        ] {
            let found = outer_lines(source);
            let found: Vec<&str> =
                found.iter().map(|at| source[*at..].lines().next().unwrap_or("")).collect();
            assert_eq!(found, expected, "{source}");
        }
    }
}
