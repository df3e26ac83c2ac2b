//! Finds the top-level lines of a program, as far as possible without parsing its language.

/// Returns where lines begin that are not inside a string, a comment or brackets. In unusual programs, fewer are found.
pub(super) fn outer_lines(source: &str) -> Vec<usize> {
    let bytes = source.as_bytes();
    let mut lines = vec![0];
    // The open brackets; a backtick stands for the template around a `${`.
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

/// Whether a `/` after this byte is a division; otherwise it begins a regular expression.
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

/// Returns the position after a string or regular expression that ends with `end`; neither continues on the next line.
fn after_text(bytes: &[u8], from: usize, end: u8) -> usize {
    let mut at = from;
    // A `/` within a character class does not end a regular expression.
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

/// Returns the position after a template, or after the first `${` in it.
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
    // It has no end, so everything that follows is part of it.
    open.push(b'`');
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_strings_comments_and_brackets_do_not_count() {
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
