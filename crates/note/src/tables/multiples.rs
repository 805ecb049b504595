//! Multiples of one point, kept to multiply it by many scalars.
//!
//! ```text
//! k·P = Σ dᵢ · 2^(BITS·i) · P        digits dᵢ from −2^(BITS−1)+1 to 2^(BITS−1)
//!
//! kept: for every SPACING-th i one row, 1, 2, … 2^(BITS−1) times 2^(BITS·i) · P
//! ```
//!
//! A digit between two rows uses the row below it: the digits that are furthest from their rows are summed first, and
//! each time the sum so far is doubled BITS times it has come one digit closer. So `SPACING` trades memory for
//! `SPACING − 1` rounds of doublings.
//!
//! Only the group operations that curve25519-dalek offers to everybody are used. Its own tables select in constant
//! time, which signing needs and costs a third more; these take a time that depends on the scalar.

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity;

/// A reduced scalar is below 2^253; with one bit more the last digit never carries.
const SCALAR_BITS: usize = 253 + 1;

/// Digits of a scalar when they are shortest, of 4 bits.
const MOST_DIGITS: usize = SCALAR_BITS.div_ceil(4);

/// The multiples of one point.
pub(super) struct Multiples<const BITS: usize, const SPACING: usize> {
    /// Row by row.
    points: Vec<EdwardsPoint>,
}

impl<const BITS: usize, const SPACING: usize> Multiples<BITS, SPACING> {
    /// Digits lie in two bytes, and doublings come three at a time.
    const SOUND: () = assert!(4 <= BITS && BITS <= 8 && (SPACING == 1 || SPACING > 1 && BITS.is_multiple_of(3)));
    const DIGITS: usize = SCALAR_BITS.div_ceil(BITS);
    const ROW: usize = 1 << (BITS - 1);

    /// What the points take.
    pub(super) const BYTES: usize = Self::DIGITS.div_ceil(SPACING) * Self::ROW * size_of::<EdwardsPoint>();

    /// The multiples of `point`, which may be any point of the curve.
    pub(super) fn of(point: &EdwardsPoint) -> Self {
        let () = Self::SOUND;
        let rows = Self::DIGITS.div_ceil(SPACING);
        let mut points = Vec::with_capacity(rows * Self::ROW);
        let mut first = *point;
        for _ in 0..rows {
            let mut last = first;
            points.push(last);
            for _ in 1..Self::ROW {
                last += first;
                points.push(last);
            }
            first = last + last;
            for _ in 1..SPACING {
                first = doubled::<BITS>(&first);
            }
        }
        Self { points }
    }

    /// `scalar` times the point. `scalar` must be reduced, as every scalar is that comes from a hash or from
    /// canonical bytes.
    pub(super) fn times(&self, scalar: &Scalar) -> EdwardsPoint {
        let digits = digits::<BITS>(scalar);
        let mut sum = EdwardsPoint::identity();
        for distance in (0..SPACING).rev() {
            let in_place = digits[..Self::DIGITS].iter().skip(distance).step_by(SPACING);
            for (row, digit) in self.points.chunks_exact(Self::ROW).zip(in_place) {
                let multiple = usize::from(digit.unsigned_abs()).checked_sub(1).and_then(|place| row.get(place));
                match multiple {
                    Some(multiple) if *digit > 0 => sum += multiple,
                    Some(multiple) => sum -= multiple,
                    None => {}
                }
            }
            if distance > 0 {
                sum = doubled::<BITS>(&sum);
            }
        }
        sum
    }
}

/// 2^BITS times `point`, for a BITS that three divides: the doubling that the library offers is three at a time.
fn doubled<const BITS: usize>(point: &EdwardsPoint) -> EdwardsPoint {
    (0..BITS / 3).fold(*point, |point, _| point.mul_by_cofactor())
}

/// The digits of a reduced scalar, lowest first, and zeroes.
fn digits<const BITS: usize>(scalar: &Scalar) -> [i16; MOST_DIGITS] {
    let bytes = scalar.as_bytes();
    let byte = |place: usize| bytes.get(place).map_or(0, |byte| u32::from(*byte));
    let mut digits = [0; MOST_DIGITS];
    let mut carry = 0;
    for (place, digit) in digits.iter_mut().take(SCALAR_BITS.div_ceil(BITS)).enumerate() {
        let bit = place * BITS;
        let two_bytes = byte(bit / 8) | byte(bit / 8 + 1) << 8;
        let value = (two_bytes >> (bit % 8) & ((1 << BITS) - 1)) as i16 + carry;
        carry = i16::from(value > 1 << (BITS - 1));
        *digit = value - (carry << BITS);
    }
    digits
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};

    /// The scalars at which digits carry, end or vanish, and some that are like any other.
    fn scalars() -> Vec<Scalar> {
        let mut scalars = vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE, -Scalar::from(2u8)];
        let mut power = Scalar::ONE;
        for _ in 0..253 {
            scalars.extend([power, power - Scalar::ONE, -power]);
            power += power;
        }
        for filling in 1..=255 {
            scalars.push(Scalar::from_bytes_mod_order([filling; 32]));
            scalars.push(Scalar::from_bytes_mod_order_wide(&[filling; 64]));
        }
        scalars
    }

    fn assert_exact<const BITS: usize, const SPACING: usize>(point: &EdwardsPoint) {
        let multiples = Multiples::<BITS, SPACING>::of(point);
        assert_eq!(multiples.points.len() * size_of::<EdwardsPoint>(), Multiples::<BITS, SPACING>::BYTES);
        for scalar in scalars() {
            assert_eq!(multiples.times(&scalar), point * scalar, "{BITS} {SPACING} {scalar:?}");
        }
    }

    #[test]
    fn multiples_add_up_to_the_product_also_for_points_with_a_small_order_component() {
        for torsion in EIGHT_TORSION {
            let point = ED25519_BASEPOINT_POINT * Scalar::from(7u8) + torsion;
            assert_exact::<6, 4>(&point);
            assert_exact::<8, 1>(&point);
        }
        assert_exact::<4, 1>(&ED25519_BASEPOINT_POINT);
        assert_exact::<6, 3>(&ED25519_BASEPOINT_POINT);
        assert_exact::<6, 4>(&EIGHT_TORSION[1]);
    }

    #[test]
    fn digits_stay_within_their_row_and_the_last_one_does_not_carry() {
        fn check<const BITS: usize>() {
            for scalar in scalars() {
                let digits = digits::<BITS>(&scalar);
                let half = 1i16 << (BITS - 1);
                assert!(digits.iter().all(|digit| -half < *digit && *digit <= half), "{scalar:?}");
                let sum = digits.iter().rev().fold(Scalar::ZERO, |sum, digit| {
                    let magnitude = Scalar::from(digit.unsigned_abs());
                    let shifted = sum * Scalar::from(1u64 << BITS);
                    if *digit < 0 { shifted - magnitude } else { shifted + magnitude }
                });
                assert_eq!(sum, scalar);
            }
        }
        check::<4>();
        check::<6>();
        check::<8>();
    }
}
