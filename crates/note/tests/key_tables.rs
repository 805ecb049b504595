//! Prepared keys answer as `VerifierKey::verify` does, whatever they are given.

use counterfoil_note::{KeyKind, KeyName, KeyTables, SignatureCheck, Strict, VerifierKey};
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use sha2::{Digest, Sha512};
use std::num::NonZero;
use std::thread;

/// Signatures checked in both ways.
const CASES: u64 = 104_000;

/// The group's order, little-endian (RFC 8032, section 5.1).
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// What is done to a signature, or how it is made.
const KINDS: [&str; 16] = [
    "untouched",
    "bit of R",
    "bit of s",
    "bit of the message",
    "s + L",
    "R negated",
    "R small, s at random",
    "R small, equation holds",
    "R beyond the prime",
    "torsion added to R afterwards",
    "torsion in R from the start",
    "another key",
    "64 random bytes",
    "s at a bound",
    "s negated",
    "R at random",
];

/// A source of numbers that is the same every time.
struct Numbers(u64);

impl Numbers {
    fn bytes(&mut self) -> [u8; 64] {
        self.0 += 1;
        Sha512::digest(self.0.to_le_bytes()).into()
    }

    fn below(&mut self, bound: usize) -> usize {
        let [low, high, ..] = self.bytes();
        usize::from(u16::from_le_bytes([low, high])) % bound
    }

    fn scalar(&mut self) -> Scalar {
        Scalar::from_bytes_mod_order_wide(&self.bytes())
    }
}

/// A key with its secret, and with a small-order component that no honest key has but `VerifierKey` allows.
struct Signer {
    secret: Scalar,
    key: VerifierKey,
}

impl Signer {
    fn new(number: usize) -> Signer {
        let secret = Numbers(1 << 40 | number as u64).scalar();
        let point = ED25519_BASEPOINT_POINT * secret + EIGHT_TORSION[number % 8];
        let name = KeyName::new("differs.example").unwrap();
        let key = VerifierKey::new(name, KeyKind::Ed25519, point.compress().as_bytes()).unwrap();
        Signer { secret, key }
    }

    /// Signs with the nonce `r`, whose point is moved by `moved`.
    fn sign(&self, r: Scalar, moved: EdwardsPoint, message: &[u8]) -> [u8; 64] {
        let point = (EdwardsPoint::mul_base(&r) + moved).compress().to_bytes();
        let hash = Sha512::new().chain_update(point).chain_update(self.key.public_key_bytes()).chain_update(message);
        let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
        together(point, (r + k * self.secret).to_bytes())
    }
}

fn together(r: [u8; 32], s: [u8; 32]) -> [u8; 64] {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&r);
    signature[32..].copy_from_slice(&s);
    signature
}

/// `number + L`, as 32 bytes hold it.
fn plus_order(number: [u8; 32]) -> [u8; 32] {
    let mut carry = 0;
    std::array::from_fn(|place| {
        let sum = u16::from(number[place]) + u16::from(ORDER[place]) + carry;
        carry = sum >> 8;
        sum as u8
    })
}

