//! The commands that end by themselves, one a file.

pub(crate) mod evidence;
pub(crate) mod log_add;
pub(crate) mod log_list;
