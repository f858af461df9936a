//! Attacks on names, places, records of folders, targets and attributes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{CWD, XattrFlags, linkat};

use super::Promise::Noticed;
use super::tree::Moment::{List, Lookup, Open, Read, Use};
use super::world::{Attacker, Kind, LONG_NAME, remove, rewrite};
use super::{attack, attributes, run};

const PLACE: &str = "never given to it";
const FORM: &str = "never given that name";
const MISSING: &str = "it is missing";

/// Renames an entry to the long form of its name, and puts the name next to it.
fn long_form(a: &Attacker<'_>, path: &str) {
    let at = a.at(path);
    let (folder, stored) = (at.parent().unwrap(), at.file_name().unwrap());
    let script = r#"
        sealed="$(mktemp)"; basenc --base64url -d > "$sealed"
        hash="$(sha256sum "$sealed" | cut -c 1-64 | basenc --base16 -d -i | basenc --base64url)"
        hash="${hash%=}"; mv -- "$1" "$hash.long"; mv -- "$sealed" "$hash.name""#;
    let mut padded = stored.to_str().unwrap().to_owned();
    while padded.len() % 4 > 0 {
        padded.push('=');
    }
    let script = script.replace(
        "basenc --base16 -d -i",
        "tr a-f A-F | basenc --base16 -d -i",
    );
    let script = script.replace("-d > ", "-d <<< \"$2\" > ");
    let mut shell = Command::new("bash");
    shell
        .args(["-e", "-c", &script, "bash"])
        .arg(stored)
        .arg(padded);
    assert!(shell.current_dir(folder).status().unwrap().success());
}

fn record(a: &Attacker<'_>, path: &str) -> PathBuf {
    a.at(path).join("warplock.dir")
}

fn name_file(a: &Attacker<'_>) -> PathBuf {
    let entry = a.at(LONG_NAME).into_os_string().into_string().unwrap();
    entry.replace(".long", ".name").into()
}

#[test]
fn on_entries() {
    run(&[
        attack("exchange two files", |a| a.exchange("long", "long2")).noticed(
            Open,
            &["long", "long2"],
            PLACE,
        ),
        attack("exchange files of two folders", |a| {
            a.exchange("dir/inner", "dir2/inner")
        })
        .noticed(Open, &["dir/inner", "dir2/inner"], PLACE),
        attack("exchange two folders", |a| a.exchange("dir", "dir2")).noticed(
            Open,
            &["dir", "dir2"],
            PLACE,
        ),
        attack("exchange two symlinks", |a| a.exchange("link", "link2")).noticed(
            Read,
            &["link", "link2"],
            PLACE,
        ),
        attack("copy a file over another", |a| a.copy_over("long2", "long")).noticed(
            Open,
            &["long"],
            PLACE,
        ),
        attack("link a file over another", |a| a.link_over("s2", "short")).noticed(
            Use,
            &["short", "s2"],
            PLACE,
        ),
        attack("link a symlink over another", |a| {
            let to = a.at("link");
            remove(&to);
            let flags = rustix::fs::AtFlags::empty();
            linkat(CWD, a.at("link2"), CWD, to, flags).unwrap();
        })
        .noticed(Use, &["link", "link2"], PLACE),
        attack("move a file to another folder", |a| {
            let name = a.at("short").file_name().unwrap().to_owned();
            fs::rename(a.at("short"), a.at("dir").join(name)).unwrap();
        })
        .noticed(Lookup, &["short"], MISSING)
        .but_alone(Noticed {
            moment: List,
            paths: &["short"],
            says: FORM,
        }),
        attack("invent a name", |a| {
            let name = "AAAAAAAAAAAAAAAAAAAAAAAA";
            fs::rename(a.at("s2"), a.at("").join(name)).unwrap();
        })
        .noticed(Lookup, &["s2"], MISSING)
        .but_alone(Noticed {
            moment: List,
            paths: &["s2"],
            says: FORM,
        }),
        attack("the long form of the name of a file", |a| {
            long_form(a, "short")
        })
        .noticed(Lookup, &["short"], MISSING)
        .but_alone(Noticed {
            moment: List,
            paths: &["short"],
            says: FORM,
        }),
        attack("the long form of the name of a folder", |a| {
            long_form(a, "dir")
        })
        .noticed(Lookup, &["dir"], MISSING)
        .but_alone(Noticed {
            moment: List,
            paths: &["dir"],
            says: FORM,
        }),
        attack("the long form of the name of a symlink", |a| {
            long_form(a, "link")
        })
        .noticed(Lookup, &["link"], MISSING)
        .but_alone(Noticed {
            moment: List,
            paths: &["link"],
            says: FORM,
        }),
        attack(
            "the new file under its long form, and the old one back",
            |a| {
                long_form(a, "short");
                a.put_back("short");
            },
        )
        .second(|folder| {
            fs::write(folder.join("new"), "new").unwrap();
            fs::rename(folder.join("new"), folder.join("short")).unwrap();
        })
        .noticed(Open, &["short"], "came back")
        .but_alone_passes("put a file, a folder's record, a symlink or a removed object back"),
        attack("remove the name of a long name", |a| remove(&name_file(a)))
            .told("the file with its name is missing"),
        attack("change the name of a long name", |a| {
            rewrite(&name_file(a), |data| data[20] ^= 1);
        })
        .told(FORM),
        attack("a fifo for the name of a long name", |a| {
            a.plant(&name_file(a), Kind::Fifo);
        })
        .told("no regular file"),
    ]);
}

