export type StoreErrorCode =
  /** The disk is full: nothing was written. */
  | 'storage_full'
  /** The database cannot be reached, read or written. */
  | 'storage_failed';

/** The database refused; what was to be written in one transaction is not there, not in part either. */
export class StoreError extends Error {
  readonly code: StoreErrorCode;
  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StoreError';
    this.code = code;
  }
}
