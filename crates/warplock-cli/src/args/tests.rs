//! The definition of the command line, and the messages about wrong ones.

use super::*;

#[test]
fn the_definition_is_consistent() {
    definition().debug_assert();
}

#[test]
fn errors_are_one_line_and_show_no_secret() {
    let secret = "00112233445566778899aabbccddeeff";
    let raw = ["warplock", "raw", "encrypt", "--algorithm", "aes-128-ctr"];
    for wrong in [
        &["--key", "00", secret][..],
        &["--kex", secret],
        &["--00112233445566778899aabb"],
    ] {
        let error = Cli::try_parse_from(raw.iter().chain(wrong)).unwrap_err();
        let line = one_line(&error);
        assert!(!line.contains('\n') && !line.contains("0011"), "{line}");
    }
    for (args, says) in [
        (&raw[1..], "--key"),
        (&["raw", secret], "unrecognized subcommand (not shown"),
        (
            &["encrypt", "--passphrase=0011"],
            "--passphrase takes no value and asks",
        ),
        (
            &["raw", "encrypt", "--pad", secret],
            "[possible values: pkcs7, none]",
        ),
        (&["raw", "encrypt", "--pad", "pcks"], "invalid value 'pcks'"),
        (&["analyze", "a", "b", secret], "too many arguments for"),
        (&["devices", "--backend", secret], "take auto, cpu,"),
        (&["decrypt", "--range", secret], "a range is A..B"),
        (
            &["analyze", "--trials", "0", "a"],
            "give a number from 1 on",
        ),
    ] {
        let error = Cli::try_parse_from(["warplock"].iter().chain(args)).unwrap_err();
        let line = one_line(&error);
        assert!(line.contains(says) && !line.contains("0011"), "{line}");
    }
}
