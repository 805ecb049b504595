//! Paths of a tiled log: one spelling each.

use counterfoil_merkle as merkle;
use merkle::{PageId, ResourcePath, TileId, TreeSize};
use proptest::prelude::*;

// Paths as the tests of Tessera print them.
#[test]
fn paths_print_and_parse_as_in_tessera() {
    let tile = |level, index, width| ResourcePath::Tile(TileId { level, index, width });
    let entries = |index, size| ResourcePath::Entries(PageId::at(index, size).unwrap());
    for (path, resource) in [
        ("tile/entries/000", entries(0, 256)),
        ("tile/entries/000.p/255", entries(0, 255)),
        ("tile/entries/001.p/1", entries(1, 257)),
        ("tile/entries/x123/x456/789", entries(123_456_789, 123_456_790 * 256)),
        ("tile/0/000.p/255", tile(0, 0, 255)),
        ("tile/15/x455/667", tile(15, 455_667, 256)),
        ("tile/15/x123/x456/789.p/41", tile(15, 123_456_789, 41)),
        ("tile/63/x999/x999/x999/x999/x999/999.p/255", tile(63, 999_999_999_999_999_999, 255)),
        ("tile/0/x018/x446/x744/x073/x709/x551/615", tile(0, u64::MAX, 256)),
        ("tile/0/x001/000", tile(0, 1000, 256)),
        ("tile/0/999", tile(0, 999, 256)),
        ("heads/000.p/1", ResourcePath::Heads(PageId { index: 0, width: 1 })),
        ("heads/x001/x234/067", ResourcePath::Heads(PageId { index: 1_234_067, width: 256 })),
        ("checkpoint", ResourcePath::Checkpoint),
    ] {
        assert_eq!(resource.to_string(), path);
        assert_eq!(ResourcePath::parse(path), Some(resource), "{path}");
    }
}

#[test]
fn every_other_spelling_is_refused() {
    for path in [
        "",
        "/",
        "/checkpoint",
        "checkpoint/",
        "Checkpoint",
        "checkpoint\n",
        "checkpoint?",
        // No such folder, or not the whole path of one.
        "tile",
        "tile/",
        "tile//000",
        "tile/000",
        "tile/0",
        "tile/0/",
        "tile/entries",
        "tile/entries/",
        "tiles/0/000",
        "/tile/0/000",
        "./tile/0/000",
        "tile/../tile/0/000",
        "tile/0/../000",
        "tile/data/000",
        "tile/names/000",
        "heads",
        "heads/",
        "heads/0/000",
        "entries/000",
        // Levels.
        "tile/64/000",
        "tile/255/000",
        "tile/256/000",
        "tile/00/000",
        "tile/01/000",
        "tile/+1/000",
        "tile/-1/000",
        "tile/ 1/000",
        "tile/1 /000",
        "tile/x/000",
        "tile/18446744073709551616/000",
        "tile/Entries/000",
        // Indices.
        "tile/0/0",
        "tile/0/00",
        "tile/0/0000",
        "tile/0/1000",
        "tile/0/x001",
        "tile/0/x001/",
        "tile/0/x001/x000",
        "tile/0/001/000",
        "tile/0/x01/000",
        "tile/0/x0001/000",
        "tile/0/x000/000",
        "tile/0/x000/001",
        "tile/0/x000/x001/000",
        "tile/0/X001/000",
        "tile/0/xx01/000",
        "tile/0/x001//000",
        "tile/0/x001/000/",
        "tile/0//000",
        "tile/0/000/",
        "tile/0/00a",
        "tile/0/+01",
        "tile/0/-01",
        "tile/0/ 01",
        "tile/0/٠٠١",
        "tile/0/x00١/000",
        "tile/0/%30%30%30",
        "tile/0/000\0",
        "tile/0/000\n",
        "tile/0/x018/x446/x744/x073/x709/x551/616",
        "tile/0/x999/x999/x999/x999/x999/x999/999",
        "tile/0/x001/x000/x000/x000/x000/x000/x000/000",
        // Widths.
        "tile/0/000.p",
        "tile/0/000.p/",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/257",
        "tile/0/000.p/65537",
        "tile/0/000.p/65536",
        "tile/0/000.p/01",
        "tile/0/000.p/+1",
        "tile/0/000.p/-1",
        "tile/0/000.p/1/",
        "tile/0/000.p/1.p/1",
        "tile/0/000.p/x001",
        "tile/0/000/.p/1",
        "tile/0/000p/1",
        "tile/0/000.P/1",
        "tile/0/.p/1",
        "tile/0/x001.p/1/000",
        "tile/entries/000.p/256",
        "tile/entries/x000/000",
        "heads/000.p/0",
        "heads/000.p/256",
        "heads/x001",
        "heads/../checkpoint",
    ] {
        assert_eq!(ResourcePath::parse(path), None, "{path:?}");
    }
}

