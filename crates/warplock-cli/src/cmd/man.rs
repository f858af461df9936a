//! `warplock man`: a page for each command, from the same definition as its help.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::args;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Writes all pages into the folder `dir`.
pub(super) fn run(dir: &Path) -> Result<Exit> {
    let mut root = args::definition().disable_help_subcommand(true);
    root.build();
    pages(&root, &[], dir).map_err(|error| Failure::writing(&error).about(dir.display()))?;
    Ok(Exit::Done)
}

/// Writes the pages of `command`, which is one of those under `above`, and of all under it.
fn pages(command: &Command, above: &[&Command], dir: &Path) -> io::Result<()> {
    let path = [above, &[command]].concat();
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        pages(below, &path, dir)?;
    }
    let man = Man::new(command.clone())
        .source(concat!("warplock ", env!("CARGO_PKG_VERSION")))
        .manual("Warplock manual");
    let mut page = BufWriter::new(File::create(dir.join(man.get_filename()))?);
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let examples = examples(&path);
    if !examples.is_empty() {
        heading(&mut page, "EXAMPLES")?;
        writeln!(page, ".nf")?;
        for line in examples {
            writeln!(page, "{}", escaped(&line))?;
        }
        writeln!(page, ".fi")?;
    }
    list(&mut page, "EXIT STATUS", &exit_status(&path))?;
    list(&mut page, "ENVIRONMENT", &environment(command, &path))?;
    list(&mut page, "FILES", &files(command, &path))?;
    heading(&mut page, "SEE ALSO")?;
    writeln!(page, "{}", escaped(&see_also(command, above)))?;
    page.flush()
}

fn heading(page: &mut impl Write, name: &str) -> io::Result<()> {
    writeln!(page, ".SH \"{name}\"")
}

/// A section of names and what they mean.
fn list(page: &mut impl Write, name: &str, entries: &[(&str, &str)]) -> io::Result<()> {
    if !entries.is_empty() {
        heading(page, name)?;
    }
    for (name, meaning) in entries {
        writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(name), escaped(meaning))?;
    }
    Ok(())
}

/// A line of text that troff shows as it is.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

/// The examples of a command, or those in the help of the ones above that are about it.
fn examples(path: &[&Command]) -> Vec<String> {
    let names: Vec<_> = path.iter().map(|command| command.get_name()).collect();
    let own = names.join(" ");
    for (depth, command) in path.iter().enumerate().rev() {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        let lines = lines.take_while(|line| !line.is_empty());
        let is_own = depth + 1 == path.len();
        let wanted: Vec<_> = lines
            .filter(|line| is_own || line.contains(&own))
            .map(str::to_owned)
            .collect();
        if !wanted.is_empty() {
            return wanted;
        }
    }
    Vec::new()
}

/// Whether a command is, or belongs to, the one called `name`.
fn is_under(path: &[&Command], name: &str) -> bool {
    path.iter().any(|command| command.get_name() == name)
}

fn exit_status(path: &[&Command]) -> Vec<(&'static str, &'static str)> {
    let altered = match is_under(path, "vault") {
        true => "Something in the vault was altered, or it is another vault.",
        false => "Something was changed or cut.",
    };
    vec![
        ("0", "Done: all was verified, and all was written."),
        ("1", "Something failed; a line on standard error says what."),
        (
            "2",
            "The command line is wrong. Nothing was read or written.",
        ),
        ("3", altered),
        ("4", "The key, identity or passphrase is another one's."),
        (
            "141",
            "The reader of a pipe ended early (the command dies by SIGPIPE).",
        ),
    ]
}

fn environment(command: &Command, path: &[&Command]) -> Vec<(&'static str, &'static str)> {
    let has = |option: &str| {
        let all = command.get_arguments();
        path.len() == 1 || all.into_iter().any(|argument| argument.get_id() == option)
    };
    let mut entries = Vec::new();
    if has("passphrase_file") {
        entries.push((
            "WARPLOCK_PASSPHRASE",
            "The passphrase, where one would be asked for and no option names a source. Other \
             processes of the same user can read it.",
        ));
    }
    if has("new_passphrase_file") {
        entries.push((
            "WARPLOCK_NEW_PASSPHRASE",
            "The same for a new passphrase that replaces another.",
        ));
    }
    if has("passphrase_file") || has("new_passphrase_file") {
        entries.push((
            "CREDENTIALS_DIRECTORY",
            "Set by systemd for units with LoadCredential= or the like. The files \
             warplock.passphrase and warplock.new-passphrase in it are used where the variables \
             above are not set.",
        ));
    }
    entries.push((
        "WARPLOCK_BACKEND",
        "What --backend says, where it is not given.",
    ));
    entries.push((
        "XDG_CACHE_HOME",
        "The result of calibrating is in warplock in this folder, by default ~/.cache \
         (Windows: %LOCALAPPDATA%).",
    ));
    let has_vaults = cfg!(target_os = "linux") && path.len() == 1;
    if has_vaults || is_under(path, "vault") {
        entries.push((
            "XDG_STATE_HOME",
            "This machine's memory of vaults is in warplock in this folder, by default \
             ~/.local/state.",
        ));
    }
    entries
}

fn files(command: &Command, path: &[&Command]) -> Vec<(&'static str, &'static str)> {
    let mut entries = Vec::new();
    let under = |names: &[&str]| path.len() == 1 || names.iter().any(|name| is_under(path, name));
    if under(&["encrypt", "decrypt", "verify", "inspect", "rewrap", "bulk"])
        && !is_under(path, "raw")
    {
        entries.push((
            "NAME.wl",
            "An encrypted file: an age file with a random key, and the data as C2SP chunked \
             encryption.",
        ));
    }
    if command.get_name() == "rewrap" {
        entries.push((
            ".NAME.rewrap",
            "The old envelope of NAME while it is overwritten; see above.",
        ));
    }
    if under(&["vault"]) {
        entries.push((
            "warplock.vault",
            "A vault's settings and wrapped keys, in its folder.",
        ));
    }
    entries.push(("~/.cache/warplock", "The result of warplock calibrate."));
    entries
}

/// The pages around this one.
fn see_also(command: &Command, above: &[&Command]) -> String {
    let page = |command: &Command| {
        let name = command.get_display_name().unwrap_or(command.get_name());
        format!("{name}(1)")
    };
    let mut pages: Vec<_> = above.iter().map(|command| page(command)).collect();
    pages.extend(
        command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
            .map(page),
    );
    if let Some(parent) = above.last().filter(|_| !command.has_subcommands()) {
        let others = parent
            .get_subcommands()
            .filter(|below| !below.is_hide_set());
        let others = others.filter(|other| other.get_name() != command.get_name());
        pages.extend(others.map(page));
    }
    pages.push("age(1)".to_owned());
    pages.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_it_is() {
        assert_eq!(escaped(".wl -o \\"), "\\&.wl \\-o \\e");
    }
}
