//! What a failed call says.

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Returns `google.rpc.ErrorInfo.reason`, or an empty text.
pub fn reason(status: &Status) -> String {
    status
        .get_details_error_info()
        .map(|info| info.reason)
        .unwrap_or_default()
}

/// Whether the call, or its connection, broke and may be made again with the same command id.
///
/// True for what the transport says (it knows no reasons) and for what the api says may pass.
pub fn is_broken(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Aborted => true,
        Code::Unknown | Code::Internal | Code::Cancelled => reason(status).is_empty(),
        _ => false,
    }
}

/// Panics unless the status has this code and a reason.
pub fn assert_refused(what: &str, status: &Status, codes: &[Code]) {
    assert!(
        codes.contains(&status.code()),
        "{what}: expected {codes:?}, got {status:?}"
    );
    assert!(
        !reason(status).is_empty(),
        "{what}: no ErrorInfo.reason in {status:?}"
    );
}
