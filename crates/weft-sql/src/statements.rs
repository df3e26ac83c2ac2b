//! Splits SQL texts into statements and checks that each of them only reads.
//!
//! A text is split at the semicolons that a tokenizer of the same dialect finds, not at those in strings and comments.
//! Values are inserted as literals and escaped, so they cannot end the string or the statement that contains them; the
//! checks afterwards apply to exactly the text that is sent.

use std::fmt::Write as _;

use serde_json::Value as Json;
use sqlparser::ast::{Query, SetExpr, Statement};
use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};
use weft_core::seam::databases::{DatabaseKind, STATEMENTS_MAX, SqlPart};
use weft_core::value::to_text;
use weft_core::{Error, Result};

use crate::chains::is_too_long;
use crate::{effects, misreadings, rewrites};

/// Maximum size of all statements together, in bytes.
const SQL_MAX: usize = 1 << 20;
/// Maximum nesting depth; deeper statements are refused.
// The default of the parser.
const DEPTH_MAX: usize = 50;

/// A statement that may be sent, or the reason why it may not.
pub(crate) type CheckedStatement = std::result::Result<String, String>;

/// Splits a text into statements and checks each of them. Empty statements are skipped.
///
/// # Errors
/// `Invalid` for a text without a statement, with too many, too long, or with an unterminated string or comment; for a
/// value at a place that does not allow one.
pub(crate) fn checked(kind: DatabaseKind, sql: &[SqlPart]) -> Result<Vec<CheckedStatement>> {
    let dialect = dialect(kind);
    let text = filled_in(kind, &*dialect, sql)?;
    let tokens = tokens(&*dialect, &text)?;
    let ends = tokens.iter().filter(|one| one.token == Token::SemiColon).map(|one| one.span.start);
    let mut cuts: Vec<usize> = offsets(&text, ends);
    cuts.push(text.len());
    let mut statements = Vec::new();
    let mut from = 0;
    for cut in cuts {
        let statement = text[from..cut].trim();
        // A cut is at a semicolon, which is one byte; only the last one is at the end of the text.
        from = (cut + 1).min(text.len());
        if !is_empty(&*dialect, statement) {
            statements.push(statement);
        }
    }
    // Checked before any statement is parsed: a text can contain a hundred thousand of them.
    match statements.len() {
        0 => Err(Error::invalid("there is no SQL to execute")
            .help("enter a statement in `sql`, such as `SELECT 1`")),
        1..=STATEMENTS_MAX => {
            let judged = |one: &str| allowed(kind, &*dialect, one).map(|()| one.to_owned());
            Ok(statements.into_iter().map(judged).collect())
        }
        count => {
            Err(Error::invalid(format!("there are {count} statements; at most {STATEMENTS_MAX} are allowed"))
                .help("query less at a time"))
        }
    }
}

/// The keyword that a statement begins with, in upper case. Comments and parentheses may precede it.
pub(crate) fn verb(kind: DatabaseKind, statement: &str) -> String {
    let dialect = dialect(kind);
    let tokens = Tokenizer::new(&*dialect, statement).tokenize().unwrap_or_default();
    let word = |token: Token| if let Token::Word(word) = token { Some(word.value) } else { None };
    tokens.into_iter().find_map(word).unwrap_or_default().to_uppercase()
}

fn dialect(kind: DatabaseKind) -> Box<dyn Dialect> {
    match kind {
        DatabaseKind::Sqlite => Box::new(SQLiteDialect {}),
        DatabaseKind::Postgres => Box::new(PostgreSqlDialect {}),
        DatabaseKind::MySql => Box::new(MySqlDialect {}),
    }
}

fn tokens(dialect: &dyn Dialect, text: &str) -> Result<Vec<TokenWithSpan>> {
    // Without unescaping, since the positions of tokens must be those in the text.
    Tokenizer::new(dialect, text)
        .with_unescape(false)
        .tokenize_with_location()
        .map_err(|cause| Error::invalid(format!("the SQL cannot be read: {cause}")))
}

