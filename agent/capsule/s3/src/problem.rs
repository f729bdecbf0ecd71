//! What went wrong with a request.

use std::{error::Error as StdError, io};

use aws_sdk_s3::{config::http::HttpResponse, error::SdkError};
use cocoonbox_capsule::store::Error;

/// The answer's status, if there was an answer.
pub(crate) fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    error.raw_response().map(|answer| answer.status().as_u16())
}

/// Whether the server may have done it all the same: the answer got lost, or spoke of the server's own trouble.
pub(crate) fn is_open<E>(error: &SdkError<E, HttpResponse>) -> bool {
    match error {
        SdkError::ConstructionFailure(_) => false,
        _ => status(error).is_none_or(|status| status >= 500),
    }
}

/// Whether the same request may succeed by itself.
pub(crate) fn is_passing<E>(error: &SdkError<E, HttpResponse>) -> bool {
    match error {
        SdkError::ConstructionFailure(_) => false,
        // 409: another conditional write of the same name is under way.
        _ => status(error).is_none_or(|status| status >= 500 || matches!(status, 408 | 409 | 429)),
    }
}

/// The store's word for it. The text has nothing of what the request was signed with.
pub(crate) fn error<E>(name: &str, doing: &'static str, error: SdkError<E, HttpResponse>) -> Error
where
    E: StdError + Send + Sync + 'static,
{
    let kind = match status(&error) {
        Some(404) => return Error::NotFound(name.to_owned()),
        Some(401 | 403) => io::ErrorKind::PermissionDenied,
        Some(507) => io::ErrorKind::StorageFull,
        None => io::ErrorKind::ConnectionAborted,
        Some(500..) => io::ErrorKind::ResourceBusy,
        Some(_) => io::ErrorKind::Other,
    };
    other(name, doing, io::Error::new(kind, words(&error)))
}

/// What an error and those behind it say, in one line.
pub(crate) fn words(error: &dyn StdError) -> String {
    let mut words = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        let said = error.to_string();
        if !words.contains(&said) {
            words.push_str(": ");
            words.push_str(&said);
        }
        behind = error.source();
    }
    words
}

pub(crate) fn other(name: &str, doing: &'static str, source: io::Error) -> Error {
    Error::Io {
        name: name.to_owned(),
        doing,
        source,
    }
}
