//! The ExeSQL component: queries a database in SQL.
//!
//! A reference within a statement is a value and is never parsed as SQL; SQL written by a model is a reference that
//! stands alone, and may be in a fenced block. Only statements that read are executed, whoever wrote them.

use std::time::Duration;

use weft_core::component::WrittenSql;
use weft_core::effect::Delivery;
use weft_core::reference::{Inputs, Segment};
use weft_core::seam::databases::{Database, DatabaseKind, SqlAnswer, SqlPart, SqlRequest, SqlRows, TlsMode};
use weft_core::secret::Secret;
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, Finished, Json, NodeContext, OutputSpec, Outputs, ParamProblem, Reads,
    Result, Role, Shape, Template, ToolSpec, Value, async_trait,
};

use super::search::table;
use crate::params::{Field, FieldGroup, Params, choice, fields, is_empty, more_than_a_host, written_out};

/// Maximum number of rows of a statement.
// They are stored with the run, passed on as values and shown as a table, so that they are in memory three times.
const RECORDS_MAX: usize = 10_000;
/// Maximum number of bytes of all answers.
// Rows may be long, so that a limit on rows alone is not enough.
const BYTES_MAX: usize = 4 << 20;
/// The default port of PostgreSQL.
const POSTGRES_PORT: usize = 5_432;
/// Time limit for all statements of a node together.
const TIME_LIMIT: Duration = Duration::from_secs(60);

static SQL: Field<Template> = Field::template(
    "sql",
    "one statement, or several separated by `;`; references in it are passed as values, and SQL written by a model is a reference on its own",
)
.or("sys.query")
.by_model("the SQL to carry out: statements that read, such as SELECT, with `;` between them");
static DB_TYPE: Field<String> = Field::text("db_type", "the kind of database")
    .or("mysql")
    .one_of(&[
        choice("mysql", "MySQL"),
        choice("mariadb", "MariaDB"),
        choice("postgres", "PostgreSQL"),
        choice("sqlite", "a file below `files.root`, named by `database`"),
    ])
    .knows(&["postgresql", "oceanbase", "mssql", "IBM DB2", "trino"]);
static DATABASE: Field<Template> = Field::template("database", "the name of the database");
static HOST: Field<Template> =
    Field::template("host", "the server").shown_when("db_type", &["mysql", "mariadb", "postgres"]);
static PORT: Field<usize> =
    Field::count("port", 3_306, &(1..=65_535), "the server's port: 3306 for MySQL, 5432 for PostgreSQL")
        .shown_when("db_type", &["mysql", "mariadb", "postgres"]);
static USERNAME: Field<Template> =
    Field::template("username", "the user name; preferably of a read-only role")
        .shown_when("db_type", &["mysql", "mariadb", "postgres"]);
static PASSWORD: Field<Template> = Field::template("password", "the password, preferably as `{secret.NAME}`")
    .secret()
    .shown_when("db_type", &["mysql", "mariadb", "postgres"]);
