//! Functions with side effects, which a statement could call although it only reads. A read-only transaction does not
//! prevent them: they access files, the server or other connections, or execute a text that has not been checked. Pure
//! code.

use sqlparser::tokenizer::Token;
use weft_core::seam::databases::DatabaseKind;

/// What a function does, worded as the end of a sentence that begins with "it".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Effect {
    /// The kind of server.
    kind: DatabaseKind,
    /// Names of functions, in lower case; a trailing `*` matches any continuation. Functions with a single argument are
    /// also listed with their full names, because they can be called as `x.f`.
    names: &'static [&'static str],
    why: &'static str,
}

/// All such functions, with the reasons.
// A list of names, because no server reports which functions have side effects. Functions defined in a database itself
// are left to its owner, who grants the user access to them. Functions that a read-only transaction refuses in all
// server versions are left out.
const EFFECTS: &[Effect] = &[
    Effect {
        kind: DatabaseKind::Postgres,
        names: &[
            "pg_read_*",
            "pg_ls_*",
            "pg_stat_file",
            "pg_file_*",
            "pg_write_file",
            "pg_logdir_ls",
            "pg_logfile_rotate",
            "lo_import",
            "lo_import_with_oid",
            "lo_export",
        ],
        why: "accesses files of the server",
    },
    Effect {
        kind: DatabaseKind::Postgres,
        names: &[
            "lo_creat*",
            "lo_creat",
            "lo_create",
            "lo_from_bytea",
            "lo_put",
            "lo_truncate*",
            "lo_unlink",
            "lowrite",
        ],
        // Servers before PostgreSQL 16 allow this in a read-only transaction.
        why: "writes a large object",
    },
    Effect {
        kind: DatabaseKind::Postgres,
        names: &[
            "dblink*",
            "dblink",
            "dblink_connect",
            "dblink_connect_u",
            "dblink_disconnect",
            "dblink_exec",
            "dblink_get_result",
            "postgres_fdw_*",
            "postgres_fdw_disconnect",
            "pg_background_*",
            "oracle_execute",
            "run_command_on_*",
            "run_command_on_all_nodes",
            "run_command_on_coordinator",
            "run_command_on_workers",
            "master_run_on_worker",
            "http",
            "http_get",
            "http_head",
            "http_post",
            "http_put",
            "http_patch",
            "http_delete",
        ],
        why: "uses another connection, where nothing prevents it from writing",
    },
    Effect {
        kind: DatabaseKind::Postgres,
        names: &[
            "query_to_xml*",
            "query_export_to_s3",
            "ts_stat",
            "ts_rewrite",
            "crosstab*",
            "crosstab",
            "crosstab2",
            "crosstab3",
            "crosstab4",
            "connectby",
            "xpath_table",
        ],
        why: "executes SQL from a text, which is not checked",
    },
    Effect {
        kind: DatabaseKind::Postgres,
        names: &[
            "pg_cancel_backend",
            "pg_terminate_backend",
            "pg_log_backend_memory_contexts",
            "pg_notify",
            "pg_advisory_*",
            "pg_try_advisory_*",
        ],
        why: "affects connections of others",
    },
    Effect {
        kind: DatabaseKind::Postgres,
        names: &[
            "pg_reload_conf",
            "pg_rotate_logfile*",
            "pg_promote",
            "pg_switch_wal",
            "pg_switch_xlog",
            "pg_wal_replay_*",
            "pg_xlog_replay_*",
            "pg_backup_*",
            "pg_start_backup",
            "pg_stop_backup",
            "pg_create_*",
            "pg_drop_*",
            "pg_copy_*",
            "pg_replication_*",
            "pg_sync_replication_slots",
            "pg_logical_*",
            "pg_export_snapshot",
            "pg_stat_reset*",
            "pg_stat_statements_reset",
            "pg_clear_*",
            "pg_restore_*",
            "pg_import_system_collations",
            "pg_prewarm",
            "autoprewarm_*",
            "pg_buffercache_evict*",
            "pg_truncate_visibility_map",
            "heap_force_*",
            "brin_summarize_*",
            "brin_summarize_new_values",
            "brin_desummarize_range",
            "gin_clean_pending_list",
        ],
        why: "changes the state of the server",
    },
    Effect {
        kind: DatabaseKind::Postgres,
        names: &["set_config"],
        why: "changes a setting, which may be the one that makes the connection read-only",
    },
    Effect {
        kind: DatabaseKind::Postgres,
        names: &["nextval", "setval"],
        why: "advances a sequence, which no transaction undoes",
    },
    Effect {
        kind: DatabaseKind::Postgres,
        names: &["pg_sleep*"],
        why: "keeps a connection busy without work",
    },
    Effect {
        kind: DatabaseKind::MySql,
        names: &["load_file", "gen_dictionary_load", "innodb_redo_log_archive_*"],
        why: "accesses files of the server",
    },
    Effect {
        kind: DatabaseKind::MySql,
        names: &["spider_direct_sql", "spider_bg_direct_sql", "spider_copy_tables"],
        why: "uses another connection, where nothing prevents it from writing",
    },
    Effect {
        kind: DatabaseKind::MySql,
        names: &["group_replication_*", "asynchronous_connection_failover_*", "flush_rewrite_rules"],
        why: "changes the state of the server",
    },
    Effect {
        kind: DatabaseKind::MySql,
        // From a library that is often installed with the server.
        names: &["sys_exec", "sys_eval", "sys_set"],
        why: "starts a program on the server",
    },
    Effect {
        kind: DatabaseKind::MySql,
        names: &[
            "get_lock",
            "release_lock",
            "release_all_locks",
            "service_get_read_locks",
            "service_get_write_locks",
            "service_release_locks",
        ],
        why: "affects connections of others",
    },
    Effect {
        kind: DatabaseKind::MySql,
        names: &["nextval", "setval"],
        why: "advances a sequence, which no transaction undoes",
    },
    Effect {
        kind: DatabaseKind::MySql,
        names: &[
            "sleep",
            "benchmark",
            "master_pos_wait",
            "source_pos_wait",
            "master_gtid_wait",
            "wait_for_executed_gtid_set",
            "wait_until_sql_thread_after_gtids",
        ],
        why: "keeps a connection busy without work",
    },
];

