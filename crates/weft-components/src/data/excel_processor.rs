//! The ExcelProcessor component: reads tables from spreadsheets, combines them, and writes spreadsheets.

mod join;

use std::collections::HashMap;

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, json};
use weft_core::effect::Delivery;
use weft_core::seam::document_writer::{DocumentContent, DocumentFormat, PageSettings, Sheet, WriteRequest};
use weft_core::value::to_text;
use weft_core::{
    Component, ComponentSpec, Error, Expected, Finished, Json, NodeContext, OutputSpec, Outputs,
    ParamProblem, Reads, Reference, Result, Role, Shape, Template, Value, async_trait,
};

use crate::artifact::{self, GivenFile};
use crate::params::{Field, Kind, Params, choice, described, fields, pointer};
use crate::tools::search::table;
use join::join;

/// Maximum number of rows shown of each table.
// The text is for prompts: the first rows show what the columns mean, and all rows are in `data`.
const SHOWN: usize = 20;
/// Maximum number of rows of all tables together.
// Each row is an object with the names of its columns: a million of them takes gigabytes, even if the file did not.
const ROWS_MAX: usize = 200_000;
/// Maximum number of cells of all tables together, and of a table that is joined or written.
// The limit of the spreadsheet reader. Rows without a common column produce a cell for each pair, so that a limit on
// rows alone would not bound memory.
const CELLS_MAX: usize = 5_000_000;
/// Maximum number of files that are read.
// A list may name one file any number of times, and it would be read each time.
const FILES_MAX: usize = 500;

static INPUT_FILES: Field = Field::raw(
    "input_files",
    Kind::Texts,
    "references to files: `sys.files`, fields of the type `file`, `download`s, data URIs",
)
.shown_when("operation", &["read", "merge"]);
static OPERATION: Field<&str> = Field::choice(
    "operation",
    "read",
    &[
        choice("read", "the rows of every sheet"),
        choice("merge", "the rows of all sheets as one table"),
        choice("transform", "returns rows as tables"),
        choice("output", "writes rows to a file"),
    ],
    "the operation",
);
static SHEET_SELECTION: Field<String> =
    Field::text("sheet_selection", "`all`, `first`, or comma-separated sheet names").or("all");
static MERGE_STRATEGY: Field<&str> = Field::choice(
    "merge_strategy",
    "concat",
    &[choice("concat", "one below the other"), choice("join", "side by side, by a column")],
    "how tables are combined",
)
.shown_when("operation", &["merge"]);
static JOIN_ON: Field<String> =
    Field::text("join_on", "the column by which rows are matched").shown_when("merge_strategy", &["join"]);
static TRANSFORM_DATA: Field<Option<Reference>> = Field::reference(
    "transform_data",
    "the rows: a list of objects, or an object with such lists by sheet name",
)
.shown_when("operation", &["transform", "output"]);
static TRANSFORM_INSTRUCTIONS: Field =
    Field::raw("transform_instructions", Kind::Text, "has no effect").not_offered();
static OUTPUT_FORMAT: Field<&str> = Field::choice(
    "output_format",
    "xlsx",
    &[choice("xlsx", ""), choice("csv", "the first sheet")],
    "the file format",
)
.shown_when("operation", &["output"]);
static OUTPUT_FILENAME: Field<Template> = Field::template("output_filename", "the name of the file")
    .or("output")
    .shown_when("operation", &["output"]);

