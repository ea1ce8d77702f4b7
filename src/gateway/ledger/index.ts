/** The only door of the ledger. */
export { type LedgerOptions, openLedger } from './ledger.ts';
export { mostMoney } from './operations.ts';
