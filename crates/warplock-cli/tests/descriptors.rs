//! Outputs that the shell has opened: where bytes go, and where the next command goes on.

mod common;

use common::{Folder, pattern};

#[test]
fn standard_output_sent_to_a_file_goes_on_where_we_end() {
    let folder = Folder::new();
    folder.write("a", pattern(50_000));
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    folder.shell(
        "(printf before; $W decrypt -i key.txt < a.wl; printf after) > out
         $W decrypt -i key.txt < a.wl >> out",
    );
    let expected = [b"before", &pattern(50_000)[..], b"after", &pattern(50_000)].concat();
    assert!(folder.read("out") == expected);
}

#[test]
fn a_failure_leaves_the_verified_beginning_and_goes_on_behind_it() {
    let folder = Folder::new();
    let content = pattern(3_000_000);
    folder.write("a", &content);
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    // In the middle of many segments, all of which are claimed before it is noticed.
    let mut damaged = folder.read("a.wl");
    let place = damaged.len() / 2;
    damaged[place] ^= 1;
    folder.write("bad.wl", damaged);
    for redirection in ["> out", ">> out"] {
        folder.write("out", "");
        folder.shell(&format!(
            "(printf before; $W decrypt -i key.txt -o - bad.wl 2> said || printf $?) {redirection}"
        ));
        let out = folder.read("out");
        let verified = out.strip_prefix(b"before").unwrap();
        let verified = verified.strip_suffix(b"3").unwrap();
        assert!(content.starts_with(verified), "{redirection}");
        // All segments before the damaged one come.
        let len = verified.len();
        assert!((1_000_000..1_500_000).contains(&len), "{len}");
    }
}

#[test]
fn descriptors_can_be_named() {
    let folder = Folder::new();
    folder.write("a", pattern(100));
    folder.shell(
        "$W encrypt -R /dev/fd/3 -o /dev/fd/4 a 3< recipient.txt 4> out.wl
         $W decrypt -i /dev/fd/3 -o b out.wl 3< key.txt",
    );
    assert_eq!(folder.read("b"), pattern(100));
}
