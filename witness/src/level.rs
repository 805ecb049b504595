//! The level that a witness's state was made at. A cosignature's meaning hangs on its key, so one key means one level.
//!
//! ```text
//! <state>/level    its name, as a whole file
//! ```

use crate::broken::Broken;
use crate::settings::Level;
use std::path::Path;
use store::disk::Disk;
use store::{read_whole, replace_whole};

const NAME: &str = "level";

/// The level of the state in `state`, on `disk`. A state that is new, in which nothing was ever written, is of the level
/// `configured` from now on, durably.
pub(crate) fn recorded(disk: &dyn Disk, state: &Path, is_new: bool, configured: Level) -> Result<Level, Broken> {
    let path = state.join(NAME);
    if is_new {
        replace_whole(disk, &path, configured.to_string().as_bytes())?;
        return Ok(configured);
    }
    let word = read_whole(disk, &path)?;
    let levels = [Level::Consistency, Level::Full];
    let recorded = levels.into_iter().find(|level| word.as_deref() == Some(level.to_string().as_bytes()));
    recorded.ok_or_else(|| Broken::UnknownLevel(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use store::disk::RealDisk;

    #[test]
    fn a_state_keeps_the_level_that_it_began_with() {
        for level in [Level::Consistency, Level::Full] {
            let dir = tempfile::tempdir().unwrap();
            assert_eq!(recorded(&RealDisk, dir.path(), true, level).unwrap(), level);
            for configured in [Level::Consistency, Level::Full] {
                assert_eq!(recorded(&RealDisk, dir.path(), false, configured).unwrap(), level);
            }
        }
    }

    #[test]
    fn a_level_that_is_missing_or_rotten_is_not_guessed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(recorded(&RealDisk, dir.path(), false, Level::Full), Err(Broken::UnknownLevel(_))));
        recorded(&RealDisk, dir.path(), true, Level::Full).unwrap();
        let mut bytes = std::fs::read(dir.path().join(NAME)).unwrap();
        bytes[1] ^= 4;
        std::fs::write(dir.path().join(NAME), bytes).unwrap();
        assert!(matches!(recorded(&RealDisk, dir.path(), false, Level::Consistency), Err(Broken::UnknownLevel(_))));
    }

    #[test]
    fn what_a_start_that_wrote_nothing_else_recorded_binds_nobody() {
        let dir = tempfile::tempdir().unwrap();
        recorded(&RealDisk, dir.path(), true, Level::Full).unwrap();
        assert_eq!(recorded(&RealDisk, dir.path(), true, Level::Consistency).unwrap(), Level::Consistency);
        // ... which is now what the state is of.
        assert_eq!(recorded(&RealDisk, dir.path(), false, Level::Consistency).unwrap(), Level::Consistency);
    }
}