static SSLMODE: Field<&str> = Field::choice(
    "sslmode",
    "prefer",
    &[
        choice("disable", "never"),
        choice("prefer", "if the server offers it, so not against anyone who controls the network"),
        choice("require", "always, with any certificate"),
        choice("verify-full", "always, with a trusted certificate for the name of the host"),
    ],
    "whether the connection to the server is encrypted",
)
.elsewhere(&["ssl_mode"])
.shown_when("db_type", &["mysql", "mariadb", "postgres"]);
static MAX_RECORDS: Field<usize> =
    Field::count("max_records", 1_024, &(1..=RECORDS_MAX), "the maximum number of rows per statement")
        .older(&["top_n"]);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "ExeSQL",
    role: Role::Step,
    summary: "Runs SQL queries and returns the rows. Statements that change anything are refused.",
    fields: &[
        fields(&[&SQL, &MAX_RECORDS]),
        FieldGroup {
            title: "Database",
            fields: &[&DB_TYPE, &DATABASE, &HOST, &PORT, &USERNAME, &PASSWORD, &SSLMODE],
        },
    ],
    outputs: &[
        OutputSpec::new("formalized_content", "string", "the rows as tables in Markdown, for prompts"),
        OutputSpec::new("json", "array", "for each statement a list of its rows as objects"),
    ],
    time_limit: None,
    measuring_only: false,
    tool: Some(ToolSpec { function: "execute_sql", idempotent: true, sources: false }),
    build: |source| {
        let mut params = Params::of(source);
        let kind_name = params.take(&DB_TYPE);
        let kind = kind(&kind_name);
        let port = params.take(&PORT);
        let is_chosen = params.get(&PORT).is_some_and(|port| !is_empty(port));
        let component = ExeSql {
            sql: params.take(&SQL),
            kind,
            kind_name,
            database: params.take(&DATABASE),
            host: params.take(&HOST),
            port: if kind == Some(DatabaseKind::Postgres) && !is_chosen { POSTGRES_PORT } else { port },
            username: params.take(&USERNAME),
            password: params.take(&PASSWORD),
            tls: TlsMode::named(params.take(&SSLMODE)).unwrap_or_default(),
            max_records: params.take(&MAX_RECORDS),
            warnings: params.warnings(),
        };
        params.finish(component)
    },
};

fn kind(name: &str) -> Option<DatabaseKind> {
    match name.trim().to_ascii_lowercase().as_str() {
        "" | "mysql" | "mariadb" | "oceanbase" => Some(DatabaseKind::MySql),
        "postgres" | "postgresql" => Some(DatabaseKind::Postgres),
        "sqlite" => Some(DatabaseKind::Sqlite),
        _ => None,
    }
}

struct ExeSql {
    sql: Template,
    kind: Option<DatabaseKind>,
    kind_name: String,
    database: Template,
    host: Template,
    port: usize,
    username: Template,
    password: Template,
    tls: TlsMode,
    max_records: usize,
    warnings: Vec<ParamProblem>,
}

impl ExeSql {
    fn unsupported(&self) -> Option<String> {
        let name = self.kind_name.trim();
        self.kind.is_none().then(|| format!("databases of the type {name} aren't part of this build"))
    }

    /// Returns the first missing setting without which no database can be queried.
    fn lacks(&self) -> Option<ParamProblem> {
        let on_a_server = self.kind.is_some_and(|kind| kind != DatabaseKind::Sqlite);
        let needed = [
            (&DATABASE, &self.database, true),
            (&HOST, &self.host, on_a_server),
            (&USERNAME, &self.username, on_a_server),
        ];
        let empty = needed.into_iter().find(|(_, text, needed)| *needed && text.source().trim().is_empty());
        empty.map(|(field, ..)| {
            let help = match field.name() {
                "database" if !on_a_server => "name a file below `files.root`",
                "database" => "name the database on the server",
                "host" => "name the server",
                _ => "name a user with read access",
            };
            ParamProblem::new(format!("/{}", field.name()), "is empty, so there is no database to query")
                .help(help)
        })
    }

    /// Returns the SQL as it is passed on, if everything but its values is literal.
    fn written(&self) -> Option<WrittenSql> {
        let kind = self.kind?;
        let is_written = written_out(&self.sql).is_some_and(|written| !written.trim().is_empty());
        // Remaining braces are a mistyped reference, which is reported as such.
        let has_slip = |segment: &Segment| match segment {
            Segment::Literal(text) => text.contains(['{', '}']),
            Segment::Reference(_) => false,
        };
        if !is_written && (!self.has_words() || self.sql.segments().iter().any(has_slip)) {
            return None;
        }
        let parts = self.parts(&Inputs::default()).ok()?;
        Some(WrittenSql { pointer: "/sql".to_owned(), kind, parts })
    }

