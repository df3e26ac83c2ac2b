//! Rewrites constructs that servers support and the parser does not. The rewritten form is used for the check only; the
//! text is sent as it was written. Where a construct cannot be rewritten, the error says what to write instead. Pure
//! code.
//!
//! A rewrite never removes a keyword that a write can begin with, and a statement with such a keyword is not rewritten
//! at all: otherwise the part that is dropped for the check could be the part that writes. Functions, locks and
//! comments are checked in the original text.

use sqlparser::tokenizer::Token;
use weft_core::seam::databases::DatabaseKind::{self, MySql, Postgres, Sqlite};

/// A construct, and its replacement for the check.
struct Rewrite {
    kinds: &'static [DatabaseKind],
    /// What must directly precede it; if empty, anything but a period.
    after: &'static str,
    /// The tokens to find: keywords and symbols, `|` between alternatives, and `name`, `number` and `text` for any such
    /// token.
    found: &'static str,
    /// What must directly follow it; if empty, anything.
    before: &'static str,
    instead: &'static str,
}

const fn rewrite(
    kinds: &'static [DatabaseKind],
    after: &'static str,
    found: &'static str,
    before: &'static str,
    instead: &'static str,
) -> Rewrite {
    Rewrite { kinds, after, found, before, instead }
}

/// All rewrites; the first one that matches applies.
// Longer constructs precede shorter ones that begin in the same way.
const REWRITES: &[Rewrite] = &[
    rewrite(&[Postgres], "BETWEEN", "SYMMETRIC|ASYMMETRIC", "", ""),
    rewrite(&[Postgres], "", "GROUP BY DISTINCT|ALL", "", "GROUP BY"),
    rewrite(&[Postgres], "(", "VARIADIC", "", ""),
    rewrite(&[Postgres], ",", "VARIADIC", "", ""),
    rewrite(&[Postgres], "operand", "AT LOCAL", "", ""),
    rewrite(&[Postgres], "", "XMLELEMENT ( NAME", "name", "XMLELEMENT ("),
    rewrite(&[Postgres], "FROM|JOIN|LATERAL", "ROWS FROM", "(", "rows_from"),
    rewrite(&[Postgres], "COLLATION", "FOR", "(", ""),
    rewrite(&[Postgres, Sqlite], "PRECEDING|FOLLOWING|ROW", "EXCLUDE NO OTHERS", ")", ""),
    rewrite(&[Postgres, Sqlite], "PRECEDING|FOLLOWING|ROW", "EXCLUDE CURRENT ROW", ")", ""),
    rewrite(&[Postgres, Sqlite], "PRECEDING|FOLLOWING|ROW", "EXCLUDE GROUP|TIES", ")", ""),
    rewrite(&[Postgres], "", "text :: INTERVAL", "PRECEDING|FOLLOWING", "width"),
    rewrite(&[Postgres, Sqlite], "operand", "ISNULL", "", "IS NULL"),
    rewrite(&[Postgres, MySql], "start", "TABLE ONLY", "name", "SELECT * FROM"),
    rewrite(&[Postgres, MySql], "start", "TABLE", "name", "SELECT * FROM"),
    rewrite(&[Sqlite], "operand", "NOT", "GLOB|MATCH", ""),
    rewrite(&[Sqlite], "", "CROSS JOIN", "", "JOIN"),
    rewrite(&[Sqlite], "AS", "NOT MATERIALIZED", "(", ""),
    rewrite(&[Sqlite], "AS", "MATERIALIZED", "(", ""),
    rewrite(&[MySql], "operand", "MOD", "", "%"),
    rewrite(&[MySql], "operand", "SOUNDS LIKE", "", "LIKE"),
    rewrite(&[MySql], "", "!", "", "-"),
    rewrite(&[MySql], "operand", "ASC|DESC", "", ""),
    rewrite(&[MySql], "number", "ROWS EXAMINED number", "", ""),
    rewrite(&[MySql], ")", "CHARACTER SET name", ")", ""),
    rewrite(&[MySql], "CHAR", "CHARACTER SET name", ")", ""),
    rewrite(&[MySql], "operand", "USING name", ")", ", letters"),
    rewrite(&[MySql], "LEADING|TRAILING|BOTH", "FROM", "", ""),
    rewrite(&[MySql], "", "YEAR_MONTH|DAY_HOUR|DAY_MINUTE|DAY_SECOND|DAY_MICROSECOND", "", "DAY"),
    rewrite(&[MySql], "", "HOUR_MINUTE|HOUR_SECOND|HOUR_MICROSECOND", "", "DAY"),
    rewrite(&[MySql], "", "MINUTE_SECOND|MINUTE_MICROSECOND|SECOND_MICROSECOND", "", "DAY"),
    rewrite(&[MySql], "start", "SHOW INDEX|INDEXES|KEYS FROM|IN name", "WHERE", "SHOW TABLES"),
    rewrite(&[MySql], "start", "SHOW CREATE DATABASE|SCHEMA", "name", "SHOW CREATE TABLE"),
    rewrite(&[MySql], "start", "EXPLAIN|DESCRIBE|DESC EXTENDED|PARTITIONS", "SELECT|WITH", "EXPLAIN"),
    rewrite(&[MySql], "start", "ANALYZE FORMAT = name", "SELECT|WITH", "EXPLAIN"),
    rewrite(&[MySql], "start", "ANALYZE", "SELECT|WITH", "EXPLAIN"),
    rewrite(&[MySql], "", "FOR SYSTEM_TIME ALL", "", ""),
    rewrite(&[MySql], "", "FOR SYSTEM_TIME AS OF text", "", ""),
    rewrite(&[MySql], "", "FOR SYSTEM_TIME AS OF TIMESTAMP text", "", ""),
    rewrite(&[MySql], "", "FOR SYSTEM_TIME BETWEEN text AND text", "", ""),
    rewrite(&[MySql], "", "FOR SYSTEM_TIME FROM text TO text", "", ""),
];

