import type { Migration } from 'kysely/migration';
import { up as ledger } from './001-ledger.ts';
import { up as credentials } from './002-credentials.ts';

/** In the order of their names. One that was released is never changed: the next one mends it. */
export const migrations: Readonly<Record<string, Migration>> = {
  '001-ledger': { up: ledger },
  '002-credentials': { up: credentials },
};
