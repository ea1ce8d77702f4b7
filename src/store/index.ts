/** The only door of the store. */
export { StoreError } from './errors.ts';
export type { Tables } from './schema.ts';
export { type Db, type NewAct, Store, type StoreOptions, type Tx } from './store.ts';