/// Converts locations, which must be in order, from lines and columns to byte offsets.
fn offsets(text: &str, places: impl Iterator<Item = Location>) -> Vec<usize> {
    let (mut line, mut column) = (1, 1);
    let mut chars = text.char_indices();
    let mut found = Vec::new();
    for place in places {
        loop {
            let here = chars.offset();
            if (line, column) >= (place.line, place.column) {
                found.push(here);
                break;
            }
            match chars.next() {
                Some((_, '\n')) => (line, column) = (line + 1, 1),
                Some(_) => column += 1,
                None => {
                    found.push(text.len());
                    break;
                }
            }
        }
    }
    found
}

fn is_empty(dialect: &dyn Dialect, statement: &str) -> bool {
    let only_space = |one: &TokenWithSpan| matches!(one.token, Token::Whitespace(_) | Token::EOF);
    tokens(dialect, statement).is_ok_and(|tokens| tokens.iter().all(only_space))
}

/// Returns the text with every value inserted as a literal.
fn filled_in(kind: DatabaseKind, dialect: &dyn Dialect, sql: &[SqlPart]) -> Result<String> {
    let length = |part: &SqlPart| match part {
        SqlPart::Text(text) => text.len(),
        SqlPart::Value(_) => 0,
    };
    let too_long =
        || Err(Error::invalid(format!("the SQL has more than {SQL_MAX} bytes")).help("query less at a time"));
    if sql.iter().map(length).sum::<usize>() > SQL_MAX {
        return too_long();
    }
    let (marked, name, values) = marked(sql);
    // Before the text is split: tokens within such a comment have no position of their own in the text.
    if misreadings::hides_sql(kind, &marked) {
        return Err(Error::invalid("the SQL contains a comment that some servers execute (`/*!`)")
            .help("remove the comment"));
    }
    if values.is_empty() {
        return Ok(marked);
    }
    let tokens = tokens(dialect, &marked)?;
    let mut starts = offsets(&marked, tokens.iter().map(|one| one.span.start));
    starts.push(marked.len());
    let mut text = String::with_capacity(marked.len());
    text.push_str(&marked[..starts.first().copied().unwrap_or(marked.len())]);
    for (place, one) in tokens.iter().enumerate() {
        let written = &marked[starts[place]..starts[place + 1]];
        if !written.contains(&name) {
            text.push_str(written);
        } else {
            put(
                &mut text,
                kind,
                &WrittenToken { token: &one.token, written },
                &ValueMarkers { name: &name, values: &values },
            )?;
        }
        if text.len() > SQL_MAX {
            return too_long();
        }
    }
    Ok(text)
}

/// Returns the text with a marker word in place of each value, the prefix of these words, and the values. The prefix
/// occurs nowhere else in the text.
fn marked(sql: &[SqlPart]) -> (String, String, Vec<&Json>) {
    let written =
        |name: &str| sql.iter().any(|part| matches!(part, SqlPart::Text(text) if text.contains(name)));
    let mut name = "weft_value_".to_owned();
    while written(&name) {
        name.push('_');
    }
    let (mut text, mut values) = (String::new(), Vec::new());
    for part in sql {
        match part {
            SqlPart::Text(part) => text.push_str(part),
            SqlPart::Value(value) => {
                // Terminated by an `x`, so that no marker is a prefix of another one.
                let _ = write!(text, "{name}{}x", values.len());
                values.push(value);
            }
        }
    }
    (text, name, values)
}

/// A token and its source text.
struct WrittenToken<'a> {
    token: &'a Token,
    written: &'a str,
}

/// The marker words that stand for values.
struct ValueMarkers<'a> {
    /// Their common prefix.
    name: &'a str,
    values: &'a [&'a Json],
}

