//! Chunking of tables: one chunk for each row, with typed columns.

use serde_json::Map;
use weft_core::error::{Error, Result};
use weft_core::value::{plural, plural_with};

use crate::chunk::delimited;
use crate::chunk::delimiter::Delimiters;
use crate::chunk::draft::{Cutting, PieceDraft};
use crate::chunk::pack::{HeadingBreaks, Packing, pack_string};
use crate::chunk::sheet;
use crate::chunk::source::{ChunkSource, WHOLE_TOKENS_MAX};
use crate::chunk::typed::ColumnType;
use crate::element::{ElementBody, TableElement};

/// Maximum number of column names in a warning.
const NAMED_MAX: usize = 10;

/// Cuts tables into their rows.
pub(crate) fn cut(source: &ChunkSource<'_>) -> Result<Cutting> {
    let mut cutting = Cutting::default();
    let mut others = 0;
    let mut tables = 0;
    for (at, placed) in source.placed.iter().enumerate() {
        match &placed.element.body {
            ElementBody::Table(table) => {
                tables += 1;
                rows(source, at, table, &mut cutting);
            }
            body => others += usize::from(crate::chunk::flow::plain(body).is_some()),
        }
    }
    if tables == 0 {
        text_rows(source, &mut cutting);
    } else if others > 0 {
        let others = plural(others, "paragraph");
        cutting.warnings.push(format!("left out: {others} outside of tables"));
    }
    if cutting.drafts.is_empty() {
        return Err(Error::invalid("the file has no table with a header and rows below it")
            .help("put the column names into the first row, or choose another method"));
    }
    Ok(cutting)
}

/// Reads the lines of a text without tables; every line must have a tab, or the same number of commas.
fn text_rows(source: &ChunkSource<'_>, cutting: &mut Cutting) {
    let lines = delimited::lines(source);
    let Some((element, first)) = lines.first() else { return };
    let delimiter = if first.contains('\t') { '\t' } else { ',' };
    let cells = |line: &str| line.split(delimiter).map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let columns = cells(first).len();
    if columns < 2 {
        return;
    }
    let all: Vec<Vec<String>> = lines.iter().map(|(_, line)| cells(line)).collect();
    let count = all.len();
    let rows_: Vec<Vec<String>> = all.into_iter().filter(|row| row.len() == columns).collect();
    if rows_.len() < count {
        let others = plural_with(count - rows_.len(), "line", ["was", "were"]);
        let columns = plural(columns, "column");
        cutting.warnings.push(format!("{others} left out for not having {columns}"));
    }
    rows(source, *element, &TableElement { caption: None, header_rows: 1, rows: rows_ }, cutting);
}

fn rows(source: &ChunkSource<'_>, element: usize, table: &TableElement, cutting: &mut Cutting) {
    // This method always takes tables to have a header, whatever the file says.
    let header = match sheet::header(table) {
        (_, 0) => 1.min(table.rows.len()),
        (_, count) => count,
    };
    let (head, rows) = table.rows.split_at(header);
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    let names = unique(sheet::names(head), columns);
    let column = |at: usize| rows.iter().filter_map(move |row| row.get(at)).map(String::as_str);
    let types: Vec<ColumnType> = (0..columns).map(|at| ColumnType::of(column(at))).collect();
    let mut strange = vec![0_usize; columns];
    for row in rows {
        let mut lines = Vec::with_capacity(row.len());
        let mut fields = Map::new();
        for (at, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.trim().is_empty()) {
            lines.push(format!("- {}: {}", names[at], cell.trim()));
            match types[at].read(cell) {
                Some(value) => _ = fields.insert(names[at].clone(), value),
                None => strange[at] += 1,
            }
        }
        if !lines.is_empty() {
            push(source, element, &lines.join("\n"), &fields, cutting);
        }
    }
    let odd = (0..columns).filter(|at| strange[*at] > 0).take(NAMED_MAX);
    cutting.warnings.extend(odd.map(|at| {
        let (name, kind) = (&names[at], types[at].name());
        format!(
            "in the column `{name}`, {} not valid as {kind} and only part of the text",
            plural_with(strange[at], "value", ["is", "are"])
        )
    }));
}

