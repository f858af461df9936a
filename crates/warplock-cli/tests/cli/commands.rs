//! The program's output, as data: one file for each case under `tests/cmd`.

#[test]
fn cases() {
    trycmd::TestCases::new().case("tests/cmd/*.toml");
}
