//! Finds what a program opens and does not close, which no interpreter accepts. It is determined from the text alone,
//! and only as far as that is certain about where strings and comments end; beyond that, the interpreter decides.

use weft_core::seam::sandbox::Language;

/// Returns the first unbalanced bracket, string or comment of a program, as a sentence fragment.
pub(super) fn first(language: Language, program: &str) -> Option<String> {
    let mut scan = ProgramScan { text: program.as_bytes(), at: 0, line: 1, open: Vec::new() };
    let end = match language {
        Language::Python => scan.python(),
        // Some lines of such a program end with characters that do not end lines elsewhere.
        Language::JavaScript if program.contains(['\u{2028}', '\u{2029}']) => return None,
        Language::JavaScript => scan.javascript(),
    };
    match end {
        Err(ScanStop::Uneven(what)) => Some(what),
        Err(ScanStop::Uncertain) => None,
        Ok(()) => {
            let (bracket, line) = scan.open.pop()?;
            Some(format!("does not close the `{}` of line {line}", shown(bracket)))
        }
    }
}

/// Formats a bracket as the program writes it.
fn shown(bracket: u8) -> String {
    if bracket == b'$' { "${".to_owned() } else { char::from(bracket).to_string() }
}

/// Why the scan of a program stops.
enum ScanStop {
    /// Something is unbalanced.
    Uneven(String),
    /// Where the next string ends depends on more than the characters.
    Uncertain,
}

struct ProgramScan<'p> {
    text: &'p [u8],
    at: usize,
    line: usize,
    /// The brackets that are open, with their lines; `$` for the code within a JavaScript template.
    open: Vec<(u8, usize)>,
}

