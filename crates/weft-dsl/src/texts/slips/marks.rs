//! References that are written with other marks than theirs: full-width characters, a doubled `@`, quotes.

use std::collections::HashMap;

use super::{KnownNames, MALFORMED, Slip, TextLanguage, in_braces, reference_at};
use crate::texts::blocks;

/// The characters of a reference as input methods for Chinese and Japanese type them.
pub(super) const WIDE: [char; 5] = ['｛', '｝', '＠', '：', '．'];

/// Finds a reference that is typed with full-width characters, `｛sys.query｝` or `{Agent：A@content}`.
pub(super) fn wide(text: &str, known: KnownNames<'_>) -> Option<Slip> {
    if !text.contains(WIDE) {
        return None;
    }
    let narrow = |c: char| match c {
        '｛' => '{',
        '｝' => '}',
        '＠' => '@',
        '：' => ':',
        '．' => '.',
        other => other,
    };
    let narrowed: String = text.chars().map(narrow).collect();
    // How often each reference is right in the same text: only further ones are meant.
    let mut right: HashMap<&str, usize> = HashMap::new();
    for (_, inside) in in_braces(text) {
        *right.entry(inside).or_default() += 1;
    }
    in_braces(&narrowed).find_map(|(_, inside)| {
        let reference = reference_at(inside, known).filter(|reference| *reference == inside)?;
        if let Some(left) = right.get_mut(inside).filter(|left| **left > 0) {
            *left -= 1;
            return None;
        }
        let message =
            format!("`{{{reference}}}` is typed with full-width characters: it is treated as literal text");
        Some(Slip::new(MALFORMED, message, reference))
    })
}

/// Finds a reference whose `@` is doubled or has spaces around it: `{Agent:A@@content}`, `{Agent:A @ content}`.
pub(super) fn marked(text: &str, known: KnownNames<'_>) -> Option<Slip> {
    in_braces(text).find_map(|(_, inside)| {
        let (id, path) = inside.split_once('@')?;
        let (short_id, short_path) = (id.trim_end_matches(' '), path.trim_start_matches(['@', ' ']));
        // Most references are right, and need no other text to be built.
        if short_id.len() == id.len() && short_path.len() == path.len() {
            return None;
        }
        let meant = format!("{short_id}@{short_path}");
        let message = format!("`{{{inside}}}` is not a reference: it is treated as literal text");
        (reference_at(&meant, known) == Some(meant.as_str())).then(|| Slip::new(MALFORMED, message, &meant))
    })
}

/// Finds a reference in quotes within a statement of a template, where it is the text between the quotes.
pub(super) fn quoted(text: &str, language: TextLanguage, known: KnownNames<'_>) -> Option<Slip> {
    if language != TextLanguage::Jinja {
        return None;
    }
    blocks(text, "{%", "%}").find_map(|statement| {
        in_braces(statement).find_map(|(open, inside)| {
            let quote = statement[..open].chars().next_back().filter(|c| matches!(c, '\'' | '"'))?;
            let behind = statement[open..].split_once('}')?.1;
            let reference = reference_at(inside, known).filter(|reference| *reference == inside)?;
            let message = format!(
                "`{quote}{{{inside}}}{quote}` in a statement of a template is this text, and not the value of the reference"
            );
            let help = format!("write `{reference}` without quotes and braces");
            behind.starts_with(quote).then_some(Slip { code: MALFORMED, message, help })
        })
    })
}
