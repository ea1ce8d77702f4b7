export { again } from './again.ts';
/** Public exports of the store. */
export { closeDatabase, openDatabase } from './database.ts';
export { type Connection, type Database, dialectOf } from './dialect.ts';
export { StoreError } from './errors.ts';
export { bringUpToDate } from './migrate.ts';
export type { Tables } from './schema.ts';
export { type Db, type NewAct, Store, type StoreOptions, type Tx } from './store.ts';