    /// Whether there is SQL around the references. Punctuation and spaces alone are not a statement, nor are the
    /// delimiters of a block with the language that they name.
    fn has_words(&self) -> bool {
        let part = |segment: &Segment| match segment {
            Segment::Literal(text) => SqlPart::Text(String::from(&**text)),
            Segment::Reference(_) => SqlPart::Value(Json::Null),
        };
        let mut parts: Vec<SqlPart> = self.sql.segments().iter().map(part).collect();
        without_fence(&mut parts);
        parts.iter().any(|part| match part {
            SqlPart::Text(text) => text.contains(|c: char| c.is_alphanumeric()),
            SqlPart::Value(_) => false,
        })
    }

    /// Returns the text of the references if they are the statement, without the block that the canvas puts around
    /// them: what a model has written may have its own.
    fn referred(&self, inputs: &Inputs) -> Result<String> {
        let text = self.sql.render(inputs)?;
        let is_block = |segment: &Segment| match segment {
            Segment::Literal(text) => text.trim_start().starts_with(FENCE),
            Segment::Reference(_) => false,
        };
        let block =
            text.trim().strip_prefix(FENCE).filter(|_| self.sql.segments().first().is_some_and(is_block));
        let Some(block) = block else { return Ok(unwrapped(&text)) };
        let inner = below_language(block);
        Ok(unwrapped(inner.strip_suffix(FENCE).unwrap_or(inner)))
    }

    fn parts(&self, inputs: &Inputs) -> Result<Vec<SqlPart>> {
        // Within a statement, references are values; without one, they are the statement.
        if !self.has_words() {
            return Ok(vec![SqlPart::Text(self.referred(inputs)?)]);
        }
        let part = |segment: &Segment| match segment {
            Segment::Literal(text) => SqlPart::Text(without_marks(text)),
            Segment::Reference(reference) => SqlPart::Value((*inputs.json(reference)).clone()),
        };
        let mut parts: Vec<SqlPart> = self.sql.segments().iter().map(part).collect();
        without_fence(&mut parts);
        Ok(parts)
    }

    fn request(&self, ctx: &NodeContext) -> Result<SqlRequest> {
        let text = |template: &Template| Ok::<_, Error>(template.render(&ctx.inputs)?.trim().to_owned());
        if let Some(why) = self.unsupported() {
            return Err(Error::new(weft_core::ErrorKind::Unsupported, why).help(
                "use one of mysql, mariadb, postgres and sqlite, or access the database through an MCP server, or \
                 through its HTTP interface with Invoke",
            ));
        }
        if let Some(lacks) = self.lacks() {
            let error =
                Error::invalid(format!("`{}` {}", lacks.pointer.trim_start_matches('/'), lacks.message));
            return Err(lacks.help.into_iter().fold(error, Error::help));
        }
        // Checked above: this is not reached without a kind.
        let kind = self.kind.unwrap_or(DatabaseKind::MySql);
        let on_a_server = kind != DatabaseKind::Sqlite;
        let of_server = |template: &Template| if on_a_server { text(template) } else { Ok(String::new()) };
        let database = Database {
            kind,
            host: of_server(&self.host)?,
            port: if on_a_server { u16::try_from(self.port).unwrap_or(u16::MAX) } else { 0 },
            name: text(&self.database)?,
            user: of_server(&self.username)?,
            // Not trimmed: a space at the end of a password is part of it.
            password: Secret::new(if on_a_server {
                self.password.render(&ctx.inputs)?
            } else {
                String::new()
            }),
            tls: self.tls,
        };
        let sql = self.parts(&ctx.inputs)?;
        Ok(SqlRequest {
            database,
            sql,
            rows_max: self.max_records,
            bytes_max: BYTES_MAX,
            time_limit: TIME_LIMIT,
        })
    }
}

/// The delimiter of a block.
const FENCE: &str = "```";

/// Words that begin a statement, and that may be alone on a line.
const BEGINNINGS: [&str; 8] = ["select", "with", "values", "explain", "show", "insert", "update", "delete"];

