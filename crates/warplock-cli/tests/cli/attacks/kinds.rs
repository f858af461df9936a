//! Attacks with objects of another kind, and with permissions and owners.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use super::tree::Moment::{Lookup, Open, Read};
use super::world::Kind::{Device, Fifo, File, Folder, Socket, Symlink};
use super::{attack, run};

const OTHER: &str = "a fifo, socket or device";

#[test]
fn in_place_of_entries() {
    run(&[
        attack("a fifo for a file", |a| a.plant(&a.at("short"), Fifo)).noticed(
            Lookup,
            &["short"],
            OTHER,
        ),
        attack("a socket for a file", |a| a.plant(&a.at("short"), Socket)).noticed(
            Lookup,
            &["short"],
            OTHER,
        ),
        attack("a device for a file", |a| a.plant(&a.at("short"), Device)).noticed(
            Lookup,
            &["short"],
            OTHER,
        ),
        attack("a fifo for a folder", |a| a.plant(&a.at("dir"), Fifo)).noticed(
            Lookup,
            &["dir"],
            OTHER,
        ),
        attack("a device for a symlink", |a| a.plant(&a.at("link"), Device)).noticed(
            Lookup,
            &["link"],
            OTHER,
        ),
        attack("a real fifo for a fifo", |a| a.plant(&a.at("fifo"), Fifo)).noticed(
            Lookup,
            &["fifo"],
            OTHER,
        ),
        attack("a folder for a file", |a| a.plant(&a.at("short"), Folder)).noticed(
            Open,
            &["short"],
            "its warplock.dir is missing",
        ),
        attack("a symlink for a file", |a| a.plant(&a.at("short"), Symlink)).noticed(
            Read,
            &["short"],
            "its target does not verify",
        ),
        attack("an empty file for a folder", |a| {
            a.plant(&a.at("dir"), File)
        })
        .noticed(Open, &["dir"], "no header in it verifies"),
        attack("an empty file for a fifo", |a| a.plant(&a.at("fifo"), File)).noticed(
            Open,
            &["fifo"],
            "no header in it verifies",
        ),
        attack("exchange a file and a folder", |a| {
            a.exchange("short", "dir")
        })
        .noticed(Open, &["short", "dir"], "never given to it"),
        attack("exchange a file and a fifo", |a| {
            a.exchange("short", "fifo")
        })
        .noticed(Open, &["short", "fifo"], "never given to it"),
        attack("exchange a folder and a symlink", |a| {
            a.exchange("dir", "link")
        })
        .noticed(Read, &["dir", "link"], "never given to it"),
        attack("a fifo for a record", |a| {
            a.plant(&a.at("dir").join("warplock.dir"), Fifo)
        })
        .noticed(Open, &["dir"], "no regular file"),
        attack("a symlink for a record", |a| {
            a.plant(&a.at("dir").join("warplock.dir"), Symlink);
        })
        .noticed(Open, &["dir"], "no regular file"),
        attack("a folder for a record", |a| {
            a.plant(&a.at("dir").join("warplock.dir"), Folder)
        })
        .noticed(Open, &["dir"], "no regular file"),
    ]);
}

#[test]
fn with_permissions_and_leftovers() {
    const NOBODY: Option<u32> = Some(65_534);
    run(&[
        attack("open a file to others", |a| {
            for path in ["short", "dir", "fifo"] {
                fs::set_permissions(a.at(path), Permissions::from_mode(0o777)).unwrap();
            }
        }),
        attack("a setuid program", |a| {
            fs::set_permissions(a.at("short"), Permissions::from_mode(0o6755)).unwrap();
        }),
        attack("give a file away", |a| {
            for path in ["short", "dir", "fifo"] {
                chown(a.at(path), NOBODY, NOBODY).unwrap();
            }
        }),
        attack("an access list for another user", |a| {
            // Where this program is missing, nothing is attacked.
            let list = Command::new("setfacl")
                .args(["-m", "u:65534:rwx"])
                .arg(a.at("s2"))
                .status();
            let _ = list;
        }),
        attack("other times", |a| {
            for path in ["dir", "link", "short"] {
                let touch = Command::new("touch")
                    .args(["-h", "-d", "@0"])
                    .arg(a.at(path))
                    .status();
                assert!(touch.unwrap().success());
            }
        })
        .passes("change times, an ACL within the permissions of the group"),
        attack("an empty file that the vault did not make", |a| {
            a.plant(&a.at("").join("notes.txt"), File);
        })
        .found("none of the vault's files"),
        attack("a fifo that the vault did not make", |a| {
            a.plant(&a.at("dir").join("notes"), Fifo)
        })
        .found("none of the vault's files"),
        attack("a file under the name of a new record", |a| {
            fs::rename(a.at("short"), a.at("").join("warplock.dir.new")).unwrap();
        })
        .noticed(Lookup, &["short"], "it is missing")
        .but_alone(super::Promise::Found { says: "" }),
        attack("a file under the name of unfinished work", |a| {
            let name = "warplock.tmp.0123456789abcdef01234567";
            fs::rename(a.at("long"), a.at("").join(name)).unwrap();
        })
        .noticed(Lookup, &["long"], "it is missing")
        .but_alone(super::Promise::Found { says: "" }),
        attack("a folder under the name of unfinished work", |a| {
            let name = "warplock.tmp.0123456789abcdef01234567";
            fs::rename(a.at("dir"), a.at("").join(name)).unwrap();
        })
        .noticed(Lookup, &["dir"], "it is missing")
        .but_alone(super::Promise::Found { says: "" }),
        attack("folders in folders under such names", |a| {
            let mut at = a.at("dir2");
            for _ in 0..200 {
                at.push("warplock.tmp.000000000000000000000000");
                if fs::create_dir(&at).is_err() {
                    break;
                }
            }
        })
        .found(""),
        attack("a hard link elsewhere", |a| {
            let outside = a.now.0.parent().unwrap().join("outside");
            let _ = fs::remove_file(&outside);
            fs::hard_link(a.at("short"), outside).unwrap();
        }),
        attack("conflict copies", |a| {
            let entry = a.at("short").into_os_string().into_string().unwrap();
            for suffix in [
                ".sync-conflict-20261129-120000-ABCDEFG",
                " (conflicted copy)",
            ] {
                fs::copy(&entry, format!("{entry}{suffix}")).unwrap();
            }
            fs::create_dir(a.at("").join(".stfolder")).unwrap();
            fs::write(a.at("").join(".DS_Store"), "x").unwrap();
        }),
        attack("an outside file as an entry", |a| {
            let outside = a.now.0.parent().unwrap().join("key.txt");
            let at = a.at("s2");
            fs::remove_file(&at).unwrap();
            fs::hard_link(outside, at).unwrap();
        })
        .noticed(Open, &["s2"], "no header in it verifies"),
    ]);
}
