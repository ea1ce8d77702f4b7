export type LedgerErrorCode =
  | 'unknown_account'
  | 'unknown_key'
  | 'unknown_request'
  | 'account_exists'
  | 'balance_too_low'
  | 'invalid';

/** What was asked cannot be done, whenever it is asked. The message is whole sentences. */
export class LedgerError extends Error {
  readonly code: LedgerErrorCode;
  constructor(code: LedgerErrorCode, message: string) {
    super(message);
    this.name = 'LedgerError';
    this.code = code;
  }
}
