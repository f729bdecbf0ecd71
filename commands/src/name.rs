//! Names that people give things.

/// Longest name in bytes: it has to fit a line of a list.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest name of an account in bytes: it becomes part of paths and host names.
pub const ACCOUNT_NAME_BYTES_MAX: usize = 32;

/// A name does not have the form that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error(
        "a name has 1 to {NAME_BYTES_MAX} bytes without control characters or spaces around it"
    )]
    Label,
    #[error(
        "an account name has 1 to {ACCOUNT_NAME_BYTES_MAX} characters of a-z 0-9 _ . - and begins \
         with a letter or digit"
    )]
    Account,
}

/// Checks the name of a box, an agent or a token: free text on one line.
pub fn check_label(name: &str) -> Result<(), BadName> {
    let fits = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.trim() == name
        && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(BadName::Label) }
}

/// Checks the name of an account: `[a-z0-9][a-z0-9_.-]{0,31}`.
pub fn check_account(name: &str) -> Result<(), BadName> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let fits = name.len() <= ACCOUNT_NAME_BYTES_MAX
        && name.bytes().next().is_some_and(plain)
        && name
            .bytes()
            .all(|b| plain(b) || matches!(b, b'_' | b'.' | b'-'));
    if fits { Ok(()) } else { Err(BadName::Account) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_names() {
        for good in ["a", "0", "ann.b-c_d", &"x".repeat(32)] {
            assert_eq!(check_account(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "A",
            ".a",
            "-a",
            "_a",
            "a b",
            "ä",
            "a/b",
            &"x".repeat(33),
        ] {
            assert_eq!(check_account(bad), Err(BadName::Account), "{bad}");
        }
    }

    #[test]
    fn labels() {
        for good in ["main", "Größe 2", "a/b"] {
            assert_eq!(check_label(good), Ok(()), "{good}");
        }
        for bad in ["", " a", "a\n", "a\0b", &"x".repeat(65)] {
            assert_eq!(check_label(bad), Err(BadName::Label), "{bad:?}");
        }
    }
}
