//! Large objects, sent in parts.

use aws_sdk_s3::{
    primitives::ByteStream,
    types::{CompletedMultipartUpload, CompletedPart},
};
use cocoonbox_capsule::store::{Created, Error};

use crate::{
    problem::{self, is_open, is_passing, status},
    store::{Failed, PART_BYTES, S3, once, wait, written_ns},
};

impl S3 {
    /// Sends an object in parts. It appears with the last call, unless one of that name is there by then.
    pub(crate) fn make_in_parts(
        &self,
        key: &str,
        name: &str,
        bytes: &[u8],
    ) -> Result<Created, Failed> {
        let failed = |doing: &'static str| {
            move |error: Error| Failed {
                is_passing: error.is_retryable(),
                is_open: false,
                error: match error {
                    Error::Io { name, source, .. } => Error::Io {
                        name,
                        doing,
                        source,
                    },
                    error => error,
                },
            }
        };
        let upload = self.begin(key, name).map_err(failed("begun"))?;
        let parts = match self.send_parts(key, name, &upload, bytes) {
            Ok(parts) => parts,
            Err(error) => {
                self.abort(key, &upload);
                return Err(failed("sent in parts")(error));
            }
        };
        let parts = CompletedMultipartUpload::builder()
            .set_parts(Some(parts))
            .build();
        let request = self
            .client
            .complete_multipart_upload()
            .bucket(&self.address.bucket)
            .key(key)
            .upload_id(&upload)
            .multipart_upload(parts)
            .if_none_match("*")
            // Repeated by the caller, who knows that "it is there" may then mean this object.
            .customize()
            .config_override(once());
        match wait(request.send()) {
            Ok(_) => Ok(Created::Made),
            Err(error) if status(&error) == Some(412) => {
                self.abort(key, &upload);
                Ok(Created::Existed)
            }
            Err(error) => {
                let open = is_open(&error);
                if !open {
                    self.abort(key, &upload);
                }
                Err(Failed {
                    is_passing: is_passing(&error),
                    is_open: open,
                    error: problem::error(name, "put together", error),
                })
            }
        }
    }

    fn begin(&self, key: &str, name: &str) -> Result<String, Error> {
        let (encryption, with) = self.encryption();
        let request = self
            .client
            .create_multipart_upload()
            .bucket(&self.address.bucket)
            .key(key)
            .set_server_side_encryption(encryption)
            .set_ssekms_key_id(with);
        let begun = wait(request.send()).map_err(|error| problem::error(name, "begun", error))?;
        let missing = || {
            let source = std::io::Error::other("the server names no upload");
            problem::other(name, "begun", source)
        };
        begun.upload_id.ok_or_else(missing)
    }

    fn send_parts(
        &self,
        key: &str,
        name: &str,
        upload: &str,
        bytes: &[u8],
    ) -> Result<Vec<CompletedPart>, Error> {
        let mut parts = Vec::new();
        for (number, part) in (1..).zip(bytes.chunks(PART_BYTES)) {
            let request = self
                .client
                .upload_part()
                .bucket(&self.address.bucket)
                .key(key)
                .upload_id(upload)
                .part_number(number)
                .body(ByteStream::from(part.to_vec()));
            let sent = wait(request.send());
            let sent = sent.map_err(|error| problem::error(name, "sent in parts", error))?;
            let part = CompletedPart::builder()
                .part_number(number)
                .set_e_tag(sent.e_tag)
                .set_checksum_crc32(sent.checksum_crc32);
            parts.push(part.build());
        }
        Ok(parts)
    }

    /// Best effort: what is left is found by [`S3::abort_parts`].
    fn abort(&self, key: &str, upload: &str) {
        let request = self
            .client
            .abort_multipart_upload()
            .bucket(&self.address.bucket)
            .key(key)
            .upload_id(upload);
        drop(wait(request.send()));
    }

    /// Gives up uploads that were begun before a time, by the server's clock, and answers how many.
    pub(crate) fn abort_parts(&self, before_ns: i64) -> Result<usize, Error> {
        let request = self
            .client
            .list_multipart_uploads()
            .bucket(&self.address.bucket)
            .prefix(match self.address.prefix.as_str() {
                "" => String::new(),
                prefix => format!("{prefix}/"),
            });
        let listed = match wait(request.send()) {
            Ok(listed) => listed,
            // Some servers do not say; then there is nothing to do about it.
            Err(error) if matches!(status(&error), Some(400 | 404 | 405 | 501)) => return Ok(0),
            Err(error) => return Err(problem::error("", "looked through for parts", error)),
        };
        let mut aborted = 0;
        for upload in listed.uploads() {
            let is_old = written_ns(upload.initiated()) < before_ns;
            if let (Some(key), Some(id), true) = (upload.key(), upload.upload_id(), is_old) {
                self.abort(key, id);
                aborted += 1;
            }
        }
        Ok(aborted)
    }
}
