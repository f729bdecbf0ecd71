//! The verifier that lies beside an export, run with the real Python.

use std::process::Command;

use cocoonbox_events::{
    BoxEvent,
    checkpoint::{KeyName, Signer, Statement},
};
use cocoonbox_proto::log::v1::BoxLogAnchored;
use cocoonbox_replay::export::{ExportLine, VERIFIER};

use crate::{
    exported::Exported,
    world::{World, account, box_log},
};

fn signer(seed: u8) -> Signer {
    let name = KeyName::new("host.example").unwrap();
    Signer::new(name, &[seed; 32].into())
}

/// The whole world with a signed checkpoint in each log.
async fn signed(by: &Signer) -> World {
    let world = World::whole().await;
    for info in world.store.logs() {
        let statement = Statement {
            host: KeyName::new("host.example").unwrap(),
            log: info.id,
            size: info.tail.pos,
            chain: info.tail.chain,
        };
        let checkpoint = statement.sign([by]).to_checkpoint();
        world
            .store
            .keep_checkpoint(info.id, checkpoint)
            .await
            .unwrap();
    }
    world
}

#[tokio::test]
async fn checkpoints_are_checked_with_the_key_that_is_trusted() {
    let key = signer(1);
    let exported = Exported::of_world(&signed(&key).await).await;
    let (mine, other) = (key.verifier().to_string(), signer(2).verifier().to_string());
    let good = exported.verify(&["--key", &mine]);
    assert_eq!(good.code, 0, "{}", good.text);
    assert!(
        good.text.contains("3 checkpoints, 1 anchors"),
        "{}",
        good.text
    );
    let stranger = exported.verify(&["--key", &other]);
    assert_eq!(stranger.code, 1, "{}", stranger.text);
    assert!(
        stranger
            .text
            .contains("NOT SIGNED by the keys that were given")
    );
    assert_eq!(exported.verify(&["--key", "nonsense"]).code, 2);
    // Nobody says whose it is: it fits, and that it is of an unknown key is said.
    let alone = exported.verify(&[]);
    assert_eq!(alone.code, 0);
    assert!(
        alone.text.contains("1 checkpoints of unknown keys"),
        "{}",
        alone.text
    );
}

#[tokio::test]
async fn changed_checkpoints_are_found() {
    let key = signer(1);
    let exported = Exported::of_world(&signed(&key).await).await;
    let lines = exported.lines();
    let changed = |change: &dyn Fn(&mut cocoonbox_events::Checkpoint)| {
        let mut lines = lines.clone();
        for line in &mut lines {
            if let ExportLine::Checkpoint(log, kept) = line
                && *log == box_log()
            {
                change(kept);
            }
        }
        Exported::from_lines(&lines, false).verify(&["--key", &key.verifier().to_string()])
    };
    assert_eq!(changed(&|_| ()).code, 0);
    for verdict in [
        changed(&|kept| kept.size -= 1),
        changed(&|kept| kept.chain.0[0] ^= 1),
        changed(&|kept| {
            kept.note = kept.note.replacen("example/log", "example/LOG", 1);
        }),
        changed(&|kept| {
            // One bit of the signature.
            let end = kept.note.len() - 10;
            let flipped = if &kept.note[end..=end] == "A" {
                "B"
            } else {
                "A"
            };
            kept.note.replace_range(end..=end, flipped);
        }),
    ] {
        assert_eq!(verdict.code, 1, "{}", verdict.text);
        assert!(verdict.text.contains("BAD CHECKPOINT"), "{}", verdict.text);
    }
}