pub(crate) static SPEC: ComponentSpec = ComponentSpec {
    kind: "ExcelProcessor",
    role: Role::Step,
    summary: "Reads tables from spreadsheets and CSV files, combines them, and writes such files.",
    fields: &[fields(&[
        &OPERATION,
        &INPUT_FILES,
        &SHEET_SELECTION,
        &MERGE_STRATEGY,
        &JOIN_ON,
        &TRANSFORM_DATA,
        &OUTPUT_FORMAT,
        &OUTPUT_FILENAME,
        &TRANSFORM_INSTRUCTIONS,
    ])],
    outputs: &[
        OutputSpec::new("data", "any", "the rows as objects: by file and sheet, or of the combined table"),
        OutputSpec::new("summary", "string", "the numbers of rows and columns"),
        OutputSpec::new("markdown", "string", "the first rows as tables in Markdown"),
        OutputSpec::new("attachment", "object", "the file that was written").when_asked_for(),
    ],
    time_limit: None,
    measuring_only: false,
    tool: None,
    build: |source| {
        let mut params = Params::of(source);
        let operation = params.take(&OPERATION);
        // What an editor keeps of another operation has no effect.
        let files = if matches!(operation, "read" | "merge") { files(&mut params) } else { Vec::new() };
        params.ignored(&TRANSFORM_INSTRUCTIONS, "rows are passed on unchanged");
        let rows = params.take(&TRANSFORM_DATA);
        // What is wrong with the files that are named has been reported.
        let is_told = params.problems().iter().any(|problem| problem.pointer.starts_with("/input_files"));
        let missing = match operation {
            "read" | "merge" if files.is_empty() && !is_told => Some((
                "/input_files",
                "there is no file to read",
                "refer to `sys.files` or to a field of the type `file`",
            )),
            "transform" | "output" if rows.is_none() => {
                Some(("/transform_data", "there are no input rows", "refer to a list of objects"))
            }
            _ => None,
        };
        if let Some((pointer, message, help)) = missing {
            params.problem(ParamProblem::new(pointer, message).help(help));
        }
        let column = params.take(&JOIN_ON);
        let join = (params.take(&MERGE_STRATEGY) == "join").then_some(column);
        if join.as_ref().is_some_and(|column| column.trim().is_empty()) && operation == "merge" {
            let problem = ParamProblem::new("/join_on", "is missing");
            params.problem(problem.help("name the column by which rows are matched"));
        }
        let format =
            if params.take(&OUTPUT_FORMAT) == "csv" { DocumentFormat::Csv } else { DocumentFormat::Xlsx };
        let processor = ExcelProcessor {
            operation,
            files,
            selection: Selection::of(&params.take(&SHEET_SELECTION)),
            join,
            rows,
            format,
            filename: params.take(&OUTPUT_FILENAME),
            warnings: params.warnings(),
        };
        params.finish(processor)
    },
};

/// Reads the references to the files: a list of them, or a single one.
fn files(params: &mut Params<'_>) -> Vec<Reference> {
    let written: Vec<(String, String)> = match params.get(&INPUT_FILES) {
        None => Vec::new(),
        Some(Json::Array(items)) => {
            let entry = |(place, item): (usize, &Json)| {
                (pointer(&["input_files", &place.to_string()]), to_text(item))
            };
            items.iter().enumerate().map(entry).collect()
        }
        Some(Json::String(text)) => vec![(pointer(&["input_files"]), text.clone())],
        Some(other) => {
            let message = format!("must be a list of references, and is {}", described(other));
            params.problem(ParamProblem::new("/input_files", message));
            Vec::new()
        }
    };
    let filled = written.into_iter().filter(|(_, text)| !text.trim().is_empty());
    filled.filter_map(|(at, text)| params.reference_at(at, &text)).collect()
}

/// The sheets of a file that are read.
enum Selection {
    All,
    First,
    Named(Vec<String>),
}

impl Selection {
    fn of(text: &str) -> Self {
        match text.trim().to_lowercase().as_str() {
            "" | "all" => Self::All,
            "first" => Self::First,
            _ => Self::Named(
                text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
            ),
        }
    }

    fn apply(&self, file: &str, sheets: Vec<Sheet>) -> Result<Vec<Sheet>> {
        match self {
            Self::All => Ok(sheets),
            Self::First => Ok(sheets.into_iter().take(1).collect()),
            Self::Named(names) => {
                let find = |name: &String| {
                    let found = sheets.iter().find(|sheet| sheet.name.eq_ignore_ascii_case(name));
                    found.cloned().ok_or_else(|| {
                        let known: Vec<&str> = sheets.iter().map(|sheet| sheet.name.as_str()).collect();
                        Error::invalid(format!("`{file}` has no sheet `{name}`"))
                            .help(format!("it has: {}", known.join(", ")))
                    })
                };
                names.iter().map(find).collect()
            }
        }
    }
}

