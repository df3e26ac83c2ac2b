//! Text from elsewhere cannot control the terminal.

use serde_json::json;

use crate::weft::{Home, ask_a_model, sample};

/// Sets the clipboard, and clears the screen in two ways.
const STEERS: &str = "\u{1b}]52;c;aGk=\u{7}\u{1b}[2J\u{9b}2J";

fn steers(text: &str) -> bool {
    text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
}

#[test]
fn the_list_of_sources_contains_no_control_characters() {
    let home = Home::quoting();
    let folder = home.path().join("shop");
    std::fs::create_dir_all(folder.join("documents")).unwrap();
    std::fs::copy(sample("customer_service"), folder.join("canvas.json")).unwrap();
    // Long enough that the text is still recognized as text despite the control characters.
    let text = format!(
        "Bicycles {STEERS} may be returned within ninety days.\n\n\
         Keep the carton in which the bicycle came, since it travels back in it.\n"
    );
    std::fs::write(folder.join("documents/returns.md"), text).unwrap();
    let canvas = std::fs::read_to_string(folder.join("canvas.json")).unwrap();
    std::fs::write(folder.join("canvas.json"), canvas.replace("customer_service", "shop")).unwrap();
    let ran = home
        .weft(&["run", "shop/canvas.json", "--query", "Within how many days may I return a bicycle?"])
        .with(0);
    assert!(ran.stderr.contains("returns.md") && ran.stderr.contains("ninety"), "{}", ran.stderr);
    assert!(!steers(&ran.stderr), "{:?}", ran.stderr);
}

#[test]
fn output_to_a_file_is_not_changed() {
    let home = Home::scripted(&json!({"replies": [{"text": format!("a{STEERS}b")}]}));
    home.write("c.json", ask_a_model().to_string());
    let ran = home.weft(&["run", "c.json", "--query", "q"]).with(0);
    assert_eq!(ran.stdout, format!("a{STEERS}b\n"));
}

#[test]
fn an_invalid_canvas_is_shown_without_control_characters() {
    let home = Home::quoting();
    let canvas = ask_a_model().to_string().replace("Message:M", &format!("Message:{STEERS}"));
    home.write("c.json", canvas);
    let checked = home.weft(&["check", "c.json"]);
    assert!(checked.stderr.contains("52;c;"), "{}", checked.stderr);
    assert!(!steers(&checked.stderr), "{:?}", checked.stderr);
    let refused = home.weft(&["run", STEERS]).with(2);
    assert!(!steers(&refused.stderr), "{:?}", refused.stderr);
}
