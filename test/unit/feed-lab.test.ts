import { afterEach, expect, it } from 'vitest';
import { ObserveFeed, observeLab } from '../../src/feed/index.ts';
import type { KernelRegistrationReport, Lab } from '../../src/lab/types.ts';
import { createPinnedLab } from '../../src/planes/agent/pinned-lab.ts';
import { createLabPlane } from '../../src/planes/lab/routes.ts';
import { Resident } from '../../src/planes/resident.ts';
import { Store } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { acceptedReport, ScriptedLab, scriptedFingerprint } from '../support/scripted-lab.ts';

const never = new AbortController().signal;
const kernel = {
  name: 'fast',
  op: 'rms_norm',
  source: 'fn main() {}',
  dispatch: { x: '1' },
};

describeDatabases('the lab as the feed sees it', (url) => {
  const open: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).toReversed()) await close();
  });
  const observed = async () => {
    const store = await Store.open({ url: await url(), endpointId: 'here' });
    open.push(() => store.close());
    const feed = new ObserveFeed({ store, onFault: (_, error) => expect.unreachable(String(error)) });
    open.push(() => feed.close());
    const bare = new ScriptedLab();
    const lab = observeLab(bare, { feed, model: 'tiny' });
    const rows = async (table: 'parity' | 'bench') => {
      await feed.flush();
      return await store.read(
        async (db) =>
          await db
            .selectFrom(table as 'parity')
            .selectAll()
            .execute(),
      );
    };
    return { bare, lab, rows };
  };
  const head = {
    id: expect.any(String),
    endpoint_id: 'here',
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    model: 'tiny',
  };

  it('has a row of every registration, with the maximum error of all cases', async () => {
    const { bare, lab, rows } = await observed();
    const { parity: [one] = [], ...report } = acceptedReport('fast', 'sha256:00');
    const made: KernelRegistrationReport = {
      ...report,
      accepted: false,
      stages: report.stages.map((stage) => ({ ...stage, ok: stage.stage !== 'parity' })),
      parity: [one!, { ...one!, ok: false, nmse: 0.5, max_abs: 1e-8 }, { ...one!, nmse: 1e-12, max_abs: 3 }],
      seed: 4_294_967_295,
    };
    bare.register = () => Promise.resolve(made);
    expect(await lab.register(kernel, never)).toBe(made);
    expect(await rows('parity')).toEqual([
      {
        ...head,
        source: 'gate',
        kernel: 'fast',
        op: 'rms_norm',
        digest: 'sha256:00',
        mode: 'standard',
        ok: 0,
        failed_stage: 'parity',
        cases: 3,
        failed_cases: 1,
        seed: 4_294_967_295,
        nmse: 0.5,
        max_abs: 3,
        kl: null,
        top1_agreement: null,
        elapsed_ms: 12,
      },
    ]);
  });

  it('has no numbers for a kernel that was not compared, and the requested mode', async () => {
    const { bare, lab, rows } = await observed();
    const { parity: _, tolerance: __, seed: ___, ...report } = acceptedReport('fast', 'sha256:00');
    lab.setParityMode({ mode: 'off' });
    bare.register = () => Promise.resolve({ ...report, unverified: true });
    await lab.register(kernel, never);
    expect(await rows('parity')).toMatchObject([
      { mode: 'off', ok: 1, failed_stage: null, cases: null, failed_cases: null, nmse: null, seed: null },
    ]);
  });

  it('has a row of every parity run, with null for values that are not finite', async () => {
    const { lab, rows } = await observed();
    await lab.runParity(never);
    expect(await rows('parity')).toEqual([
      {
        ...head,
        source: 'run',
        kernel: 'fast',
        op: null,
        digest: null,
        mode: 'standard',
        ok: 0,
        failed_stage: null,
        cases: 1,
        failed_cases: 1,
        seed: 1,
        nmse: 0,
        max_abs: null,
        kl: 0,
        top1_agreement: 1,
        elapsed_ms: expect.any(Number),
      },
    ]);
  });

  it('has a row of every bench', async () => {
    const { bare, lab, rows } = await observed();
    const result = await new ScriptedLab().bench({}, never);
    const kernels = { fast: 'sha256:00', quick: 'sha256:01' };
    bare.bench = () => Promise.resolve({ ...result, fingerprint: { ...scriptedFingerprint, kernels } });
    await lab.bench({}, never);
    expect(await rows('bench')).toEqual([
      {
        ...head,
        kernels: 'fast,quick',
        verdict: 'faster',
        method: 'interleaved',
        fingerprint: JSON.stringify({ ...scriptedFingerprint, kernels }),
        rounds: 8,
        baseline_prefill_tps: 100,
        baseline_decode_tps: 10,
        bound_prefill_tps: 101,
        bound_decode_tps: 12,
        ratio_low: 1.1,
        ratio_high: 1.3,
        elapsed_ms: expect.any(Number),
      },
    ]);
  });

  it('has no row of a failed call', async () => {
    const { bare, lab, rows } = await observed();
    bare.error = new Error('lost');
    await expect(lab.register(kernel, never)).rejects.toThrow('lost');
    await expect(lab.runParity(never)).rejects.toThrow('lost');
    await expect(lab.bench({}, never)).rejects.toThrow('lost');
    expect([...(await rows('parity')), ...(await rows('bench'))]).toEqual([]);
  });

  it('passes every call and its arguments to the lab', async () => {
    const { bare, lab } = await observed();
    const plain = new ScriptedLab();
    const all = async (one: Lab) => [
      await one.graph(),
      await one.parts(),
      one.ops(),
      await one.stub('rms_norm', { target: 'plain' }),
      await one.bind({ kernel: 'fast', span: 's' }, never),
      await one.unbind(),
      one.setParityMode({ mode: 'strict' }),
      one.parityMode,
      await one.validate({ path: 'p' }),
      await one.saveConfig('mine'),
      await one.configNames(),
      await one.config('mine').catch(String),
      await one.register(kernel, never),
      await one.runParity(never),
      await one.bench({ rounds: 2 }, never),
    ];
    expect(await all(lab)).toEqual(await all(plain));
    expect(bare.calls).toEqual(plain.calls);
  });

  it('is the same for agents and over HTTP', async () => {
    const { lab, rows } = await observed();
    const resident = new Resident('loading');
    resident.setReady(new ScriptedEngine(), { lab: () => lab });
    await createPinnedLab(resident).register(kernel, never);
    const route = createLabPlane(resident).routes.find(({ operationId }) => operationId === 'runLabParity');
    await route?.handle({ signal: never, finished: Promise.resolve() } as never);
    expect((await rows('parity')).map(({ source }) => source).toSorted()).toEqual(['gate', 'run']);
  });
});
