// Everything this package throws on purpose. Each error has a `code`, a stable word for programs, and a sentence that
// says what to do next. Classes sort errors by who is to blame; the codes are those of the Rust and Python packages.

/** The base of every error this package throws on purpose. */
export class CounterfoilError extends Error {
  /** A stable word in kebab case. Switch on this, never on the sentence. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** Bytes or text that are not what they should be: whoever wrote them is to blame. */
export class FormatError extends CounterfoilError {
  /** Where in a JSON document, as a JSON pointer, if that is where the fault is. */
  readonly path: string | undefined;

  constructor(code: string, message: string, path?: string, options?: ErrorOptions) {
    super(code, message, options);
    this.path = path;
  }
}

/** A receipt that the issuer rules refuse (protocol, section 4). */
export class RefusalError extends CounterfoilError {
  /** The seq that would be admitted next, where that helps. */
  readonly expectedSeq: bigint | undefined;
  /** The `prev` that would be admitted next, hex, where that helps. */
  readonly expectedPrev: string | undefined;

  constructor(code: string, message: string, expected?: { seq: bigint; prev: string }, options?: ErrorOptions) {
    super(code, message, options);
    this.expectedSeq = expected?.seq;
    this.expectedPrev = expected?.prev;
  }
}

/** A credential-shaped value where none may be. Never repeats the value. */
export class CredentialError extends CounterfoilError {
  /** The member that holds it, as a JSON pointer. */
  readonly member: string;

  constructor(member: string, what: string) {
    super("credential-shaped", `${member} looks like ${what}; remove it, commit to it or carry its digest`);
    this.member = member;
  }
}

/** A proof or a signature that does not convince. */
export class ProofError extends CounterfoilError {}

/** The outbox did not do what it was asked (codes `outbox-…`). */
export class OutboxError extends CounterfoilError {}

/** The sender stopped, or could not reach the log. */
export class SenderError extends CounterfoilError {
  /** Whether trying again later may help. */
  readonly mayPass: boolean;

  constructor(code: string, message: string, mayPass = false, options?: ErrorOptions) {
    super(code, message, options);
    this.mayPass = mayPass;
  }
}

/** The gate's own author asked for what a gate must not do. */
export class ScopeError extends CounterfoilError {}

/** A history that cannot be had, cannot be believed, or has moved on. */
export class HistoryError extends CounterfoilError {}

/**
 * For gates' authors: throw it, or a class of your own that extends it, in a scope where nobody here can tell whether the
 * action came about, as with a request that left and was not answered. The outcome is then `unknown`.
 */
export class OutcomeUnknown extends Error {
  override readonly name: string = "OutcomeUnknown";
}
