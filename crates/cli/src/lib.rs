//! The program counterfoil: demo, keygen, submit, import, outbox, fetch-proof.