struct ExcelProcessor {
    operation: &'static str,
    files: Vec<Reference>,
    selection: Selection,
    join: Option<String>,
    rows: Option<Reference>,
    format: DocumentFormat,
    filename: Template,
    warnings: Vec<ParamProblem>,
}

/// Tables as rows of objects, by name.
type Tables = IndexMap<String, Vec<Map<String, Json>>>;

/// Column names of tables, by table name: a table without rows has no column names in its rows.
type Columns = IndexMap<String, Vec<String>>;

impl ExcelProcessor {
    /// Reads the tables of all files, named by the file, and by the sheet if there are several.
    async fn read(&self, ctx: &NodeContext) -> Result<(Tables, Columns)> {
        let (mut tables, mut columns) = (Tables::new(), Columns::new());
        let mut size = Size::default();
        let (mut files, mut numbers) = (Vec::new(), HashMap::new());
        for file in self.named(ctx)? {
            let reading = async {
                let (name, bytes) = file.read(ctx).await?;
                let sheets = ctx.run.seams.documents.sheets(&ctx.run.tenant, &name, bytes).await?;
                Ok((name, sheets))
            };
            // Stored with the run, because the file may be gone when the work is repeated.
            let question = ctx.effects.question("tables", &file);
            let ((name, sheets), _): ((String, Vec<Sheet>), _) =
                ctx.effect_asking("tables", Delivery::Idempotent, question, reading).await?;
            let sheets = self.selection.apply(&name, sheets)?;
            files.push(format!("`{name}`"));
            // A file with one table is identified by the file name alone.
            let single = sheets.len() == 1;
            for sheet in sheets {
                let wanted = if single { name.clone() } else { format!("{name}_{}", sheet.name) };
                let (header, rows) = objects(sheet);
                // After each table, because the files that follow would be in memory next to it.
                size.add(&rows)?;
                // Two files may have the same name.
                let name = free(&tables, &mut numbers, wanted);
                columns.insert(name.clone(), header);
                tables.insert(name, rows);
            }
        }
        if tables.is_empty() {
            let named = if files.is_empty() { "the files".to_owned() } else { files.join(", ") };
            return Err(Error::invalid(format!("there is no table in {named}"))
                .help("attach a spreadsheet or a CSV file"));
        }
        Ok((tables, columns))
    }

    /// Returns the files to read, in their order.
    fn named(&self, ctx: &NodeContext) -> Result<Vec<GivenFile>> {
        let mut files = Vec::new();
        for reference in &self.files {
            files.extend(artifact::given(ctx, &ctx.inputs.json(reference))?);
        }
        if files.len() <= FILES_MAX {
            Ok(files)
        } else {
            Err(Error::invalid(format!("{} files are named; at most {FILES_MAX} are allowed", files.len()))
                .help("read them in several steps"))
        }
    }

    fn given(&self, ctx: &NodeContext) -> Result<Tables> {
        let Some(reference) = &self.rows else { return Ok(Tables::new()) };
        let value = ctx.inputs.json(reference);
        // A value that went through a template is a text.
        let parsed = value.as_str().and_then(|text| serde_json::from_str::<Json>(text).ok());
        let tables = tables(parsed.as_ref().unwrap_or(&value))?;
        let mut size = Size::default();
        tables.values().try_for_each(|rows| size.add(rows))?;
        Ok(tables)
    }
}

/// The combined size of tables.
#[derive(Default)]
struct Size {
    rows: usize,
    cells: usize,
}

impl Size {
    /// Adds a table.
    fn add(&mut self, rows: &[Map<String, Json>]) -> Result<()> {
        self.rows += rows.len();
        self.cells += rows.iter().map(Map::len).sum::<usize>();
        let (count, what, max) = match self {
            Self { rows, .. } if *rows > ROWS_MAX => (*rows, "rows", ROWS_MAX),
            Self { cells, .. } if *cells > CELLS_MAX => (*cells, "cells", CELLS_MAX),
            Self { .. } => return Ok(()),
        };
        Err(Error::invalid(format!("the tables have {count} {what}; at most {max} are allowed"))
            .help("split the file"))
    }
}

