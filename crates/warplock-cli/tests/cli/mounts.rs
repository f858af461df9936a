//! `vault mount` and `vault unmount` where something goes wrong, or is attacked.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::Folder;
use crate::vault::{Guard, MOUNT, can_mount, vault};

/// Mounts in the foreground, and waits until the mount stands.
fn serve(folder: &Folder) -> Child {
    let args = [&MOUNT[..], &["-f"]].concat();
    let served = folder.command(args).spawn().unwrap();
    let point = folder.path("plain").canonicalize().unwrap();
    let start = Instant::now();
    while !matches!(warplock_vault::fuse::mounted_at(&point), Ok(Some(_))) {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    served
}

#[test]
fn unmount_says_whether_the_vault_was_closed() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    let mut served = serve(&folder);
    folder.write("plain/file", "content");
    // Closing it cannot remove what is not there.
    fs::remove_dir_all(folder.path("store/warplock.journal")).unwrap();
    let unmount = ["vault", "unmount", "plain"];
    folder.run(unmount).code(1).says("could not be closed");
    assert_eq!(served.wait().unwrap().code(), Some(1));

    let mut served = serve(&folder);
    folder.run(unmount).code(0);
    assert_eq!(served.wait().unwrap().code(), Some(0));

    let mut served = serve(&folder);
    served.kill().unwrap();
    served.wait().unwrap();
    folder.run(unmount).code(1).says("process had died");
    folder.run(unmount).code(1).says("no vault is mounted here");

    // What a crash left is tidied up by the next mount, which says so once.
    let tidied = "what the crash left was tidied up";
    folder.run(MOUNT).code(0).says(tidied);
    folder.run(unmount).code(0);
    assert!(!folder.path("store/warplock.journal").exists());
    let said = folder.run(MOUNT).code(0);
    assert!(!said.stderr().contains("closed"), "{}", said.stderr());
    folder.run(unmount).code(0);

    // What was altered is left to a person.
    let mut served = serve(&folder);
    served.kill().unwrap();
    served.wait().unwrap();
    folder.run(unmount).code(1);
    let entries = fs::read_dir(folder.path("store")).unwrap();
    let mut entries = entries.map(|entry| entry.unwrap().path());
    let file = entries
        .find(|path| path.metadata().unwrap().len() > 4096)
        .unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[..4096].fill(7);
    fs::write(&file, &bytes).unwrap();
    for _ in 0..2 {
        folder.run(MOUNT).code(0).says("not all could be tidied up");
        folder.run(unmount).code(0);
        assert!(fs::read(&file).unwrap() == bytes);
    }
}

/// A reader of the store could otherwise keep its owner out.
#[test]
fn a_lock_on_the_stores_folder_keeps_no_one_out() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    let held = fs::File::open(folder.path("store")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockShared).unwrap();
    folder.run(MOUNT).code(0);
    folder.run(["vault", "unmount", "plain"]).code(0);
}

/// A `/dev` with what programs need, where all users may mount, and what is named in the
/// arguments: to be made the system's in a script of its own mount namespace.
const DEV: &str = "
    mkdir -p dev
    mknod -m 666 dev/fuse c 10 229
    mknod -m 666 dev/null c 1 3
    mknod -m 666 dev/urandom c 1 9
    exec unshare -m --propagation private sh -e -c '
        mount --bind dev /dev
        ";

fn has(program: &str) -> bool {
    let found = Command::new("which").arg(program).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: no {program}");
    }
    found
}

