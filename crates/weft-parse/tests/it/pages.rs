//! Pages of PDFs whose text is hard to assemble.

use crate::build::{pdf_of, pdf_with_form, read, shown, text};

/// Text at a position on a page; the fonts are `F1` and the bold `F2`.
fn at(font: &str, left: u32, height: u32, text: &str) -> String {
    format!("BT /{font} 10 Tf {left} {height} Td ({text}) Tj ET\n")
}

#[test]
fn numbers_of_adjacent_cells_stay_separate() {
    // One string for the library, since all of it is within one text object.
    let row = "BT /F1 10 Tf 1 0 0 1 60 560 Tm (0) Tj 1 0 0 1 84 560 Tm (2,248) Tj 1 0 0 1 130 560 Tm (1,135) Tj ET\n";
    let spaced = "BT /F1 10 Tf 1 0 0 1 60 500 Tm 24 Tc (7) Tj 0 Tc (9,002) Tj ET\n";
    let shown = text(&read("a.pdf", &pdf_of(&[format!("{row}{spaced}")])));
    assert!(shown.contains("0 2,248 1,135") && shown.contains("7 9,002"), "{shown}");
}

#[test]
fn cells_drawn_in_font_size_one_stay_separate() {
    // The library joins consecutive text drawn in the same way into one string, and overestimates the space
    // between many times.
    let plain = |left: u32, text: &str| format!("8.5 0 0 8.5 {left} 560 Tm ({text}) Tj\n");
    let spaced = |left: u32, text: &str| format!("8.5 0 0 8.5 {left} 560 Tm [({text})] TJ\n");
    let check = |drawn: &[String], expected: &str| {
        let page = format!("BT /F1 1 Tf\n{}ET\n", drawn.concat());
        let shown = text(&read("a.pdf", &pdf_of(&[page])));
        let words: Vec<&str> = shown.split(|sign: char| sign.is_whitespace() || sign == '|').collect();
        assert!(words.join(" ").contains(expected), "{shown}");
    };
    check(&[spaced(60, "hull"), plain(410, "none"), plain(490, "none")], "hull none none");
    check(&[plain(60, "2000"), spaced(138, "1,200"), plain(410, "17"), plain(490, "85")], "2000 1,200 17 85");
    check(
        &[plain(60, "June 2000"), spaced(138, "Rio de Janeiro"), plain(410, "NA"), plain(490, "85 none")],
        "June 2000 Rio de Janeiro NA 85 none",
    );
    // A title with spaced letters is one title anyway.
    check(&["0.5 Tc 8.5 0 0 8.5 60 560 Tm (TITLE) Tj 0 Tc\n".to_owned()], "TITLE");
}

#[test]
fn a_line_ending_with_a_space_stays_in_its_column() {
    let numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let lines = numbers.iter().zip(0..).map(|(number, line)| {
        let left = match line {
            // With its space it comes closer to the other column than words of a line may be.
            4 => "and this line of the left one is wider than most ".to_owned(),
            _ => format!("the left column says {number} things here"),
        };
        let right = format!("the right column says {number} other things");
        at("F1", 50, 700 - line * 14, &left) + &at("F1", 260, 700 - line * 14, &right)
    });
    let shown = text(&read("a.pdf", &pdf_of(&[lines.collect::<String>()])));
    let place = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text}: {shown}"));
    assert!(place("wider than most") < place("left column says six"), "{shown}");
    assert!(place("left column says eight") < place("right column says one"), "{shown}");
}

