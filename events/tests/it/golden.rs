//! Golden bytes: every kind as it lies in logs, and what it means.
//!
//! `testdata/<kind>.v<N>.bin` is never edited. A kind without one gets it from
//! `cargo run -p cocoonbox-events --example golden`; its text from a run with `INSTA_UPDATE=always`.

use std::{collections::BTreeSet, fs, path::PathBuf};

use cocoonbox_events::{Kind, Payload};

fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// `(kind, version, bytes)` of every committed file.
fn golden() -> Vec<(Kind, u32, Vec<u8>)> {
    let mut golden = Vec::new();
    for entry in fs::read_dir(testdata()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "bin") {
            continue;
        }
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let (name, version) = stem.rsplit_once(".v").unwrap();
        let kind = Kind::from_name(name).unwrap_or_else(|| panic!("`{name}` lost its kind"));
        golden.push((kind, version.parse().unwrap(), fs::read(&path).unwrap()));
    }
    golden.sort_by_key(|(kind, version, _)| (kind.number(), *version));
    golden
}

#[test]
fn every_version_of_every_kind_has_golden_bytes() {
    let golden = golden();
    let held: BTreeSet<_> = golden
        .iter()
        .map(|(kind, n, _)| (kind.number(), *n))
        .collect();
    let wanted: BTreeSet<_> = Kind::ALL
        .iter()
        .flat_map(|kind| (1..=kind.version()).map(|version| (kind.number(), version)))
        .collect();
    assert_eq!(
        held, wanted,
        "run `cargo run -p cocoonbox-events --example golden`"
    );
}

#[test]
fn golden_bytes_mean_what_they_meant() {
    for (kind, version, bytes) in golden() {
        let payload = Payload::decode(kind.number(), version, &bytes).unwrap();
        assert_eq!(payload.kind(), kind);
        // Through our own types and out again: a field that they lost is lost here.
        let (_, newest) = payload.encode();
        let means = cocoonbox_proto::json::render(kind.message(), &newest).unwrap();
        let text = serde_json::to_string_pretty(&means).unwrap();
        insta::with_settings!({
            snapshot_path => testdata(),
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(format!("{}.v{version}", kind.name()), text);
        });
    }
}

/// Numbers and names as they were given out. A line here never changes; a new kind adds one.
#[test]
fn numbers_and_names_are_for_ever() {
    let lines: Vec<_> = Kind::ALL
        .iter()
        .map(|kind| format!("{} {}", kind.number(), kind.name()))
        .collect();
    let numbers: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.number()).collect();
    assert_eq!(numbers.len(), lines.len(), "a number was given out twice");
    for kind in Kind::ALL {
        assert_eq!(Kind::from_number(kind.number()), Some(*kind));
        assert_eq!(Kind::from_name(kind.name()), Some(*kind));
    }
    insta::with_settings!({
        snapshot_path => testdata(),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("registry", lines.join("\n"));
    });
}
