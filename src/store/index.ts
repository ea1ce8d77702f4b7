export { retry } from './retry.ts';
/** Public exports of the store. */
export { closeDatabase, openDatabase } from './database.ts';
export { type CommitSync, type Connection, type Database, createDialect } from './dialect.ts';
export { StoreError } from './errors.ts';
export { runMigrations } from './migrate.ts';
export type { Tables } from './schema.ts';
export type { WrittenRow } from './written-rows.ts';
export { type StoreReader, type NewAct, Store, type StoreOptions, type Tx } from './store.ts';