#[test]
fn on_records_targets_and_attributes() {
    fn set(path: &std::path::Path, name: &str, value: &[u8]) {
        rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
    }
    const RECORD: &str = "its warplock.dir";
    const ATTRIBUTE: &str = "an extended attribute";
    run(&[
        attack("remove the record of a folder", |a| {
            remove(&record(a, "dir"))
        })
        .noticed(Open, &["dir"], RECORD),
        attack("change the record of a folder", |a| {
            rewrite(&record(a, "dir"), |data| data[30] ^= 1);
        })
        .noticed(Open, &["dir"], RECORD),
        attack("lengthen the record of a folder", |a| {
            rewrite(&record(a, "dir"), |data| data.push(0));
        })
        .noticed(Open, &["dir"], RECORD),
        attack("the record of another folder", |a| {
            fs::copy(record(a, "dir2"), record(a, "dir")).unwrap();
        })
        .noticed(Open, &["dir"], PLACE),
        attack("the record from before a rename", |a| {
            let old = fs::read(a.old("dir").join("warplock.dir")).unwrap();
            rewrite(&record(a, "new"), |data| *data = old);
        })
        .second(|folder| fs::rename(folder.join("dir"), folder.join("new")).unwrap())
        .noticed(Open, &["new"], PLACE),
        attack("a folder twice", |a| {
            let dir = a.was("dir");
            fs::create_dir(&dir).unwrap();
            fs::copy(a.old("dir").join("warplock.dir"), dir.join("warplock.dir")).unwrap();
            let inner = a.at("new/inner");
            fs::rename(&inner, dir.join(inner.file_name().unwrap())).unwrap();
        })
        .second(|folder| fs::rename(folder.join("dir"), folder.join("new")).unwrap())
        .noticed(Open, &["dir", "new/inner"], "an old version")
        .but_alone(Noticed {
            moment: Open,
            paths: &["new", "dir"],
            says: "is a copy of it",
        }),
        attack("the target of another symlink", |a| {
            let target = fs::read_link(a.at("link2")).unwrap();
            let at = a.at("link");
            remove(&at);
            symlink(target, at).unwrap();
        })
        .noticed(Read, &["link"], PLACE),
        attack("change the target of a symlink", |a| {
            let at = a.at("link");
            let target = fs::read_link(&at).unwrap().into_os_string();
            let target = target.into_string().unwrap();
            let byte = if target.as_bytes()[20] == b'A' {
                "B"
            } else {
                "A"
            };
            remove(&at);
            symlink(format!("{}{byte}{}", &target[..20], &target[21..]), at).unwrap();
        })
        .noticed(Read, &["link"], "its target does not verify"),
        attack("a target in the clear", |a| {
            let at = a.at("link");
            remove(&at);
            symlink("/etc/passwd", at).unwrap();
        })
        .noticed(Read, &["link"], "its target does not verify"),
        attack("change an attribute", |a| {
            let at = a.at("short");
            let (name, mut value) = attributes(&at).remove(0);
            value[20] ^= 1;
            set(&at, &name, &value);
        })
        .noticed(Read, &["short"], ATTRIBUTE),
        attack("exchange the attributes of a folder", |a| {
            let at = a.at("dir");
            let both = attributes(&at);
            set(&at, &both[0].0, &both[1].1);
            set(&at, &both[1].0, &both[0].1);
        })
        .noticed(Read, &["dir"], ATTRIBUTE),
        attack("the attributes of another file", |a| {
            let own = attributes(&a.at("short"));
            for ((name, _), (_, value)) in own.into_iter().zip(attributes(&a.at("s2"))) {
                set(&a.at("short"), &name, &value);
            }
        })
        .noticed(Read, &["short"], ATTRIBUTE),
        attack("an attribute in the other name space", |a| {
            let at = a.at("short");
            let (name, value) = attributes(&at).remove(0);
            rustix::fs::removexattr(&at, &*name).unwrap();
            set(&at, &name.replace("user.", "trusted."), &value);
        })
        .noticed(Read, &["short"], ATTRIBUTE),
        attack("remove an attribute", |a| {
            let at = a.at("short");
            rustix::fs::removexattr(&at, &*attributes(&at)[0].0).unwrap();
        })
        .first(|folder| {
            rustix::fs::removexattr(folder.join("short"), "user.a").unwrap();
            rustix::fs::removexattr(folder.join("short"), "user.b").unwrap();
        })
        .second(|folder| set(&folder.join("short"), "user.c", b"new"))
        .passes("remove an extended attribute, or put its old value back"),
        attack("the old value of an attribute", |a| {
            for (name, value) in attributes(&a.old("short")) {
                set(&a.at("short"), &name, &value);
            }
        })
        .second(|folder| set(&folder.join("short"), "user.a", b"new"))
        .passes("remove an extended attribute, or put its old value back"),
    ]);
}
