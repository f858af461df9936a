//! Results for programs: one JSON object per line. docs/json.md lists the fields.

use std::fmt::Write;

use serde_json::Value;

use crate::failure::is_invisible;

/// An object as a line. What could alter a terminal's state or the order of text is written as
/// `\u....`, which JSON demands for few of these characters.
pub(crate) fn line(object: &Value) -> String {
    let text = object.to_string();
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // They occur in strings only, where JSON allows the escape.
        match is_invisible(c) {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(line, "\\u{unit:04x}");
                }
            }
            false => line.push(c),
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_json_that_a_terminal_can_show() {
        let object = json!({ "name": "a\u{9b}\u{7f}\u{202e}\u{e0041}\n\"\\é" });
        let line = line(&object);
        let expected = r#"{"name":"a\u009b\u007f\u202e\udb40\udc41\n\"\\é"}"#;
        assert_eq!(line, format!("{expected}\n"));
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), object);
    }
}
