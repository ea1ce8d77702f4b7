export const ledgerErrorCodes = [
  'unknown_account',
  'unknown_key',
  'unknown_request',
  'unknown_budget',
  'account_exists',
  'balance_too_low',
  'archive_missing',
  'invalid',
] as const;
export type LedgerErrorCode = (typeof ledgerErrorCodes)[number];

/** An operation that a retry cannot make succeed. The message is in full sentences. */
export class LedgerError extends Error {
  readonly code: LedgerErrorCode;
  constructor(code: LedgerErrorCode, message: string) {
    super(message);
    this.name = 'LedgerError';
    this.code = code;
  }
}
