//! Reports as a page: well-formed, complete, and without anything from elsewhere.

use std::path::Path;
use std::process::Command;

use warplock_bench::{Report, Section, page};

fn sections() -> Vec<Section> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/figures/recorded");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    let report = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let report = Report::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
        Section::Report(Box::new(report))
    };
    let mut sections: Vec<_> = names.iter().map(report).collect();
    sections.push(Section::Skipped {
        suite: "peers".to_owned(),
        why: "no <library> & none else".to_owned(),
    });
    sections
}

/// Refuses tags that are not closed in order.
fn check_tags(html: &str) {
    const VOID: [&str; 4] = ["meta", "!DOCTYPE", "?xml", "!--"];
    let mut open: Vec<&str> = Vec::new();
    for rest in html.split('<').skip(1) {
        let (tag, _) = rest.split_once('>').expect("a tag ends");
        let name = tag
            .split([' ', '\n', '/'])
            .find(|name| !name.is_empty())
            .unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "</{closed}>");
        } else if !VOID.contains(&name) && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_page_is_well_formed_and_needs_nothing_else() {
    let sections = sections();
    let html = page(&sections);
    check_tags(&html);
    assert_eq!(html.matches("<svg").count(), sections.len() - 1);
    assert_eq!(html.matches("<section").count(), sections.len() - 1);
    assert!(html.contains("peers: no &lt;library&gt; &amp; none else"));
    for elsewhere in [" src=", "url(", "<script", "<link", "@import"] {
        assert!(!html.contains(elsewhere), "{elsewhere}");
    }
    assert!(page(&[]).contains("nothing was measured"));
}

/// In a browser, where there is one.
#[test]
fn a_browser_shows_every_section() {
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = browsers.iter().find(is_there) else {
        println!("skipped: no chromium");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let sections = sections();
    std::fs::write(&file, page(&sections)).unwrap();
    let shown = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(
        dom.matches("<section").count(),
        sections.len() - 1,
        "{dom:.500}"
    );
    assert_eq!(dom.matches("<svg").count(), sections.len() - 1);
}
