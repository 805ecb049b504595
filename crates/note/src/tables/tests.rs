//! Which keys are prepared. That the answers are right is tested from outside, beside the vectors.
#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::key::{KeyKind, SigningKey};
use crate::name::KeyName;

const MESSAGE: &[u8] = b"a message\n";

fn key(number: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new("key.example").unwrap(), KeyKind::Ed25519, [number; 32])
}

fn check(tables: &KeyTables, number: u8, times: u32) {
    let key = key(number);
    let signature = key.sign(MESSAGE);
    for _ in 0..times {
        assert!(tables.verify(&key.verifier(), MESSAGE, &signature));
        assert!(!tables.verify(&key.verifier(), b"another\n", &signature));
    }
}

fn prepared(tables: &KeyTables) -> Vec<u8> {
    (0..20).filter(|number| tables.is_prepared(&key(*number).verifier())).collect()
}

#[test]
fn a_key_is_prepared_once_it_has_been_checked_often_enough() {
    let tables = KeyTables::new(2);
    check(&tables, 1, HOT_AFTER / 2 - 1);
    assert_eq!((prepared(&tables), tables.checks_by_table()), (vec![], 0));
    check(&tables, 1, 1);
    assert_eq!((prepared(&tables), tables.checks_by_table()), (vec![1], 0));
    check(&tables, 1, 5);
    assert_eq!((prepared(&tables), tables.checks_by_table()), (vec![1], 10));
}

#[test]
fn the_key_whose_last_check_is_longest_ago_makes_room() {
    let tables = KeyTables::new(2);
    check(&tables, 1, HOT_AFTER);
    check(&tables, 2, HOT_AFTER);
    check(&tables, 1, 1);
    check(&tables, 3, HOT_AFTER);
    assert_eq!(prepared(&tables), [1, 3]);
    check(&tables, 2, HOT_AFTER / 2);
    assert_eq!(prepared(&tables), [2, 3]);
}

#[test]
fn an_evicted_key_has_to_become_hot_again() {
    let tables = KeyTables::new(1);
    check(&tables, 1, HOT_AFTER);
    check(&tables, 2, HOT_AFTER);
    assert_eq!(prepared(&tables), [2]);
    check(&tables, 1, HOT_AFTER / 2 - 1);
    assert_eq!(prepared(&tables), [2]);
    check(&tables, 1, 1);
    assert_eq!(prepared(&tables), [1]);
}

#[test]
fn many_keys_in_turn_leave_neither_tables_nor_counts_behind() {
    let tables = KeyTables::new(2);
    for _ in 0..HOT_AFTER {
        for number in 0..=(2 * COUNTED_PER_PLACE as u8) {
            check(&tables, number, 1);
            assert!(tables.counts().len() <= 2 * COUNTED_PER_PLACE);
        }
    }
    assert_eq!(prepared(&tables), Vec::<u8>::new());
}

#[test]
fn without_room_every_check_is_a_plain_one() {
    let tables = KeyTables::new(0);
    tables.prepare(&key(1).verifier());
    check(&tables, 1, HOT_AFTER);
    assert_eq!((prepared(&tables), tables.checks_by_table()), (vec![], 0));
    assert_eq!(tables.counts().len(), 0);
}

#[test]
fn one_table_serves_the_key_under_all_its_names() {
    let tables = KeyTables::new(1);
    tables.prepare(&key(1).verifier());
    let other = SigningKey::from_seed(KeyName::new("other.example").unwrap(), KeyKind::CosignatureV1, [1; 32]);
    assert!(tables.is_prepared(&other.verifier()));
}

#[test]
fn a_key_that_is_not_ed25519_is_checked_plainly_and_takes_no_room() {
    let tables = KeyTables::new(1);
    let key = SigningKey::from_seed(KeyName::new("w.example").unwrap(), KeyKind::MlDsa44, [1; 32]);
    let (public, signature) = (key.verifier(), key.sign(MESSAGE));
    tables.prepare(&public);
    for _ in 0..=HOT_AFTER {
        assert!(tables.verify(&public, MESSAGE, &signature));
        assert!(!tables.verify(&public, b"another\n", &signature));
    }
    assert!(!tables.is_prepared(&public));
    assert_eq!((tables.checks_by_table(), tables.counts().len()), (0, 0));
}

#[test]
fn a_prepared_key_takes_what_is_documented() {
    assert_eq!(PREPARED_KEY_BYTES, 11 * 32 * 160);
    assert_eq!(BaseMultiples::BYTES, 640 * 1024);
}

#[test]
fn a_key_whose_moment_was_missed_becomes_hot_the_next_time() {
    let tables = KeyTables::new(1);
    // As left by threads that counted while another one had prepared the key, which was evicted since.
    tables.counts().insert(*key(1).verifier().ed25519().unwrap().as_bytes(), HOT_AFTER);
    check(&tables, 1, HOT_AFTER / 2 - 1);
    assert_eq!(prepared(&tables), Vec::<u8>::new());
    check(&tables, 1, 1);
    assert_eq!(prepared(&tables), [1]);
}

#[test]
fn the_list_of_small_orders_has_each_point_once_and_nothing_else_is_of_small_order() {
    use curve25519_dalek::constants::EIGHT_TORSION;
    use curve25519_dalek::edwards::CompressedEdwardsY;
    assert!(EIGHT_TORSION.iter().all(|point| point.is_small_order()));
    for (place, encoding) in SMALL_ORDER.iter().enumerate() {
        assert!(CompressedEdwardsY(*encoding).decompress().unwrap().is_small_order());
        assert!(!SMALL_ORDER[..place].contains(encoding));
    }
    // A group of 8l elements, l prime, has exactly eight whose order divides eight.
    assert_eq!(SMALL_ORDER.len(), 8);
    assert!(!SMALL_ORDER.contains(ED25519_BASEPOINT_POINT.compress().as_bytes()));
}
