//! What programs expect of a file system.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;

use crate::harness::{Place, Random, SUBJECTS, Standing, limited};

/// Does `work` in a fresh mount of each kind, then `look` after mounting again.
fn everywhere(work: impl Fn(&Standing), look: impl Fn(&Standing)) {
    limited(|| {
        for subject in SUBJECTS {
            let Some(place) = Place::new(subject) else {
                return;
            };
            let standing = place.mount();
            work(&standing);
            look(&standing);
            standing.end();
            let standing = place.mount();
            look(&standing);
            standing.end();
        }
    });
}

/// pjdfstest (Rust): 382 cases that POSIX and other systems agree on.
#[test]
fn pjdfstest() {
    limited(|| {
        let program = std::env::var_os("PJDFSTEST").unwrap_or("pjdfstest".into());
        let found = Command::new(&program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !found.is_ok_and(|status| status.success()) {
            let _ = writeln!(
                std::io::stderr(),
                "skipped: no pjdfstest (cargo install pjdfstest, or name it in PJDFSTEST)"
            );
            return;
        }
        for subject in SUBJECTS {
            let Some(place) = Place::new(subject) else {
                return;
            };
            let folder = place.store.parent().unwrap();
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
            let settings = folder.join("pjdfstest.toml");
            fs::write(
                &settings,
                "[features]\nposix_fallocate = {}\nrename_ctime = {}\nutimensat = {}\nutime_now = {}\n\
                 [settings]\nnaptime = 0.01\n\
                 [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n",
            )
            .unwrap();
            let standing = place.mount();
            fs::set_permissions(standing.root(), Permissions::from_mode(0o755)).unwrap();
            let output = Command::new(&program)
                .arg("-c")
                .arg(&settings)
                .arg("-p")
                .arg(standing.root())
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let failed: Vec<&str> = text
                .lines()
                .filter(|line| line.contains("FAILED"))
                .collect();
            assert!(failed.is_empty(), "{subject:?}: {failed:#?}");
            assert!(text.contains("Summary: 0 failed"), "{subject:?}: {text}");
            standing.end();
        }
    });
}

#[test]
fn links() {
    everywhere(
        |standing| {
            fs::write(standing.path("file"), "content").unwrap();
            fs::create_dir(standing.path("folder")).unwrap();
            fs::hard_link(standing.path("file"), standing.path("folder/other")).unwrap();
            symlink("folder/other", standing.path("link")).unwrap();
            symlink("nowhere/é", standing.path("dangling")).unwrap();
        },
        |standing| {
            let file = fs::metadata(standing.path("file")).unwrap();
            let other = fs::metadata(standing.path("folder/other")).unwrap();
            assert_eq!((file.ino(), file.nlink()), (other.ino(), 2));
            assert_eq!(fs::read(standing.path("link")).unwrap(), b"content");
            let target = fs::read_link(standing.path("dangling")).unwrap();
            assert_eq!(target, Path::new("nowhere/é"));
            let link = fs::symlink_metadata(standing.path("dangling")).unwrap();
            assert_eq!(link.len(), target.as_os_str().len() as u64);
        },
    );
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    everywhere(
        |standing| {
            let path = standing.path("gone");
            let mut file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path)
                .unwrap();
            file.write_all(&[7; 100_000]).unwrap();
            fs::remove_file(&path).unwrap();
            // Another of the same name is another file.
            fs::write(&path, "new").unwrap();
            file.write_all(&[8; 5]).unwrap();
            file.seek(SeekFrom::Start(0)).unwrap();
            let mut all = Vec::new();
            file.read_to_end(&mut all).unwrap();
            assert_eq!((all.len(), all[0], all[100_004]), (100_005, 7, 8));
            assert_eq!(file.metadata().unwrap().nlink(), 0);
        },
        |standing| assert_eq!(fs::read(standing.path("gone")).unwrap(), b"new"),
    );
}

#[test]
fn renames_replace_exchange_and_refuse() {
    let rename = |standing: &Standing, from: &str, to: &str, flags| {
        rustix::fs::renameat_with(CWD, standing.path(from), CWD, standing.path(to), flags)
    };
    everywhere(
        |standing| {
            for name in ["a", "b", "c"] {
                fs::write(standing.path(name), name).unwrap();
            }
            fs::create_dir(standing.path("d")).unwrap();
            fs::write(standing.path("d/in"), "in").unwrap();
            rename(standing, "a", "d", RenameFlags::EXCHANGE).unwrap();
            let refused = rename(standing, "b", "c", RenameFlags::NOREPLACE);
            assert_eq!(refused, Err(Errno::EXIST));
            rename(standing, "b", "c", RenameFlags::empty()).unwrap();
            fs::create_dir(standing.path("full")).unwrap();
            fs::write(standing.path("full/x"), "x").unwrap();
            let refused = rename(standing, "a", "full", RenameFlags::empty());
            assert_eq!(refused, Err(Errno::NOTEMPTY));
            rename(standing, "full/x", "a/x", RenameFlags::empty()).unwrap();
        },
        |standing| {
            assert_eq!(fs::read(standing.path("d")).unwrap(), b"a");
            assert_eq!(fs::read(standing.path("a/in")).unwrap(), b"in");
            assert_eq!(fs::read(standing.path("a/x")).unwrap(), b"x");
            assert_eq!(fs::read(standing.path("c")).unwrap(), b"b");
            assert!(!standing.path("b").exists());
        },
    );
}

