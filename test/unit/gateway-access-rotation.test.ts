import { afterEach, expect, it } from 'vitest';
import { describeDatabases } from '../support/databases.ts';
import { AccessWorld, plantedKey as key, masterKey, refusalOf } from '../support/gateway/access.ts';

describeDatabases('rotation', (url) => {
  const [old, young] = [masterKey('mk_old'), masterKey('mk_young')];
  const worlds: AccessWorld[] = [];
  const filled = async (count: number) => {
    const world = await AccessWorld.open(await url());
    worlds.push(world);
    const credentials = world.credentials([old]);
    for (let n = 0; n < count; n++) await credentials.put(`a_${n}`, 'openai', { api_key: `${key}-${n}` });
    return world;
  };
  afterEach(async () => {
    for (const world of worlds.splice(0)) await world.store.close();
  });

  it('re-encrypts all records with the first key, so that the old one is not needed; a second run changes nothing', async () => {
    const world = await filled(5);
    await world.credentials([]).register('a_0', 'vllm:lab', { baseUrl: 'https://x.test' });
    const before = await world.rows();
    const both = world.credentials([young, old]);
    expect(await both.rotate()).toEqual({ rewrapped: 5, current: 1, faults: [] });
    expect(await both.rotate()).toEqual({ rewrapped: 0, current: 6, faults: [] });
    const after = world.credentials([young]);
    for (let n = 0; n < 5; n++) expect((await after.find(`a_${n}`, 'openai'))?.apiKey).toBe(`${key}-${n}`);
    const untouched = (rows: typeof before) => rows.map((row) => ({ ...row, kek_id: '', wrapped_key: '' }));
    expect(untouched(await world.rows())).toEqual(untouched(before));
    expect((await refusalOf(world.credentials([old]).find('a_1', 'openai'))).code).toBe(
      'credential_unreadable',
    );
  });

  it('reports the records that no key decrypts, and rotates the others', async () => {
    const world = await filled(4);
    const stranger = world.credentials([masterKey('mk_lost')]);
    await stranger.put('a_lost', 'openai', { api_key: key });
    const rows = await world.rows();
    const lost = rows.find((row) => row.account_id === 'a_lost');
    const broken = rows.find((row) => row.account_id === 'a_2');
    await world.change(broken?.id ?? '', { tag: lost?.tag ?? '' });
    const result = await world.credentials([young, old]).rotate();
    expect(result).toMatchObject({ rewrapped: 3, current: 0 });
    expect([...result.faults].sort()).toEqual(
      [
        `The record ${lost?.id} (account a_lost, provider openai) cannot be decrypted: it was encrypted with the master key 'mk_lost', which is not configured (there are: 'mk_young', 'mk_old').`,
        `The record ${broken?.id} (account a_2, provider openai) cannot be decrypted: its data key can be decrypted, but its secret cannot: the record was changed.`,
      ].sort(),
    );
    expect(result.faults.join()).not.toContain(key.slice(0, 8));
  });

  it('can be repeated after an interruption', async () => {
    const world = await filled(230);
    const both = world.credentials([young, old]);
    const transaction = world.store.transaction.bind(world.store);
    let batches = 0;
    world.store.transaction = (work) =>
      ++batches === 2 ? Promise.reject(new Error('killed')) : transaction(work);
    await expect(both.rotate()).rejects.toThrow('killed');
    const kinds = new Set((await world.rows()).map((row) => row.kek_id));
    expect([...kinds].sort()).toEqual(['mk_old', 'mk_young']);
    expect(await both.rotate()).toEqual({ rewrapped: 130, current: 100, faults: [] });
    expect(new Set((await world.rows()).map((row) => row.kek_id))).toEqual(new Set(['mk_young']));
  });

  it('runs while others read, store and remove: every reader gets the right key, and nothing is lost', async () => {
    const world = await filled(60);
    const both = world.credentials([young, old]);
    let done = false;
    const reading = (async () => {
      let reads = 0;
      for (let n = 0; !done; n = (n + 7) % 40) {
        // A new instance each time, without a cache.
        expect((await world.credentials([young, old]).find(`a_${n}`, 'openai'))?.apiKey).toBe(`${key}-${n}`);
        reads++;
      }
      return reads;
    })();
    const changing = (async () => {
      for (let n = 40; n < 50; n++) await both.put(`a_${n}`, 'openai', { api_key: `new-key-number-${n}` });
      for (let n = 50; n < 60; n++) await both.remove(`a_${n}`, 'openai');
    })();
    const results = await Promise.all([both.rotate(), world.credentials([young, old]).rotate(), changing]);
    done = true;
    expect(await reading).toBeGreaterThan(0);
    expect([results[0].faults, results[1].faults]).toEqual([[], []]);
    // Each record was rotated by one of the two.
    expect(results[0].rewrapped + results[1].rewrapped).toBeLessThanOrEqual(60);
    const last = await both.rotate();
    expect(last).toEqual({ rewrapped: 0, current: 50, faults: [] });
    const after = world.credentials([young]);
    for (let n = 0; n < 60; n++)
      expect((await after.find(`a_${n}`, 'openai'))?.apiKey).toBe(
        n < 40 ? `${key}-${n}` : n < 50 ? `new-key-number-${n}` : undefined,
      );
  });
});
