//! Attacks with old states: of blocks, files, folders, symlinks and names.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, FallocateFlags, fallocate, renameat_with};

use super::Promise::Noticed;
use super::tree::Moment::{Lookup, Open, Read};
use super::world::{Attacker, BLOCK, LONG, START, copy};
use super::{Attack, attack, bytes, run};

const OLD: &str = "an old version";
const BACK: &str = "came back";
const MISSING: &str = "it is missing";
/// Rows of the document's table that need the machine's memory.
const PUT_BACK: &str = "put a file, a folder's record, a symlink or a removed object back";
const REMOVED: &str = "remove a file, folder, symlink, fifo, socket or device";

fn write(folder: &Path, name: &str, len: usize) {
    fs::write(folder.join(name), bytes("another", len)).unwrap();
}

/// As most programs save: a new file, renamed over the old one.
fn save(folder: &Path) {
    write(folder, "new", 500);
    fs::rename(folder.join("new"), folder.join("short")).unwrap();
}

/// Blocks from the fourth on, before the page of seals.
const OLD_BLOCKS: std::ops::Range<usize> = START + 4 * BLOCK..START + 16 * BLOCK;

fn old_blocks(a: &Attacker<'_>) {
    a.mix("long", |data, old| {
        let len = data.len().min(OLD_BLOCKS.end);
        let range = OLD_BLOCKS.start.min(len)..len;
        data[range.clone()].copy_from_slice(&old[range]);
    });
}

fn zeroed_blocks(a: &Attacker<'_>) {
    a.edit("long", |data| data[OLD_BLOCKS].fill(0));
}

fn cut_and_grow(folder: &Path) {
    let file = File::options()
        .write(true)
        .open(folder.join("long"))
        .unwrap();
    file.set_len(4 * BLOCK as u64).unwrap();
    file.set_len(LONG as u64).unwrap();
}

fn punch(folder: &Path) {
    let file = File::options()
        .write(true)
        .open(folder.join("long"))
        .unwrap();
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, how, 4 * BLOCK as u64, 12 * BLOCK as u64).unwrap();
}

fn put_all_back(a: &Attacker<'_>) {
    a.put_back("short");
}

/// Discarded data stays discarded, whatever is done before and after.
#[test]
fn of_blocks() {
    run(&[
        attack("old blocks after a cut", old_blocks).second(cut_and_grow),
        attack("blocks zeroed before a cut, and put back", old_blocks)
            .between(zeroed_blocks)
            .second(cut_and_grow),
        attack("old blocks in a punched hole", old_blocks).second(punch),
        attack("old blocks in a hole punched twice", old_blocks)
            .between(zeroed_blocks)
            .second(|folder| {
                punch(folder);
                punch(folder);
            }),
        attack("old blocks over zeros", old_blocks)
            .second(|folder| {
                let file = File::options().write(true).open(folder.join("long"));
                let zeros = [0; 12 * BLOCK];
                file.unwrap()
                    .write_all_at(&zeros, 4 * BLOCK as u64)
                    .unwrap();
            })
            .noticed(Read, &["long"], "not the newest version of this block"),
        attack("an old page with its old blocks", |a| {
            a.mix("long", |data, old| {
                data[START..].copy_from_slice(&old[START..])
            });
        })
        .second(|folder| {
            let file = File::options().write(true).open(folder.join("long"));
            file.unwrap()
                .write_all_at(&[1; BLOCK], 17 * BLOCK as u64)
                .unwrap();
        })
        .noticed(Read, &["long"], "does not verify"),
        attack("a file from another history of the same length", |a| {
            a.mix("long", |data, old| {
                data[..START].copy_from_slice(&old[..START])
            });
        })
        .second(cut_and_grow)
        .noticed(Open, &["long"], OLD)
        .but_alone(Noticed {
            moment: Read,
            paths: &["long"],
            says: "does not verify",
        }),
    ]);
}

