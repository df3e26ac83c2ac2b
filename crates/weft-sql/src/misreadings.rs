//! Places where a server splits a text into other tokens than the tokenizer used here. A string to one of them may be
//! SQL to the other, so a statement with such a place is refused, whatever it says. Pure code.

use sqlparser::tokenizer::{Token, Whitespace};
use weft_core::seam::databases::DatabaseKind;

/// Characters that operators consist of.
const SIGNS: &str = "+-*/<>=~!@#%^&|`?";

/// Whether a text contains comments that MySQL and MariaDB execute as SQL.
// Anywhere in the text: the positions of tokens in such a comment are not those in the text, so it cannot be split, and
// a string that looks like one is rare.
pub(crate) fn hides_sql(kind: DatabaseKind, text: &str) -> bool {
    kind == DatabaseKind::MySql && (text.contains("/*!") || text.contains("/*M!"))
}

/// Why a statement is refused because its server may understand it differently, if it is.
pub(crate) fn refused(kind: DatabaseKind, tokens: &[Token]) -> Option<&'static str> {
    if runs_into_a_comment(kind, tokens) {
        return Some("operators directly before a comment are refused; put a space between them");
    }
    tokens.iter().find_map(|token| of_token(kind, token))
}

/// Whether adjacent operator characters contain the start of a comment: a server ends the operator there.
fn runs_into_a_comment(kind: DatabaseKind, tokens: &[Token]) -> bool {
    let mut signs = String::new();
    for token in tokens {
        match token {
            Token::Mul | Token::Div | Token::Minus | Token::CustomBinaryOperator(_) => {
                signs.push_str(&token.to_string());
            }
            Token::Whitespace(_) | Token::Word(_) | Token::Number(..) => signs.push(' '),
            other => {
                let written = other.to_string();
                let is_sign = written.chars().all(|letter| SIGNS.contains(letter));
                signs.push_str(if is_sign { &written } else { " " });
            }
        }
    }
    // MySQL takes two minus signs for a comment only before white space, and there the tokenizer agrees.
    signs.contains("/*") || (kind != DatabaseKind::MySql && signs.contains("--"))
}

fn of_token(kind: DatabaseKind, token: &Token) -> Option<&'static str> {
    let is_postgres = kind == DatabaseKind::Postgres;
    let is_mysql = kind == DatabaseKind::MySql;
    let is_odd = |letter: char| {
        letter.is_ascii() && !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | '$' | '@')
    };
    match token {
        // For example `@/` before a `*`, or `1.a`, which is a number and a name.
        Token::Word(word) if word.quote_style.is_none() && word.value.contains(is_odd) => Some(
            "a name with an operator character is refused; put a space before that character, or quote the name",
        ),
        // Servers read this as a name followed by a string or another name.
        Token::DoubleQuotedByteStringLiteral(_) => Some("b\"…\" is refused; put a space after the b"),
        // To MySQL, non-ASCII characters are not spaces, so they begin a name.
        Token::Whitespace(Whitespace::SingleLineComment { prefix, comment })
            if is_mysql && prefix == "--" && comment.starts_with(|letter: char| !letter.is_ascii()) =>
        {
            Some("a comment with an unusual space after `--` is refused; use an ordinary space")
        }
        Token::Whitespace(Whitespace::MultiLineComment(text)) if is_mysql && lifts_a_limit(text) => {
            Some("a hint that changes the time limit of a statement or other settings is refused")
        }
        // The tokenizer accepts fewer letters in `$…$` than PostgreSQL, and there are no parameters.
        Token::Placeholder(name) if is_postgres && name.starts_with('$') => {
            Some("a `$` that does not begin a string is refused; write the value itself")
        }
        // To PostgreSQL `$1` is a parameter.
        Token::DollarQuotedString(text)
            if is_postgres
                && text.tag.as_ref().is_some_and(|tag| tag.starts_with(|c: char| c.is_ascii_digit())) =>
        {
            Some("`$…$` that begins with a digit is refused; use a letter")
        }
        _ => None,
    }
}