/// Returns a name that no table has. `numbers` has the next number to try for each name: starting at 2 each time would
/// try all that are taken, and a list may name the same file hundreds of times.
fn free(tables: &Tables, numbers: &mut HashMap<String, usize>, wanted: String) -> String {
    if !tables.contains_key(&wanted) {
        return wanted;
    }
    let number = numbers.entry(wanted.clone()).or_insert(2);
    loop {
        let name = format!("{wanted}_{number}");
        *number += 1;
        if !tables.contains_key(&name) {
            return name;
        }
    }
}

/// Returns the names in the first row of a sheet, and the other rows as objects with these names.
fn objects(sheet: Sheet) -> (Vec<String>, Vec<Map<String, Json>>) {
    let mut rows = sheet.rows.into_iter();
    let mut columns: IndexSet<String> = IndexSet::new();
    // The next number to try for each name: a header may repeat the same word a million times, and starting at 2 each
    // time would try all numbers that are taken.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for (place, cell) in rows.next().unwrap_or_default().iter().enumerate() {
        let base = match to_text(cell).trim() {
            "" => format!("column_{}", place + 1),
            name => name.to_owned(),
        };
        let mut name = base.clone();
        // Two columns with one name would become one, and the values of the first would be lost.
        while !columns.insert(name) {
            let number = numbers.entry(base.clone()).or_insert(2);
            name = format!("{base}_{number}");
            *number += 1;
        }
    }
    let columns: Vec<String> = columns.into_iter().collect();
    let by_name = |row: Vec<Json>| -> Map<String, Json> {
        columns.iter().cloned().zip(row.into_iter().chain(std::iter::repeat(Json::Null))).collect()
    };
    let rows = rows.map(by_name).collect();
    (columns, rows)
}

/// Reads rows from a value.
fn tables(value: &Json) -> Result<Tables> {
    let wrong = |value: &Json| {
        Error::invalid(format!("the rows must be a list of objects, and are {}", described(value)))
            .help("pass the output of `read` or `merge`, or `json` of another component")
    };
    let list = |value: &Json| -> Result<Vec<Map<String, Json>>> {
        let row = |row: &Json| match row {
            Json::Object(members) => Ok(members.clone()),
            Json::Array(cells) => Ok(cells
                .iter()
                .enumerate()
                .map(|(place, cell)| (format!("column_{}", place + 1), cell.clone()))
                .collect()),
            other => Err(wrong(other)),
        };
        value.as_array().ok_or_else(|| wrong(value))?.iter().map(row).collect()
    };
    match value {
        Json::Array(_) => Ok(Tables::from_iter([("Sheet1".to_owned(), list(value)?)])),
        Json::Object(members) if !members.is_empty() && members.values().all(Json::is_array) => {
            members.iter().map(|(name, rows)| Ok((name.clone(), list(rows)?))).collect()
        }
        Json::Object(members) => Ok(Tables::from_iter([("Sheet1".to_owned(), vec![members.clone()])])),
        other => Err(wrong(other)),
    }
}

/// Returns all rows, one table after the other.
fn concat(tables: Tables) -> Vec<Map<String, Json>> {
    tables.into_values().flatten().collect()
}

/// Returns rows as a sheet whose first row names the columns, in the order of their first occurrence.
fn sheet(name: &str, rows: &[Map<String, Json>]) -> Result<Sheet> {
    let columns: IndexSet<&String> = rows.iter().flat_map(Map::keys).collect();
    let count = columns.len().saturating_mul(rows.len());
    if count > CELLS_MAX {
        return Err(Error::invalid(format!(
            "the table `{name}` has {count} cells; at most {CELLS_MAX} are allowed"
        ))
        .help("give its rows the same columns, or split the table"));
    }
    let header = columns.iter().map(|column| Json::from(column.as_str())).collect();
    let cells = |row: &Map<String, Json>| {
        columns.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect()
    };
    Ok(Sheet { name: name.to_owned(), rows: std::iter::once(header).chain(rows.iter().map(cells)).collect() })
}