#[tokio::test]
async fn dropped_moved_and_cut_lines_are_found() {
    let exported = Exported::of_world(&World::whole().await).await;
    let text = exported.text();
    let lines: Vec<&str> = text.lines().collect();
    let at = |pos: u64| {
        let start = format!("{{\"event\":{{\"log\":\"{}\",\"pos\":{pos},", box_log());
        lines
            .iter()
            .position(|line| line.starts_with(&start))
            .unwrap()
    };
    let verdict = |lines: Vec<&str>| {
        let text = lines.join("\n") + "\n";
        Exported::from_text(text.as_bytes()).verify(&[])
    };
    assert_eq!(verdict(lines.clone()).code, 0);
    let mut dropped = lines.clone();
    dropped.remove(at(6));
    let mut swapped = lines.clone();
    swapped.swap(at(6), at(7));
    let mut doubled = lines.clone();
    doubled.insert(at(6), lines[at(5)]);
    for (lines, said) in [
        (dropped, "BROKEN at 6: position 7 where 6 follows"),
        (swapped, "BROKEN at 6: position 7 where 6 follows"),
        (doubled, "BROKEN at 6: position 5 where 6 follows"),
    ] {
        let verdict = verdict(lines);
        assert_eq!(verdict.code, 1);
        assert!(verdict.text.contains(said), "{}", verdict.text);
    }
    let tail = at(15);
    let mut cut = lines.clone();
    cut.remove(tail);
    let said = verdict(cut).text;
    assert!(
        said.contains("BROKEN at 15: the log ends here, but says that it ends at 15"),
        "{said}"
    );
    // Half a line at the end of the file.
    let half = Exported::from_text(&text.as_bytes()[..text.len() - 40]).verify(&[]);
    assert_eq!(half.code, 1, "{}", half.text);
    let none = Exported::from_text(b"").verify(&[]);
    assert_eq!(none.code, 2, "{}", none.text);
}

#[tokio::test]
async fn an_anchor_that_does_not_fit_is_found() {
    let mut world = World::whole().await;
    let wrong = BoxLogAnchored {
        box_log: box_log().as_bytes().to_vec(),
        pos: 3,
        chain: vec![7; 32],
    };
    let pos = world
        .forge(account(), "box/b1", BoxEvent::LogAnchored(wrong))
        .await;
    let exported = Exported::of_world(&world).await;
    // The same JSON, written otherwise, hides nothing.
    let spaced = exported.text().replace("\"kind\":42,", "\"kind\": 42 ,");
    assert_ne!(spaced, exported.text());
    for exported in [exported, Exported::from_text(spaced.as_bytes())] {
        let verdict = exported.verify(&[]);
        assert_eq!(verdict.code, 1);
        assert!(
            verdict.text.contains(&format!("BAD ANCHOR at {pos}")),
            "{}",
            verdict.text
        );
    }
}

/// The BLAKE3 and Ed25519 of the verifier are the same as those of the log.
#[test]
fn its_hashes_and_signatures_are_those_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("verify.py"), VERIFIER).unwrap();
    let lengths = [
        0, 1, 63, 64, 65, 127, 128, 1023, 1024, 1025, 2048, 2049, 3072, 3073, 4097, 5120, 8193,
        31_744,
    ];
    let script = format!(
        "import verify\n\
         data = bytes(i % 251 for i in range(40000))\n\
         context = verify.derive_key_context('cocoonbox 2026 payload')\n\
         for length in {lengths:?}:\n    \
             print(verify.blake3(data[:length]).hex(), verify.derive_key(context, data[:length]).hex())\n"
    );
    let run = Command::new("python3")
        .args(["-B", "-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let data: Vec<u8> = (0..40_000_usize)
        .map(|i| u8::try_from(i % 251).unwrap())
        .collect();
    let told = String::from_utf8(run.stdout).unwrap();
    for (line, length) in told.lines().zip(lengths) {
        let hash = blake3::hash(&data[..length]).to_hex();
        let derived = hex::encode(blake3::derive_key(
            "cocoonbox 2026 payload",
            &data[..length],
        ));
        assert_eq!(line, format!("{hash} {derived}"), "{length} bytes");
    }
    assert_eq!(told.lines().count(), lengths.len());
    // The specification's own: nothing at all.
    assert!(told.starts_with("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262 "));

    let key = signer(3);
    let message = "host.example/log/x\n1\nAA==\n";
    let public = hex::encode(key.verifier().public());
    let script = format!(
        "import verify, base64\n\
         rfc = bytes.fromhex('3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c')\n\
         sig = bytes.fromhex('92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00')\n\
         print(verify.ed25519_verify(rfc, b'r', sig), verify.ed25519_verify(rfc, b's', sig))\n\
         low = (1).to_bytes(32, 'little')\n\
         print(verify.ed25519_verify(low, b'', low + bytes(32)))\n\
         print(verify.ed25519_verify(bytes.fromhex('{public}'), {message:?}.encode(), bytes(64)))\n"
    );
    let run = Command::new("python3")
        .args(["-B", "-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8(run.stdout).unwrap();
    assert_eq!(
        told,
        "True False\nFalse\nFalse\n",
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}
