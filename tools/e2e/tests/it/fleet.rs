//! Logs in a real PostgreSQL: one api, two apis, a killed one, a frozen one, and a database that goes away.

mod moving;
mod one;
mod two;

use cocoonbox_e2e::{Installation, Setup, TheBox, until::until};
use cocoonbox_postgres::{Cluster, shared};

/// An installation whose logs are in a database of the shared cluster, and the database's address.
async fn in_database(setup: Setup, options: &str) -> (Installation, String) {
    let url = shared().database().expect("a database can be made");
    let installation = setup.env("COCOONBOX_STORE", &format!("{url}{options}"));
    (installation.start().await, url)
}

/// Returns the address of the api that drives a box; waits until one does.
async fn driver(cluster: &Cluster, url: &str, the_box: &TheBox) -> String {
    let sql = format!(
        "SELECT address FROM cocoonbox.lease WHERE name = 'box/{}' AND expires_at > clock_timestamp()",
        the_box.id
    );
    until("somebody drives the box", || async {
        let found = cluster.run_sql(url, &sql).expect("the leases can be read");
        Some(found.trim().to_owned()).filter(|address| !address.is_empty())
    })
    .await
}
