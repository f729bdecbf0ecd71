//! Keys as they lie: sealed under the master key. What moves an installation carries them over unopened.

use rusqlite::{OptionalExtension, params};

use super::{KeyStore, KeyStoreError};

/// An owner's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedOwner {
    pub owner: String,
    /// `None`: destroyed, never to be made again.
    pub sealed: Option<Vec<u8>>,
}

/// A signing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSigner {
    pub name: String,
    pub public_key: Vec<u8>,
    /// `None`: retired.
    pub sealed: Option<Vec<u8>>,
    /// Microseconds since the Unix epoch.
    pub issued_us: i64,
    pub retired_us: Option<i64>,
}

impl KeyStore {
    /// Returns the owners behind `after` in byte order, at most `limit`. The first of all may be the one
    /// without a name: the owner of the system log.
    pub fn sealed_owners(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SealedOwner>, KeyStoreError> {
        self.locked(|conn, _| {
            let mut statement = conn.prepare_cached(
                "SELECT owner, sealed FROM owner_key WHERE ?1 IS NULL OR owner > ?1 ORDER BY owner
                 LIMIT ?2",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = statement.query_map(params![after, limit], |row| {
                Ok(SealedOwner {
                    owner: row.get(0)?,
                    sealed: row.get(1)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Keeps an owner's key as it lies elsewhere. `false` if the owner has another one here. A destroyed key
    /// destroys the one that is here.
    pub fn put_sealed_owner(&self, key: &SealedOwner) -> Result<bool, KeyStoreError> {
        if self.is_read_only() {
            return Err(KeyStoreError::ReadOnly);
        }
        let Some(sealed) = &key.sealed else {
            return self.destroy(&key.owner).map(|()| true);
        };
        self.locked(|conn, _| {
            conn.execute(
                "INSERT INTO owner_key (owner, sealed) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                params![key.owner, sealed],
            )?;
            let kept: Option<Vec<u8>> = conn.query_row(
                "SELECT sealed FROM owner_key WHERE owner = ?1",
                [&key.owner],
                |row| row.get(0),
            )?;
            Ok(kept.as_ref() == Some(sealed))
        })
    }

    /// Returns every signing key, oldest first.
    pub fn sealed_signers(&self) -> Result<Vec<SealedSigner>, KeyStoreError> {
        self.locked(|conn, _| {
            let is_there = conn
                .query_row(
                    "SELECT 1 FROM sqlite_schema WHERE name = 'signing_key'",
                    [],
                    |_| Ok(()),
                )
                .optional()?;
            if is_there.is_none() {
                return Ok(Vec::new());
            }
            let mut statement = conn.prepare_cached(
                "SELECT name, public_key, sealed, issued_us, retired_us FROM signing_key
                 ORDER BY key_no",
            )?;
            let rows = statement.query_map([], |row| {
                Ok(SealedSigner {
                    name: row.get(0)?,
                    public_key: row.get(1)?,
                    sealed: row.get(2)?,
                    issued_us: row.get(3)?,
                    retired_us: row.get(4)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Keeps a signing key as it lies elsewhere; the order of calls is the order of age. A retired one retires
    /// the one that is here.
    pub fn put_sealed_signer(&self, key: &SealedSigner) -> Result<(), KeyStoreError> {
        if self.is_read_only() {
            return Err(KeyStoreError::ReadOnly);
        }
        self.locked(|conn, _| {
            conn.execute(
                "INSERT INTO signing_key (name, public_key, sealed, issued_us, retired_us)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (public_key) DO UPDATE SET sealed = NULL, retired_us = excluded.retired_us
                   WHERE excluded.sealed IS NULL",
                params![
                    key.name,
                    key.public_key,
                    key.sealed,
                    key.issued_us,
                    key.retired_us
                ],
            )?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        LogId,
        checkpoint::KeyName,
        keys::{Keyring as _, Sealing, SigningKeys as _},
    };

    #[test]
    fn keys_open_in_the_next_place_and_destroyed_ones_stay_so() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = KeyStore::open(&from).unwrap();
        let log = LogId(Uuid::from_u128(1));
        let check = |store: &KeyStore, owner| match store.log_key(log, owner) {
            Sealing::Key(key) => Some(key.check()),
            _ => None,
        };
        let ada = check(&source, "ada").unwrap();
        source.log_key(log, "bob");
        source.log_key(log, "");
        source.destroy("bob").unwrap();
        let name = KeyName::new("cocoonbox.example").unwrap();
        let old = source.rotate(&name, 1).unwrap();
        source.rotate(&name, 2).unwrap();
        source.retire(&old, 3).unwrap();

        std::fs::copy(from.path().join("master.key"), to.path().join("master.key")).unwrap();
        let target = KeyStore::open(&to).unwrap();
        let owners = source.sealed_owners(None, 10).unwrap();
        assert_eq!(source.sealed_owners(Some(""), 10).unwrap(), owners[1..]);
        for _ in 0..2 {
            for owner in &owners {
                assert!(target.put_sealed_owner(owner).unwrap());
            }
            for signer in source.sealed_signers().unwrap() {
                target.put_sealed_signer(&signer).unwrap();
            }
        }
        assert_eq!(check(&target, "ada"), Some(ada));
        assert_eq!(check(&target, "bob"), None);
        assert_eq!(target.all().unwrap(), source.all().unwrap());
        assert_eq!(target.signers().unwrap().len(), 1);

        let stranger = KeyStore::open(tempfile::tempdir().unwrap().keep()).unwrap();
        stranger.log_key(log, "ada");
        assert!(!stranger.put_sealed_owner(&owners[1]).unwrap());
    }
}
