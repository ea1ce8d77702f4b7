import { afterEach, expect, it } from 'vitest';
import type { ConfigVersions } from '../../src/gateway/config/config-versions.ts';
import { LiveConfig } from '../../src/gateway/config/live-config.ts';
import type { GatewayConfig } from '../../src/gateway/config/types.ts';
import { ConfigReloader } from '../../src/gateway/serve/config-reloader.ts';
import { configOf, type Sold } from '../support/gateway/world.ts';

const sold = (id: string): Sold => ({ id, wire: 'openai-chat', baseUrls: ['http://127.0.0.1:9/v1'] });
let reloader: ConfigReloader | undefined;
afterEach(() => reloader?.stop());

/** A reloader of files that a test writes, whose database a test breaks. */
async function world() {
  const files = { config: configOf([sold('one')]) };
  const notices: string[] = [];
  const replaced: GatewayConfig[] = [];
  const database = { isBroken: false, versions: [] as string[] };
  const use = <T>(work: () => T): Promise<T> =>
    database.isBroken ? Promise.reject(new Error('the database is gone')) : Promise.resolve(work());
  const versions = {
    latest: () =>
      use(() => {
        const digest = database.versions.at(-1);
        return digest === undefined ? undefined : { version: database.versions.length, digest };
      }),
    claim: (digest: string) =>
      use(() => {
        if (database.versions.at(-1) !== digest) database.versions.push(digest);
        return database.versions.length;
      }),
  } as unknown as ConfigVersions;
  const made = new ConfigReloader({
    live: new LiveConfig(files.config),
    versions,
    read: () => Promise.resolve(files.config),
    onReplaced: (next) => replaced.push(next),
    onNotice: (message) => notices.push(message),
    intervalMs: 5,
  });
  reloader = made;
  await made.start();
  return { files, notices, replaced, database, reloader: made };
}

it('numbers a configuration that was replaced while the database was gone, as soon as it is back', async () => {
  const { files, notices, replaced, database, reloader: one } = await world();
  expect(one.state).toMatchObject({ version: 1, isNewest: true });
  database.isBroken = true;
  files.config = configOf([sold('one'), sold('two')]);
  expect(await one.reload()).toMatchObject({ outcome: 'replaced' });
  expect(replaced).toHaveLength(1);
  expect(notices.join()).toContain('cannot be stored: the database is gone');
  expect(notices.join()).toContain('is in force: 2 models');
  database.isBroken = false;
  await expect.poll(() => one.state).toMatchObject({ version: 2, isNewest: true, reloads: { replaced: 1 } });
  expect(notices.join()).not.toContain('another gateway');
});

it('starts without the database, and numbers its configuration later', async () => {
  const { database, reloader: one } = await world();
  await one.stop();
  database.versions.length = 0;
  database.isBroken = true;
  await expect(one.start()).resolves.toBeUndefined();
});