fn push(
    source: &ChunkSource<'_>,
    element: usize,
    content: &str,
    fields: &Map<String, weft_core::value::Json>,
    cutting: &mut Cutting,
) {
    let none = Delimiters::default();
    let packing =
        Packing { limit: WHOLE_TOKENS_MAX, overlap: 0, delimiters: &none, headings: HeadingBreaks::Never };
    let parts = pack_string(content, &packing);
    if parts.len() > 1 {
        cutting.warnings.push(format!("a row has more than {WHOLE_TOKENS_MAX} tokens and was cut"));
    }
    for (content, _) in parts {
        let mut draft = PieceDraft::of(source, element, content);
        draft.piece.fields.clone_from(fields);
        cutting.drafts.push(draft);
    }
}

/// Makes the names of the columns unique.
fn unique(mut names: Vec<String>, columns: usize) -> Vec<String> {
    names.resize(columns, String::new());
    let mut seen = std::collections::HashSet::new();
    // The next number for each name. Otherwise thousands of columns of one name would each count up from 2 again.
    let mut numbers: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for (at, name) in names.iter_mut().enumerate() {
        if name.is_empty() {
            *name = format!("column {}", at + 1);
        }
        let base = name.clone();
        let number = numbers.entry(base.clone()).or_insert(2);
        // A loop, because next to two columns called `x` there may be one called `x 2`.
        while !seen.insert(name.clone()) {
            *name = format!("{base} {number}");
            *number += 1;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_core::seam::document_reader::ChunkMethod;

    use crate::chunk::testing::{contents, cut, parsed, request};

    const TABLE: ChunkMethod = ChunkMethod::Table;

    #[test]
    fn a_row_is_a_chunk_with_typed_columns() {
        let text = "|name|price|in stock|since|name|\n|pen|1|yes|2024-01-02|a|\n|ink|2.5|no||b|\n|||||\n|cup|x|no|2024/2/3|c|";
        let document = cut(text, "a.xlsx", TABLE, json!({ "chunk_token_num": 4 }));
        assert_eq!(
            contents(&document),
            [
                "- name: pen\n- price: 1\n- in stock: yes\n- since: 2024-01-02\n- name 2: a",
                "- name: ink\n- price: 2.5\n- in stock: no\n- name 2: b",
                "- name: cup\n- price: x\n- in stock: no\n- since: 2024/2/3\n- name 2: c"
            ]
        );
        let fields: Vec<_> = document.pieces.iter().map(|piece| json!(piece.fields)).collect();
        assert_eq!(
            fields[0],
            json!({ "name": "pen", "price": 1.0, "in stock": true, "since": "2024-01-02", "name 2": "a" })
        );
        assert_eq!(
            fields[2],
            json!({ "name": "cup", "in stock": false, "since": "2024-02-03", "name 2": "c" })
        );
        assert_eq!(
            document.warnings,
            ["in the column `price`, 1 value is not valid as number and only part of the text"]
        );
    }

    #[test]
    fn lines_of_text_are_rows() {
        let document = cut("id\tname\n1\tpen\nwrong\n2\tink", "a.txt", TABLE, json!({}));
        assert_eq!(contents(&document), ["- id: 1\n- name: pen", "- id: 2\n- name: ink"]);
        assert_eq!(document.pieces[1].fields["id"], json!(2));
        assert_eq!(document.warnings.len(), 1);
    }

    #[test]
    fn a_file_without_a_table_is_refused() {
        for text in ["only text", "|a|b|", ""] {
            let error = crate::chunk::cut(&parsed(text), &request("a.txt", TABLE, json!({}))).unwrap_err();
            assert!(error.message.contains("no table"), "{error:?}");
        }
    }
}
