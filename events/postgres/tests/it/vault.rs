//! Token hashes.

use cocoonbox_events_postgres::{Database, TokenOwner, Vault};

use crate::support::{fresh, options};

#[tokio::test]
async fn finds_owners_by_hash_and_forgets() {
    let url = fresh();
    let vault = Vault::new(&Database::connect(&options(&url)).await.unwrap());
    let other = Vault::new(&Database::connect(&options(&url)).await.unwrap());
    vault.issue(&[1; 32], "t1", "ada", None).await.unwrap();
    let owner = TokenOwner {
        token_id: "t1".into(),
        user_id: "ada".into(),
    };
    assert_eq!(other.owner(&[1; 32]).await.unwrap(), Some(owner));
    assert_eq!(other.owner(&[2; 32]).await.unwrap(), None);
    // The same token id with another secret: the old one opens nothing any more.
    let sealed = Some(&b"sealed"[..]);
    vault.issue(&[2; 32], "t1", "ada", sealed).await.unwrap();
    let kept = other.kept("t1").await.unwrap().unwrap();
    assert_eq!(kept.sealed.as_deref(), sealed);
    assert_eq!(other.list("", 9).await.unwrap(), [kept]);
    assert_eq!(other.owner(&[1; 32]).await.unwrap(), None);
    assert!(other.owner(&[2; 32]).await.unwrap().is_some());
    vault.forget("t1").await.unwrap();
    vault.forget("t1").await.unwrap();
    assert_eq!(other.owner(&[2; 32]).await.unwrap(), None);
}
