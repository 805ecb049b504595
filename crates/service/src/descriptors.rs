//! How many connections the system's limit on open files leaves room for.
//!
//! A daemon whose peers take its last descriptor cannot open its own files any more, and a log that cannot open a file in
//! the middle of a commit stops. So peers get only what is left after everything else.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but connections: some forty files of a store, reads under way (a file or two each), two
/// connections to each of 63 witnesses, 64 peers being turned away.
const RESERVED: u64 = 320;

/// Raises this process's own limit as far as `wanted` connections need and the system allows, and answers how many may be
/// served.
pub(crate) fn make_room_for(wanted: usize) -> usize {
    let before = getrlimit(Resource::Nofile);
    let needed = RESERVED.saturating_add(wanted as u64);
    let raised =
        before.current.map_or(u64::MAX, |soft| soft.max(before.maximum.map_or(needed, |hard| hard.min(needed))));
    let limit = match before.current {
        Some(soft) if raised > soft => {
            let wished = Rlimit { current: Some(raised), maximum: before.maximum };
            setrlimit(Resource::Nofile, wished).map_or(soft, |()| raised)
        }
        Some(soft) => soft,
        None => u64::MAX,
    };
    let served = left_for_connections(limit, wanted);
    if served < wanted {
        tracing::warn!(
            open_files = limit,
            connections = served,
            wanted,
            "the limit on open files leaves room for fewer connections than limits.connections; raise it (ulimit -n, LimitNOFILE=)"
        );
    }
    served
}

/// A small limit is shared evenly: no more than half of it goes to peers.
fn left_for_connections(limit: u64, wanted: usize) -> usize {
    let left = limit - RESERVED.min(limit / 2);
    wanted.min(usize::try_from(left).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_get_what_is_left_and_never_more_than_was_wanted() {
        for (limit, wanted, served) in [
            (u64::MAX, 1024, 1024),
            (20_000, 1024, 1024),
            (1024, 1024, 704),
            (256, 1024, 128),
            (256, 10, 10),
            (0, 5, 1),
        ] {
            assert_eq!(left_for_connections(limit, wanted), served, "{limit} {wanted}");
        }
    }
}