/// Returns what follows the opening delimiter of a block. SQL may begin next to it, where otherwise the language is
/// named.
fn below_language(block: &str) -> &str {
    let is_language = |line: &str| {
        let line = line.trim();
        let begins = BEGINNINGS.iter().any(|word| line.eq_ignore_ascii_case(word));
        !begins && line.chars().all(char::is_alphanumeric)
    };
    block.split_once('\n').filter(|(first, _)| is_language(first)).map_or(block, |(_, rest)| rest)
}

/// Removes the delimiters of a block that encloses the whole statement.
fn without_fence(parts: &mut [SqlPart]) {
    let Some(SqlPart::Text(first)) = parts.first_mut() else { return };
    let Some(block) = first.trim_start().strip_prefix(FENCE) else { return };
    *first = below_language(block).to_owned();
    if let Some(SqlPart::Text(last)) = parts.last_mut()
        && let Some(block) = last.trim_end().strip_suffix(FENCE)
    {
        *last = block.to_owned();
    }
}

/// Returns SQL written by a model, without the prose around a fenced block, and without citation marks.
fn unwrapped(text: &str) -> String {
    let inner = match text.split_once(FENCE) {
        None => text,
        Some((_, rest)) => below_language(rest).split(FENCE).next().unwrap_or_default(),
    };
    without_marks(inner).trim().to_owned()
}

/// Removes citation marks from a text.
fn without_marks(text: &str) -> String {
    let mut sql = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("[ID:") {
        sql.push_str(before);
        // Only a number is skipped: searching for the bracket would scan to the end of the text for each mark without
        // one.
        let after = behind.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        rest = after.strip_prefix(']').unwrap_or_else(|| {
            sql.push_str("[ID:");
            behind
        });
    }
    sql.push_str(rest);
    sql
}

/// Returns the rows of a statement as objects.
fn objects(rows: &SqlRows) -> Vec<Json> {
    let object =
        |row: &Vec<Json>| Json::Object(rows.columns.iter().cloned().zip(row.iter().cloned()).collect());
    rows.rows.iter().map(object).collect()
}

fn told(answer: &SqlAnswer) -> (Json, String) {
    match answer {
        SqlAnswer::Failed(why) => {
            let message = format!("the statement failed: {why}");
            (serde_json::json!({"content": message}), message)
        }
        SqlAnswer::Rows(rows) if rows.rows.is_empty() => (Json::Array(Vec::new()), "no rows".to_owned()),
        SqlAnswer::Rows(rows) => {
            let objects = objects(rows);
            let mut text = table::table(&objects);
            let shown = objects.len().min(table::ROWS_MAX);
            match (rows.cut, shown < objects.len()) {
                (true, _) => text.push_str(&format!("\n\nthe first {shown} rows; there are more")),
                (false, true) => text.push_str(&format!("\n\nthe first {shown} of {} rows", objects.len())),
                (false, false) => {}
            }
            (Json::Array(objects), text)
        }
    }
}