/// One case: who should check what. `kind` is a place in [`KINDS`].
fn case<'s>(kind: usize, signers: &'s [Signer], numbers: &mut Numbers) -> (&'s VerifierKey, Vec<u8>, [u8; 64]) {
    let signer = &signers[numbers.below(signers.len())];
    let length = numbers.below(300);
    let mut message: Vec<u8> = numbers.bytes().into_iter().cycle().take(length).collect();
    let (r, torsion) = (numbers.scalar(), EIGHT_TORSION[1 + numbers.below(7)]);
    // With a key of mixed order an honest nonce verifies for some messages, a moved one for others.
    let mut signature = signer.sign(r, EdwardsPoint::default(), &message);
    let (old_r, old_s): ([u8; 32], [u8; 32]) =
        (signature[..32].try_into().unwrap(), signature[32..].try_into().unwrap());
    let mut key = &signer.key;
    match KINDS[kind] {
        "untouched" => {}
        "bit of R" => signature[numbers.below(32)] ^= 1 << numbers.below(8),
        "bit of s" => signature[32 + numbers.below(32)] ^= 1 << numbers.below(8),
        "bit of the message" => match length {
            0 => message.push(0),
            _ => message[numbers.below(length)] ^= 1 << numbers.below(8),
        },
        "s + L" => signature = together(old_r, plus_order(old_s)),
        "R negated" => signature[31] ^= 0x80,
        "R small, s at random" => signature[..32].copy_from_slice(torsion.compress().as_bytes()),
        "R small, equation holds" => signature = signer.sign(Scalar::ZERO, torsion, &message),
        "R beyond the prime" => {
            let mut beyond = [0xff; 32];
            beyond[0] = 0xed + numbers.below(19) as u8;
            beyond[31] = [0x7f, 0xff][numbers.below(2)];
            signature[..32].copy_from_slice(&beyond);
        }
        "torsion added to R afterwards" => {
            let moved = EdwardsPoint::mul_base(&r) + torsion;
            signature = together(moved.compress().to_bytes(), old_s);
        }
        "torsion in R from the start" => signature = signer.sign(r, torsion, &message),
        "another key" => key = &signers[numbers.below(signers.len())].key,
        "64 random bytes" => signature = numbers.bytes(),
        "s at a bound" => {
            let below = (-Scalar::ONE).to_bytes();
            let bounds = [[0; 32], below, ORDER, plus_order([1; 32]), [0xff; 32]];
            signature = together(old_r, bounds[numbers.below(bounds.len())]);
        }
        "s negated" => {
            let s = Option::<Scalar>::from(Scalar::from_canonical_bytes(old_s)).unwrap();
            signature = together(old_r, (-s).to_bytes());
        }
        "R at random" => signature[..32].copy_from_slice(&numbers.bytes()[..32]),
        unknown => panic!("{unknown}"),
    }
    (key, message, signature)
}

#[test]
fn a_hundred_thousand_good_odd_and_broken_signatures_are_judged_as_without_a_table() {
    // Each torsion twice, with another secret.
    let signers: Vec<Signer> = (0..16).map(Signer::new).collect();
    let tables = KeyTables::new(signers.len());
    signers.iter().for_each(|signer| tables.prepare(&signer.key));
    let threads = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let share = CASES.div_ceil(threads);
    let accepted = thread::scope(|scope| {
        let work = |thread| {
            let (signers, tables) = (&signers, &tables);
            move || {
                let mut accepted = [0; KINDS.len()];
                for number in thread * share..(thread + 1) * share {
                    let kind = (number % KINDS.len() as u64) as usize;
                    let (key, message, signature) = case(kind, signers, &mut Numbers(number << 8));
                    let expected = Strict.verify(key, &message, &signature);
                    let shown = || format!("case {number}, {}: {}", KINDS[kind], hex::encode(signature));
                    assert_eq!(tables.verify(key, &message, &signature), expected, "{}", shown());
                    accepted[kind] += u64::from(expected);
                }
                accepted
            }
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .fold([0; KINDS.len()], |sum, accepted| std::array::from_fn(|kind| sum[kind] + accepted[kind]))
    });
    assert_eq!(tables.checks_by_table(), threads * share, "every check was one by table");

    let each = CASES / KINDS.len() as u64;
    for (kind, accepted) in KINDS.into_iter().zip(accepted) {
        let (least, most) = match kind {
            // Two of the sixteen keys have no torsion, and with the others some hashes cancel it.
            "untouched" => (each / 8, each),
            "torsion in R from the start" => (1, each / 2),
            // The same key, one time in sixteen.
            "another key" => (1, each / 8),
            _ => (0, 0),
        };
        assert!((least..=most).contains(&accepted), "{kind}: {accepted} of {each} accepted");
    }
}
