//! Why a share is not made or does not open, as callers see it.

use cocoonbox_commands::share::Rejection;
use cocoonbox_events::{Execute, LoadError, ReadError, id::BadStreamName};
use cocoonbox_projections::ViewsError;
use tonic::{Code, Status};

use super::secrets::SecretError;
use crate::{accounts::AccountError, auth::Denied, status, users::from_account};

/// Why a guest is not let in.
#[derive(Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// Whoever guesses, or comes late, is told the same.
    #[error("this link opens nothing: it was ended, replaced by another, or never was one")]
    Ended,
    #[error("this link is for one user of this installation; sign in as that user first")]
    SignIn,
    #[error("this link is for another user of this installation")]
    Another,
    /// The vault could not be asked who is signed in.
    #[error("who is signed in cannot be told now")]
    Unavailable,
    #[error(transparent)]
    Share(#[from] ShareError),
}

#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    #[error(transparent)]
    Execute(#[from] Execute<Rejection>),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Views(#[from] ViewsError),
    #[error("where the account's log ends")]
    Tail(#[source] ReadError),
    #[error("the name of a stream")]
    Stream(#[from] BadStreamName),
    /// What is written is not yet to be read.
    #[error("the views are behind")]
    Behind,
}

impl From<NotAdmitted> for Status {
    fn from(error: NotAdmitted) -> Self {
        let message = error.to_string();
        match error {
            NotAdmitted::Ended => status::status(Code::PermissionDenied, "SHARE_ENDED", message),
            NotAdmitted::SignIn => {
                status::status(Code::Unauthenticated, "SHARE_NEEDS_SIGN_IN", message)
            }
            NotAdmitted::Another => {
                status::status(Code::PermissionDenied, "SHARE_FOR_ANOTHER", message)
            }
            NotAdmitted::Unavailable => Denied::Unavailable.status(),
            NotAdmitted::Share(error) => error.into(),
        }
    }
}

impl From<ShareError> for Status {
    fn from(error: ShareError) -> Self {
        match error {
            ShareError::Execute(error) => status::from_execute(error, rejected),
            ShareError::Account(error) => from_account(error),
            ShareError::Tail(error) => status::from_read(error),
            ShareError::Behind => crate::stream::behind(),
            ShareError::Views(error) => status::internal(&error),
            ShareError::Load(_) | ShareError::Secret(_) | ShareError::Stream(_) => {
                status::internal(&error)
            }
        }
    }
}

fn rejected(rejection: Rejection) -> Status {
    let message = rejection.to_string();
    match rejection {
        Rejection::NotFound { share_id } => status::with(
            Code::NotFound,
            "NO_SUCH_SHARE",
            message,
            &[("share_id", &share_id)],
        ),
        Rejection::Ended { share_id } => status::with(
            Code::FailedPrecondition,
            "SHARE_ENDED",
            format!("{message}; make another one"),
            &[("share_id", &share_id)],
        ),
        Rejection::Exists { .. } => status::status(Code::AlreadyExists, "SHARE_EXISTS", message),
        Rejection::TooMany => status::status(
            Code::ResourceExhausted,
            "TOO_MANY_SHARES",
            format!("{message}; revoke one first"),
        ),
        Rejection::BadLabel(_) => status::bad_field("label", message),
        Rejection::BadExpiry => status::bad_field("expires_at_ms", message),
        Rejection::Empty { field } => status::bad_field(field, message),
    }
}
