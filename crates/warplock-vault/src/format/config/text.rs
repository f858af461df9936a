//! The text of `warplock.vault`: valid TOML, of which only what this file writes is read.
//!
//! Anything in the store may come from an attacker, and this file is read before anything is
//! authenticated. So there is no parser of nested structures here: one pass over the lines, each
//! field at most once, and a bound on the length and the number of keys.

use std::fmt::Write as _;

use super::FORMAT;
use super::wrapped::WrappedKey;

/// The most bytes of the file: room for more than a thousand recipients.
pub(super) const MAX_LEN: usize = 1 << 20;
/// The most wrapped keys.
pub(super) const MAX_KEYS: usize = 64;
/// The most bytes of a key's name.
const MAX_NAME: usize = 64;

/// The start of every file, even of one that is being written.
pub(crate) const START: &str = "# A Warplock vault: ";

const COMMENT: &str = "\
# A Warplock vault: the other files here are its ciphertext, and need this one. It holds no
# secret without one of the keys. Change it with `warplock vault passwd` only.
";

/// Begins and ends a string of several lines.
const QUOTES: &str = "\"\"\"";

/// The fields of the file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) format: u32,
    pub(super) id: String,
    pub(super) algorithm: String,
    pub(super) block_size: u32,
    pub(super) kdf: String,
    /// Over the fields above.
    pub(super) mac: String,
    /// Over the list of wrapped keys.
    pub(super) keys_mac: String,
    pub(super) keys: Vec<WrappedKey>,
}

/// Whether a key may have this name.
pub(super) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
}

impl File {
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{COMMENT}format = {}\nid = \"{}\"\nalgorithm = \"{}\"\nblock_size = {}\n\
             kdf = \"{}\"\nmac = \"{}\"\nkeys_mac = \"{}\"\n",
            self.format,
            self.id,
            self.algorithm,
            self.block_size,
            self.kdf,
            self.mac,
            self.keys_mac
        );
        for key in &self.keys {
            let name = key.name.replace('\\', "\\\\").replace('"', "\\\"");
            let (mac, age) = (&key.mac, &key.age);
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "\n[[key]]\nname = \"{name}\"\nmac = \"{mac}\"\nage = {QUOTES}\n{age}{QUOTES}\n"
            );
        }
        text
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// A sentence that begins after the file's name. It shows nothing of the text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(format) = format_of(text).filter(|format| *format != FORMAT) {
            return Err(format!(
                "its format is {format}, and this program knows format {FORMAT} only; use a newer \
                 one"
            ));
        }
        let mut lines = text.lines().enumerate();
        let mut settings = Table::new(&SETTINGS);
        let mut keys: Vec<Table> = Vec::new();
        while let Some((number, line)) = lines.next() {
            let at = |why: &str| format!("it cannot be read: line {} {why}", number + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == "[[key]]" {
                if keys.len() == MAX_KEYS {
                    return Err(format!("it has more than {MAX_KEYS} keys"));
                }
                keys.push(Table::new(&KEY));
                continue;
            }
            let field = line.split_once('=');
            let (name, value) = field.ok_or_else(|| at("is no field, table or comment"))?;
            let value = match value.trim() {
                QUOTES => {
                    let lines = lines.by_ref().map(|(_, line)| line);
                    block(lines).ok_or_else(|| at("begins a text that does not end"))?
                }
                value => single(value).ok_or_else(|| at("has no value that can be read"))?,
            };
            let table = keys.last_mut().unwrap_or(&mut settings);
            let set = table.set(name.trim(), value);
            set.map_err(at)?;
        }
        let keys = keys.into_iter().map(|mut key| {
            let [name, mac, age] = ["name", "mac", "age"].map(|field| key.take(field));
            let (name, mac, age) = (name?, mac?, age?);
            match is_name(&name) {
                true => Ok(WrappedKey { name, mac, age }),
                false => Err("one of its keys has no proper name".to_owned()),
            }
        });
        Ok(File {
            format: settings.number("format")?,
            id: settings.take("id")?,
            algorithm: settings.take("algorithm")?,
            block_size: settings.number("block_size")?,
            kdf: settings.take("kdf")?,
            mac: settings.take("mac")?,
            keys_mac: settings.take("keys_mac")?,
            keys: keys.collect::<Result<_, _>>()?,
        })
    }
}

const SETTINGS: [&str; 7] = [
    "format",
    "id",
    "algorithm",
    "block_size",
    "kdf",
    "mac",
    "keys_mac",
];
const KEY: [&str; 3] = ["name", "mac", "age"];

