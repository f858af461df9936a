//! Examples at the end of commands' help, which are those of their man pages.

/// Of the whole program.
pub(super) fn program() -> String {
    format!("{PROGRAM}{VAULT}{EXIT_CODES} {PIPES}\n\n{VARIABLES}")
}

const PROGRAM: &str = "\
Examples:
  warplock keygen -o key.txt                  a new identity; prints the recipient age1...
  warplock encrypt -r age1... data.bin        writes data.bin.wl
  warplock decrypt -i key.txt -o new data.bin.wl    without -o it writes data.bin
  tar c photos | warplock encrypt -p > photos.tar.wl
  warplock decrypt -o - photos.tar.wl | tar x
";

const VAULT: &str = match cfg!(target_os = "linux") {
    true => "  warplock vault init store; mkdir plain; warplock vault mount store plain\n",
    false => "",
};

const EXIT_CODES: &str = "
Exit codes: 0 done: all verified, all written; 1 error; 2 wrong usage; 3 changed or cut data;
4 another one's key, identity or passphrase.";

const PIPES: &str = match cfg!(unix) {
    true => {
        "If the reader of a pipe ends early, the command dies\n\
         by SIGPIPE (a shell shows 141): in scripts, use `set -o pipefail`."
    }
    false => "A reader of a pipe that ends early is an error.",
};

const VARIABLES: &str = "\
The variable WARPLOCK_PASSPHRASE, or else the file warplock.passphrase in $CREDENTIALS_DIRECTORY
(systemd's LoadCredential=), is used where a passphrase would be asked for. For a new one that
replaces another it is WARPLOCK_NEW_PASSPHRASE or warplock.new-passphrase.";

pub(super) const KEYGEN: &str = "\
Examples:
  warplock keygen -o key.txt                  a new identity; prints its recipient age1...
  warplock keygen -y key.txt -o backup.pub    its recipient, for encrypt -R backup.pub
  warplock keygen --key-file -o stream.key    a key for --key-file";

pub(super) const ENCRYPT: &str = "\
Examples:
  warplock encrypt -r age1... data.bin        writes data.bin.wl
  warplock encrypt -R team.txt -o backup/ *.tar
  warplock encrypt -p -o secret.wl secret
  tar c photos | warplock encrypt -R backup.pub > photos.tar.wl
  warplock encrypt --passphrase-command \"pass show backup\" data.bin";

pub(super) const DECRYPT: &str = "\
Examples:
  warplock decrypt -i key.txt data.bin.wl     writes data.bin
  warplock decrypt -i key.txt -o - photos.tar.wl | tar x
  warplock decrypt -i key.txt --range 1MiB..2MiB -o part disk.img.wl
  warplock decrypt -i key.txt --sparse -o disk.img disk.img.wl
  warplock decrypt -i key.txt --salvage -o found.tar damaged.tar.wl";

pub(super) const VERIFY: &str = "\
Examples:
  warplock verify -i key.txt *.wl
  warplock verify --json -i key.txt data.bin.wl";

pub(super) const INSPECT: &str = "\
Examples:
  warplock inspect data.bin.wl
  warplock inspect --json *.wl";

pub(super) const REWRAP: &str = "\
Examples:
  warplock rewrap -i key.txt -r age1alice... -r age1bob... data.wl
  warplock rewrap -p --new-passphrase data.wl
  warplock rewrap --rekey -i key.txt -R team.txt data.wl";

pub(super) const DEVICES: &str = "\
Examples:
  warplock devices
  warplock devices --algorithms";

pub(super) const CALIBRATE: &str = "\
Examples:
  warplock calibrate
  warplock calibrate --dry-run";

pub(super) const COMPLETIONS: &str = "\
Examples:
  warplock completions bash > ~/.local/share/bash-completion/completions/warplock";

pub(super) const MAN: &str = "\
Examples:
  warplock man ~/.local/share/man/man1";
