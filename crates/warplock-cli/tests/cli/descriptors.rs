//! Outputs that the shell has opened: where bytes go, and where the next command goes on.

use crate::common::{Folder, pattern};

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

#[test]
fn a_named_descriptor_keeps_its_position_and_appends() {
    let folder = Folder::new();
    folder.write("a", pattern(50_000));
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    for name in ["/dev/fd/3", "/proc/self/fd/3"] {
        folder.write("appended", "before");
        folder.shell(&format!(
            "$W decrypt -i key.txt -o {name} a.wl 3>> appended
             exec 3> shared; printf before >&3
             $W decrypt -i key.txt -o {name} a.wl; printf after >&3"
        ));
        let expected = [b"before", &pattern(50_000)[..], b"after"].concat();
        assert!(folder.read("shared") == expected, "{name}");
        assert!(folder.read("appended") == expected[..50_006], "{name}");
    }
    for name in ["/dev/fd/1", "/proc/self/fd/1", "/dev/stdout"] {
        // Results are told elsewhere, as with -o -.
        folder.shell(&format!(
            "printf before > out; $W decrypt --json -i key.txt -o {name} a.wl >> out 2> said"
        ));
        assert!(folder.read("out") == [b"before", &pattern(50_000)[..]].concat());
        let said = String::from_utf8(folder.read("said")).unwrap();
        assert!(said.contains("\"output\":\"stdout\""), "{said}");
    }
}

#[test]
fn a_named_descriptor_is_not_the_input_and_can_be_written_to() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.write("b", "other text");
    folder.shell(
        "for redirection in '3<> a' '3< a' '3>> a' '3< b' '3>&-'; do
             if eval \"$W encrypt -R recipient.txt -o /dev/fd/3 a $redirection\" 2>> said
             then exit 1
             fi
         done",
    );
    let said = String::from_utf8(folder.read("said")).unwrap();
    let says: Vec<_> = said.lines().collect();
    let same = "warplock: /dev/fd/3: input and output are the same file; give another name with -o";
    assert_eq!(says[..3], [same; 3]);
    assert!(
        says[3].contains("/dev/fd/3: is open for reading only"),
        "{said}"
    );
    // The program itself has a descriptor of this number.
    assert!(says[4].contains("/dev/fd/3: is not open"), "{said}");
    assert_eq!(
        (folder.read("a"), folder.read("b")),
        (b"text".into(), b"other text".into())
    );
}

#[test]
fn what_was_closed_is_no_empty_input_and_no_output() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    for (command, says) in [
        ("encrypt -R recipient.txt -o b <&-", "stdin: is closed"),
        ("encrypt -R recipient.txt -o - a >&-", "stdout: is closed"),
        ("decrypt -i key.txt -o - a.wl >&-", "stdout: is closed"),
        (
            "decrypt -i key.txt -o /dev/stdout a.wl >&-",
            "stdout: is not open",
        ),
        ("decrypt -i key.txt -o /dev/fd/2 a.wl 2>&-", ""),
        ("keygen >&-", "stdout: is closed"),
        ("verify -i key.txt a.wl >&-", "stdout: is closed"),
    ] {
        folder.shell(&format!(
            "exec 2> said; code=0; $W {command} || code=$?; test $code = 1"
        ));
        let said = String::from_utf8(folder.read("said")).unwrap();
        assert!(said.contains(says), "{command}: {said}");
    }
    assert!(!folder.path("b").exists());
}