#[test]
fn times_owners_and_modes_stay() {
    let old = UNIX_EPOCH - Duration::new(86_400 * 365, 250_000_000);
    let new = UNIX_EPOCH + Duration::new(5_000_000_000, 123_456_789);
    everywhere(
        |standing| {
            let path = standing.path("file");
            fs::write(&path, "x").unwrap();
            std::os::unix::fs::chown(&path, Some(1234), Some(5678)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o4751)).unwrap();
            let times = fs::FileTimes::new().set_accessed(old).set_modified(new);
            File::open(&path).unwrap().set_times(times).unwrap();
        },
        |standing| {
            let file = fs::metadata(standing.path("file")).unwrap();
            assert_eq!(
                (file.uid(), file.gid(), file.mode() & 0o7777),
                (1234, 5678, 0o4751)
            );
            assert_eq!(file.modified().unwrap(), new);
            assert_eq!(file.accessed().unwrap(), old);
        },
    );
}

#[test]
fn fifos_sockets_and_devices() {
    use rustix::fs::{FileType, Mode, makedev, mknodat};
    use std::os::unix::net::{UnixListener, UnixStream};
    let make = |standing: &Standing, name: &str, kind, device| {
        let mode = Mode::from_raw_mode(0o640);
        mknodat(CWD, standing.path(name), kind, mode, device).unwrap();
    };
    let kinds = |standing: &Standing| {
        let mut found: Vec<_> = fs::read_dir(standing.root())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let (listed, found) = (entry.file_type().unwrap(), entry.metadata().unwrap());
                assert_eq!(listed, found.file_type(), "{entry:?}");
                let name = entry.file_name().into_string().unwrap();
                (name, found.mode(), found.rdev(), found.nlink())
            })
            .collect();
        found.sort();
        // So many that the kernel asks for the rest of the listing without attributes.
        found.retain(|found| !found.0.starts_with("filler"));
        found
    };
    everywhere(
        |standing| {
            for number in 0..1000 {
                File::create(standing.path(format!("filler {number:0100}"))).unwrap();
            }
            make(standing, "fifo", FileType::Fifo, 0);
            make(
                standing,
                "characters",
                FileType::CharacterDevice,
                makedev(1, 3),
            );
            make(
                standing,
                "blocks",
                FileType::BlockDevice,
                makedev(300, 70_000),
            );
            fs::hard_link(standing.path("fifo"), standing.path("link")).unwrap();
            let socket = UnixListener::bind(standing.path("socket")).unwrap();
            let mut client = UnixStream::connect(standing.path("socket")).unwrap();
            client.write_all(b"over the socket").unwrap();
            drop(client);
            let mut text = String::new();
            socket
                .accept()
                .unwrap()
                .0
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(text, "over the socket");
            // The mount does not serve devices.
            let opened = File::open(standing.path("characters")).unwrap_err();
            assert_eq!(opened.kind(), std::io::ErrorKind::PermissionDenied);
        },
        |standing| {
            let writer = standing.path("fifo");
            let writer = std::thread::spawn(move || fs::write(writer, "through the fifo"));
            let text = fs::read(standing.path("link")).unwrap();
            assert_eq!(text, b"through the fifo");
            writer.join().unwrap().unwrap();
            let names = ["blocks", "characters", "fifo", "link", "socket"];
            let devices = [makedev(300, 70_000), makedev(1, 3), 0, 0, 0];
            let modes = [0o060_640, 0o020_640, 0o010_640, 0o010_640, 0o140_755];
            let links = [1, 1, 2, 2, 1];
            let expected: Vec<_> = (0..names.len())
                .map(|at| (names[at].to_owned(), modes[at], devices[at], links[at]))
                .collect();
            assert_eq!(kinds(standing), expected);
        },
    );
}

