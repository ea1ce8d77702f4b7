export type StoreErrorCode =
  /** The disk is full: nothing was written. */
  | 'storage_full'
  /** The database cannot be opened, reached, read or written: nothing was written. */
  | 'storage_failed'
  /** The connection was lost while the database was saving: all of it is there, or nothing. */
  | 'storage_unsure';

/** The database refused. The message is a sentence without its full stop, and says what to do where something can be done. */
export class StoreError extends Error {
  readonly code: StoreErrorCode;
  /** What was asked was certainly not done, and may succeed when it is asked once more. */
  readonly again: boolean;
  constructor(
    code: StoreErrorCode,
    message: string,
    { again = false, ...options }: ErrorOptions & { again?: boolean } = {},
  ) {
    super(message, options);
    this.name = 'StoreError';
    this.code = code;
    this.again = again;
  }
}