/// Appends a token that contains markers, with the values in their place.
fn put(
    text: &mut String,
    kind: DatabaseKind,
    token: &WrittenToken<'_>,
    marks: &ValueMarkers<'_>,
) -> Result<()> {
    let &WrittenToken { token, written } = token;
    let &ValueMarkers { name, values } = marks;
    let word = |place: usize| format!("{name}{place}x");
    match token {
        Token::Word(found) if found.quote_style.is_none() => {
            let value = values.iter().enumerate().find(|(place, _)| found.value == word(*place));
            let Some((_, value)) = value else { return Err(misplaced("directly next to a word")) };
            text.push_str(&literal(kind, value)?);
            text.push_str(&written[found.value.len()..]);
        }
        Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)
            if kind == DatabaseKind::MySql || matches!(token, Token::SingleQuotedString(_)) =>
        {
            let quote = if matches!(token, Token::SingleQuotedString(_)) { '\'' } else { '"' };
            let mut rest = written;
            while let Some(at) = rest.find(name) {
                let before = &rest[..at];
                if kind == DatabaseKind::MySql && before.ends_with('\\') {
                    return Err(misplaced("after a backslash"));
                }
                text.push_str(before);
                let digits = rest[at + name.len()..].find('x').unwrap_or(0);
                let place: usize = rest[at + name.len()..][..digits].parse().unwrap_or(usize::MAX);
                let Some(value) = values.get(place) else { return Err(misplaced("in a string")) };
                text.push_str(&escaped(kind, &to_text(value), quote)?);
                rest = &rest[at + word(place).len()..];
            }
            text.push_str(rest);
        }
        Token::Whitespace(Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)) => {
            // The comment is dropped, since a value in it could end it.
            text.push(' ');
        }
        _ => return Err(misplaced("in a name")),
    }
    Ok(())
}

fn misplaced(place: &str) -> Error {
    Error::invalid(format!("a reference in the SQL is {place}, where no value is possible"))
        .help("references are values, such as in `WHERE name = {begin@name}`; use a single reference for SQL written \
               by a model")
}

fn literal(kind: DatabaseKind, value: &Json) -> Result<String> {
    Ok(match value {
        Json::Null => "NULL".to_owned(),
        Json::Bool(true) => "TRUE".to_owned(),
        Json::Bool(false) => "FALSE".to_owned(),
        // A minus sign directly after another one would start a comment.
        Json::Number(number) if number.to_string().starts_with('-') => format!("({number})"),
        Json::Number(number) => number.to_string(),
        // `IN ()` is not valid SQL, and `IN (NULL)` matches nothing.
        Json::Array(items) if items.is_empty() => "NULL".to_owned(),
        Json::Array(items) => {
            items.iter().map(|item| literal(kind, item)).collect::<Result<Vec<_>>>()?.join(", ")
        }
        text => format!("'{}'", escaped(kind, &to_text(text), '\'')?),
    })
}

/// Escapes a text for use within quotes. The session makes PostgreSQL treat backslashes as ordinary characters, and
/// MySQL treat them as escapes.
fn escaped(kind: DatabaseKind, text: &str, quote: char) -> Result<String> {
    if text.contains('\0') {
        return Err(Error::invalid(
            "a value in the SQL contains a null character, which no database accepts",
        ));
    }
    let doubled = text.replace(quote, &format!("{quote}{quote}"));
    Ok(if kind == DatabaseKind::MySql { doubled.replace('\\', "\\\\") } else { doubled })
}

/// Checks that a statement only reads.
fn allowed(kind: DatabaseKind, dialect: &dyn Dialect, statement: &str) -> std::result::Result<(), String> {
    // A statement that cannot be tokenized passes these checks, but not the parser, which tokenizes it again.
    let tokens = Tokenizer::new(dialect, statement).tokenize().unwrap_or_default();
    if let Some(why) = misreadings::refused(kind, &tokens) {
        return Err(why.to_owned());
    }
    if tells_of_tables(dialect, statement) {
        return Ok(());
    }
    if let Some(why) = effects::refused(kind, &tokens) {
        return Err(why);
    }
    if locks(kind, &tokens) {
        return Err(LOCKS.to_owned());
    }
    if kind == DatabaseKind::MySql && writes_a_file(&tokens) {
        return Err(FILES.to_owned());
    }
    // Before parsing, because merely dropping the syntax tree could overflow the stack.
    if is_too_long(&tokens) {
        return Err("one of its expressions is too long; use a list, such as `a IN (1, 2)`".to_owned());
    }
    let parsed = Parser::new(dialect)
        .with_recursion_limit(DEPTH_MAX)
        .try_with_sql(statement)
        .and_then(|mut parser| parser.parse_statements());
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(ParserError::RecursionLimitExceeded) => {
            return Err("the statement is nested too deeply".to_owned());
        }
        Err(ParserError::TokenizerError(why) | ParserError::ParserError(why)) => {
            parsed_in_other_words(kind, dialect, &tokens).ok_or_else(|| {
                format!("the statement cannot be read: {why}; {}", rewrites::remedy(kind, &tokens))
            })?
        }
    };
    match parsed.as_slice() {
        [one] => reads(one),
        _ => Err("the statement cannot be parsed as a single one".to_owned()),
    }
}