#[test]
fn names_of_stores_are_no_mount_options() {
    if !can_mount() || !has("fusermount3") || !has("setpriv") {
        return;
    }
    let folder = vault();
    for name in ["Smith, John", r"x\\,allow_other", "y,allow_other", "50%2C"] {
        let script = format!(
            r#"
            rm -rf dev other; chmod 755 .; rm -f warplock; cp $W warplock; chown -R nobody .
            mv store "{name}"
            {DEV}
            run() {{ setpriv --reuid nobody --regid nogroup --clear-groups ./warplock vault "$@"; }}
            run mount "{name}" plain -i key.txt
            # Other tests have mounts, too.
            grep " $(pwd)/plain fuse.warplock" /proc/self/mounts > mounts
            ! grep allow_other mounts | grep -v "%2Callow_other[^,]*$(pwd)/plain fuse.warplock"
            ! grep -q ",allow_other" mounts
            run unmount plain
            ! run mount "{name}" plain -i key.txt --suid 2> said; grep -q "for root" said
            '
            "#
        );
        folder.shell(&script);
        fs::rename(
            folder.path(&name.replace(r"\\", r"\")),
            folder.path("store"),
        )
        .unwrap();
    }
}

/// The log may be read by others, and may not be read at all.
#[test]
fn the_systems_log_learns_no_names_and_holds_no_mount() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.run(MOUNT).code(0);
    for number in 0..30 {
        folder.write(&format!("plain/letter {number}"), [7; 10_000]);
    }
    folder.run(["vault", "unmount", "plain"]).code(0);
    for entry in fs::read_dir(folder.path("store")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap_or_default();
        if bytes.len() > 10_000 {
            // Of a header.
            bytes[100] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    fs::create_dir(folder.path("dev")).unwrap();
    let log = UnixDatagram::bind(folder.path("dev/log")).unwrap();
    let script = format!(
        r#"{DEV}
        $W vault mount store plain -i key.txt
        for round in 1 2 3; do for file in plain/*; do ! timeout 10 cat "$file" 2> /dev/null; done; done
        timeout 20 $W vault unmount plain
        '
        "#
    );
    let start = Instant::now();
    folder.shell(&script);
    assert!(start.elapsed() < Duration::from_secs(30));
    log.set_nonblocking(true).unwrap();
    let mut buffer = [0; 8192];
    let mut lines = 0;
    while let Ok(len) = log.recv(&mut buffer) {
        let line = String::from_utf8_lossy(&buffer[..len]);
        // The second one comes after a minute, which a slow machine may take.
        let expected = [
            "in the store was altered",
            "more sentences of the last minute",
        ];
        assert!(expected.iter().any(|it| line.contains(it)), "{line}");
        assert!(!line.contains("letter"), "{line}");
        lines += 1;
    }
    assert!(lines > 5, "{lines}");
}

/// The limit of the length of files is that of the program that mounts; beyond it the system ends
/// the writer.
#[test]
fn a_limit_of_file_lengths_does_not_end_the_mount() {
    if !can_mount() || !has("setpriv") {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.shell(
        "(ulimit -S -f 1000; $W vault mount store plain -i key.txt)
        dd if=/dev/zero of=plain/long bs=1M count=4 conv=fsync status=none
        $W vault unmount plain",
    );
    // Where it cannot be raised, one write fails.
    folder.shell(
        r#"
        (ulimit -f 1000
         setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource \
             $W vault mount store plain -i key.txt)
        ! dd if=/dev/zero of=plain/longer bs=1M count=4 conv=fsync status=none 2> errors
        grep -q "File too large" errors
        rm plain/longer
        echo content > plain/short
        $W vault unmount plain
        "#,
    );
}

/// The limits are those of the shell that mounts, and end what it runs.
#[test]
fn limits_of_memory_and_time_do_not_end_the_mount() {
    if !can_mount() || !has("setpriv") {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.shell(
        r#"
        (ulimit -S -v 150000; ulimit -S -t 2; exec $W vault mount -f store plain -i key.txt) 2> said &
        until grep -q "$(pwd)/plain fuse.warplock" /proc/self/mounts; do sleep 0.01; done
        grep -E "^Max (cpu time|address space) +unlimited" /proc/$!/limits > limits
        $W vault unmount plain
        [ ! -s said ]; [ "$(wc -l < limits)" = 2 ]
        (ulimit -t 100
         setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource              $W vault mount store plain -i key.txt 2> said)
        grep -q "more than 100 s of CPU time" said
        $W vault unmount plain
        "#,
    );
}

/// File systems of FUSE and networks have no flags for renaming, and may keep no owners: the vault
/// does without, and says what its users have to do without.
#[test]
fn a_store_may_lack_things() {
    if !can_mount() || !has("bindfs") {
        return;
    }
    for (lacking, said) in [
        ("", ""),
        (
            "--xattr-none --chown-deny --chmod-deny",
            "has no extended attributes: programs",
        ),
    ] {
        let folder = vault();
        let _guard = Guard(&folder);
        folder.shell(&format!(
            r#"
            mkdir under below; bindfs {lacking} under below; trap "umount -l below" EXIT
            $W vault init below/store -R recipient.txt
            $W vault mount below/store plain -i key.txt 2> said
            if [ -n "{said}" ]; then grep -q "{said}" said; else [ ! -s said ]; fi
            mkdir plain/folder
            ! mkdir plain/folder 2> error; grep -q "exists" error
            echo content > plain/folder/file; ! mkdir plain/folder/file 2> /dev/null
            mv plain/folder plain/moved; mkdir plain/empty; mv -T plain/moved plain/empty
            ln plain/empty/file plain/link; ln -s target plain/symlink
            [ "$(cat plain/link)" = content ]; [ "$(readlink plain/symlink)" = target ]
            chmod 4751 plain/link; chown 7:8 plain/empty
            [ "$(stat -c %a plain/link)" = 4751 ]; [ "$(stat -c %u:%g plain/empty)" = 7:8 ]
            setpriv --reuid nobody --clear-groups true
            $W vault unmount plain
            $W vault check below/store -i key.txt > checked; grep -q "nothing wrong" checked
            "#
        ));
    }
}

/// On sshfs, all names of a file have inode numbers of their own, and setting the owner or the times
/// of a symlink sets those of what it leads to.
#[test]
fn a_store_on_sshfs() {
    const SERVER: &str = "/usr/lib/openssh/sftp-server";
    if !can_mount() || !has("sshfs") || !fs::exists(SERVER).unwrap() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.shell(&format!(
        r#"
        mkdir under below; printf '#!/bin/sh\nexec {SERVER}\n' > ssh; chmod +x ssh
        sshfs host:"$(pwd)/under" below -o ssh_command="$(pwd)/ssh"; trap "umount -l below" EXIT
        $W vault init below/store -R recipient.txt
        $W vault mount below/store plain -i key.txt 2> said
        grep -q "no hard links, no owners and times of symlinks" said
        mkdir plain/folder; echo content > plain/folder/file; mv plain/folder plain/moved
        ln -s target plain/link; mv plain/link plain/renamed; chown -h 0:0 plain/renamed
        [ "$(readlink plain/renamed)" = target ]; [ "$(stat -c %u plain/renamed)" = 0 ]
        chown -h 7:8 plain/renamed; [ "$(stat -c %u plain/renamed)" = 0 ]
        ! ln plain/moved/file plain/hard 2> error; grep -q "not permitted" error
        echo other > plain/new; mv plain/new plain/moved/file
        [ "$(cat plain/moved/file)" = other ]
        tar cf archive -C plain .; mkdir plain/copy; tar xf archive -C plain/copy
        $W vault unmount plain
        $W vault check below/store -i key.txt > checked; grep -q "nothing wrong" checked
        [ -z "$(find under -name ".fuse_hidden*")" ]
        "#
    ));
}

/// On bindfs, a time that is set without the other is not set.
#[test]
fn a_store_on_bindfs() {
    if !can_mount() || !has("bindfs") {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.shell(
        r#"
        mkdir under below; bindfs under below; trap "umount -l below" EXIT
        $W vault init below/store -R recipient.txt
        $W vault mount below/store plain -i key.txt 2> /dev/null
        echo content > plain/file; touch -a -d @1000000000 plain/file
        [ "$(stat -c %X plain/file)" = 1000000000 ]
        touch -m -d @1100000000 plain/file
        [ "$(stat -c '%X %Y' plain/file)" = "1000000000 1100000000" ]
        $W vault unmount plain
        $W vault check below/store -i key.txt > checked; grep -q "nothing wrong" checked
        "#,
    );
}

/// A mount by rclone loses the files of a folder that is renamed.
#[test]
fn a_store_that_cannot_hold_a_vault_is_refused() {
    if !can_mount() || !has("rclone") {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.shell(
        r#"
        mkdir under below; export HOME="$(pwd)"
        rclone mount --vfs-cache-mode full --cache-dir cache --daemon "$(pwd)/under" below 2> log
        trap "umount -l below" EXIT
        ! $W vault init below/store -R recipient.txt 2> error
        grep -q "loses the files of a folder that is renamed" error
        cp -r store below/copied; ! $W vault mount below/copied plain -i key.txt 2> error
        grep -q "loses the files of a folder that is renamed" error
        $W vault mount --read-only below/copied plain -i key.txt 2> /dev/null
        $W vault unmount plain
        "#,
    );
}
