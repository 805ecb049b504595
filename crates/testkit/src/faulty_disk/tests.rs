#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;

fn file(disk: &FaultyDisk, path: &str) -> Arc<dyn DiskFile> {
    disk.open(Path::new(path), OpenFor::Writing).unwrap()
}

#[test]
fn what_was_synced_survives_every_power_cut_and_what_was_not_takes_every_shape() {
    let disk = FaultyDisk::new();
    disk.create_dir_all(Path::new("/log")).unwrap();
    let entries = file(&disk, "/log/entries");
    entries.write_all_at(&[1; 700], 0).unwrap();
    entries.sync_data().unwrap();
    disk.sync_directory(Path::new("/log")).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    entries.write_all_at(&[2; 1500], 700).unwrap();
    let _unsynced = file(&disk, "/log/heads");
    let mut shapes = BTreeSet::new();
    for seed in 0..200 {
        let found = disk.after_power_cut(seed);
        let bytes = found.bytes(Path::new("/log/entries")).unwrap();
        assert_eq!(bytes[..700], [1; 700], "seed {seed}");
        assert!(bytes[700..].iter().all(|byte| [0, 2].contains(byte)));
        shapes.insert((
            match bytes.len() {
                700 => "old length",
                2200 => "new length",
                _ => "between",
            },
            bytes[700..].contains(&0),
            bytes[700..].contains(&2),
            found.bytes(Path::new("/log/heads")).is_some(),
        ));
        assert_eq!(found.bytes(Path::new("/log/entries")), disk.after_power_cut(seed).bytes(Path::new("/log/entries")));
    }
    for name_kept in [true, false] {
        for shape in [
            ("old length", false, false),
            ("new length", true, false),
            ("new length", false, true),
            ("new length", true, true),
            ("between", false, true),
            ("between", true, true),
        ] {
            assert!(shapes.contains(&(shape.0, shape.1, shape.2, name_kept)), "{shape:?} never came up");
        }
    }
    assert_eq!(disk.after_kill().bytes(Path::new("/log/entries")).unwrap().len(), 2200);
}

#[test]
fn a_name_that_was_not_synced_may_go_and_takes_what_is_below_with_it() {
    let disk = FaultyDisk::new();
    disk.create_dir_all(Path::new("/a/new")).unwrap();
    file(&disk, "/a/new/x").sync_data().unwrap();
    disk.sync_directory(Path::new("/a/new")).unwrap();
    disk.rename(Path::new("/a/new"), Path::new("/a/log")).unwrap();
    assert_eq!(disk.after_power_cut(0).files(), Vec::<PathBuf>::new());
    disk.sync_directory(Path::new("/a")).unwrap();
    assert_eq!(disk.after_power_cut(0).files(), Vec::<PathBuf>::new(), "/a itself has no durable name");
    disk.sync_directory(Path::new("/")).unwrap();
    assert_eq!(disk.after_power_cut(0).files(), [PathBuf::from("/a/log/x")]);
    disk.remove_dir_all(Path::new("/a/log")).unwrap();
    assert!(disk.files().is_empty());
    assert_eq!(disk.after_power_cut(0).files(), [PathBuf::from("/a/log/x")]);
}

#[test]
fn the_call_that_was_chosen_goes_wrong_and_a_killed_process_does_nothing_more() {
    let fault = Fault { at: 2, trouble: Trouble::ENOSPC, extent: Extent::Part, seed: 3 };
    let disk = FaultyDisk::new();
    disk.arm(Some(fault));
    let entries = file(&disk, "/entries");
    entries.write_all_at(b"first", 0).unwrap();
    let error = entries.write_all_at(&[7; 100], 5).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.met(), Some((Call::Write, PathBuf::from("/entries"))));
    assert!((5..105).contains(&entries.len().unwrap()), "a part of it was written");
    disk.arm(Some(Fault { at: 0, trouble: Trouble::Killed, extent: Extent::All, seed: 0 }));
    entries.write_all_at(b"done", 0).unwrap_err();
    entries.write_all_at(b"nothing", 0).unwrap_err();
    assert!(entries.len().is_err());
    assert!(disk.after_kill().bytes(Path::new("/entries")).unwrap().starts_with(b"donet"));
}

#[test]
fn what_a_failed_sync_gave_up_no_later_sync_makes_durable() {
    let disk = FaultyDisk::new();
    let entries = file(&disk, "/entries");
    disk.sync_directory(Path::new("/")).unwrap();
    entries.write_all_at(b"lost", 0).unwrap();
    disk.arm(Some(Fault { at: 0, trouble: Trouble::EIO, extent: Extent::None, seed: 0 }));
    entries.sync_data().unwrap_err();
    entries.sync_data().unwrap();
    assert_eq!(disk.bytes(Path::new("/entries")).unwrap(), b"lost");
    assert_eq!(disk.after_power_cut(0).bytes(Path::new("/entries")).unwrap(), b"");
}

#[test]
fn a_lock_is_held_until_its_file_is_closed() {
    let disk = FaultyDisk::new();
    let (first, second) = (file(&disk, "/lock"), file(&disk, "/lock"));
    assert!(first.try_lock().unwrap());
    assert!(first.try_lock().unwrap());
    assert!(!second.try_lock().unwrap());
    assert!(file(&disk.after_kill(), "/lock").try_lock().unwrap());
    drop(first);
    assert!(second.try_lock().unwrap());
}
