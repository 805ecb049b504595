//! The verifier: an auditor's verdict, offline.