#[async_trait]
impl Component for ExeSql {
    fn shape(&self) -> Shape {
        let texts = [&self.sql, &self.database, &self.host, &self.username, &self.password];
        let lacks = self.lacks();
        let on_a_server = self.kind.is_some_and(|kind| kind != DatabaseKind::Sqlite);
        let host = on_a_server.then(|| more_than_a_host(&HOST, &self.host)).flatten();
        Shape {
            reads: Reads::always(texts.into_iter().flat_map(Template::references).cloned()),
            main_output: "formalized_content",
            warnings: self.warnings.iter().chain(&lacks).chain(&host).cloned().collect(),
            secrets: self.password.references().cloned().collect(),
            unsupported: self.unsupported(),
            sql: self.written().into_iter().collect(),
            lacks,
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let request = self.request(ctx)?;
        let sql = |part: &SqlPart| match part {
            SqlPart::Text(text) => text.clone(),
            SqlPart::Value(value) => to_text(value),
        };
        let asked: Vec<String> = request.sql.iter().map(sql).collect();
        let question = ctx.effects.question("sql", &(&request.database.name, &asked));
        let asking = ctx.run.seams.databases.ask(&ctx.run.tenant, request);
        let (answers, _) = ctx.effect_asking("sql", Delivery::Idempotent, question, asking).await?;
        // If several statements were sent, the others still have their rows.
        if let [SqlAnswer::Failed(why)] = answers.as_slice() {
            return Err(Error::invalid(format!("the statement failed: {why}")));
        }
        let (json, texts): (Vec<Json>, Vec<String>) = answers.iter().map(told).unzip();
        let mut outputs = Outputs::of("formalized_content", Value::text(texts.join("\n\n")));
        outputs.set("json", Json::Array(json));
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value as Json, json};
    use weft_core::seam::Databases;
    use weft_core::seam::databases::{SqlAnswer, SqlPart, SqlRequest, SqlRows};
    use weft_core::{ErrorKind, Result, TenantId};

    use crate::testing::{Node, Setting, failure, outputs};

    #[derive(Debug, Default)]
    struct Recorded {
        answers: Vec<SqlAnswer>,
        asked: Mutex<Vec<SqlRequest>>,
    }

    #[weft_core::async_trait]
    impl Databases for Recorded {
        async fn ask(&self, _: &TenantId, request: SqlRequest) -> Result<Vec<SqlAnswer>> {
            self.asked.lock().unwrap().push(request);
            Ok(self.answers.clone())
        }
    }

    fn rows(columns: &[&str], rows: Json) -> SqlRows {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        SqlRows { columns, rows: serde_json::from_value(rows).unwrap(), cut: false }
    }

    fn setting(recorded: &Arc<Recorded>, mut setting: Setting) -> Setting {
        let databases = Arc::clone(recorded);
        setting.seams = Some(Box::new(move |seams| seams.databases = databases));
        setting
    }

    fn node(sql: &str) -> Node {
        Node::new(
            "ExeSQL",
            json!({"sql": sql, "db_type": "PostgreSQL", "database": "shop", "host": " db.example ", "port": "5432",
                "username": "reader", "password": "{Agent:A@key}", "max_records": 5}),
        )
    }

    #[tokio::test]
    async fn rows_are_tables_and_objects() {
        let answers = vec![
            SqlAnswer::Rows(SqlRows { cut: true, ..rows(&["id", "name"], json!([[1, "a|b"], [2, null]])) }),
            SqlAnswer::Rows(rows(&["id"], json!([]))),
            SqlAnswer::Failed("no such table".to_owned()),
        ];
        let recorded = Arc::new(Recorded { answers, ..Recorded::default() });
        let values = Setting::values([("Agent:A@key", json!("pass")), ("Agent:B@name", json!("o'n"))]);
        let node = node("SELECT * FROM t WHERE name = {Agent:B@name}; SELECT 2; SELECT 3");
        let found = outputs(&node, setting(&recorded, values)).await;
        let content = "| id | name |\n| --- | --- |\n| 1 | a\\|b |\n| 2 |  |\n\nthe first 2 rows; there are more\n\n\
                       no rows\n\nthe statement failed: no such table";
        let json = json!([[{"id": 1, "name": "a|b"}, {"id": 2, "name": null}], [],
            {"content": "the statement failed: no such table"}]);
        assert_eq!(found, json!({"formalized_content": content, "json": json}));
        let asked = recorded.asked.lock().unwrap();
        assert_eq!(asked[0].sql[1], SqlPart::Value(json!("o'n")));
        let database = &asked[0].database;
        assert_eq!((database.host.as_str(), database.port, asked[0].rows_max), ("db.example", 5432, 5));
        assert_eq!(database.password.reveal(), "pass");
    }

    #[tokio::test]
    async fn every_kind_of_server_has_its_port() {
        let check = async |kind: &str, more: Json, expected: u16| {
            let mut params =
                json!({"sql": "SELECT 1", "db_type": kind, "database": "d", "host": "h", "username": "u"});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answers = vec![SqlAnswer::Rows(rows(&["n"], json!([[1]])))];
            let recorded = Arc::new(Recorded { answers, ..Recorded::default() });
            outputs(&Node::new("ExeSQL", params), setting(&recorded, Setting::default())).await;
            assert_eq!(recorded.asked.lock().unwrap()[0].database.port, expected, "{kind} {more}");
        };
        check("postgres", json!({}), 5_432).await;
        check("postgres", json!({"port": 3306}), 3_306).await;
        check("mysql", json!({}), 3_306).await;
    }

    #[tokio::test]
    async fn the_canvas_determines_the_encryption() {
        use weft_core::seam::databases::TlsMode;

        let params = |sslmode: Json| json!({"sql": "SELECT 1", "database": "d", "host": "h", "username": "u", "sslmode": sslmode});
        for (sslmode, expected) in [
            (json!(null), TlsMode::Prefer),
            (json!("disable"), TlsMode::Disable),
            (json!("Require"), TlsMode::Require),
            (json!("verify-full"), TlsMode::VerifyFull),
        ] {
            let answers = vec![SqlAnswer::Rows(rows(&["n"], json!([[1]])))];
            let recorded = Arc::new(Recorded { answers, ..Recorded::default() });
            let node = Node::new("ExeSQL", params(sslmode.clone()));
            outputs(&node, setting(&recorded, Setting::default())).await;
            assert_eq!(recorded.asked.lock().unwrap()[0].database.tls, expected, "{sslmode}");
        }
        let problems = Node::new("ExeSQL", params(json!("on"))).try_build().err().unwrap();
        assert_eq!(problems[0].pointer, "/sslmode", "{problems:?}");
    }

    #[tokio::test]
    async fn sql_written_by_a_model_is_extracted() {
        let check = async |written: &str, expected: &str| {
            let recorded = Arc::new(Recorded {
                answers: vec![SqlAnswer::Rows(rows(&["n"], json!([[1]])))],
                ..Recorded::default()
            });
            let values = Setting::values([("Agent:A@content", json!(written))]);
            outputs(&node("\n{Agent:A@content} ;"), setting(&recorded, values)).await;
            assert_eq!(recorded.asked.lock().unwrap()[0].sql, [SqlPart::Text(expected.to_owned())]);
        };
        check("SELECT 1", "SELECT 1 ;").await;
        check("Here it is:\n```sql\nSELECT 1\n```\nEnjoy!", "SELECT 1").await;
        check("```\nSELECT a [ID:3]\n```", "SELECT a").await;
        check("```SELECT a, b\nFROM t\n```", "SELECT a, b\nFROM t").await;
        check("```SELECT\na FROM t```", "SELECT\na FROM t").await;
        let recorded = Arc::new(Recorded {
            answers: vec![SqlAnswer::Rows(rows(&["n"], json!([[1]])))],
            ..Recorded::default()
        });
        let values = Setting::values([("Agent:A@content", json!(1))]);
        outputs(&node("```sql\nSELECT {Agent:A@content} + 1\n```"), setting(&recorded, values)).await;
        let expected =
            [SqlPart::Text("SELECT ".into()), SqlPart::Value(json!(1)), SqlPart::Text(" + 1\n".into())];
        assert_eq!(recorded.asked.lock().unwrap()[0].sql, expected);
        check("SELECT 1 [ID: 12], a[1], '[ID:x]'", "SELECT 1 , a[1], '[ID:x]' ;").await;
        // With only a Markdown block around it, the reference is the statement itself, not a value in one.
        for written in ["SELECT 1", "```sql\nSELECT 1\n```"] {
            let recorded = Arc::new(Recorded {
                answers: vec![SqlAnswer::Rows(rows(&["n"], json!([[1]])))],
                ..Recorded::default()
            });
            let values = Setting::values([("Agent:A@content", json!(written))]);
            outputs(&node("```sql\n{Agent:A@content}\n```"), setting(&recorded, values)).await;
            assert_eq!(
                recorded.asked.lock().unwrap()[0].sql,
                [SqlPart::Text("SELECT 1".to_owned())],
                "{written}"
            );
        }
    }

    #[tokio::test]
    async fn one_statement_that_fails_fails_the_node() {
        let answers = vec![SqlAnswer::Failed("no such column: x".to_owned())];
        let recorded = Arc::new(Recorded { answers, ..Recorded::default() });
        let error = failure(&node("SELECT x"), setting(&recorded, Setting::default())).await;
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.full().contains("no such column: x"));
    }