/// ACLs, of files and handed down by folders, and the permissions that go with them.
#[test]
fn acls() {
    // Of the owner, of user 5, of the group, the mask, of others.
    let acl = |permissions: [u8; 5]| {
        let mut acl = vec![2, 0, 0, 0];
        for (tag, permissions) in [1, 2, 4, 16, 32].into_iter().zip(permissions) {
            let id = if tag == 2 { [5, 0, 0, 0] } else { [255; 4] };
            acl.extend([tag, 0, permissions, 0]);
            acl.extend(id);
        }
        acl
    };
    let access = "system.posix_acl_access";
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let get = |path: &Path| {
        let mut buffer = [0; 200];
        let len = rustix::fs::getxattr(path, access, &mut buffer).unwrap();
        buffer[..len].to_vec()
    };
    let can_read = |path: &Path, user: u32| {
        let mut cat = Command::new("cat");
        std::os::unix::process::CommandExt::uid(&mut cat, user);
        std::os::unix::process::CommandExt::gid(&mut cat, user);
        cat.arg(path).stdout(Stdio::null()).stderr(Stdio::null());
        cat.status().unwrap().success()
    };
    everywhere(
        |standing| {
            let above = standing.root().parent().unwrap();
            fs::set_permissions(above, Permissions::from_mode(0o755)).unwrap();
            fs::set_permissions(standing.root(), Permissions::from_mode(0o755)).unwrap();
            let set = |name: &str, attribute, value: &[u8]| {
                rustix::fs::setxattr(standing.path(name), attribute, value, XattrFlags::empty())
            };
            fs::write(standing.path("file"), "x").unwrap();
            match set("file", access, &acl([4, 4, 0, 6, 0])) {
                // Some stores have none.
                Err(Errno::OPNOTSUPP) => return,
                outcome => outcome.unwrap(),
            }
            fs::write(standing.path("changed"), "x").unwrap();
            set("changed", access, &acl([6, 7, 0, 7, 4])).unwrap();
            let changed = Permissions::from_mode(0o600);
            fs::set_permissions(standing.path("changed"), changed).unwrap();
            fs::create_dir(standing.path("folder")).unwrap();
            let handed_down = acl([5, 7, 5, 5, 4]);
            set("folder", "system.posix_acl_default", &handed_down).unwrap();
            fs::create_dir(standing.path("folder/inner")).unwrap();
            fs::write(standing.path("folder/inner/file"), "x").unwrap();
        },
        |standing| {
            if !standing.path("folder").exists() {
                return;
            }
            let path = standing.path("file");
            assert_eq!((mode(&path), get(&path)), (0o460, acl([4, 4, 0, 6, 0])));
            assert!(can_read(&path, 5) && !can_read(&path, 6));
            let path = standing.path("changed");
            assert_eq!((mode(&path), get(&path)), (0o600, acl([6, 7, 0, 0, 0])));
            assert!(!can_read(&path, 5));
            let path = standing.path("folder/inner");
            assert_eq!((mode(&path), get(&path)), (0o554, acl([5, 7, 5, 5, 4])));
            let path = standing.path("folder/inner/file");
            assert_eq!((mode(&path), get(&path)), (0o444, acl([4, 7, 5, 4, 4])));
        },
    );
}

#[test]
fn extended_attributes() {
    everywhere(
        |standing| {
            let path = standing.path("file");
            fs::write(&path, "x").unwrap();
            let long = [9; 2000];
            let set = |name, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags);
            match set("user.short", b"value", XattrFlags::CREATE) {
                // Some stores have none.
                Err(Errno::OPNOTSUPP) => return,
                outcome => outcome.unwrap(),
            }
            assert_eq!(
                set("user.short", b"", XattrFlags::CREATE),
                Err(Errno::EXIST)
            );
            assert_eq!(
                set("user.none", b"", XattrFlags::REPLACE),
                Err(Errno::NODATA)
            );
            set("user.long", &long, XattrFlags::empty()).unwrap();
            set("user.empty", b"", XattrFlags::empty()).unwrap();
            set("user.gone", b"x", XattrFlags::empty()).unwrap();
            rustix::fs::removexattr(&path, "user.gone").unwrap();
        },
        |standing| {
            let path = standing.path("file");
            let mut buffer = [0; 4096];
            let len = rustix::fs::listxattr(&path, &mut buffer).unwrap();
            let mut names: Vec<_> = buffer[..len].split(|&byte| byte == 0).collect();
            names.retain(|name| name.starts_with(b"user."));
            names.sort();
            if names.is_empty() {
                return;
            }
            assert_eq!(names, [&b"user.empty"[..], b"user.long", b"user.short"]);
            let len = rustix::fs::getxattr(&path, "user.long", &mut buffer).unwrap();
            assert_eq!(buffer[..len], [9; 2000]);
            let len = rustix::fs::getxattr(&path, "user.short", &mut buffer).unwrap();
            assert_eq!(&buffer[..len], b"value");
            let gone = rustix::fs::getxattr(&path, "user.gone", &mut buffer);
            assert_eq!(gone, Err(Errno::NODATA));
        },
    );
}

