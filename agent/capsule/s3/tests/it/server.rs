//! Stores in the bucket of a real server.

use cocoonbox_capsule_s3::{Address, Credentials, S3};
use cocoonbox_s3::{ACCESS_KEY, SECRET_KEY};

pub(crate) struct Server(cocoonbox_s3::Server);

impl Server {
    pub(crate) fn start() -> Self {
        Self(cocoonbox_s3::Server::start().unwrap())
    }

    pub(crate) fn store(&self, prefix: &str) -> S3 {
        self.store_as(prefix, SECRET_KEY)
    }

    pub(crate) fn store_as(&self, prefix: &str, secret: &str) -> S3 {
        let text = format!("access_key_id = {ACCESS_KEY}\nsecret_access_key = {secret}\n");
        let address = Address::parse(&self.0.address(prefix)).unwrap();
        S3::open(address, &Credentials::parse(&text).unwrap()).unwrap()
    }
}