#[test]
fn pages_and_tiles_are_as_wide_as_the_tree_is_there() {
    assert_eq!(PageId::at(0, 0), None);
    assert_eq!(PageId::at(0, 1), Some(PageId { index: 0, width: 1 }));
    assert_eq!(PageId::at(0, 300), Some(PageId { index: 0, width: 256 }));
    assert_eq!(PageId::at(1, 300), Some(PageId { index: 1, width: 44 }));
    assert_eq!(PageId::at(1, 256), None);
    assert_eq!(PageId::at((1 << 56) - 1, u64::MAX), Some(PageId { index: (1 << 56) - 1, width: 255 }));
    for index in [1 << 56, 1 << 63, u64::MAX] {
        assert_eq!(PageId::at(index, u64::MAX), None);
    }
    assert_eq!(TileId::at(0, 273, TreeSize(70_000)), Some(TileId { level: 0, index: 273, width: 112 }));
    assert_eq!(TileId::at(1, 1, TreeSize(70_000)), Some(TileId { level: 1, index: 1, width: 17 }));
    assert_eq!(TileId::at(2, 0, TreeSize(70_000)), Some(TileId { level: 2, index: 0, width: 1 }));
    assert_eq!(TileId::at(3, 0, TreeSize(70_000)), None);
    assert_eq!(TileId::at(7, 0, TreeSize(u64::MAX)), Some(TileId { level: 7, index: 0, width: 255 }));
    for level in [8, 63, 64, 255] {
        assert_eq!(TileId::at(level, 0, TreeSize(u64::MAX)), None, "{level}");
    }
}

#[test]
fn all_tiles_of_a_tree_are_those_of_the_specification() {
    let paths: Vec<String> = TileId::all(TreeSize(70_000)).map(|tile| tile.to_string()).collect();
    assert_eq!(paths.len(), 274 + 2 + 1);
    assert_eq!(paths[273..], ["tile/0/273.p/112", "tile/1/000", "tile/1/001.p/17", "tile/2/000.p/1"]);
    assert_eq!(TileId::all(TreeSize(0)).count(), 0);
    assert_eq!(PageId::all(0).count(), 0);
    assert_eq!(PageId::all(u64::MAX).next(), Some(PageId { index: 0, width: 256 }));
    for size in [1, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537] {
        for tile in TileId::all(TreeSize(size)) {
            assert_eq!(TileId::at(tile.level, tile.index, TreeSize(size)), Some(tile), "{tile} at {size}");
        }
        assert_eq!(PageId::all(size).map(|page| u64::from(page.width)).sum::<u64>(), size);
    }
}

fn any_resource() -> impl Strategy<Value = ResourcePath> {
    // Any length of index, not only the 20 digits that uniform numbers have.
    let index = (any::<u64>(), 0..64u32).prop_map(|(number, shift)| number >> shift);
    let page = (index, 1..=256u16).prop_map(|(index, width)| PageId { index, width });
    (0..4u8, 0..64u8, page).prop_map(|(kind, level, page)| match kind {
        0 => ResourcePath::Checkpoint,
        1 => ResourcePath::Entries(page),
        2 => ResourcePath::Heads(page),
        _ => ResourcePath::Tile(TileId { level, index: page.index, width: page.width }),
    })
}

proptest! {
    #[test]
    fn every_resource_parses_back_from_what_it_prints(resource in any_resource()) {
        prop_assert_eq!(ResourcePath::parse(&resource.to_string()), Some(resource));
    }

    #[test]
    fn whatever_parses_prints_the_same(path in "(tile/(entries|[0-9]{1,2})|heads)/(x[0-9]{3}/){0,7}[0-9]{3}(\\.p/[0-9]{1,3})?") {
        if let Some(resource) = ResourcePath::parse(&path) {
            prop_assert_eq!(resource.to_string(), path);
        }
    }
}