/// Parses a statement after rewriting constructs that the parser does not support.
fn parsed_in_other_words(
    kind: DatabaseKind,
    dialect: &dyn Dialect,
    tokens: &[Token],
) -> Option<Vec<Statement>> {
    // The rewritten statement may contain longer chains.
    let known = rewrites::rewritten(kind, tokens).filter(|known| !is_too_long(known))?;
    Parser::new(dialect).with_recursion_limit(DEPTH_MAX).with_tokens(known).parse_statements().ok()
}

/// SQLite pragmas that only return information about what a file contains. `database_list` tells its absolute path.
const PRAGMAS: [&str; 7] = [
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
];
/// Pragmas about the file as a whole; some of them would be set if a value were given.
const PRAGMAS_ALONE: [&str; 11] = [
    "application_id",
    "collation_list",
    "compile_options",
    "encoding",
    "freelist_count",
    "function_list",
    "page_count",
    "page_size",
    "pragma_list",
    "schema_version",
    "user_version",
];

/// Whether a statement is `PRAGMA table_info(x)` or the like, `TABLE x`, or `DESCRIBE x column`, which the parser does
/// not support as statements.
fn tells_of_tables(dialect: &dyn Dialect, statement: &str) -> bool {
    let Ok(tokens) = Tokenizer::new(dialect, statement).tokenize() else { return false };
    let tokens: Vec<_> = tokens.into_iter().filter(|one| !matches!(one, Token::Whitespace(_))).collect();
    let is_word = |token: &Token, wanted: &str| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted));
    let is_name = |token: &Token| {
        matches!(token, Token::Word(_) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_))
    };
    // `a`, or `a.b`.
    let is_path = |path: &[Token]| match path {
        [name] => is_name(name),
        [schema, Token::Period, name] => is_name(schema) && is_name(name),
        _ => false,
    };
    match tokens.as_slice() {
        [first, path @ .., column]
            if dialect.is::<MySqlDialect>() && (is_word(first, "DESC") || is_word(first, "DESCRIBE")) =>
        {
            // No statement begins with a word that is not a keyword.
            let is_plain =
                |token: &Token| matches!(token, Token::Word(word) if word.keyword == Keyword::NoKeyword);
            is_path(path) && path.first().is_some_and(is_plain) && is_name(column)
        }
        [first, path @ ..] if is_word(first, "TABLE") => !dialect.is::<SQLiteDialect>() && is_path(path),
        [first, rest @ ..] if is_word(first, "PRAGMA") && dialect.is::<SQLiteDialect>() => {
            let open = rest.iter().position(|token| *token == Token::LParen).unwrap_or(rest.len());
            let (path, argument) = rest.split_at(open);
            let is_one_of =
                |known: &[&str]| path.last().is_some_and(|name| known.iter().any(|one| is_word(name, one)));
            let asks = match argument {
                [] => is_one_of(&PRAGMAS) || is_one_of(&PRAGMAS_ALONE),
                [Token::LParen, name, Token::RParen] => is_one_of(&PRAGMAS) && is_name(name),
                _ => false,
            };
            is_path(path) && asks
        }
        _ => false,
    }
}

/// Reason for refusing a query that locks rows.
const LOCKS: &str = "FOR UPDATE, FOR SHARE and the like are refused: statements may not lock rows";
/// Reason for refusing a query that writes its result to a file on the server.
const FILES: &str = "INTO OUTFILE and INTO DUMPFILE are refused: only read-only statements are executed, and no file \
                     is written";

