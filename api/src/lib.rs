//! cocoonbox-api
