//! Words of the command line: quoting for a shell, display on a terminal, and names that are not allowed.

pub(crate) use weft_core::value::plural;
use weft_core::value::shortened;

use crate::failure::{Failure, Outcome};

/// Refuses `.` and `..` as names: names become parts of URLs and paths, where these two navigate.
///
/// # Errors
/// When the name is one of them.
pub(crate) fn must_be_no_step(what: &str, name: &str) -> Outcome<()> {
    if !matches!(name.trim(), "." | "..") {
        return Ok(());
    }
    let message = format!("{what} cannot be called `{}`: URLs cannot contain that name", name.trim());
    Err(Failure::usage(message).help("give it a name with a letter or a digit"))
}

/// Refuses to remove something unless its name was repeated with `--confirm`.
///
/// # Errors
/// When it was not, or another name was given.
pub(crate) fn must_be_confirmed(what: &str, name: &str, confirm: Option<&str>) -> Outcome<()> {
    let message = match confirm {
        Some(given) if given == name => return Ok(()),
        Some(given) => format!("`--confirm` names {}, not {what} {}", quoted(given), quoted(name)),
        None => format!("this removes {what} {} with all data, for good", quoted(name)),
    };
    Err(Failure::usage(message).help(format!("confirm it with `--confirm {}`", quoted(name))))
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns a text on one line, cut to `chars_max` characters.
pub(crate) fn on_one_line(text: &str, chars_max: usize) -> String {
    shortened(text, chars_max).replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let check = |word, expected| assert_eq!(quoted(word), expected);
        check("a/b.json", "a/b.json");
        check("it's", r"'it'\''s'");
        check("", "''");
    }

    #[test]
    fn a_removal_is_confirmed_by_the_name() {
        let told = |confirm: Option<&str>| match must_be_confirmed("the tenant", "my shop", confirm) {
            Err(Failure::New { message, help, .. }) => format!("{message} ({})", help.unwrap_or_default()),
            other => format!("{other:?}"),
        };
        assert_eq!(told(Some("my shop")), "Ok(())");
        let help = "(confirm it with `--confirm 'my shop'`)";
        assert_eq!(told(Some("shp")), format!("`--confirm` names shp, not the tenant 'my shop' {help}"));
        assert!(told(None).ends_with(help), "{}", told(None));
    }

    #[test]
    fn a_text_on_one_line_is_cut_at_a_character() {
        let check = |text, expected| assert_eq!(on_one_line(text, 4), expected);
        check("a\nbä", "a bä");
        check("a\n\tä语", "a  ä…");
        check("", "");
    }
}
