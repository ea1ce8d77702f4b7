export type StoreErrorCode =
  /** The disk is full: nothing was written. */
  | 'storage_full'
  /** The database cannot be opened, reached, read or written: nothing was written. */
  | 'storage_failed'
  /** The connection was lost during the commit: either everything was written, or nothing. */
  | 'storage_unsure';

/** A database error. The message is a sentence without a full stop; where possible it says what to do. */
export class StoreError extends Error {
  readonly code: StoreErrorCode;
  /** Nothing was written, and a retry may succeed. */
  readonly isRetryable: boolean;
  constructor(
    code: StoreErrorCode,
    message: string,
    { isRetryable = false, ...options }: ErrorOptions & { isRetryable?: boolean } = {},
  ) {
    super(message, options);
    this.name = 'StoreError';
    this.code = code;
    this.isRetryable = isRetryable;
  }
}
