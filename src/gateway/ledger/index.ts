/** Public exports of the ledger; other folders import nothing else of it but types and errors. */
export { type LedgerOptions, openLedger } from './ledger.ts';
export { maxMoney } from './operations.ts';
