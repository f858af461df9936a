//! The message about a wrong command line.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// clap's paragraphs in one line, and without arguments that might be secrets.
pub(super) fn one_line(error: &clap::Error) -> String {
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(given)) => Some(given.as_str()),
        _ => None,
    };
    match (error.kind(), given(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(argument)) => return unknown(argument),
        (ErrorKind::TooManyValues, Some(option)) if option.starts_with('-') => {
            return without_value(option);
        }
        (ErrorKind::TooManyValues, Some(files)) => {
            return format!("there are too many arguments for {files}; --help tells more");
        }
        _ => {}
    }
    let mut text = error.render().to_string();
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidSubcommand] {
        if let Some(value) = given(kind).filter(|value| value.len() > MAX_SHOWN) {
            text = text.replace(&format!("'{value}'"), NOT_SHOWN);
            text = text.replace(value, NOT_SHOWN);
        }
    }
    let mut paragraphs = text.split("\n\n").map(|paragraph| {
        paragraph
            .lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ")
    });
    let first = paragraphs.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(&first);
    let tip = paragraphs.find(|paragraph| paragraph.starts_with("tip: "));
    let tip = tip
        .map(|tip| format!("; {}", &tip["tip: ".len()..]))
        .unwrap_or_default();
    format!("{first}{tip}; --help tells more")
}

fn unknown(argument: &str) -> String {
    // A key that contains a space would end up here.
    let name = argument.split('=').next().unwrap_or_default();
    if name.starts_with('-') && name.len() <= MAX_SHOWN {
        format!("there is no option {name} here; --help lists all")
    } else {
        format!("an argument {NOT_SHOWN} belongs to no option; --help lists all")
    }
}

/// Whatever its length: after `--passphrase=` it is a secret.
fn without_value(option: &str) -> String {
    let asks = match option.ends_with("passphrase") {
        true => " and asks",
        false => "",
    };
    format!("{option} takes no value{asks}; the one given {NOT_SHOWN} is not used")
}

/// Anything longer is not a mistyped option or value.
const MAX_SHOWN: usize = 20;
const NOT_SHOWN: &str = "(not shown, it may be a secret)";
