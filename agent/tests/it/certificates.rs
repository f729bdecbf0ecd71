//! Certificates of an authority that nobody else trusts.

use std::{path::Path, process::Stdio};

fn openssl(folder: &Path, line: &str) {
    let made = std::process::Command::new("openssl")
        .args(line.split(' '))
        .current_dir(folder)
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("openssl").success(), "{line}");
}

/// Makes an authority, `authority.pem`, and what it vouches for: `site.pem` with its key, for `names` as
/// `DNS:…,DNS:…`.
pub(crate) fn certificates(folder: &Path, names: &str) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    std::fs::write(folder.join("names"), format!("subjectAltName={names}")).expect("a write");
    openssl(
        folder,
        &format!(
            "req -x509 {key} -keyout authority.key -out authority.pem -days 2 -subj /CN=authority"
        ),
    );
    openssl(
        folder,
        &format!("req {key} -keyout site.key -out site.csr -subj /CN=site"),
    );
    openssl(
        folder,
        "x509 -req -in site.csr -CA authority.pem -CAkey authority.key -CAcreateserial -out site.pem \
         -days 2 -extfile names",
    );
}