/// Keywords that a write begins with, also within a query, and constructs that advance a sequence without calling a
/// function.
const WRITING: &[&str] = &[
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
    "REPLACE INTO",
    "INTO",
    "CALL",
    "COPY",
    "OUTFILE",
    "DUMPFILE",
    "NEXT VALUE",
    "PREVIOUS VALUE",
    "PROCEDURE",
];

/// Constructs that cannot be rewritten, and what to write instead.
const REMEDIES: &[(DatabaseKind, &str, &str)] = &[
    (Postgres, "SIMILAR text", "for `substring(a SIMILAR p ESCAPE e)` write `substring(a FROM p FOR e)`"),
    (Postgres, "UESCAPE", "for `U&'…' UESCAPE '…'` write the letters themselves"),
    (Postgres, "IS OF", "for `a IS OF (type)` write `pg_typeof(a) = 'type'::regtype`"),
    (Postgres, "IS NOT OF", "for `a IS NOT OF (type)` write `pg_typeof(a) <> 'type'::regtype`"),
    (Postgres, "XMLATTRIBUTES", "for `xmlattributes(a AS b)` name the column `b` in a query within FROM"),
    (Postgres, "XMLFOREST", "for `xmlforest(a AS b)` name the column `b` in a query within FROM"),
    (MySql, "{ OJ", "write the outer join without `{ OJ … }`"),
    (
        MySql,
        "INTERVAL (",
        "for `INTERVAL(a, b, …)` write CASE; for an interval put no bracket after the word",
    ),
    (MySql, "WEIGHT_STRING (", "for `WEIGHT_STRING(a AS …)` write `HEX(a)`"),
    (MySql, "PROCEDURE ANALYSE", "query information_schema.columns instead"),
    (MySql, "NEXT VALUE", "it advances a sequence, which no transaction undoes"),
    (MySql, "CHECKSUM TABLE", "query information_schema.tables instead"),
    (MySql, "FOR SYSTEM_TIME", "write the times of FOR SYSTEM_TIME as texts, such as `AS OF '2026-01-31'`"),
];