/// Returns the column names of a table.
fn named<'a>(name: &str, rows: &'a [Map<String, Json>], columns: &'a Columns) -> Vec<&'a str> {
    let header = columns.get(name).filter(|_| rows.is_empty()).into_iter().flatten();
    let names: IndexSet<&String> = rows.iter().flat_map(Map::keys).chain(header).collect();
    names.into_iter().map(String::as_str).collect()
}

fn summary(tables: &Tables, columns: &Columns) -> String {
    let line = |(name, rows): (&String, &Vec<Map<String, Json>>)| {
        let columns = named(name, rows, columns);
        format!("{name}: {} rows, {} columns ({})", rows.len(), columns.len(), columns.join(", "))
    };
    tables.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn markdown(tables: &Tables) -> String {
    let part = |(name, rows): (&String, &Vec<Map<String, Json>>)| {
        let shown: Vec<Json> = rows.iter().take(SHOWN).cloned().map(Json::Object).collect();
        let more = match rows.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!("\n\n{more} more rows"),
        };
        format!("### {name}\n\n{}{more}", table::table(&shown))
    };
    tables.iter().map(part).collect::<Vec<_>>().join("\n\n")
}

#[async_trait]
impl Component for ExcelProcessor {
    fn shape(&self) -> Shape {
        let reads = self.files.iter().chain(&self.rows).chain(self.filename.references()).cloned();
        Shape {
            reads: Reads::always(reads),
            // What an editor keeps of another operation is not looked at.
            expects: match self.operation {
                "read" | "merge" => Vec::new(),
                _ => self.rows.iter().map(|rows| (rows.clone(), Expected::Rows)).collect(),
            },
            main_output: "data",
            warnings: self.warnings.clone(),
            outputs: weft_core::NodeOutputs::named((self.operation == "output").then_some("attachment")),
            ..Shape::default()
        }
    }