    #[tokio::test]
    async fn missing_settings_are_named_in_advance_and_at_run_time() {
        let check = async |params: Json, pointer: &str| {
            let node = Node::new("ExeSQL", params);
            let shape = node.build().shape();
            assert_eq!(shape.lacks.unwrap().pointer, pointer);
            assert_eq!(shape.warnings.len(), 1);
            assert_eq!(failure(&node, Setting::default()).await.kind, ErrorKind::Invalid);
        };
        check(json!({}), "/database").await;
        check(json!({"database": "d"}), "/host").await;
        check(json!({"database": "d", "host": "h"}), "/username").await;
        check(json!({"db_type": "sqlite"}), "/database").await;
        for name in ["IBM DB2", "mssql", "trino", "Oracle"] {
            let params = json!({"db_type": name, "database": "d", "host": "h", "username": "u"});
            let other = Node::new("ExeSQL", params);
            assert!(other.build().shape().unsupported.unwrap().contains(name));
            let error = failure(&other, Setting::default()).await;
            assert_eq!(error.kind, ErrorKind::Unsupported);
            assert!(error.full().contains("through an MCP server"), "{}", error.full());
        }
    }

    #[test]
    fn a_text_of_unclosed_fences_is_read_quickly() {
        let begun = std::time::Instant::now();
        let text = "[ID: 1 [ID:".repeat(500_000);
        assert_eq!(super::without_marks(&text), text);
        assert_eq!(super::without_marks("a[ID: 1 ][ID:][ID:1 2]"), "a[ID:1 2]");
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn literal_sql_is_known_in_advance() {
        let known = |sql: &str| node(sql).build().shape().sql.pop().map(|sql| sql.parts);
        let text = |text: &str| SqlPart::Text(text.to_owned());
        for (sql, expected) in [
            ("DELETE FROM t", Some(vec![text("DELETE FROM t")])),
            ("```sql\nSELECT 1\n```", Some(vec![text("SELECT 1\n")])),
            ("SELECT {Agent:A@n}", Some(vec![text("SELECT "), SqlPart::Value(Json::Null)])),
            ("{Agent:A@n}", None),
            ("SELECT '{Agent:A@n'", None),
        ] {
            assert_eq!(known(sql), expected, "{sql}");
        }
        let elsewhere = Node::new("ExeSQL", json!({"sql": "DELETE FROM t", "db_type": "trino"}));
        assert_eq!(elsewhere.build().shape().sql, Vec::new(), "a kind that is not queried");
    }

    #[test]
    fn a_host_is_only_a_name() {
        let check = |kind: &str, host: &str, expected: &[&str]| {
            let params = json!({"db_type": kind, "database": "d", "host": host, "username": "u"});
            let warnings = Node::new("ExeSQL", params).build().shape().warnings;
            let told: Vec<&str> = warnings.iter().map(|warning| warning.pointer.as_str()).collect();
            assert_eq!(told, expected, "{host}: {warnings:?}");
        };
        for right in ["db.example", " 10.0.0.7 ", "::1", "[fd00::1]", "{Agent:A@host}:3306"] {
            check("mysql", right, &[]);
        }
        check("mysql", "db.example:3306", &["/host"]);
        check("postgres", "postgres://ann:rose@db.example/shop", &["/host"]);
        check("sqlite", "db.example:3306", &[]);
    }

    #[test]
    fn the_password_is_a_secret() {
        let shape = node("SELECT 1").build().shape();
        assert_eq!(shape.secrets.iter().map(ToString::to_string).collect::<Vec<_>>(), ["Agent:A@key"]);
    }
}