/// Keywords that can precede an operand, so that a word after them is not an operator.
const BEFORE_OPERANDS: &[&str] = &[
    "SELECT",
    "DISTINCT",
    "ALL",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "XOR",
    "ON",
    "HAVING",
    "WHEN",
    "THEN",
    "ELSE",
    "CASE",
    "BY",
    "LIKE",
    "IN",
    "IS",
    "BETWEEN",
    "INTERVAL",
    "DIV",
    "MOD",
    "REGEXP",
    "RLIKE",
    "BINARY",
    "FROM",
    "LIMIT",
    "OFFSET",
    "ESCAPE",
    "USING",
    "AS",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "EXISTS",
    "ANY",
    "SOME",
];

/// Rewrites the constructs that the parser does not support; `None` if there are none, or if the statement may write.
pub(crate) fn rewritten(kind: DatabaseKind, tokens: &[Token]) -> Option<Vec<Token>> {
    let text = StatementTokens::of(tokens);
    if text.holds_one(WRITING) {
        return None;
    }
    let (mut at, mut known, mut is_changed) = (0, Vec::with_capacity(text.0.len()), false);
    while at < text.0.len() {
        let mut of_kind = REWRITES.iter().filter(|one| one.kinds.contains(&kind));
        let found = of_kind.find_map(|one| Some((one, text.fits(at, one)?)));
        if let Some((one, length)) = found {
            known.extend(one.instead.split_whitespace().map(token));
            at += length;
            is_changed = true;
        } else if let Some(length) = text.order_of_a_recursion(kind, at) {
            at += length;
            is_changed = true;
        } else {
            known.push(text.0[at].clone());
            at += 1;
        }
    }
    is_changed.then_some(known)
}

/// What to write instead of a construct that cannot be parsed.
pub(crate) fn remedy(kind: DatabaseKind, tokens: &[Token]) -> &'static str {
    let text = StatementTokens::of(tokens);
    let found = REMEDIES.iter().find(|(of, construct, _)| *of == kind && text.holds_one(&[*construct]));
    match found {
        Some(&(_, _, remedy)) => remedy,
        None if text.joins_by_commas() => "write CROSS JOIN instead of a comma between tables in brackets",
        None => "only supported SQL is sent; write that part in plainer SQL",
    }
}

fn token(written: &str) -> Token {
    match written {
        "%" => Token::Mod,
        "-" => Token::Minus,
        "*" => Token::Mul,
        "," => Token::Comma,
        "(" => Token::LParen,
        word => Token::make_keyword(word),
    }
}

/// The tokens of a statement without white space.
struct StatementTokens<'a>(Vec<&'a Token>);

impl<'a> StatementTokens<'a> {
    fn of(tokens: &'a [Token]) -> Self {
        Self(tokens.iter().filter(|one| !matches!(one, Token::Whitespace(_) | Token::EOF)).collect())
    }

    /// Number of tokens of a construct, if it begins at this token.
    fn fits(&self, at: usize, one: &Rewrite) -> Option<usize> {
        let is_placed = match (one.after, at.checked_sub(1).map(|before| self.0[before])) {
            ("start", before) => before.is_none(),
            // After a period every word is a name.
            (_, Some(Token::Period)) => false,
            ("", _) => true,
            ("operand", before) => before.is_some_and(ends_an_operand),
            (after, before) => before.is_some_and(|before| is_one_of(before, after)),
        };
        let length = is_placed.then(|| self.length(at, one.found))??;
        (one.before.is_empty() || self.length(at + length, one.before).is_some()).then_some(length)
    }

    /// Number of tokens that match a pattern at this token.
    fn length(&self, at: usize, pattern: &str) -> Option<usize> {
        let mut length = 0;
        for wanted in pattern.split_whitespace() {
            let here = self.0.get(at + length)?;
            if !is_one_of(here, wanted) {
                return None;
            }
            length += 1;
        }
        Some(length)
    }