#[test]
fn holes_are_found_and_cost_no_room() {
    const LEN: u64 = 40 << 20;
    const DATA: u64 = 10 << 20;
    let seek = |file: &File, from| rustix::fs::seek(file, from);
    everywhere(
        |standing| {
            let file = File::create(standing.path("sparse")).unwrap();
            file.set_len(LEN).unwrap();
            file.write_all_at(&[1; 8192], DATA).unwrap();
            // Asked for while the kernel still holds it back.
            let open = File::open(standing.path("sparse")).unwrap();
            assert_eq!(seek(&open, rustix::fs::SeekFrom::Data(0)), Ok(DATA));
        },
        |standing| {
            let file = File::open(standing.path("sparse")).unwrap();
            file.sync_all().unwrap();
            assert_eq!(seek(&file, rustix::fs::SeekFrom::Data(0)), Ok(DATA));
            assert_eq!(
                seek(&file, rustix::fs::SeekFrom::Hole(DATA)),
                Ok(DATA + 8192)
            );
            assert_eq!(
                seek(&file, rustix::fs::SeekFrom::Data(DATA + 8192)),
                Err(Errno::NXIO)
            );
            let room = fs::metadata(standing.path("sparse")).unwrap().blocks() * 512;
            assert!(room < 1 << 20, "{room}");
            let mut bytes = vec![1; 1 << 20];
            file.read_exact_at(&mut bytes, DATA - (1 << 19)).unwrap();
            assert!(bytes[..1 << 19].iter().all(|&byte| byte == 0));
            assert!(bytes[1 << 19..][..8192].iter().all(|&byte| byte == 1));
        },
    );
}

#[test]
fn direct_and_synchronous_and_appending() {
    everywhere(
        |standing| {
            let path = standing.path("direct");
            let direct = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .custom_flags((OFlags::DIRECT | OFlags::SYNC).bits().cast_signed())
                .open(&path)
                .unwrap();
            // Aligned to pages, as O_DIRECT may ask.
            let mut memory = vec![0; 4 * 4096];
            let start = memory.as_ptr().align_offset(4096);
            let page = &mut memory[start..][..2 * 4096];
            page.fill(5);
            for number in 0..100 {
                direct.write_all_at(page, number * 8192).unwrap();
            }
            page.fill(0);
            direct.read_exact_at(page, 99 * 8192).unwrap();
            assert!(page.iter().all(|&byte| byte == 5));
            let log = || {
                File::options()
                    .append(true)
                    .create(true)
                    .open(standing.path("log"))
            };
            let (mut one, mut other) = (log().unwrap(), log().unwrap());
            for _ in 0..500 {
                one.write_all(b"one\n").unwrap();
                other.write_all(b"two\n").unwrap();
            }
        },
        |standing| {
            let direct = fs::read(standing.path("direct")).unwrap();
            assert!(direct.len() == 819_200 && direct.iter().all(|&byte| byte == 5));
            assert_eq!(
                fs::read(standing.path("log")).unwrap(),
                b"one\ntwo\n".repeat(500)
            );
        },
    );
}

#[test]
fn another_user_is_refused() {
    everywhere(
        |standing| {
            // The folders above are closed to others.
            let above = standing.root().parent().unwrap();
            fs::set_permissions(above, Permissions::from_mode(0o755)).unwrap();
            fs::set_permissions(standing.root(), Permissions::from_mode(0o755)).unwrap();
            fs::write(standing.path("secret"), "secret").unwrap();
            fs::set_permissions(standing.path("secret"), Permissions::from_mode(0o600)).unwrap();
            fs::write(standing.path("public"), "public").unwrap();
            let read = |name: &str| {
                let mut cat = Command::new("cat");
                std::os::unix::process::CommandExt::uid(&mut cat, 65_534);
                cat.arg(standing.path(name)).stderr(Stdio::null());
                cat.output().unwrap()
            };
            assert!(!read("secret").status.success());
            assert_eq!(read("public").stdout, b"public");
        },
        |_| {},
    );
}

#[test]
fn a_read_only_mount_changes_nothing() {
    limited(|| {
        for subject in SUBJECTS {
            let Some(place) = Place::new(subject) else {
                return;
            };
            let content = Random::new(1).bytes(100_000);
            let standing = place.mount();
            fs::write(standing.path("file"), &content).unwrap();
            standing.end();
            let before = place.stored();
            let standing = place.mount_read_only();
            assert_eq!(fs::read(standing.path("file")).unwrap(), content);
            let errors = [
                File::create(standing.path("new")).unwrap_err(),
                fs::remove_file(standing.path("file")).unwrap_err(),
                File::options()
                    .write(true)
                    .open(standing.path("file"))
                    .unwrap_err(),
                fs::create_dir(standing.path("folder")).unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
            }
            standing.end();
            assert_eq!(place.stored(), before);
        }
    });
}