/// Whether a comment is an optimizer hint that changes a setting for its statement.
fn lifts_a_limit(comment: &str) -> bool {
    let hint = comment.strip_prefix('+').map(str::to_ascii_lowercase);
    hint.is_some_and(|hint| hint.contains("max_execution_time") || hint.contains("set_var"))
}

#[cfg(test)]
mod tests {
    use weft_core::seam::databases::SqlPart;

    use super::*;
    use crate::statements::checked;

    fn is_good(kind: DatabaseKind, sql: &str) -> bool {
        let found = checked(kind, &[SqlPart::Text(sql.to_owned())]);
        found.is_ok_and(|statements| statements.iter().all(Result::is_ok))
    }

    #[test]
    fn text_that_the_server_would_read_differently_is_refused() {
        for sql in [
            "SELECT 1 -/* ' */ 2, pg_read_file($$/etc/passwd$$) -- '",
            "SELECT 1 #-- '\n2, pg_reload_conf() -- '",
            "SELECT 1 ?-- '\n2, pg_reload_conf() -- '",
            "SELECT $\u{a0}$, ' $\u{a0}$, pg_reload_conf() -- '",
            "SELECT $1$a$1$",
        ] {
            assert!(!is_good(DatabaseKind::Postgres, sql), "{sql}");
        }
        for sql in [
            "SELECT 1 --\u{a0}, LOAD_FILE('/etc/passwd') FROM (SELECT 1 AS \u{a0}) AS t",
            "SELECT b\"\\\", \", LOAD_FILE(0x2f) FROM (SELECT 1 AS b) AS t -- \"",
            "SELECT @/* ' */, LOAD_FILE(0x2f) -- '",
            "SELECT @#+ '\n, LOAD_FILE(0x2f) -- '",
            "SELECT 1.a FROM t",
        ] {
            assert!(!is_good(DatabaseKind::MySql, sql), "{sql}");
        }
    }

    #[test]
    fn text_that_both_read_alike_is_allowed() {
        for sql in [
            "SELECT a /**/ - /* x */ 1, 2 */**/ 3, b #- '{a}', c -> 'd', '--/*', \"/*\" FROM t --",
            "SELECT $tag$ -- /* $tag$, $$ $ $$, E'a\\'', 'b', a$b, \u{e4}\u{a0} FROM t",
        ] {
            assert!(is_good(DatabaseKind::Postgres, sql), "{sql}");
        }
        for sql in [
            "SELECT 5--3, @a, @@version, `a-b`, b'1', b \"x\", \"--\", 1.5, t.1a FROM t -- end\n# more",
            "SELECT /*+ INDEX(t a) */ a FROM t /**/",
        ] {
            assert!(is_good(DatabaseKind::MySql, sql), "{sql}");
        }
    }

    #[test]
    fn hints_that_change_a_setting_are_refused() {
        for sql in
            ["SELECT /*+ SET_VAR(max_execution_time = 0) */ 1", "SELECT /*+ Max_Execution_Time(0) */ 1"]
        {
            assert!(!is_good(DatabaseKind::MySql, sql), "{sql}");
            assert!(is_good(DatabaseKind::Postgres, sql), "{sql}");
        }
    }

    #[test]
    fn an_executable_comment_is_refused_wherever_it_is_split() {
        for sql in ["SELECT 1 /*!\u{e9}ab;*/", "SELECT 1 /*!00000;;;\n;*/; SELECT 2", "SELECT '/*M!'"] {
            assert!(checked(DatabaseKind::MySql, &[SqlPart::Text(sql.to_owned())]).is_err(), "{sql}");
        }
        let value = SqlPart::Value("/*! ; */".into());
        let sql = [SqlPart::Text("SELECT ".to_owned()), value];
        assert_eq!(checked(DatabaseKind::MySql, &sql).unwrap(), [Ok("SELECT '/*! ; */'".to_owned())]);
    }
}
