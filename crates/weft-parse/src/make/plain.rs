//! Writes documents as plain text.

use weft_core::seam::document_writer::PageSettings;

use super::blocks::{TextBlock, TextRun, text_of};

/// Writes blocks as lines of text.
pub(super) fn write(blocks: &[TextBlock], page: &PageSettings) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend([&page.header, &page.timestamp].into_iter().filter(|text| !text.is_empty()).cloned());
    let mut in_list = false;
    for block in blocks {
        let part = match block {
            TextBlock::Heading(1, _) => {
                let text = text_of(block);
                format!("{text}\n{}", "=".repeat(text.chars().count()))
            }
            TextBlock::Heading(..) => text_of(block),
            TextBlock::Paragraph(quotes, _) => {
                let mark = "> ".repeat(*quotes);
                text_of(block).lines().map(|line| format!("{mark}{line}")).collect::<Vec<_>>().join("\n")
            }
            TextBlock::Item(depth, marker, _) => {
                format!("{}{marker} {}", "  ".repeat(*depth), text_of(block))
            }
            TextBlock::Code(text) => {
                text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
            }
            TextBlock::Table(rows) => rows.iter().map(row).collect::<Vec<_>>().join("\n"),
            TextBlock::Picture(_, words) => words.clone(),
            TextBlock::Rule => "-".repeat(40),
        };
        let is_item = matches!(block, TextBlock::Item(..));
        match parts.last_mut() {
            Some(last) if in_list && is_item => {
                last.push('\n');
                last.push_str(&part);
            }
            _ => parts.push(part),
        }
        in_list = is_item;
    }
    parts.extend((!page.footer.is_empty()).then(|| page.footer.clone()));
    let mut text = parts.join("\n\n");
    text.push('\n');
    text
}

#[expect(clippy::ptr_arg, reason = "the rows of a table are such")]
fn row(row: &Vec<Vec<TextRun>>) -> String {
    // A row is one line.
    let cell = |cell: &Vec<TextRun>| cell.iter().map(|span| span.text.replace('\n', " ")).collect::<String>();
    row.iter().map(cell).collect::<Vec<_>>().join("\t")
}

#[cfg(test)]
mod tests {
    use super::super::blocks::blocks;
    use super::*;

    #[test]
    fn only_markup_is_lost() {
        let text = "# A\n\n**b** c\n\n- x\n- y\n\n> q\n\n| h | i |\n|---|---|\n| 1 | 2 |\n\n```\ncode\n```\n";
        let page =
            PageSettings { header: "top".to_owned(), footer: "foot".to_owned(), ..PageSettings::default() };
        let expected =
            "top\n\nA\n=\n\nb c\n\n\u{2022} x\n\u{2022} y\n\n> q\n\nh\ti\n1\t2\n\n    code\n\nfoot\n";
        assert_eq!(write(&blocks(text), &page), expected);
    }
}
