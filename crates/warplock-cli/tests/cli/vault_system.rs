//! Vaults mounted by the system: `mount -t fuse.warplock`, and systemd's way to hear of it.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::vault::{Guard, MOUNT, can_mount, vault};

#[test]
fn mount_and_fstab_know_vaults() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scripts/mount.fuse.warplock"
    );
    fs::copy(script, folder.path("mount.fuse.warplock")).unwrap();
    folder.shell(
        r#"
        export WARPLOCK=$W
        here=$(pwd)
        printf '%s\n' "$here/store $here/plain fuse.warplock noauto,nofail,identity=$here/key.txt,allow_other,x-a=b 0 0" > fstab
        mkdir up work
        exec unshare -m --propagation private sh -e -c '
            mount -t overlay none -o lowerdir=/usr/sbin,upperdir=up,workdir=work /usr/sbin
            install mount.fuse.warplock /usr/sbin
            mount -t fuse.warplock -o identity=key.txt,umask=027,uid=7,gid=8,no_memory store plain
            echo content > plain/file; mkdir plain/folder
            [ "$(stat -c %u:%g:%a plain/file)" = 7:8:640 ]
            [ "$(stat -c %a plain/folder)" = 750 ]
            $W vault unmount plain
            mount -t fuse.warplock -o identity=key.txt,ro store plain
            grep -q " ro,.*user_id" /proc/self/mounts
            [ "$(stat -c %u plain/file)" = 0 ]; [ "$(cat plain/file)" = content ]
            umount plain
            # The process of the one before may need a moment.
            until mount -T fstab "$(pwd)/plain" 2> /dev/null; do sleep 0.01; done
            grep "$(pwd)/plain" /proc/self/mounts | grep -q allow_other
            $W vault unmount plain
            ! mount -t fuse.warplock -o identity=key.txt,bogus store plain 2> said
            grep -q "bogus is no option" said
        '
        "#,
    );
}

#[test]
fn a_service_tells_when_it_is_ready() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    let socket = UnixDatagram::bind(folder.path("notify")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let args = [&MOUNT[..], &["-f"]].concat();
    let mut command = folder.command(args);
    command.env("NOTIFY_SOCKET", folder.path("notify"));
    let mut served = command.spawn().unwrap();
    let mut said = [0; 4096];
    let len = socket.recv(&mut said).unwrap();
    assert!(said[..len].starts_with(b"READY=1\n"));
    folder.write("plain/file", "it is mounted");
    folder.run(["vault", "unmount", "plain"]).code(0);
    assert!(served.wait().unwrap().success());
}

/// overlayfs, which docker and podman use, has its upper layer in a vault.
#[test]
fn an_overlay_writes_to_a_vault() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.shell(
        r#"
        mkdir -p lower/folder lower/gone merged
        echo low > lower/file; echo low > lower/moved; echo low > lower/folder/inner
        exec unshare -m --propagation private sh -e -c '
            over() { mount -t overlay none -o lowerdir=lower,upperdir=plain/up,workdir=plain/work merged; }
            look() {
                [ ! -e merged/file ]; [ ! -e merged/moved ]; [ ! -e merged/gone ]
                [ "$(cat merged/new)" = low ]; [ "$(cat merged/folder/inner)" = lowhigh ]
                [ "$(ls merged)" = "folder
new
tree" ]
            }
            $W vault mount store plain -i key.txt --dev --suid
            mkdir plain/up plain/work
            over
            rm merged/file; mv merged/moved merged/new; rmdir merged/gone
            printf high > part; cat lower/folder/inner part | tr -d "\n" > merged/folder/inner
            mkdir merged/tree; ln merged/new merged/tree/link; rm -r merged/tree; mkdir merged/tree
            look
            umount merged
            $W vault unmount plain
            $W vault mount store plain -i key.txt --dev --suid
            over
            look
            umount merged
            $W vault unmount plain
            $W vault check store -i key.txt
        '
        "#,
    );
}