#[test]
fn form_values_appear_at_their_fields() {
    let content = [
        at("F1", 50, 700, "Name:"),
        at("F1", 50, 660, "I agree to all of this"),
        at("F1", 50, 640, "I want a letter"),
        at("F1", 50, 600, "Country"),
    ];
    let fields = [
        "/FT /Tx /T (name) /V <FEFF00C400640061> /Rect [100 695 300 711]",
        "/FT /Btn /T (agree) /V /Yes /AS /Yes /Rect [30 655 45 670]",
        "/FT /Btn /T (letter) /V /Off /AS /Off /Rect [30 635 45 650]",
        "/FT /Ch /T (country) /V (DE) /Opt [[(CH) (Switzerland)] [(DE) (Germany)]] /Rect [100 595 300 611]",
        "/FT /Tx /T (note) /V (first line\\rsecond line) /Rect [50 500 300 560]",
        "/FT /Tx /T (key) /Ff 8192 /V (secret) /Rect [100 400 300 416]",
        "/FT /Tx /T (gone) /F 2 /V (hidden) /Rect [100 300 300 316]",
    ];
    let shown = text(&read("a.pdf", &pdf_with_form(&content.concat(), &fields)));
    for expected in ["Name: Äda", "[x] I agree", "Country Germany", "first line", "second line"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    for wrong in ["[x] I want", "DE", "secret", "hidden"] {
        assert!(!shown.contains(wrong), "{wrong}: {shown}");
    }
    // A form with only fields has text as well.
    assert!(text(&read("a.pdf", &pdf_with_form("q Q\n", &fields[..1]))).contains("Äda"));
}

#[test]
fn placed_text_is_read() {
    let placed: String =
        (0..3).map(|line| at("F1", 50, 700 - line * 12, &format!("placed line {line}"))).collect();
    let own: String =
        (0..20).map(|line| at("F1", 50, 600 - line * 12, &format!("a line of its own {line}"))).collect();
    let shown = text(&read("a.pdf", &pdf_of(&[format!("/PlacedPDF BMC\n{placed}EMC\n{own}")])));
    assert!(shown.contains("placed line 2") && shown.contains("a line of its own 19"), "{shown}");
}

#[test]
fn turned_text_is_read_in_its_own_order() {
    let words = ["the", "first", "line", "and", "its", "words"];
    let check = |matrix: &str, place: fn(usize, usize) -> (usize, usize)| {
        let word = |line: usize, at: usize| {
            let (x, y) = place(line, at);
            format!("BT /F1 10 Tf {matrix} {x} {y} Tm ({}{line}) Tj ET\n", words[at])
        };
        let drawn: String = (0..4)
            .rev()
            .flat_map(|line| (0..words.len()).map(move |at| (line, at)))
            .map(|(line, at)| word(line, at))
            .collect();
        let shown = text(&read("a.pdf", &pdf_of(&[drawn])));
        let line = |line: usize| words.map(|word| format!("{word}{line}")).join(" ");
        let whole = (0..4).map(line).collect::<Vec<_>>().join(" ");
        assert_eq!(
            shown.split_whitespace().collect::<Vec<_>>().join(" ").replace("--- 1 ", ""),
            whole,
            "{matrix}"
        );
    };
    // Upwards, downwards and upside down.
    check("0 1 -1 0", |line, at| (100 + line * 14, 100 + at * 40 + line * 9));
    check("0 -1 1 0", |line, at| (300 - line * 14, 700 - at * 40 - line * 9));
    check("-1 0 0 -1", |line, at| (500 - at * 40 - line * 9, 100 + line * 14));
}

#[test]
fn an_unruled_table_continues_on_the_next_page_with_its_header() {
    let row = |height: u32, cells: [&str; 4]| -> String {
        let places = [50, 250, 330, 410];
        places.iter().zip(cells).map(|(left, cell)| at("F1", *left, height, cell)).collect()
    };
    let rows = |page: u32| -> String {
        (0..5)
            .map(|line| row(680 - line * 16, [&format!("article {page}{line}"), "12", "1,300", "7 %"]))
            .collect()
    };
    let header = row(696, ["product", "2023", "2024", "change"]);
    let end = at("F1", 50, 100, "After the table there is a sentence.");
    let pages = [format!("{header}{}", rows(1)), format!("{header}{}", rows(2)), format!("{}{end}", rows(3))];
    let shown = shown(&read("a.pdf", &pdf_of(&pages)));
    let table = shown.iter().find(|one| one.starts_with("table")).unwrap();
    assert!(table.starts_with("table(1) product|2023|2024|change / article 10|12|1,300|7 % / "), "{table}");
    assert_eq!((table.matches("product").count(), table.matches("article").count()), (1, 15), "{table}");
    assert!(shown.iter().any(|line| line == "After the table there is a sentence."), "{shown:?}");
}

#[test]
fn separate_bold_lines_are_titles_but_inline_bold_is_not() {
    let page = [
        at("F2", 50, 700, "Results of the year"),
        at("F1", 50, 670, "The text below it says what happened in the year that has just passed."),
        at("F1", 50, 658, "It goes on in a second line of the same paragraph, as texts do."),
        at("F2", 50, 620, "Note:"),
        at("F1", 50, 608, "Text under a label is not under a title, and this is quite long."),
        at("F2", 50, 570, "A whole sentence in bold type is no title."),
        at("F1", 50, 540, "More text that makes bold type rare in here, so that it stands out."),
    ];
    let shown = shown(&read("a.pdf", &pdf_of(&[page.concat()])));
    let titles: Vec<&String> = shown.iter().filter(|line| line.starts_with('#')).collect();
    assert_eq!(titles, ["# Results of the year"], "{shown:?}");
}

#[test]
fn contents_entries_are_lines_and_spaced_paragraphs_are_separate() {
    let dots = ". ".repeat(40);
    let entry = |height: u32, text: &str| at("F1", 50, height, &format!("{text} {dots}{}", height / 100));
    let entries: String = (0..6).map(|line| entry(740 - line * 13, &format!("1.{line} Chapter"))).collect();
    // The line spacing is smaller than between the entries above, and the paragraph spacing not much larger.
    let line = |height: u32, text: &str| at("F1", 50, height, text);
    let page = entries
        + &line(600, "The first paragraph has two lines, of which this one is the first and")
        + &line(589, "goes on here, up to about the same place where the line above has ended.")
        + &line(573, "The second paragraph has two lines as well, and it begins a bit lower than")
        + &line(562, "a line of the same paragraph would, which is all that tells it is another.");
    let shown = shown(&read("a.pdf", &pdf_of(&[page])));
    assert_eq!(shown.iter().filter(|part| part.contains("Chapter …")).count(), 6, "{shown:?}");
    assert_eq!(shown.iter().filter(|part| part.contains("paragraph has two lines")).count(), 2, "{shown:?}");
}
