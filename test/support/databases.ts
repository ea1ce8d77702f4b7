import { describe } from 'vitest';
import { join } from 'node:path';
import { freshDataDir } from './host.ts';

/** Runs a suite on every database that the product knows; `url` gives an empty one each time. */
export function describeDatabases(name: string, suite: (url: () => Promise<string>) => void): void {
  describe(`${name} (SQLite)`, () =>
    suite(() => Promise.resolve(`sqlite:${join(freshDataDir(), 'lathe.db')}`)));
}