/// Whether a query or one of its subqueries locks rows, which MySQL allows in a read-only transaction. For PostgreSQL
/// the parser detects locks, as far as it supports their syntax.
fn locks(kind: DatabaseKind, tokens: &[Token]) -> bool {
    let keyword = |token: &Token| match token {
        Token::Whitespace(_) => None,
        Token::Word(word) => Some(word.keyword),
        _ => Some(Keyword::NoKeyword),
    };
    let keywords: Vec<Keyword> = tokens.iter().filter_map(keyword).collect();
    let is_of_mysql = |two: &[Keyword]| {
        matches!(two, [Keyword::FOR, Keyword::UPDATE | Keyword::SHARE] | [Keyword::LOCK, Keyword::IN])
    };
    let is_of_a_key = |three: &[Keyword]| {
        matches!(
            three,
            [Keyword::FOR, Keyword::NO, Keyword::KEY] | [Keyword::FOR, Keyword::KEY, Keyword::SHARE]
        )
    };
    kind == DatabaseKind::MySql && keywords.windows(2).any(is_of_mysql)
        || keywords.windows(3).any(is_of_a_key)
}

/// Whether a query writes its result to a file on the server.
fn writes_a_file(tokens: &[Token]) -> bool {
    let words: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    words.windows(2).any(|two| match two {
        [Token::Word(into), Token::Word(file)] => {
            let is_file = |name: &&str| file.value.eq_ignore_ascii_case(name);
            into.keyword == Keyword::INTO && ["OUTFILE", "DUMPFILE"].iter().any(is_file)
        }
        _ => false,
    })
}

fn reads(statement: &Statement) -> std::result::Result<(), String> {
    match statement {
        Statement::Query(query) => query_reads(query),
        Statement::Explain { statement, .. } => reads(statement),
        Statement::ExplainTable { .. }
        | Statement::ShowVariable { .. }
        | Statement::ShowVariables { .. }
        | Statement::ShowStatus { .. }
        | Statement::ShowCreate { .. }
        | Statement::ShowColumns { .. }
        | Statement::ShowDatabases { .. }
        | Statement::ShowSchemas { .. }
        | Statement::ShowTables { .. }
        | Statement::ShowViews { .. }
        | Statement::ShowProcessList { .. }
        | Statement::ShowCharset(_)
        | Statement::ShowCollation { .. } => Ok(()),
        other => {
            let text = other.to_string();
            let verb: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
            Err(format!(
                "{} is refused: only read-only statements are executed, such as SELECT",
                verb.to_uppercase()
            ))
        }
    }
}

fn query_reads(query: &Query) -> std::result::Result<(), String> {
    if !query.locks.is_empty() {
        return Err(LOCKS.to_owned());
    }
    let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
    tables.try_for_each(|table| query_reads(&table.query))?;
    body_reads(&query.body)
}

