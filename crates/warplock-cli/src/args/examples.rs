//! Examples at the end of commands' help, which are those of their man pages.

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