/// An attack which the machine's memory alone notices.
fn remembered(attack: Attack) -> Attack {
    attack.but_alone_passes(PUT_BACK)
}

#[test]
fn of_objects() {
    run(&[
        remembered(
            attack("a file that was overwritten", put_all_back)
                .second(|folder| write(folder, "short", 700))
                .noticed(Open, &["short"], OLD),
        ),
        remembered(
            attack("a file that was replaced", put_all_back)
                .second(save)
                .noticed(Open, &["short"], BACK),
        ),
        remembered(
            attack("a file that was removed", put_all_back)
                .second(|folder| fs::remove_file(folder.join("short")).unwrap())
                .noticed(Open, &["short"], BACK),
        ),
        remembered(
            attack("a file of a folder that was removed", |a| a.put_back("dir"))
                .second(|folder| fs::remove_dir_all(folder.join("dir")).unwrap())
                .noticed(Open, &["dir"], BACK),
        ),
        remembered(
            attack("a symlink that was replaced", |a| a.put_back("link"))
                .second(|folder| {
                    fs::remove_file(folder.join("link")).unwrap();
                    std::os::unix::fs::symlink("elsewhere", folder.join("link")).unwrap();
                })
                .noticed(Read, &["link"], OLD),
        ),
        remembered(
            attack("a fifo that was removed", |a| a.put_back("fifo"))
                .second(|folder| fs::remove_file(folder.join("fifo")).unwrap())
                .noticed(Lookup, &["fifo"], BACK),
        ),
        remembered(
            attack("a file with the mode of before", put_all_back)
                .second(|folder| {
                    use std::os::unix::fs::PermissionsExt;
                    let mode = fs::Permissions::from_mode(0o600);
                    fs::set_permissions(folder.join("short"), mode).unwrap();
                })
                .noticed(Open, &["short"], OLD),
        ),
        remembered(
            attack("an old name of a folder, with its old record", |a| {
                fs::remove_dir_all(a.at("new")).unwrap();
                a.put_back("dir");
            })
            .second(|folder| fs::rename(folder.join("dir"), folder.join("new")).unwrap())
            .noticed(Lookup, &["new", "dir"], MISSING),
        ),
        attack("an old name of a file", |a| {
            fs::rename(a.at("new"), a.was("short")).unwrap()
        })
        .second(|folder| fs::rename(folder.join("short"), folder.join("new")).unwrap())
        .noticed(Lookup, &["new", "short"], MISSING)
        .but_alone(Noticed {
            moment: Open,
            paths: &["short", "new"],
            says: "never given to it",
        }),
        attack("a file is removed", |a| a.remove("short"))
            .noticed(Lookup, &["short"], MISSING)
            .but_alone_passes(REMOVED),
        attack("a folder is removed", |a| a.remove("dir"))
            .noticed(Lookup, &["dir"], MISSING)
            .but_alone_passes(REMOVED),
        attack("a symlink and a fifo are removed", |a| {
            a.remove("link");
            a.remove("fifo");
        })
        .noticed(Lookup, &["link", "fifo"], MISSING)
        .but_alone_passes(REMOVED),
        attack("an exchange is undone", |a| a.exchange("long", "long2"))
            .second(|folder| {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let (one, other) = (folder.join("long"), folder.join("long2"));
                renameat_with(CWD, one, CWD, other, flags).unwrap();
            })
            .noticed(Open, &["long", "long2"], "never given to it"),
        attack("hard links are parted", |a| {
            let (one, other) = (a.at("dir/one"), a.at("dir2/other"));
            fs::remove_file(&one).unwrap();
            copy(&other, &one);
        })
        .second(|folder| {
            write(folder, "dir/one", 9000);
            fs::hard_link(folder.join("dir/one"), folder.join("dir2/other")).unwrap();
        })
        .noticed(Open, &["dir2/other"], "a copy"),
    ]);
}