/// Why a statement is refused because of a function that it calls, if it is.
pub(crate) fn refused(kind: DatabaseKind, tokens: &[Token]) -> Option<String> {
    if kind == DatabaseKind::Postgres && escapes_a_name(tokens) {
        return Some(
            "a name with Unicode escapes (U&\"…\") is refused; write the characters themselves".to_owned(),
        );
    }
    // A comment between a name and its parenthesis does not prevent a call.
    let words: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let makes_a_request = words.iter().any(|token| is_called(token, REQUEST));
    words.iter().enumerate().find_map(|(at, token)| {
        let Token::Word(word) = token else { return None };
        let is_followed = words.get(at + 1).is_some_and(|next| **next == Token::LParen);
        // PostgreSQL accepts `x.f` for `f(x)`.
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        // A column may well be named `http`, and the function of that name only accepts a request.
        let is_column = !makes_a_request && is_called(token, "http");
        let is_member = kind == DatabaseKind::Postgres
            && !is_column
            && before.is_some_and(|before| **before == Token::Period);
        if !is_followed && !is_member {
            return None;
        }
        let name = word.value.to_lowercase();
        // After a period there is usually a column, and many column names begin like functions of extensions.
        let counts = |one: &&&str| is_followed || one.starts_with("pg_") || !one.ends_with('*');
        let is_named = |effect: &&Effect| effect.names.iter().filter(counts).any(|one| is_like(&name, one));
        let effect = EFFECTS.iter().filter(|effect| effect.kind == kind).find(is_named)?;
        Some(format!("{name} is refused, since it {}: only read-only functions are allowed", effect.why))
    })
}

/// The argument type of the function `http`. A statement cannot create a value of it without this name, and a table
/// that contains such values was granted to the user by its owner.
const REQUEST: &str = "http_request";

/// Whether a token is this name, quoted or not.
fn is_called(token: &Token, name: &str) -> bool {
    matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(name))
}