    fn holds_one(&self, patterns: &[&str]) -> bool {
        (0..self.0.len()).any(|at| patterns.iter().any(|pattern| self.length(at, pattern).is_some()))
    }

    /// Whether `FROM` or `JOIN` is followed by parentheses with tables separated by commas.
    fn joins_by_commas(&self) -> bool {
        (0..self.0.len()).any(|at| {
            self.length(at, "FROM|JOIN ( name ,").is_some()
                || self.length(at, "FROM|JOIN ( name name ,").is_some()
        })
    }

    /// Number of tokens of the `SEARCH` or `CYCLE` clause that begins here, after the closing parenthesis of a
    /// recursive query.
    fn order_of_a_recursion(&self, kind: DatabaseKind, at: usize) -> Option<usize> {
        let is_behind_a_query = at.checked_sub(1).is_some_and(|before| *self.0[before] == Token::RParen);
        if kind == Sqlite || !is_behind_a_query {
            return None;
        }
        let beginnings: &[&str] = &["SEARCH DEPTH|BREADTH FIRST BY", "CYCLE"];
        let ends: &[&str] = match kind {
            MySql => &["RESTRICT"],
            _ => &[
                "SET name USING name",
                "SET name TO text|TRUE|FALSE DEFAULT text|TRUE|FALSE USING name",
                "SET name",
            ],
        };
        let mut length = beginnings.iter().find_map(|one| self.length(at, one))?;
        length += self.length(at + length, "name")?;
        while let Some(more) = self.length(at + length, ", name") {
            length += more;
        }
        ends.iter().find_map(|end| Some(length + self.length(at + length, end)?))
    }
}

/// Whether a token is the wanted word or symbol, or one of several alternatives.
fn is_one_of(token: &Token, wanted: &str) -> bool {
    wanted.split('|').any(|one| match (one, token) {
        ("name", Token::Word(_)) | ("number", Token::Number(..)) | ("text", Token::SingleQuotedString(_)) => {
            true
        }
        ("(", Token::LParen)
        | (")", Token::RParen)
        | (",", Token::Comma)
        | ("=", Token::Eq)
        | ("::", Token::DoubleColon)
        | ("{", Token::LBrace)
        | ("!", Token::ExclamationMark) => true,
        // A quoted word is a name and never a keyword.
        (word, Token::Word(found)) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    })
}

