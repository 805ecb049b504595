//! A signature that must not leave the process before what it speaks about is durable.

/// Holds a value that nobody can look at: only this crate opens it, and only after the value is on disk.
///
/// Making one is free; [`crate::Tlog::record_head`], [`crate::Tlog::commit`] and [`crate::TimestampFloor::release`] give the
/// value back.
#[derive(Clone)]
pub struct Sealed<T>(T);

impl<T> Sealed<T> {
    /// Seals a value.
    pub fn new(value: T) -> Sealed<T> {
        Sealed(value)
    }

    /// Puts what is sealed into something larger, which is sealed too.
    pub(crate) fn map<U>(self, put: impl FnOnce(T) -> U) -> Sealed<U> {
        Sealed(put(self.0))
    }

    /// For what has to be written. The value itself stays sealed.
    pub(crate) fn peek(&self) -> &T {
        &self.0
    }

    /// To be called when the value is durable, and not before.
    pub(crate) fn open(self) -> T {
        self.0
    }
}

impl<T> std::fmt::Debug for Sealed<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Sealed")
    }
}
