//! Token hashes, the same in both stores.

use cocoonbox_installation::{Installation, Purpose, Tokens};

use crate::world::{database, folder, token};

async fn keeps_and_forgets(one: &Installation) {
    let tokens: &dyn Tokens = &*one.tokens;
    for (id, user) in [("t1", "ada"), ("T2", "ada"), ("t3", "bob")] {
        tokens.put(&token(id, user)).await.unwrap();
    }
    let found = tokens.find(&token("t1", "ada").hash).await.unwrap();
    assert_eq!(found, Some(token("t1", "ada").owner));
    assert_eq!(tokens.find(&[9; 32]).await.unwrap(), None);
    for id in ["t1", "T2"] {
        let kept = tokens.kept(id).await.unwrap();
        assert_eq!(kept, Some(token(id, "ada")));
    }
    assert_eq!(tokens.kept("t9").await.unwrap(), None);
    // Another token under the same id: the one before opens nothing any more.
    let mut again = token("t3", "bob");
    again.hash[31] = 1;
    tokens.put(&again).await.unwrap();
    assert_eq!(tokens.find(&token("t3", "bob").hash).await.unwrap(), None);
    // In byte order, whatever the database's language is.
    let ids = |list: Vec<cocoonbox_installation::KeptToken>| {
        let ids = list.into_iter().map(|token| token.owner.token_id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(tokens.list("", 2).await.unwrap()), ["T2", "t1"]);
    assert_eq!(ids(tokens.list("t1", 2).await.unwrap()), ["t3"]);
    tokens.forget("t3").await.unwrap();
    tokens.forget("t3").await.unwrap();
    tokens.forget_user("ada").await.unwrap();
    assert!(tokens.list("", 9).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_files() {
    let data = tempfile::tempdir().unwrap();
    keeps_and_forgets(&folder(data.path(), Purpose::Use).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_database() {
    let data = tempfile::tempdir().unwrap();
    let url = cocoonbox_postgres::shared().database().unwrap();
    keeps_and_forgets(&database(&url, data.path(), Purpose::Use).await).await;
}