impl ProgramScan<'_> {
    fn begins(&self, with: &str) -> bool {
        self.text[self.at..].starts_with(with.as_bytes())
    }

    /// Returns the next byte: only ASCII characters matter here.
    fn step(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        // A line may end with `\r` alone, and `\r\n` is a single line end.
        let ends = byte == b'\n' || byte == b'\r' && self.text.get(self.at) != Some(&b'\n');
        self.line += usize::from(ends);
        Some(byte)
    }

    /// Skips what follows a backslash.
    fn escaped(&mut self) {
        if self.step() == Some(b'\r') && self.begins("\n") {
            self.step();
        }
    }

    fn rest_of_line(&mut self) {
        while !matches!(self.text.get(self.at), None | Some(b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips the rest of a string that ends with `sign`; it must end on its line unless it may continue.
    fn text_until(&mut self, sign: &str, lines: StringLines) -> Result<(), ScanStop> {
        let begun = self.line;
        loop {
            if self.begins(sign) {
                self.at += sign.len();
                return Ok(());
            }
            match self.step() {
                Some(b'\\') => self.escaped(),
                Some(b'\n' | b'\r') | None if lines == StringLines::One || self.at == self.text.len() => {
                    return Err(ScanStop::Uneven(format!(
                        "does not close the string that begins in line {begun}"
                    )));
                }
                _ => {}
            }
        }
    }

    /// Closes a bracket; returns the one it has closed.
    fn close(&mut self, bracket: u8) -> Result<u8, ScanStop> {
        let (line, closing) = (self.line, char::from(bracket));
        match self.open.pop() {
            Some((open @ b'(', _)) if bracket == b')' => Ok(open),
            Some((open @ b'[', _)) if bracket == b']' => Ok(open),
            Some((open @ (b'{' | b'$'), _)) if bracket == b'}' => Ok(open),
            Some((open, begun)) => {
                let open = shown(open);
                Err(ScanStop::Uneven(format!(
                    "closes the `{open}` of line {begun} with `{closing}` in line {line}"
                )))
            }
            None => Err(ScanStop::Uneven(format!("has an unmatched `{closing}` in line {line}"))),
        }
    }

    fn python(&mut self) -> Result<(), ScanStop> {
        while let Some(byte) = self.step() {
            match byte {
                b'#' => self.rest_of_line(),
                b'\'' | b'"' => {
                    let before = &self.text[..self.at - 1];
                    let letters = before.iter().rev().take_while(|c| c.is_ascii_alphabetic()).count();
                    let prefix = before[before.len() - letters..].to_ascii_lowercase();
                    // Such a string contains code, with strings of its own.
                    if prefix.contains(&b'f') || prefix.contains(&b't') {
                        return Err(ScanStop::Uncertain);
                    }
                    let (three, one) = if byte == b'"' { ("\"\"\"", "\"") } else { ("'''", "'") };
                    self.at -= 1;
                    if self.begins(three) {
                        self.at += three.len();
                        self.text_until(three, StringLines::Many)?;
                    } else {
                        self.at += one.len();
                        self.text_until(one, StringLines::One)?;
                    }
                }
                b'(' | b'[' | b'{' => self.open.push((byte, self.line)),
                b')' | b']' | b'}' => {
                    self.close(byte)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn javascript(&mut self) -> Result<(), ScanStop> {
        if self.begins("#!") {
            self.rest_of_line();
        }
        loop {
            // Old browsers treat these as comment markers, and some interpreters still do.
            if self.begins("<!--") || self.begins("-->") {
                return Err(ScanStop::Uncertain);
            }
            if self.begins("//") {
                self.rest_of_line();
                continue;
            }
            if self.begins("/*") {
                self.comment()?;
                continue;
            }
            let Some(byte) = self.step() else { return Ok(()) };
            match byte {
                // A division, or a regular expression that may contain any characters.
                b'/' => return Err(ScanStop::Uncertain),
                b'\'' => self.text_until("'", StringLines::One)?,
                b'"' => self.text_until("\"", StringLines::One)?,
                b'`' => self.template()?,
                b'(' | b'[' | b'{' => self.open.push((byte, self.line)),
                b')' | b']' | b'}' => self.closed(byte)?,
                _ => {}
            }
        }
    }

    /// After a closing bracket, a template continues if the bracket ended one of its values.
    fn closed(&mut self, byte: u8) -> Result<(), ScanStop> {
        match self.close(byte)? {
            b'$' => self.template(),
            _ => Ok(()),
        }
    }

    fn comment(&mut self) -> Result<(), ScanStop> {
        let begun = self.line;
        self.at += 2;
        while !self.begins("*/") {
            if self.step().is_none() {
                return Err(ScanStop::Uneven(format!(
                    "does not close the comment that begins in line {begun}"
                )));
            }
        }
        self.at += 2;
        Ok(())
    }

    /// Skips the text of a template, up to its end or to the code within it.
    fn template(&mut self) -> Result<(), ScanStop> {
        let begun = self.line;
        loop {
            match self.step() {
                Some(b'`') => return Ok(()),
                Some(b'\\') => self.escaped(),
                Some(b'$') if self.begins("{") => {
                    self.at += 1;
                    self.open.push((b'$', self.line));
                    return Ok(());
                }
                None => {
                    return Err(ScanStop::Uneven(format!(
                        "does not close the string that begins in line {begun}"
                    )));
                }
                Some(_) => {}
            }
        }
    }
}

/// Whether a string may continue on the next line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StringLines {
    One,
    Many,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: Language, program: &str, expected: &str) {
        assert_eq!(first(language, program).unwrap_or_default(), expected, "{program}");
    }

    #[test]
    fn programs_in_python() {
        let check = |program: &str, expected: &str| check(Language::Python, program, expected);
        check("def main(a):\n    return {'b': [1, (2)]}  # it's (", "");
        check("x = '''it's\n(''' + \"\"\"a \\\"\"\" b\"\"\"\ny = r'\\'' + '\\\nz' + ''", "");
        check("print(f'{x[\"a\"]}', (", "");
        check("def main(:\n    return [1, 2", "does not close the `[` of line 2");
        check("def main(a):\n    return foo(a\n", "does not close the `(` of line 2");
        check("x = [1, 2)\n", "closes the `[` of line 1 with `)` in line 1");
        check("x = 1\r\ny = 2)", "has an unmatched `)` in line 2");
        check("x = 1\ny = 'it is\nz = 3'", "does not close the string that begins in line 2");
        check("\n'''a\nb", "does not close the string that begins in line 2");
        check("x = 'a\\", "does not close the string that begins in line 1");
    }

    #[test]
    fn programs_in_javascript() {
        let check = |program: &str, expected: &str| check(Language::JavaScript, program, expected);
        check("function main({a}) { return `it's ${[a, `${a})`]} (` } // it's (", "");
        check("/* it's ( */ const main = () => ({'b': \"(\", c: '\\''})", "");
        check("const main = () => a / 2 + 'b", "");
        check("const main = () => /['\"(]/.test('a'", "");
        check("/* a *//* b */ const main = () => 1 // c\n", "");
        check("<!-- it's\nconst main = () => 1", "");
        check("const a = 'b\u{2028}'\n(", "");
        check("function main() {\n  return [1, 2]\n", "does not close the `{` of line 1");
        check("function main() { return `${a` }", "does not close the string that begins in line 1");
        check("function main() { return (1] }", "closes the `(` of line 1 with `]` in line 1");
        check("const a = `${b)}`", "closes the `${` of line 1 with `)` in line 1");
        check("const a = 1\n}", "has an unmatched `}` in line 2");
        check("const a = 'it\nis'", "does not close the string that begins in line 1");
        check("const a = 1 /* why\n", "does not close the comment that begins in line 1");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([(){}'\"`$/*#\\\\ \r\n]|ü|f|<!--|'''){0,40}") {
            for language in [Language::Python, Language::JavaScript] {
                first(language, &text);
            }
        }
    }
}