/// The fields of the settings or of a key, by their names, as they are found.
struct Table(Vec<(&'static str, Option<String>)>);

impl Table {
    fn new(names: &[&'static str]) -> Self {
        Table(names.iter().map(|name| (*name, None)).collect())
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), &'static str> {
        let field = self.0.iter_mut().find(|(known, _)| *known == name);
        let (_, field) = field.ok_or("has a field that this version does not know")?;
        match field.replace(value) {
            None => Ok(()),
            Some(_) => Err("has a field that was there already"),
        }
    }

    fn take(&mut self, name: &str) -> Result<String, String> {
        let field = self.0.iter_mut().find(|(known, _)| *known == name);
        let value = field.and_then(|(_, value)| value.take());
        value.ok_or_else(|| format!("it cannot be read: the field '{name}' is missing"))
    }

    fn number(&mut self, name: &str) -> Result<u32, String> {
        let value = self.take(name)?.parse();
        value.map_err(|_| format!("it cannot be read: the field '{name}' is no number"))
    }
}

/// The format's version, to name a later one, whatever else its file holds.
fn format_of(text: &str) -> Option<u32> {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("format"))?;
    line["format".len()..]
        .trim_start()
        .strip_prefix('=')?
        .trim_start()
        .parse()
        .ok()
}

/// A value on one line: a number, or a string in quotation marks, with only the escapes that names
/// need.
fn single(value: &str) -> Option<String> {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(value.to_owned());
    }
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => text.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => text.push(c),
        }
    }
    Some(text)
}

/// A text of several lines, up to the one that ends it.
fn block<'a>(lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut text = String::new();
    for line in lines {
        if line.trim() == QUOTES {
            return Some(text);
        }
        if line.contains(['"', '\\']) {
            return None;
        }
        text.push_str(line);
        text.push('\n');
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        let key = |name: &str| WrappedKey {
            name: name.into(),
            mac: "00ff".into(),
            age: "-----BEGIN-----\nAAAA\n-----END-----\n".into(),
        };
        File {
            format: FORMAT,
            id: "0".repeat(32),
            algorithm: "aes-256-gcm".into(),
            block_size: 4096,
            kdf: "hkdf-sha512".into(),
            mac: "00".repeat(32),
            keys_mac: "11".repeat(32),
            keys: vec![key("main"), key("a \"quoted\\\" name=[[key]] # \u{e9}")],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let file = file();
        let text = file.text();
        assert!(text.starts_with(START));
        let read = File::parse(&text).unwrap();
        assert_eq!(read.text(), text);
        assert_eq!(read.keys[1].name, file.keys[1].name);
        assert_eq!(read.keys[1].age, file.keys[1].age);
        // An editor's line ends and white space change nothing.
        let edited = text.replace('\n', "\r\n").replace(" = ", "  =\t");
        let edited = File::parse(&format!("\n# comment\n  {edited}")).unwrap();
        assert_eq!(edited.text(), text);
    }

    #[test]
    fn what_is_not_written_is_refused() {
        let good = file().text();
        let key = &good[good.find("[[key]]").unwrap()..];
        let with = |from: &str, to: &str| {
            let changed = good.replacen(from, to, 1);
            assert_ne!(changed, good, "{from}");
            changed
        };
        for (text, says) in [
            (String::new(), "'format' is missing"),
            ("\0".into(), "line 1 is no field"),
            (with("format = 2", "format = 9"), "its format is 9"),
            (with("format = 2", "format = one"), "no value"),
            (with("format = 2", "format = \"x\""), "no number"),
            (with("format = 2", "format = -1"), "no value"),
            (with("format = 2", "format = 99999999999"), "no number"),
            (with("id = ", "id : "), "line 4 is no field"),
            (with("id = ", "x.id = "), "line 4 has a field"),
            (with("id = ", "mac = "), "there already"),
            (with("mac = \"00", "mac = [\"00"), "no value"),
            (with("mac = \"00", "mac = \"\\u0030"), "no value"),
            (with("\"main\"", "\"ma\"in\""), "no value"),
            (with("\"main\"", "\"main\\\""), "no value"),
            (with("\"main\"", "'main'"), "no value"),
            (with("\"main\"", "\"\""), "no proper name"),
            (
                with("\"main\"", &format!("\"{}\"", "n".repeat(65))),
                "no proper name",
            ),
            (with("\"main\"", "\"ma\tin\""), "no proper name"),
            (with("[[key]]", "[key]"), "is no field"),
            (with("[[key]]", "[[key.a]]"), "is no field"),
            (with("[[key]]", "[[key]]\n[[key]]"), "'name' is missing"),
            (with("AAAA", "AA\\nAA"), "does not end"),
            (
                good.trim_end().trim_end_matches('"').to_owned(),
                "does not end",
            ),
            (good.repeat(2), "does not know"),
            (format!("{good}{}", key.repeat(40)), "more than 64 keys"),
        ] {
            let refused = File::parse(&text).unwrap_err();
            assert!(refused.contains(says), "{refused} ({says})");
            assert!(refused.len() < 100, "{refused}");
        }
    }
}