/// Whether the next token may be an operator.
fn ends_an_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_some()
                || !BEFORE_OPERANDS.iter().any(|one| word.value.eq_ignore_ascii_case(one))
        }
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::RParen
        | Token::RBracket => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use weft_core::seam::databases::SqlPart;

    use super::*;
    use crate::statements::checked;

    fn first(kind: DatabaseKind, sql: &str) -> Result<String, String> {
        let found = checked(kind, &[SqlPart::Text(sql.to_owned())]);
        found.map_err(|error| error.full()).and_then(|mut statements| statements.remove(0))
    }

    #[track_caller]
    fn sent_as_written(kind: DatabaseKind, statements: &[&str]) {
        for sql in statements {
            assert_eq!(first(kind, sql), Ok((*sql).to_owned()), "{kind:?} {sql}");
        }
    }

    #[track_caller]
    fn refused(kind: DatabaseKind, statements: &[&str]) {
        for sql in statements {
            assert!(first(kind, sql).is_err(), "{kind:?} {sql}");
        }
    }

    #[test]
    fn postgres_syntax_is_sent_unchanged() {
        sent_as_written(
            Postgres,
            &[
                "SELECT 1 BETWEEN SYMMETRIC 2 AND 0, a NOT BETWEEN asymmetric 1 AND 2 FROM t",
                "SELECT sum(a) OVER (ORDER BY a ROWS UNBOUNDED PRECEDING EXCLUDE TIES) FROM t",
                "SELECT sum(a) OVER (ORDER BY a GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) FROM t",
                "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY a ROWS CURRENT ROW EXCLUDE /* x */ NO OTHERS)",
                "SELECT sum(a) OVER (ORDER BY d RANGE BETWEEN '1 day'::interval PRECEDING AND CURRENT ROW) FROM t",
                "SELECT CASE WHEN a ISNULL THEN 1 END FROM t",
                "SELECT g, sum(a) FROM t GROUP BY DISTINCT ROLLUP (g)",
                "SELECT * FROM ROWS FROM (generate_series(1, 2), generate_series(1, 3)) AS x(a, b)",
                "SELECT now() AT LOCAL, concat(VARIADIC ARRAY['a', 'b']), collation for (b) FROM t",
                "SELECT xmlagg(xmlelement(name x, a)) FROM t",
                "TABLE t ORDER BY a LIMIT 2",
                "TABLE ONLY t",
                "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SEARCH DEPTH FIRST BY n SET o SELECT n FROM x",
                "WITH RECURSIVE x(n, m) AS (SELECT 1, 2) CYCLE n, m SET c TO 'y' DEFAULT 'n' USING p SELECT n FROM x",
            ],
        );
    }

    #[test]
    fn mysql_and_sqlite_syntax_is_sent_unchanged() {
        sent_as_written(
            MySql,
            &[
                "SELECT a MOD 2, (a) mod (b), MOD(a, 2), t.`a` MOD 2 FROM t",
                "SELECT b SOUNDS LIKE 'x', !a, 1 = !b FROM t",
                "SELECT DATE_ADD(d, INTERVAL '1:1' MINUTE_SECOND), EXTRACT(YEAR_MONTH FROM d) FROM t",
                "SELECT g, SUM(a) FROM t GROUP BY g DESC",
                "SELECT * FROM t LIMIT 2 ROWS EXAMINED 10",
                "SELECT CAST(b AS CHAR(3) CHARACTER SET utf8mb4), CHAR(65 USING utf8mb4) FROM t",
                "WITH RECURSIVE x(n) AS (SELECT 1 UNION SELECT n + 1 FROM x) CYCLE n RESTRICT SELECT * FROM x",
                "SELECT * FROM t FOR SYSTEM_TIME AS OF '2024-01-01' WHERE a = 1",
                "SHOW CREATE DATABASE d",
                "SHOW INDEX FROM t WHERE Key_name = 'x'",
                "EXPLAIN EXTENDED SELECT 1",
                "ANALYZE FORMAT=JSON SELECT 1",
                "DESC t a",
                "DESCRIBE t 'a%'",
            ],
        );
        sent_as_written(
            Sqlite,
            &[
                "SELECT sum(a) OVER (ORDER BY a ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) FROM t",
                "SELECT b NOT GLOB 'x', b NOT MATCH 'x' FROM t",
                "SELECT CASE WHEN a ISNULL THEN 1 WHEN b NOTNULL THEN 2 END FROM t",
                "SELECT * FROM t CROSS JOIN t AS u ON t.a = u.a",
                "WITH x AS MATERIALIZED (SELECT 1), y AS NOT MATERIALIZED (SELECT 2) SELECT * FROM x, y",
                "PRAGMA user_version",
            ],
        );
    }

    #[test]
    fn no_rewritten_syntax_lets_a_write_through() {
        refused(
            Postgres,
            &[
                "WITH x AS (DELETE FROM t WHERE a BETWEEN SYMMETRIC 2 AND 0 RETURNING *) SELECT * FROM x",
                "SELECT 1 BETWEEN SYMMETRIC 2 AND 0 INTO u FROM t",
                "SELECT * FROM (SELECT a INTO u FROM t WHERE a BETWEEN SYMMETRIC 1 AND 2) AS x",
                "SELECT 1 BETWEEN SYMMETRIC 2 AND pg_terminate_backend(1)::int",
                "SELECT pg_reload_conf() BETWEEN SYMMETRIC true AND false",
                "SELECT * FROM ROWS FROM (pg_ls_dir('/')) AS x(a)",
                "SELECT * FROM ROWS FROM (dblink('', 'DELETE FROM t')) AS x(a)",
                "SELECT concat(VARIADIC ARRAY[lo_export(1, '/tmp/x')])",
                "SELECT 1 BETWEEN SYMMETRIC 2 AND 0 FROM t FOR UPDATE",
                "UPDATE t SET a = 1 WHERE a BETWEEN SYMMETRIC 1 AND 2",
                "TABLE t FOR UPDATE",
                "WITH x AS (SELECT 1) CYCLE n SET c USING p DELETE FROM t",
                "WITH x AS (SELECT 1) SEARCH DEPTH FIRST BY n SET o UPDATE t SET a = 1",
                "VARIADIC DELETE FROM t",
                "SELECT 1 BETWEEN SYMMETRIC \"SYMMETRIC\" 2 AND 3",
            ],
        );
        refused(
            MySql,
            &[
                "SELECT 1 MOD 2 INTO OUTFILE '/tmp/x'",
                "SELECT 1 MOD LOAD_FILE('/etc/passwd')",
                "SELECT a MOD 2 FROM t FOR UPDATE",
                "SELECT a MOD 2 FROM t LOCK IN SHARE MODE",
                "SELECT NEXT VALUE FOR s",
                "SELECT NEXT VALUE FOR SYSTEM_TIME ALL",
                "SELECT a MOD 2, NEXT VALUE FOR s FROM t",
                "SELECT !SLEEP(10)",
                "SHOW INDEX FROM t WHERE Key_name = LOAD_FILE('/etc/passwd')",
                "TABLE t INTO OUTFILE '/tmp/x'",
                "WITH x AS (SELECT 1) CYCLE n RESTRICT DELETE FROM t",
                "ANALYZE DELETE FROM t",
                "ANALYZE TABLE t",
                "ANALYZE FORMAT=JSON UPDATE t SET a = 1",
                "EXPLAIN EXTENDED DELETE FROM t",
                "DELETE FROM t WHERE a MOD 2",
                "DESC DELETE FROM",
                "SELECT b SOUNDS LIKE 'x' PROCEDURE ANALYSE()",
            ],
        );
        refused(
            Sqlite,
            &[
                "WITH x AS MATERIALIZED (SELECT 1) DELETE FROM t",
                "WITH x AS NOT MATERIALIZED (SELECT 1) INSERT INTO t SELECT * FROM x",
                "UPDATE t SET a = 1 WHERE b NOT GLOB 'x'",
                "PRAGMA user_version = 5",
                "PRAGMA user_version(5)",
                "PRAGMA encoding('UTF-8')",
            ],
        );
    }

    #[test]
    fn unsupported_syntax_is_refused_with_an_alternative() {
        for (kind, sql, told) in [
            (Postgres, "SELECT substring(b SIMILAR 'x' ESCAPE '#') FROM t", "FROM p FOR e"),
            (Postgres, "SELECT a IS OF (int) FROM t", "pg_typeof"),
            (MySql, "SELECT * FROM { OJ t LEFT JOIN u ON t.a = u.a }", "{ OJ"),
            (MySql, "SELECT * FROM (t, t u)", "CROSS JOIN"),
            (Sqlite, "SELECT * FROM (t, t u)", "CROSS JOIN"),
            (MySql, "SELECT NEXT VALUE FOR s", "sequence"),
            (MySql, "CHECKSUM TABLE t", "information_schema"),
            (Sqlite, "no SQL at all", "plainer"),
        ] {
            let why = first(kind, sql).unwrap_err();
            assert!(why.contains("cannot be read") && why.contains(told), "{sql}: {why}");
        }
    }

    #[test]
    fn a_long_chain_is_still_too_long_after_rewriting() {
        let long = format!("SELECT 1{}", " MOD 1".repeat(100_000));
        assert!(first(MySql, &long).unwrap_err().contains("expressions is too long"));
    }
}