    async fn run(&self, ctx: &NodeContext) -> Result<Finished> {
        let (tables, mut columns) = match self.operation {
            "read" | "merge" => self.read(ctx).await?,
            _ => (self.given(ctx)?, Columns::new()),
        };
        let tables = match (self.operation, &self.join) {
            ("merge", None) => {
                let all: IndexSet<String> = columns.drain(..).flat_map(|(_, header)| header).collect();
                columns.insert("merged".to_owned(), all.into_iter().collect());
                Tables::from_iter([("merged".to_owned(), concat(tables))])
            }
            ("merge", Some(column)) => {
                Tables::from_iter([("merged".to_owned(), join(tables, column.trim())?)])
            }
            _ => tables,
        };
        let mut outputs = Outputs::of("summary", Value::text(summary(&tables, &columns)));
        outputs.set("markdown", Value::text(markdown(&tables)));
        if self.operation == "output" {
            let sheets = tables.iter().map(|(name, rows)| sheet(name, rows)).collect::<Result<_>>()?;
            let request = WriteRequest {
                format: self.format,
                content: DocumentContent::Sheets(sheets),
                page: PageSettings::default(),
            };
            let file = artifact::made(ctx, &self.filename.render(&ctx.inputs)?, &request).await?;
            outputs.set("attachment", artifact::download(&file));
        }
        let data = match self.operation {
            "merge" => json!(tables.into_values().next().unwrap_or_default()),
            _ => json!(tables),
        };
        outputs.set("data", data);
        Ok(outputs.into())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn repeated_header_names_are_numbered_quickly() {
        let words = vec![serde_json::Value::from("a"); 30_000];
        let begun = std::time::Instant::now();
        let sheet = super::Sheet { name: String::new(), rows: vec![words, Vec::new()] };
        let (_, rows) = super::objects(sheet);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
        assert_eq!(rows[0].keys().next_back().unwrap(), "a_30000");
    }

    #[test]
    fn tables_of_one_name_are_numbered_quickly() {
        let begun = std::time::Instant::now();
        let (mut tables, mut numbers) = (super::Tables::new(), std::collections::HashMap::new());
        tables.insert("a_3".to_owned(), Vec::new());
        let mut last = String::new();
        for _ in 0..30_000 {
            last = super::free(&tables, &mut numbers, "a".to_owned());
            assert!(tables.insert(last.clone(), Vec::new()).is_none(), "{last}");
        }
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
        assert_eq!(last, "a_30001");
    }

    #[test]
    fn rows_without_a_common_column_are_not_cross_joined() {
        let row = |number: usize| -> super::Map<String, Json> {
            [(format!("c{number}"), Json::from(number))].into_iter().collect()
        };
        let rows = |count: usize| (0..count).map(row).collect::<Vec<_>>();
        assert_eq!(super::sheet("t", &rows(100)).unwrap().rows.len(), 101);
        let error = super::sheet("t", &rows(3_000)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("9000000 cells"), "{error:?}");
    }

    #[test]
    fn all_tables_together_have_a_cell_limit() {
        let wide: super::Map<String, Json> = (0..1_000).map(|at| (at.to_string(), Json::Null)).collect();
        let rows = vec![wide; 100];
        let mut size = super::Size::default();
        let added = (0..100).take_while(|_| size.add(&rows).is_ok()).count();
        assert_eq!(added, 50);
    }

    #[tokio::test]
    async fn a_list_that_repeats_one_file_is_refused_before_reading() {
        let values = [("begin@file", json!(vec![json!({"id": "one"}); 501]))];
        let node = Node::new("ExcelProcessor", json!({"input_files": ["begin@file"]}));
        let error = run(&node, setting(&files().await, values)).await.unwrap_err();
        assert!(error.message.contains("501 files"), "{error:?}");
    }

    use std::sync::Arc;

    use serde_json::{Value as Json, json};
    use weft_core::seam::FileStore as _;
    use weft_core::seam::file_store::StoredFile;
    use weft_core::{ErrorKind, Result};
    use weft_testkit::MemoryFiles;

    use crate::testing::{Node, PlainDocuments, Setting, failure, outputs, run};

    async fn files() -> Arc<MemoryFiles> {
        let files = Arc::new(MemoryFiles::default());
        let kept = [
            (
                "one",
                "a.csv",
                json!([{"name": "", "rows": [["id", "n", ""], [1, "x", true], [2, "y", null]]}]),
            ),
            (
                "two",
                "b.xlsx",
                json!([{"name": "S", "rows": [["id", "n"], [2, "z"], [3, "w"]]}, {"name": "T", "rows": [["q"]]}]),
            ),
            ("none", "c.txt", json!([])),
            ("dataset/document", "d.csv", json!([{"name": "", "rows": [["q"], [1]]}])),
        ];
        for (id, name, sheets) in kept {
            let bytes = serde_json::to_vec(&sheets).unwrap();
            let file = StoredFile {
                id: id.into(),
                name: name.to_owned(),
                mime_type: String::new(),
                size: bytes.len() as u64,
                session: None,
                user: None,
                created_ms: 0,
            };
            files.put(&"t".into(), &file, bytes.into()).await.unwrap();
        }
        files
    }

    fn setting(files: &Arc<MemoryFiles>, values: impl IntoIterator<Item = (&'static str, Json)>) -> Setting {
        let files = Arc::clone(files);
        let change = move |seams: &mut weft_core::seam::Seams| {
            seams.files = files;
            seams.documents = Arc::new(PlainDocuments);
        };
        Setting { seams: Some(Box::new(change)), ..Setting::values(values) }
    }

    async fn done(params: Json, values: Vec<(&'static str, Json)>) -> Json {
        outputs(&Node::new("ExcelProcessor", params), setting(&files().await, values)).await
    }

    #[tokio::test]
    async fn files_are_read_as_rows() {
        let values = vec![
            ("begin@file", json!([{"id": "one"}])),
            ("sys.files", json!(["File: b.xlsx (two)\n\ntext"])),
        ];
        let found = done(json!({"input_files": ["begin@file", "{sys.files}"]}), values.clone()).await;
        assert_eq!(
            found["data"]["a.csv"],
            json!([{"id": 1, "n": "x", "column_3": true}, {"id": 2, "n": "y", "column_3": null}])
        );
        assert_eq!(found["data"]["b.xlsx_S"], json!([{"id": 2, "n": "z"}, {"id": 3, "n": "w"}]));
        assert!(
            found["summary"].as_str().unwrap().starts_with("a.csv: 2 rows, 3 columns (id, n, column_3)\n")
        );
        assert!(found["markdown"].as_str().unwrap().contains("### b.xlsx_S\n\n| id | n |"));
        let first =
            done(json!({"input_files": ["sys.files"], "sheet_selection": "First"}), values.clone()).await;
        assert_eq!(first["data"].as_object().unwrap().keys().collect::<Vec<_>>(), ["b.xlsx"]);
        let named = done(json!({"input_files": "sys.files", "sheet_selection": "t"}), values).await;
        assert_eq!(named["data"], json!({"b.xlsx": []}));
        assert_eq!(named["summary"], "b.xlsx: 0 rows, 1 columns (q)");
    }

    #[tokio::test]
    async fn a_file_may_be_given_as_a_data_uri() {
        use base64::Engine as _;
        let sheets = json!([{"name": "", "rows": [["id"], [7]]}]).to_string();
        let data = base64::engine::general_purpose::STANDARD.encode(sheets);
        let uri = format!("data:text/csv;name=d.csv;base64,{data}");
        let rows = json!([{"id": 7}]);
        for value in [json!(uri), json!([{"id": "one"}, uri]), json!(json!([uri]).to_string())] {
            let found = done(json!({"input_files": ["begin@file"]}), vec![("begin@file", value)]).await;
            assert_eq!(found["data"]["d.csv"], rows, "{found}");
        }
        let node = Node::new("ExcelProcessor", json!({"input_files": ["begin@file"]}));
        let broken = [("begin@file", json!("data:text/csv,id"))];
        let error = failure(&node, setting(&files().await, broken)).await;
        assert!(error.message.contains("the data URI cannot be read"), "{error:?}");
    }

    #[tokio::test]
    async fn a_dataset_document_is_read_only_by_the_run_it_was_given_to() {
        let node = Node::new("ExcelProcessor", json!({"input_files": ["begin@file"]}));
        let kept = files().await;
        for value in [json!({"id": "dataset/document"}), json!("{\"id\": \"dataset/document\"}")] {
            let told = failure(&node, setting(&kept, [("begin@file", value.clone())])).await;
            assert_eq!(told.kind, ErrorKind::Denied, "{value}");
            let given = Setting {
                files: vec![json!({"id": "dataset/document", "name": "d.csv"})],
                ..setting(&kept, [("begin@file", value)])
            };
            assert_eq!(outputs(&node, given).await["data"], json!({"d.csv": [{"q": 1}]}));
        }
    }

    #[tokio::test]
    async fn a_visitor_cannot_read_a_file_of_others_by_writing_its_id() {
        let node = Node::new("ExcelProcessor", json!({"input_files": ["begin@file"]}));
        let kept = files().await;
        let of_visitor = |value: &Json, attached: Vec<Json>| Setting {
            user_id: "share-0123456789ab",
            files: attached,
            ..setting(&kept, [("begin@file", value.clone())])
        };
        for value in [json!({"id": "one"}), json!("{\"id\": \"one\"}"), json!("File: a.csv (one)")] {
            let told = failure(&node, of_visitor(&value, Vec::new())).await;
            assert_eq!(told.kind, ErrorKind::NotFound, "{value}");
            let attached = vec![json!("File: a.csv (one)\n\ntext")];
            let found = outputs(&node, of_visitor(&value, attached)).await;
            assert!(found["data"]["a.csv"].is_array(), "{value}: {found}");
        }
    }

    #[tokio::test]
    async fn tables_are_merged() {
        let values = vec![("begin@file", json!([{"id": "one"}, {"id": "two"}]))];
        let params = json!({"operation": "merge", "input_files": ["begin@file"], "sheet_selection": "first"});
        let below = done(params.clone(), values.clone()).await;
        assert_eq!(below["data"].as_array().unwrap().len(), 4);
        let mut params = params;
        params["merge_strategy"] = "join".into();
        params["join_on"] = "id".into();
        let beside = done(params, values).await;
        let rows = json!([{"id": 1, "n": "x", "column_3": true}, {"id": 2, "n": "y", "column_3": null, "n_2": "z"}, {"id": 3, "n": "w"}]);
        assert_eq!(beside["data"], rows);
    }

    #[tokio::test]
    async fn rows_are_written_to_a_file() {
        let kept = files().await;
        let params = json!({"operation": "output", "transform_data": "Agent:A@rows", "output_format": "csv", "output_filename": "x/y"});
        let rows = json!([{"a": 1}, {"b": "2", "a": null}]);
        let found =
            outputs(&Node::new("ExcelProcessor", params), setting(&kept, [("Agent:A@rows", rows)])).await;
        assert_eq!(found["attachment"]["filename"], "y.csv");
        let id = found["attachment"]["doc_id"].as_str().unwrap().into();
        let (_, bytes) = kept.read(&"t".into(), &id).await.unwrap();
        let written: Json = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(written["content"]["sheets"][0]["rows"], json!([["a", "b"], [1, null], [null, "2"]]));
        let text = done(
            json!({"operation": "transform", "transform_data": "Agent:A@rows"}),
            vec![("Agent:A@rows", json!("{\"S\": [[1, 2]]}"))],
        )
        .await;
        assert_eq!(text["data"], json!({"S": [{"column_1": 1, "column_2": 2}]}));
    }

    #[tokio::test]
    async fn invalid_input_is_an_error() {
        let check = async |params: Json, value: Json, kind: ErrorKind| {
            let node = Node::new("ExcelProcessor", params);
            let ran: Result<_> = run(&node, setting(&files().await, [("begin@file", value)])).await;
            assert_eq!(ran.unwrap_err().kind, kind);
        };
        let read = json!({"input_files": ["begin@file"]});
        check(read.clone(), json!("no file"), ErrorKind::Invalid).await;
        check(read.clone(), json!([]), ErrorKind::Invalid).await;
        check(read, json!({"id": "unknown"}), ErrorKind::NotFound).await;
        check(
            json!({"input_files": ["begin@file"], "sheet_selection": "no"}),
            json!({"id": "two"}),
            ErrorKind::Invalid,
        )
        .await;
        let node = Node::new("ExcelProcessor", json!({"input_files": ["begin@file"]}));
        let values = [("begin@file", json!({"id": "none"}))];
        let error = run(&node, setting(&files().await, values)).await.unwrap_err();
        assert_eq!(error.message, "there is no table in `c.txt`");
        let join = json!({"operation": "merge", "input_files": ["begin@file"], "merge_strategy": "join", "join_on": "no"});
        check(join, json!([{"id": "one"}, {"id": "two"}]), ErrorKind::Invalid).await;
        check(
            json!({"operation": "transform", "transform_data": "begin@file"}),
            json!("text"),
            ErrorKind::Invalid,
        )
        .await;
    }

    #[test]
    fn parameters_are_checked() {
        let problems = |params: Json| Node::new("ExcelProcessor", params).problems();
        assert_eq!(problems(json!({})), ["/input_files"]);
        assert_eq!(problems(json!({"input_files": [""]})), ["/input_files"]);
        // One file that is not found must not be left out silently.
        assert_eq!(problems(json!({"input_files": ["sys.files", "", "Gone:X@file"]})), ["/input_files/2"]);
        assert_eq!(problems(json!({"input_files": "{Gone:X@file}"})), ["/input_files"]);
        let kept =
            json!({"operation": "transform", "transform_data": "Agent:A@rows", "input_files": ["Gone:X@f"]});
        assert!(problems(kept).is_empty());
        assert_eq!(problems(json!({"operation": "output"})), ["/transform_data"]);
        assert_eq!(
            problems(json!({"operation": "merge", "input_files": ["sys.files"], "merge_strategy": "join"})),
            ["/join_on"]
        );
    }
}
