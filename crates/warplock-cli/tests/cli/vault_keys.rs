//! Keys of vaults: added, printed, and used to make `warplock.vault` again; and the list of vaults.

use std::fs;

use serde_json::Value;

use crate::vault::{Guard, MOUNT, can_mount, vault};

/// A lost `warplock.vault` is made again from what was printed.
#[test]
fn a_vault_is_recovered_from_paper() {
    let folder = vault();
    folder.write("pw", "one\n");
    let export = ["vault", "export-key", "store", "-i", "key.txt"];
    // Not into a pipe or file by accident.
    folder.run(export).code(2).says("-o FILE");
    let to_file = [&export[..], &["-o", "paper"]].concat();
    folder.run(&to_file).code(0);
    folder.shell("[ \"$(stat -c %a paper)\" = 600 ]");
    folder.run(&to_file).code(1).says("paper");
    let recover = [
        "vault",
        "recover",
        "store",
        "paper",
        "--new-passphrase-file",
        "pw",
    ];
    folder.run(recover).code(2).says("already");
    fs::remove_file(folder.path("store/warplock.vault")).unwrap();
    folder
        .run([
            "vault",
            "recover",
            "store",
            "key.txt",
            "--new-passphrase-file",
            "pw",
        ])
        .code(2)
        .says("line 1 is missing");
    folder.run(recover).code(0);
    folder
        .run(["vault", "check", "store", "--passphrase-file", "pw"])
        .code(0);
    folder.shell("$W vault export-key store --passphrase-file pw -o - | cmp - paper");
}

#[test]
fn keys_have_a_command_of_their_own() {
    let folder = vault();
    folder.write("pw", "one\n");
    let with = |args: &[&'static str]| [&["vault", "key"][..], args, &["-i", "key.txt"]].concat();
    let new = ["--new-passphrase-file", "pw"];
    let add = with(&["add", "store", "second"]);
    folder.run([&add[..], &new].concat()).code(0);
    folder
        .run([&add[..], &new].concat())
        .code(2)
        .says("there is a key 'second' already");
    let check = ["vault", "check", "store", "--passphrase-file", "pw"];
    folder.run(check).code(0);
    folder.run(with(&["remove", "store", "second"])).code(0);
    folder.run(check).code(4);
    folder
        .run([&with(&["change", "store"])[..], &new].concat())
        .code(0);
    folder.run(check).code(0);
}

#[test]
fn vaults_are_listed_with_their_mounts() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.run(MOUNT).code(0);
    let list = || {
        String::from_utf8(
            folder
                .run(["vault", "list", "--json"])
                .code(0)
                .stdout()
                .to_vec(),
        )
        .unwrap()
    };
    let store = folder.path("store").canonicalize().unwrap();
    let mine = || {
        let lines = list();
        let mut objects = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found = objects.find(|it| it["vault"] == store.to_str().unwrap());
        found.unwrap()
    };
    let point = folder.path("plain").canonicalize().unwrap();
    assert_eq!(mine()["mounts"][0]["mount_point"], point.to_str().unwrap());
    folder.run(["vault", "unmount", "plain"]).code(0);
    assert_eq!(mine()["mounts"], Value::Array(Vec::new()));
    assert_eq!(mine()["present"], true);
    fs::rename(folder.path("store"), folder.path("elsewhere")).unwrap();
    assert_eq!(mine()["present"], false);
}