fn body_reads(body: &SetExpr) -> std::result::Result<(), String> {
    match body {
        SetExpr::Select(select) if select.into.is_some() => {
            Err("SELECT INTO is refused: only read-only statements are executed".to_owned())
        }
        SetExpr::Select(_) | SetExpr::Values(_) | SetExpr::Table(_) => Ok(()),
        SetExpr::Query(query) => query_reads(query),
        SetExpr::SetOperation { left, right, .. } => body_reads(left).and_then(|()| body_reads(right)),
        SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner) => {
            reads(inner)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const KINDS: [DatabaseKind; 3] = [DatabaseKind::Sqlite, DatabaseKind::Postgres, DatabaseKind::MySql];

    fn text(sql: &str) -> Vec<SqlPart> {
        vec![SqlPart::Text(sql.to_owned())]
    }

    fn with(before: &str, value: Json, after: &str) -> Vec<SqlPart> {
        vec![SqlPart::Text(before.to_owned()), SqlPart::Value(value), SqlPart::Text(after.to_owned())]
    }

    #[test]
    fn text_is_split_at_the_ends_of_statements() {
        for kind in KINDS {
            let sql = "SELECT ';' AS a; -- a ; b\n/* c ; d */ SELECT 2;;\n;SELECT '汉;' AS x";
            let found: Vec<_> =
                checked(kind, &text(sql)).unwrap().into_iter().map(|one| one.unwrap()).collect();
            assert_eq!(found.len(), 3, "{found:?}");
            assert_eq!((found[0].as_str(), found[2].as_str()), ("SELECT ';' AS a", "SELECT '汉;' AS x"));
        }
        let quoted = checked(DatabaseKind::Postgres, &text("SELECT $a$ ; $a$; SELECT 1")).unwrap();
        assert_eq!(quoted.len(), 2);
    }

    #[test]
    fn no_statements_and_too_many_are_errors() {
        let many = "SELECT 1;".repeat(STATEMENTS_MAX + 1);
        let long = format!("SELECT '{}'", "x".repeat(SQL_MAX));
        for sql in ["", " ; -- x\n ;", "SELECT 'a", &many, &long] {
            assert!(checked(DatabaseKind::Postgres, &text(sql)).is_err(), "{}", &sql[..sql.len().min(20)]);
        }
    }

    /// Asserts that every statement of the text is allowed.
    #[track_caller]
    fn carried_out(kind: DatabaseKind, sql: &str) {
        let found = checked(kind, &text(sql));
        assert!(
            found.as_ref().is_ok_and(|found| found.iter().all(Result::is_ok)),
            "{kind:?} {sql}: {found:?}"
        );
    }

    /// Asserts that the text is refused at least in part.
    #[track_caller]
    fn refused(kind: DatabaseKind, sql: &str) {
        let found = checked(kind, &text(sql));
        assert!(!found.is_ok_and(|found| found.iter().all(Result::is_ok)), "{kind:?} {sql}");
    }

    #[test]
    fn only_reading_statements_are_allowed() {
        for kind in KINDS {
            for sql in [
                "SELECT a, COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > 1 ORDER BY 2 DESC LIMIT 3",
                "WITH x AS (SELECT 1 AS a) SELECT * FROM x UNION ALL SELECT 2",
                "(SELECT 1)",
                "EXPLAIN SELECT 1",
                "-- why\nSELECT update_time, \"insert\" FROM t",
            ] {
                carried_out(kind, sql);
            }
            for sql in [
                "INSERT INTO t VALUES (1)",
                "/* c */ DELETE FROM t",
                "update t set a = 1",
                "DROP TABLE t",
                "CREATE TABLE t (a int)",
                "ALTER TABLE t ADD b int",
                "TRUNCATE TABLE t",
                "GRANT ALL ON t TO u",
                "BEGIN",
                "COMMIT",
                "SET x = 1",
                "SELECT * INTO u FROM t",
                "EXPLAIN DELETE FROM t",
                "no SQL at all",
            ] {
                refused(kind, sql);
            }
        }
    }

    #[test]
    fn writes_in_the_syntax_of_one_database_are_refused() {
        for sql in [
            "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
            "WITH x AS (WITH y AS (INSERT INTO t VALUES (1) RETURNING a) SELECT * FROM y) SELECT * FROM x",
            "SELECT * FROM t FOR UPDATE",
            "EXPLAIN ANALYZE UPDATE t SET a = 1",
            "COPY t TO PROGRAM 'sh'",
            "SELECT lo_export(1, '/tmp/x')",
            "WITH x AS (SELECT pg_reload_conf()) SELECT * FROM x",
            "EXPLAIN ANALYZE SELECT pg_cancel_backend(1)",
            "DO $$ BEGIN END $$",
            "CALL f()",
            "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
        ] {
            refused(DatabaseKind::Postgres, sql);
        }
        for sql in [
            "REPLACE INTO t VALUES (1)",
            "SELECT 1 INTO OUTFILE '/tmp/x'",
            "SELECT * FROM t INTO OUTFILE '/tmp/x'",
            "SELECT 1 /*! INTO OUTFILE '/tmp/x' */",
            "SELECT 1 /*M! INTO OUTFILE '/tmp/x' */",
            "SELECT 1 /*!50000 FOR UPDATE */",
            "SELECT * FROM (SELECT * FROM t FOR UPDATE) AS s",
            "SELECT (SELECT MAX(a) FROM t FOR SHARE) AS s",
            "LOAD DATA INFILE '/etc/passwd' INTO TABLE t",
            "HANDLER t OPEN",
            "SELECT LOAD_FILE('/etc/passwd')",
        ] {
            refused(DatabaseKind::MySql, sql);
        }
        for sql in
            ["SHOW TABLES", "SHOW PROCESSLIST", "SHOW FULL PROCESSLIST", "SHOW CHARACTER SET LIKE 'u%'"]
        {
            carried_out(DatabaseKind::MySql, sql);
        }
        carried_out(DatabaseKind::MySql, "DESCRIBE t");
        for sql in
            ["ATTACH DATABASE 'x' AS y", "PRAGMA query_only = 0", "VACUUM", "REPLACE INTO t VALUES (1)"]
        {
            refused(DatabaseKind::Sqlite, sql);
        }
    }

    #[test]
    fn locking_and_writing_files_is_refused_with_a_clear_message() {
        let why = |kind, sql: &str| checked(kind, &text(sql)).unwrap().remove(0).unwrap_err();
        for sql in [
            "SELECT * FROM t FOR UPDATE",
            "SELECT * FROM t FOR NO KEY UPDATE",
            "SELECT * FROM (SELECT * FROM t FOR KEY /* c */ SHARE SKIP LOCKED) AS s",
        ] {
            assert_eq!(why(DatabaseKind::Postgres, sql), LOCKS, "{sql}");
        }
        for sql in ["SELECT 1 INTO OUTFILE '/tmp/x'", "SELECT a FROM t into /* c */ dumpfile '/tmp/x'"] {
            assert_eq!(why(DatabaseKind::MySql, sql), FILES, "{sql}");
        }
        carried_out(DatabaseKind::Postgres, "SELECT outfile, key FROM t");
    }

    #[test]
    fn pragmas_that_describe_tables_are_allowed_and_no_others() {
        let good = |kind, sql: &str| checked(kind, &text(sql)).unwrap().iter().all(Result::is_ok);
        for sql in [
            "PRAGMA table_info(t)",
            "pragma main.index_list('t')",
            "PRAGMA table_list",
            "PRAGMA table_xinfo(\"a b\") -- why",
        ] {
            assert!(good(DatabaseKind::Sqlite, sql), "{sql}");
            assert!(!good(DatabaseKind::Postgres, sql) && !good(DatabaseKind::MySql, sql), "{sql}");
        }
        for sql in [
            "PRAGMA query_only = 0",
            "PRAGMA query_only(0)",
            "PRAGMA table_info = 1",
            "PRAGMA journal_mode",
            "PRAGMA database_list",
            "PRAGMA main.database_list",
            "TABLE t",
        ] {
            assert!(!good(DatabaseKind::Sqlite, sql), "{sql}");
        }
        for sql in ["TABLE t", "table public.\"T\""] {
            assert!(good(DatabaseKind::Postgres, sql), "{sql}");
        }
        assert!(!good(DatabaseKind::Postgres, "TABLE t INTO OUTFILE 'x'"));
    }

    #[test]
    fn deep_nesting_is_refused_without_recursion() {
        for kind in KINDS {
            let deep = format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000));
            assert!(checked(kind, &text(&deep)).unwrap()[0].is_err());
        }
    }

    #[test]
    fn too_long_expressions_are_refused_without_a_crash() {
        for kind in KINDS {
            for long in [
                format!("SELECT 1{}", " + 1".repeat(200_000)),
                format!("SELECT f(1, 2){}", "+f(1,2)".repeat(100_000)),
                format!("SELECT a FROM t WHERE a = 1{}", " OR a = 1".repeat(100_000)),
                format!("SELECT 1, 2{}", " UNION SELECT 1, 2".repeat(50_000)),
                format!("SELECT 1{}", "::int".repeat(150_000)),
                format!("SELECT 1{}", " + CASE WHEN 1 THEN 1 END".repeat(40_000)),
            ] {
                let found = checked(kind, &text(&long)).unwrap();
                let why = found[0].as_ref().unwrap_err();
                assert!(why.contains("expressions is too long"), "{kind:?} {why}");
            }
            for good in [
                format!("SELECT a FROM t WHERE a IN ({}1)", "-1, ".repeat(50_000)),
                format!("SELECT a FROM t WHERE a = 1{}", " OR a = 1".repeat(300)),
                format!("SELECT 1, 2{}", " UNION SELECT 1, 2".repeat(300)),
                format!("SELECT CASE {} END", " WHEN a = 1 THEN 'b'".repeat(2_000)),
            ] {
                let found = checked(kind, &text(&good)).unwrap();
                assert!(found[0].is_ok(), "{kind:?} {:?}", found[0].as_ref().unwrap_err());
            }
        }
        let lists = format!("SELECT CAST(1 AS int{})", "[]".repeat(200_000));
        for kind in [DatabaseKind::Postgres, DatabaseKind::MySql] {
            assert!(checked(kind, &text(&lists)).unwrap()[0].is_err());
        }
    }

    #[test]
    fn the_first_word_of_a_statement_is_found() {
        for kind in KINDS {
            for (sql, first) in [
                ("select 1", "SELECT"),
                ("-- why\nSHOW x", "SHOW"),
                ("/* a */ ( /* b */ (explain SELECT 1))", "EXPLAIN"),
                ("", ""),
            ] {
                assert_eq!(verb(kind, sql), first, "{sql}");
            }
        }
    }

    #[test]
    fn values_are_quoted_wherever_they_appear() {
        let check = |kind: DatabaseKind, sql: Vec<SqlPart>, expected: &str| {
            assert_eq!(checked(kind, &sql).unwrap(), [Ok(expected.to_owned())]);
        };
        for kind in KINDS {
            check(
                kind,
                with("SELECT * FROM t WHERE a = ", json!("x' OR 1=1 --"), " AND b = 1"),
                "SELECT * FROM t WHERE a = 'x'' OR 1=1 --' AND b = 1",
            );
            check(
                kind,
                with("SELECT * FROM t WHERE a LIKE '%", json!("o'n"), "%'"),
                "SELECT * FROM t WHERE a LIKE '%o''n%'",
            );
            check(
                kind,
                with("SELECT * FROM t WHERE a IN (", json!([1, "b"]), ")"),
                "SELECT * FROM t WHERE a IN (1, 'b')",
            );
            check(kind, with("SELECT 1 -", json!(-1), ""), "SELECT 1 -(-1)");
            check(kind, with("SELECT 1 /* ", json!("*/ DROP TABLE t; /*"), " */"), "SELECT 1");
        }
        check(
            DatabaseKind::MySql,
            with("SELECT '", json!("\\' OR 1=1 -- "), "'"),
            "SELECT '\\\\'' OR 1=1 -- '",
        );
        for kind in KINDS {
            assert!(
                checked(kind, &with("SELECT * FROM \"", json!("t"), "\"")).is_err()
                    || kind == DatabaseKind::MySql
            );
            assert!(checked(kind, &with("SELECT * FROM ", json!("t"), "_x")).is_err());
            assert!(checked(kind, &with("SELECT '", json!("a\0b"), "'")).is_err());
        }
    }

    proptest! {
        /// Whatever a value holds, there is one statement, and tokenizing it gives the value back.
        #[test]
        fn values_cannot_leave_their_quotes(value in ".{0,40}", quoted in any::<bool>()) {
            prop_assume!(!value.contains('\0'));
            for kind in KINDS {
                let (before, after) = if quoted { ("SELECT '", "', 1 AS after") } else { ("SELECT ", ", 1 AS after") };
                let found = checked(kind, &with(before, json!(value), after)).unwrap();
                prop_assert_eq!(found.len(), 1);
                let statement = found[0].clone().unwrap();
                let tokens = Tokenizer::new(&*dialect(kind), &statement).tokenize().unwrap();
                let strings: Vec<_> = tokens.iter().filter_map(|token| match token {
                    Token::SingleQuotedString(text) => Some(text.clone()),
                    _ => None,
                }).collect();
                prop_assert_eq!(strings, vec![value.clone()]);
            }
        }

        #[test]
        fn no_input_crashes_the_process(sql in ".{0,200}") {
            for kind in KINDS {
                let _ = checked(kind, &text(&sql));
            }
        }
    }
}
