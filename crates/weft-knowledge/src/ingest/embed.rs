//! How a chunk becomes a vector.

use weft_core::seam::dataset_store::StoredChunk;
use weft_core::seam::document_reader::PieceKind;

/// Returns the text from which a chunk's vector is computed: the questions that it answers, if there are any,
/// and otherwise its content; for a question with its answer, both.
pub(super) fn text(chunk: &StoredChunk) -> String {
    if chunk.questions.iter().any(|question| !question.trim().is_empty()) {
        return chunk.questions.join("\n");
    }
    plain(chunk.kind, &chunk.content)
}

/// Returns a text without the tags of a table.
pub(super) fn plain(kind: PieceKind, content: &str) -> String {
    if kind != PieceKind::Table || !content.trim_start().starts_with('<') {
        return content.to_owned();
    }
    let (mut text, mut rest) = (String::with_capacity(content.len()), content);
    while let Some(begin) = rest.find('<') {
        text.push_str(&rest[..begin]);
        let Some(end) = rest[begin..].find('>') else {
            rest = &rest[begin..];
            break;
        };
        // Adjacent cells become separate words, and rows become lines.
        if rest[begin..].starts_with("</tr") {
            text.truncate(text.trim_end().len());
            text.push('\n');
        } else if !text.is_empty() && !text.ends_with([' ', '\n']) {
            text.push(' ');
        }
        rest = &rest[begin + end + 1..];
    }
    text.push_str(rest);
    // `&amp;` comes last, or `&amp;lt;` would become `<`.
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")];
    let text = entities.into_iter().fold(text, |text, (entity, sign)| text.replace(entity, sign));
    text.trim_end().to_owned()
}

/// Mixes a chunk's vector with a share of that of its file's name, normalised to length 1.
pub(super) fn mixed(text: Vec<f32>, name: Option<&[f32]>, share: f64) -> Vec<f32> {
    let Some(name) = name.filter(|name| share > 0.0 && name.len() == text.len()) else { return text };
    let mix = |(text, name): (&f32, &f32)| f64::from(*name) * share + f64::from(*text) * (1.0 - share);
    let sum: Vec<f64> = text.iter().zip(name).map(mix).collect();
    let length = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
    // Opposite vectors may cancel out.
    if length < 1e-6 {
        return text;
    }
    #[expect(clippy::cast_possible_truncation, reason = "vectors are kept with this precision")]
    sum.into_iter().map(|value| (value / length) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_embedded_without_their_tags() {
        let html = "<table><tr><td>Müller &amp; Co</td><td>1 &lt; 2</td></tr><tr><td>x</td></tr></table>";
        assert_eq!(plain(PieceKind::Table, html), "Müller & Co 1 < 2\nx");
        assert_eq!(plain(PieceKind::Text, "a <b> c"), "a <b> c");
        assert_eq!(plain(PieceKind::Table, "a: <b>"), "a: <b>");
        assert_eq!(plain(PieceKind::Table, "<td>a < b"), "a < b");
    }

    #[test]
    fn the_name_vector_is_weighted_and_the_result_normalised() {
        let made = mixed(vec![1.0, 0.0], Some(&[0.0, 1.0]), 0.1);
        assert!((made[0] / made[1] - 9.0).abs() < 1e-4);
        assert!((made[0].hypot(made[1]) - 1.0).abs() < 1e-6);
        assert_eq!(mixed(vec![1.0, 0.0], Some(&[0.0, 1.0]), 0.0), [1.0, 0.0]);
        assert_eq!(mixed(vec![1.0, 0.0], Some(&[-1.0, 0.0]), 0.5), [1.0, 0.0]);
        assert_eq!(mixed(vec![1.0, 0.0], None, 0.5), [1.0, 0.0]);
    }
}
