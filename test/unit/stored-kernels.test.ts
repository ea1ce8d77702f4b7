import { afterEach, expect, it } from 'vitest';
import { StoredKernels } from '../../src/feed/index.ts';
import type { KernelVersion } from '../../src/lab/kernel-history.ts';
import { summarizeBench } from '../../src/lab/bench-records.ts';
import type { BenchRecord } from '../../src/lab/types.ts';
import { acceptedReport, scriptedRecord } from '../support/scripted-lab.ts';
import { Store } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';

const version = (name: string, at: number, source = '// WGSL', environment = 'here'): KernelVersion => ({
  at: new Date(at).toISOString(),
  registration: { name, op: 'rms_norm', source, dispatch: { x: 'tokens' } },
  report: acceptedReport(name, `sha256:${source}`),
  environment,
});

describeDatabases('the history of lab kernels', (url) => {
  const stores: Store[] = [];
  afterEach(() => Promise.all(stores.splice(0).map((store) => store.close())));
  const open = async () => {
    const store = await Store.open({ url: await url(), endpointId: 'here' });
    stores.push(store);
    return store;
  };

  it('has all versions of a name, newest first, and the newest of each name', async () => {
    const kernels = new StoredKernels(await open());
    const [first, second, other] = [version('a', 1), version('a', 2, 'other'), version('b', 3)];
    for (const one of [first, second, other]) await kernels.add(one);
    expect(await kernels.versions('a')).toEqual([second, first]);
    expect(await kernels.newest()).toEqual([second, other]);
    expect(await kernels.versions('c')).toEqual([]);
  });

  it('keeps the newest 200 versions of a name', async () => {
    const kernels = new StoredKernels(await open());
    const all = Array.from({ length: 203 }, (_, n) => version('a', n + 1, `// ${n}`));
    await kernels.add(version('b', 1));
    for (const one of all) await kernels.add(one);
    expect(await kernels.versions('a')).toEqual(all.slice(3).toReversed());
    expect(await kernels.versions('b')).toHaveLength(1);
  });

  it('keeps the versions of a deleted kernel, which is not restored until it is registered again', async () => {
    const kernels = new StoredKernels(await open());
    const first = version('a', 1);
    await kernels.add(first);
    await kernels.delete('a');
    expect(await kernels.newest()).toEqual([]);
    expect(await kernels.versions('a')).toEqual([first]);
    const again = version('a', Date.now() + 1000);
    await kernels.add(again);
    expect(await kernels.newest()).toEqual([again]);
  });

  it('finds a registration by its time, also of a rejected kernel, and a name by a digest', async () => {
    const kernels = new StoredKernels(await open());
    const first = version('a', 1);
    const rejected = { ...version('a', 2, 'wrong'), report: { ...first.report, accepted: false } };
    for (const one of [first, rejected]) await kernels.add(one);
    expect(await kernels.version('a', first.at)).toEqual(first);
    expect(await kernels.version('a', rejected.at)).toEqual(rejected);
    expect(await kernels.version('b', first.at)).toBeUndefined();
    expect(await kernels.nameOf('sha256:// WGSL')).toBe('a');
    expect(await kernels.nameOf('sha256:none')).toBeUndefined();
  });

  it('has finished benches with their raw times, newest first, after those that have none', async () => {
    const store = await open();
    const kernels = new StoredKernels(store);
    const record = (second: number): BenchRecord => ({
      ...scriptedRecord,
      id: `bench-${second}`,
      at: `2026-11-28T00:01:${String(second).padStart(2, '0')}.000Z`,
    });
    const observed = {
      endpoint_id: store.endpointId,
      model: 'm',
      kernels: 'a WG=64',
      verdict: 'faster',
      method: '',
      fingerprint: JSON.stringify({ adapter: 'x', kernels: { 'a WG=64': 'sha256:00' } }),
      baseline_prefill_tps: null,
      baseline_decode_tps: 10,
      bound_prefill_tps: null,
      bound_decode_tps: 20,
      ratio_low: 1,
      ratio_high: 4,
      elapsed_ms: null,
    };
    await store.transaction(async (tx) => {
      for (const [id, at, rounds] of [
        ['old', '2026-11-27T00:00:00.000Z', 8],
        ['measured', '2026-11-27T00:00:01.000Z', 1],
        // What the surface has of a bench that has a record.
        ['new', '2026-11-28T00:01:30.000Z', 8],
      ] as const)
        await tx
          .insertInto('bench')
          .values({ ...observed, id, at, rounds })
          .execute();
    });
    expect((await kernels.benchSummaries()).map(({ id }) => id)).toEqual(['new', 'old']);
    await kernels.addBench(record(1), summarizeBench(record(1)));
    await kernels.addBench(record(2), summarizeBench(record(2)));
    const list = await kernels.benchSummaries();
    expect(list.map(({ id }) => id)).toEqual(['bench-2', 'bench-1', 'old']);
    expect(list[0]).toEqual(summarizeBench(record(2)));
    expect(list[2]).toMatchObject({
      kernels: [{ name: 'a', digest: 'sha256:00' }],
      decode: { ratio: 2, ci95: { low: 1, high: 4 } },
      is_complete: false,
    });
    expect(await kernels.benchRecord('bench-1')).toEqual(record(1));
    expect(await kernels.benchRecord('old')).toBeUndefined();
  });

  it('finds the benches of a kernel by its name, with and without tuned overrides', async () => {
    const store = await open();
    const kernels = new StoredKernels(store);
    const row = (id: string, names: string) => ({
      id,
      endpoint_id: store.endpointId,
      at: `2026-11-28T00:00:0${id}.000Z`,
      model: 'm',
      kernels: names,
      verdict: 'faster',
      method: '',
      fingerprint: '{}',
      rounds: 8,
      baseline_prefill_tps: null,
      baseline_decode_tps: null,
      bound_prefill_tps: null,
      bound_decode_tps: null,
      ratio_low: 1.01,
      ratio_high: 1.2,
      elapsed_ms: null,
    });
    await store.transaction(async (tx) => {
      for (const [id, names] of [
        ['1', 'a'],
        ['2', 'ab,c'],
        ['3', 'c,a WG=64'],
      ] as const)
        await tx.insertInto('bench').values(row(id, names)).execute();
    });
    expect((await kernels.benches('a')).map(({ at }) => at.slice(17, 19))).toEqual(['03', '01']);
    expect((await kernels.benches('a'))[0]).toEqual({
      at: '2026-11-28T00:00:03.000Z',
      kernels: ['c', 'a'],
      verdict: 'faster',
      rounds: 8,
      ratio_low: 1.01,
      ratio_high: 1.2,
    });
  });
});