fn is_like(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

/// Whether there is a `U&"…"`, which spells a name in a form that cannot be compared.
fn escapes_a_name(tokens: &[Token]) -> bool {
    let is_mark = |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("u"));
    let is_name = |token: &Token| matches!(token, Token::Word(word) if word.quote_style == Some('"'));
    tokens.windows(3).any(|three| match three {
        [first, Token::Ampersand, name] => is_mark(first) && is_name(name),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect};
    use sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn why(kind: DatabaseKind, sql: &str) -> Option<String> {
        let dialect: &dyn Dialect =
            if kind == DatabaseKind::MySql { &MySqlDialect {} } else { &PostgreSqlDialect {} };
        refused(kind, &Tokenizer::new(dialect, sql).tokenize().unwrap())
    }

    #[test]
    fn functions_with_effects_are_refused_in_every_spelling() {
        for sql in [
            "SELECT pg_reload_conf()",
            "SELECT lo_export(1, '/tmp/x')",
            "SELECT * FROM pg_ls_dir('/')",
            "select PG_READ_FILE ('/etc/passwd')",
            "SELECT pg_catalog . \"pg_read_binary_file\" /* x */ ('x')",
            "SELECT x.pg_read_file FROM unnest(ARRAY['/etc/passwd']) AS x",
            "SELECT x.lo_creat FROM unnest(ARRAY[-1]) AS x",
            "SELECT x.dblink_connect FROM unnest(ARRAY['dbname=a']) AS x",
            "SELECT (x) . /* y */ \"dblink_exec\" FROM unnest(ARRAY['DELETE FROM t']) AS x",
            "SELECT x.crosstab2 FROM unnest(ARRAY['SELECT pg_read_file(''a'')']) AS x",
            "SELECT * FROM http(('POST', 'http://a', NULL, 'text/plain', 'b')::http_request)",
            "SELECT x.http FROM unnest(ARRAY[('POST', 'http://a', NULL, 'text/plain', 'b')::http_request]) AS x",
            "SELECT (x).\"http\" FROM unnest(ARRAY[CAST(ROW('GET') AS public.\"http_request\")]) AS x",
            "SELECT run_command_on_workers('DELETE FROM t')",
            "SELECT U&\"pg\\005fread_file\"('x')",
            "SELECT 1 WHERE pg_terminate_backend(2)",
            "SELECT * FROM dblink('dbname=x', 'DELETE FROM t') AS t(a int)",
            "SELECT query_to_xml('SELECT 1', true, true, '')",
            "SELECT set_config('transaction_read_only', 'off', true)",
            "SELECT nextval('s')",
            "SELECT pg_logical_emit_message(true, 'a', 'b')",
            "SELECT heap_force_kill('t', ARRAY['(0, 1)']::tid[])",
            "SELECT pg_truncate_visibility_map('t'), 1",
        ] {
            assert!(why(DatabaseKind::Postgres, sql).is_some(), "{sql}");
        }
        for sql in [
            "SELECT LOAD_FILE('/etc/passwd')",
            "SELECT `sleep`(1)",
            "SELECT benchmark(1, 2)",
            "SELECT spider_direct_sql('DELETE FROM t', '', 'host \"x\"')",
            "SELECT group_replication_set_as_primary('x')",
            "SELECT a FROM t WHERE Get_Lock ('x', 1)",
        ] {
            assert!(why(DatabaseKind::MySql, sql).is_some(), "{sql}");
        }
        let why = why(DatabaseKind::Postgres, "SELECT pg_read_file('x')").unwrap();
        let said = "pg_read_file is refused, since it accesses files of the server: only read-only functions are allowed";
        assert_eq!(why, said);
    }

    #[test]
    fn a_name_that_is_no_call_of_such_a_function_is_allowed() {
        for sql in [
            "SELECT 'pg_read_file(1)', pg_database_size('x'), current_setting('a'), lo_get(1), sleep(1)",
            "SELECT nextval FROM t -- pg_reload_conf()",
            "SELECT u & \"b\" FROM t",
            "SELECT t.crosstab_id, t.lo_creator, t.dblinks FROM t",
            "SELECT COUNT(*), upper(a) FROM pg_stat_activity",
            "SELECT t.http, s.\"http\" AS http FROM t JOIN s ON t.http = s.https",
        ] {
            assert_eq!(why(DatabaseKind::Postgres, sql), None, "{sql}");
        }
        for sql in ["SELECT t.sleep, \"sleep(1)\" FROM t", "SELECT is_free_lock('x'), lastval(s)"] {
            assert_eq!(why(DatabaseKind::MySql, sql), None, "{sql}");
        }
        assert_eq!(why(DatabaseKind::Sqlite, "SELECT nextval('s')"), None);
    }
}
