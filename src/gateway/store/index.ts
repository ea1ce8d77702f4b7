/** Public exports of the gateway's store. */
export { type GatewayDb, GatewayStore, type GatewayStoreOptions, type GatewayTx } from './gateway-store.ts';
export { insertInto, toStorableText, type Statement, type Statements, statementsOf } from './statements.ts';
export { systemAccounts, type LedgerTables, type Row, type RowOf } from './tables.ts';
