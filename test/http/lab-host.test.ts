/** The kernel lab of the built host, over HTTP, on the real adapter. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type {
  BenchResult,
  BindOutcome,
  ConfigEnvelope,
  KernelRegistration,
  KernelRegistrationReport,
  KernelVersions,
  LabGraph,
  LabKernelDetail,
  LabParts,
  ParityRunResult,
  ValidationReport,
} from '../../src/lab/types.ts';
import { verifyConfig } from '../../src/lab-tool/verify-config.ts';
import { buildHost, freshDataDir, type HostProcess, startHost } from '../support/host.ts';
import { until } from '../support/until.ts';
import { runsRest } from '../support/tier.ts';

let host: HostProcess;
let url: string;
let dataDir: string;

const started: HostProcess[] = [];
async function start(flags: readonly string[] = []): Promise<{ host: HostProcess; url: string }> {
  const one = startHost(['--gpu', '--port', '0', ...flags], { LATHE_DATA_DIR: dataDir });
  started.push(one);
  return { host: one, url: await one.url() };
}

beforeAll(async () => {
  buildHost();
  dataDir = freshDataDir();
  ({ host, url } = await start());
});
afterAll(() => Promise.all(started.map((one) => one.end())));

interface Answer<Body> {
  readonly status: number;
  readonly body: Body;
}

async function call(method: string, path: string, body?: unknown, signal?: AbortSignal) {
  const answer = await fetch(`${url}${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  });
  return { status: answer.status, body: await answer.json() };
}

const complete = async (prompt: string, seed = 3) => {
  const answer: Answer<{ choices?: { text: string }[]; error?: { message: string } }> = await call(
    'POST',
    '/v1/completions',
    { model: 'lathe-tiny', prompt, max_tokens: 24, temperature: 0.8, seed },
  );
  const { choices, error } = answer.body;
  return { status: answer.status, text: choices?.[0]?.text, error: error?.message };
};

/** Registration of the stub of an op, as returned by the host. */
async function stubOf(op: string, name: string, change = (source: string) => source) {
  const { body }: Answer<{ source: string }> = await call('GET', `/lab/v1/ops/${op}/stub`);
  const [, dispatch = ''] = /^\/\/! dispatch: (.*)$/m.exec(body.source) ?? [];
  const [x = '', y] = dispatch.split(/,(?![^(]*\))/).map((one) => one.trim());
  const registration: KernelRegistration = {
    name,
    op,
    source: change(body.source),
    dispatch: { x, ...(y === undefined ? {} : { y }) },
  };
  return registration;
}

/** `lab_busy` is no verdict: it asks for another attempt, as does a report without captured inputs. */
async function register(registration: KernelRegistration): Promise<Answer<KernelRegistrationReport>> {
  for (;;) {
    const answer: Answer<KernelRegistrationReport & { error?: { code: string } }> = await call(
      'POST',
      '/lab/v1/kernels',
      registration,
    );
    const codes = answer.body.stages?.flatMap(({ findings }) => findings.map(({ code }) => code)) ?? [];
    if (answer.body.error?.code !== 'lab_busy' && !codes.includes('captured_unavailable')) return answer;
  }
}

async function registerStub(op: string, name: string, change?: (source: string) => string) {
  const { status, body } = await register(await stubOf(op, name, change));
  expect(
    body.stages.flatMap(({ findings }) => findings.filter(({ severity }) => severity === 'error')),
  ).toEqual([]);
  expect({ status, accepted: body.accepted }).toEqual({ status: 201, accepted: true });
  return body;
}

const largest = `fn largest(token: u32) -> f32 {
  var top = 0.0;
  for (var quad = 0u; quad < params.blocks * 8u; quad++) {
    top = max(top, length(x[token * (params.x_stride / 4u) + quad]));
  }
  return top;
}`;

const kernelOn = async (id: string) => {
  const { body }: Answer<LabParts> = await call('GET', '/lab/v1/parts');
  return body.components.find((one) => one.id === id)?.kernel;
};

describe('from the stub to a verdict', () => {
  afterEach(() => call('DELETE', '/lab/v1/bindings'));

  it('registers, binds, runs parity, benches; the text for a seed does not change, and unbind restores the built-in kernels', async () => {
    const before = await complete('Once upon a time');
    const report = await registerStub('rms_norm', 'walk.norm');
    expect(report.parity?.map((one) => one.case).some((name) => name.startsWith('captured'))).toBe(true);
    for (const one of report.parity ?? []) expect(one.builtin?.nmse).toBeTypeOf('number');

    const bound = await call('POST', '/lab/v1/bindings', {
      kernel: 'walk.norm',
      components: ['layers.*.attn.norm'],
    });
    expect(bound).toMatchObject({
      status: 200,
      body: { bound: true, drift: { components: 9, positions: 48, top1_agreement: 1 } },
    });
    expect(bound.body).not.toHaveProperty('drift_together');
    expect((bound.body as BindOutcome).drift?.worst_kl).toBeLessThan(1e-6);
    expect(await kernelOn('layers.1.attn.norm')).toBe('walk.norm');
    expect(await kernelOn('layers.1.ffn.norm')).toMatch(/^builtin:/);
    const { body: graph }: Answer<LabGraph> = await call('GET', '/lab/v1/graph');
    expect(graph.nodes.find(({ id }) => id === 'layers.0.attn.norm')).toMatchObject({
      kernel: 'walk.norm',
      component: 'layers.0.attn.norm',
    });
    expect(await complete('Once upon a time')).toEqual(before);

    // With this seed, two of the positions that are drawn first are the same.
    await call('PUT', '/lab/v1/parity', { mode: 'standard', seed: 2241166116 });
    const seeded: Answer<ParityRunResult> = await call('POST', '/lab/v1/parity/run');
    expect(seeded.body).toMatchObject({ seed: 2241166116, ok: true, logits: { positions: 69 } });
    await call('PUT', '/lab/v1/parity', { mode: 'standard' });
    const parity: Answer<ParityRunResult> = await call('POST', '/lab/v1/parity/run');
    expect(parity.body).toMatchObject({ ok: true, logits: { positions: 69, top1_agreement: 1 } });
    expect(parity.body.components.map(({ id }) => id)).toEqual(
      [0, 1, 2, 3].map((layer) => `layers.${layer}.attn.norm`),
    );

    const bench: Answer<BenchResult> = await call('POST', '/lab/v1/bench', {
      rounds: 6,
      new_tokens: 4,
      contexts: [32],
    });
    expect(bench.status).toBe(200);
    expect(bench.body.components.find(({ id }) => id === 'layers.0.attn.norm')?.kernel).toBe('walk.norm');
    expect(bench.body.fingerprint.kernels).toEqual({ 'walk.norm': report.digest });
    expect(bench.body.baseline.decode_tps).toBeGreaterThan(0);

    expect((await call('DELETE', '/lab/v1/bindings')).body).toEqual({ cleared: true });
    expect(await kernelOn('layers.1.attn.norm')).toMatch(/^builtin:/);
    expect(await complete('Once upon a time')).toEqual(before);
  });

  it('a kernel bound to a span replaces the kernels bound to its nodes', async () => {
    await registerStub('norm_matmul', 'walk.span');
    await registerStub('rms_norm', 'walk.part');
    await call('POST', '/lab/v1/bindings', { kernel: 'walk.span', span: 'layers.*.attn.norm_qkv' });
    const { body: graph }: Answer<LabGraph> = await call('GET', '/lab/v1/graph');
    expect(graph.spans.find(({ id }) => id === 'layers.2.attn.norm_qkv')?.fused_kernel).toBe('walk.span');
    const over: Answer<{ replaced: string[] }> = await call('POST', '/lab/v1/bindings', {
      kernel: 'walk.part',
      components: ['layers.2.attn.norm'],
    });
    expect(over.body.replaced).toEqual(['walk.span']);
    expect(await kernelOn('layers.2.attn.q')).toMatch(/^builtin:/);
    expect(await kernelOn('layers.1.attn.q')).toBe('walk.span');
  });

  it('binding a new version of a kernel unbinds the old version of the same name', async () => {
    const old = await registerStub('rms_norm', 'walk.twice');
    await call('POST', '/lab/v1/bindings', { kernel: 'walk.twice', components: ['layers.*.attn.norm'] });
    const now = await registerStub('rms_norm', 'walk.twice', (source) => `${source}\n// other`);
    expect(now.digest).not.toBe(old.digest);
    expect(await kernelOn('layers.1.attn.norm')).toBe('walk.twice');
    await call('POST', '/lab/v1/bindings', { kernel: 'walk.twice', components: ['layers.0.attn.norm'] });
    expect(await kernelOn('layers.1.attn.norm')).toMatch(/^builtin:/);
    await call('POST', '/lab/v1/configs', { name: 'twice' });
    const { body }: Answer<ConfigEnvelope> = await call('GET', '/lab/v1/configs/twice');
    expect(body.kernels.map(({ digest }) => digest)).toEqual([now.digest]);
    expect(body.bindings).toEqual([{ kernel: 'walk.twice', components: ['layers.0.attn.norm'] }]);
  });

  it('a rejected, unknown or incompatible kernel is not bound, and the bindings do not change', async () => {
    const wrong = await register(
      await stubOf('rms_norm', 'walk.wrong', (source) => source.replace('+ params.eps', '+ 0.3')),
    );
    expect(wrong).toMatchObject({ status: 201, body: { accepted: false } });
    const bind = (body: unknown) => call('POST', '/lab/v1/bindings', body);
    expect(await bind({ kernel: 'walk.wrong', components: ['layers.0.attn.norm'] })).toMatchObject({
      status: 409,
      body: { error: { code: 'not_bindable' } },
    });
    expect((await bind({ kernel: 'no.such', components: ['layers.0.attn.norm'] })).status).toBe(404);
    expect((await bind({ kernel: 'walk.norm', components: ['layers.0.attn.q'] })).status).toBe(409);
    expect((await bind({ kernel: 'walk.norm', components: ['layers.99.attn.norm'] })).status).toBe(400);
    expect(await kernelOn('layers.0.attn.norm')).toMatch(/^builtin:/);
  });

  it('in strict mode, kernels that were accepted with a larger tolerance are not bound', async () => {
    const bind = () =>
      call('POST', '/lab/v1/bindings', { kernel: 'loose.norm', components: ['layers.0.attn.norm'] });
    await call('PUT', '/lab/v1/parity', { mode: 'standard', tolerance_scale: 10 });
    await registerStub('rms_norm', 'loose.norm');
    await call('PUT', '/lab/v1/parity', { mode: 'strict' });
    expect(await bind()).toMatchObject({
      status: 409,
      body: {
        error: { code: 'not_bindable', message: expect.stringContaining('10 times the usual tolerance') },
      },
    });
    await call('PUT', '/lab/v1/parity', { mode: 'standard' });
    expect((await bind()).status).toBe(200);
    await call('DELETE', '/lab/v1/bindings');
  });

  it('a kernel that changes the model wherever it fits is not bound', async () => {
    // Skips quads of activations that are small beside the largest: within the tolerance of quantized products.
    await registerStub('matvec_add', 'loose.product', (source) =>
      source
        .replace('fn row_sum(', `${largest}\nfn row_sum(`)
        .replace(
          'let block = row * params.blocks + quad / 8u;',
          'if (length(input_quad(token, quad)) < least) { continue; }\n    $&',
        )
        .replace('var sum = 0.0;', '$&\n  let least = 0.05 * largest(token);'),
    );
    const refused = await call('POST', '/lab/v1/bindings', {
      kernel: 'loose.product',
      components: ['layers.0.attn.o_add'],
    });
    expect(refused).toMatchObject({
      status: 409,
      body: {
        error: {
          code: 'not_bindable',
          message: expect.stringMatching(
            /on all \d+ components that it fits.*after 32 decoded tokens, the logits differ by/,
          ),
        },
      },
    });
    expect(await kernelOn('layers.0.attn.o')).toMatch(/^builtin:/);
  });

  it('a kernel that samples is bound when the model samples the same tokens', async () => {
    await registerStub('sample', 'walk.sample');
    expect(
      await call('POST', '/lab/v1/bindings', { kernel: 'walk.sample', components: ['sample'] }),
    ).toMatchObject({
      status: 200,
      body: { drift: { components: 1, mean_kl: 0 } },
    });
  });

  it('unverified kernels are registered and not bound', async () => {
    await call('PUT', '/lab/v1/parity', { mode: 'off' });
    const { body } = await register(await stubOf('rms_norm', 'walk.unverified'));
    expect(body).toMatchObject({ accepted: true, unverified: true });
    expect(body.parity).toBeUndefined();
    const bound = await call('POST', '/lab/v1/bindings', {
      kernel: 'walk.unverified',
      components: ['layers.0.attn.norm'],
    });
    expect(bound.status).toBe(409);
    expect((await call('PUT', '/lab/v1/parity', { mode: 'standard' })).body).toEqual({ mode: 'standard' });
  });
});

describe('a bench of some of the bound kernels', () => {
  afterEach(() => call('DELETE', '/lab/v1/bindings'));

  it('has the others in both arms, and is no evidence of all bindings', async () => {
    for (const [name, id] of [
      ['walk.measured', 'layers.0.attn.norm'],
      ['walk.beside', 'layers.0.ffn.norm'],
    ] as const) {
      // Two programs: one program under two names is compared alone only.
      await registerStub('rms_norm', name, (source) => `${source}\n// ${name}\n`);
      const { body }: Answer<BindOutcome> = await call('POST', '/lab/v1/bindings', {
        kernel: name,
        components: [id],
      });
      // Alone wherever it fits, and then both as they are bound.
      expect(body.drift?.components).toBe(9);
      expect(body.drift_together?.components).toBe(name === 'walk.beside' ? 2 : undefined);
    }
    const bench = async (kernels: readonly string[]) =>
      await call('POST', '/lab/v1/bench', { kernels, rounds: 2, new_tokens: 1, contexts: [16] });
    const { body }: Answer<BenchResult> = await bench(['walk.measured']);
    expect(body.beside).toEqual(['walk.beside']);
    expect(Object.keys(body.fingerprint.kernels)).toEqual(['walk.measured']);
    // Only the other kernel's component has a time in both arms.
    const baselineMs = (id: string) => body.components.find((one) => one.id === id)?.baseline_ms;
    expect(baselineMs('layers.0.ffn.norm')).toBeGreaterThan(0);
    expect(baselineMs('layers.0.attn.norm')).toBeUndefined();
    const versions: Answer<KernelVersions> = await call('GET', '/lab/v1/kernels/walk.beside/versions');
    expect(versions.body.versions[0]?.benches).toEqual([]);
    await call('POST', '/lab/v1/configs', { name: 'walk.some' });
    const config: Answer<ConfigEnvelope> = await call('GET', '/lab/v1/configs/walk.some');
    expect(config.body.bench).toBeUndefined();
    const none: Answer<{ error: { code: string; message: string } }> = await bench(['walk.absent']);
    expect(none.status).toBe(409);
    expect(none.body.error).toMatchObject({
      code: 'nothing_bound',
      message: expect.stringContaining('bound kernels: walk.measured, walk.beside'),
    });
  });
});

describe('tunables', () => {
  afterEach(() => call('DELETE', '/lab/v1/bindings'));

  it('are tuned; the values that are kept for each shape are reported and used', async () => {
    const stub = await stubOf('rms_norm', 'walk.tuned');
    const { body } = await register({ ...stub, tunables: { WG: [16, 32, 64] } });
    expect(body.accepted).toBe(true);
    const [shape] = body.tuning ?? [];
    // The live graph computes norms within products.
    const notes = body.stages
      .flatMap(({ findings }) => findings)
      .filter(({ code }) => code === 'builtin_is_fused');
    expect(notes.map(({ message }) => message).join()).toContain(
      'layers.0.attn.norm as part of layers.0.attn.qkv',
    );
    expect(shape?.shape).toContain('columns=256');
    expect(shape?.tried.map(({ overrides }) => overrides['WG']).sort()).toEqual([16, 32, 64]);
    expect(shape?.best).toEqual(
      shape?.fastest?.verdict === 'faster' ? shape.fastest.overrides : shape?.default,
    );
    await call('POST', '/lab/v1/bindings', { kernel: 'walk.tuned', components: ['layers.0.attn.norm'] });
    const bench: Answer<BenchResult> = await call('POST', '/lab/v1/bench', {
      rounds: 6,
      new_tokens: 1,
      contexts: [16],
    });
    const names = Object.keys(bench.body.fingerprint.kernels);
    expect(names).toEqual([`walk.tuned WG=${shape?.best['WG']}`]);
  });
});

describe('one engine', () => {
  it('a bench waits for running and queued completions; later completions run between its samples', async () => {
    const ends: string[] = [];
    const note = async (what: string, work: Promise<unknown>) => {
      await work;
      ends.push(what);
    };
    const long = { model: 'lathe-tiny', prompt: 'Once', max_tokens: 300, temperature: 0.9, seed: 4 };
    const streamed = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...long, stream: true }),
    });
    const before = note('before', streamed.text());
    const request = { rounds: 10, new_tokens: 16, contexts: [16, 64], prompt_tokens: 64 };
    let result: Answer<BenchResult> | undefined;
    const bench = note(
      'bench',
      call('POST', '/lab/v1/bench', request).then((answer) => (result = answer as Answer<BenchResult>)),
    );
    await before;
    for (let n = 0; n < 2; n++) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      await note('meanwhile', complete('Later'));
    }
    await bench;
    expect(ends).toEqual(['before', 'meanwhile', 'meanwhile', 'bench']);
    // What ran between did not change what was compared.
    expect(result?.body.warnings.filter((one) => one.startsWith('outputs'))).toEqual([]);
    for (const { outputs } of [...(result?.body.decode ?? []), result?.body.prefill].filter(
      (one) => one !== undefined,
    ))
      expect(outputs.timed_same).toBe(outputs.timed_tokens);
  });

  it('a client that disconnects cancels its bench and frees the engine', async () => {
    const gone = new AbortController();
    const long = call('POST', '/lab/v1/bench', { rounds: 1000, mode: 'full' }, gone.signal);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    const answer = complete('Meanwhile');
    gone.abort();
    await expect(long).rejects.toThrow();
    expect((await answer).status).toBe(200);
  });

  it.runIf(runsRest)(
    'a candidate that never ends is killed in the child process; the host keeps answering',
    async () => {
      const endless = await stubOf('rms_norm', 'walk.endless', (source) =>
        source.replace(
          'let mean =',
          'var spin = 1u; loop { spin = spin * 1664525u + 1013904223u; if (spin == 0u && x[0] == 7.5) { break; } }\n  let mean = f32(spin & 0u) +',
        ),
      );
      const judged = register(endless);
      for (let n = 0; n < 3; n++) expect((await complete(`Number ${n}`)).status).toBe(200);
      expect((await fetch(`${url}/health`)).status).toBe(200);
      const { status, body } = await judged;
      expect({ status, accepted: body.accepted }).toEqual({ status: 201, accepted: false });
      expect(body.stages.at(-1)?.findings.map(({ code }) => code)).toContain('deadline');
      await registerStub('rms_norm', 'walk.after');
    },
  );
});

describe('configs', () => {
  it('are signed, validated, and bound at the next start; a modified config is not bound', async () => {
    await registerStub('rms_norm', 'saved.norm');
    await call('POST', '/lab/v1/bindings', { kernel: 'saved.norm', components: ['layers.*.ffn.norm'] });
    const bench = { rounds: 6, new_tokens: 4, prompt_tokens: 16, contexts: [16] };
    const { body: benched }: Answer<BenchResult> = await call('POST', '/lab/v1/bench', bench);
    expect(await call('POST', '/lab/v1/configs', { name: 'saved' })).toEqual({
      status: 201,
      body: { name: 'saved', saved: true },
    });
    const path = join(dataDir, 'configs', 'saved.json');
    const { body }: Answer<ValidationReport> = await call('POST', '/lab/v1/validate', { path });
    expect(body.ok).toBe(true);
    // With its evidence, which the tool checks without a host.
    const { body: saved }: Answer<ConfigEnvelope> = await call('GET', '/lab/v1/configs/saved');
    expect(saved.bench?.result).toEqual(benched);
    expect(saved.bench?.rounds.length).toBe(6);
    expect(saved.machine).toMatchObject({ cores: cpus().length, cpu: expect.stringMatching(/./) });
    const verified = await verifyConfig(saved, await readFile(path, 'utf8'));
    expect(verified).toMatchObject({ ok: true, findings: [], signed_by: saved.signature.key_id });
    // Bound elsewhere, the bench is not evidence of these bindings.
    await call('POST', '/lab/v1/bindings', { kernel: 'saved.norm', components: ['layers.0.attn.norm'] });
    await call('POST', '/lab/v1/configs', { name: 'other' });
    expect((await call('GET', '/lab/v1/configs/other')).body).not.toHaveProperty('bench');
    const theirs = await call('POST', '/lab/v1/configs/import', { envelope: saved, name: 'theirs' });
    expect(theirs).toMatchObject({
      status: 201,
      body: { name: 'theirs', saved: true, report: { ok: true } },
    });
    expect((await call('POST', '/lab/v1/configs/import', { envelope: saved, name: 'theirs' })).status).toBe(
      409,
    );
    const changed = { ...saved, name: 'changed' };
    expect(await call('POST', '/lab/v1/configs/import', { envelope: changed })).toMatchObject({
      status: 400,
      body: {
        error: { code: 'invalid_config', message: expect.stringContaining('changed after it was signed') },
      },
    });
    for (const name of ['other', 'theirs'])
      expect(await call('DELETE', `/lab/v1/configs/${name}`)).toEqual({
        status: 200,
        body: { deleted: true },
      });
    host.kill('SIGTERM');
    expect(await host.exit).toEqual({ code: 0, signal: null });

    ({ host, url } = await start(['--kernels', 'saved']));
    expect(await kernelOn('layers.3.ffn.norm')).toBe('saved.norm');
    // Kernels of the process before are there, and can be bound as they are.
    const { body: kept }: Answer<LabKernelDetail> = await call('GET', '/lab/v1/kernels/walk.norm');
    expect(kept).toMatchObject({ state: 'accepted', registration: { op: 'rms_norm' }, components: [] });
    const again = { kernel: 'walk.norm', components: ['layers.0.attn.norm'] };
    expect(await call('POST', '/lab/v1/bindings', again)).toMatchObject({ status: 200 });
    const { body: past }: Answer<KernelVersions> = await call('GET', '/lab/v1/kernels/walk.twice/versions');
    expect(past.versions.map(({ accepted }) => accepted)).toEqual([true, true]);
    expect(new Set(past.versions.map(({ digest }) => digest)).size).toBe(2);
    await call('DELETE', '/lab/v1/bindings');
    expect(await call('DELETE', '/lab/v1/kernels/walk.twice')).toEqual({
      status: 200,
      body: { deleted: true },
    });
    expect((await call('GET', '/lab/v1/kernels/walk.twice')).status).toBe(404);
    host.kill('SIGTERM');
    await host.exit;

    // Another host has another key: it binds the config if the signing key is trusted.
    const text = await readFile(path, 'utf8');
    const home = dataDir;
    dataDir = freshDataDir();
    await mkdir(join(dataDir, 'configs'));
    await writeFile(join(dataDir, 'configs', 'saved.json'), text);
    ({ host, url } = await start(['--kernels', 'saved', '--quiet']));
    const keyId = /--trust-key (ed25519:\w+)/.exec(host.output.stderr)?.[1] ?? '';
    expect(host.output.stderr).toContain('does not trust');
    expect(await kernelOn('layers.3.ffn.norm')).toMatch(/^builtin:/);
    await host.end();
    ({ host, url } = await start(['--kernels', 'saved', '--trust-key', keyId]));
    expect(await kernelOn('layers.3.ffn.norm')).toBe('saved.norm');
    await host.end();
    dataDir = home;

    await writeFile(path, text.replace('layers.3.ffn.norm', 'layers.3.attn.norm'));
    ({ host, url } = await start(['--kernels', 'saved']));
    expect(host.output.stderr).toContain('changed after it was signed');
    expect(await kernelOn('layers.3.ffn.norm')).toMatch(/^builtin:/);
    await writeFile(path, text);
  });
});

describe('a device without bounds checks', () => {
  it.runIf(runsRest)('runs built-in kernels, checks others, and binds none of those', async () => {
    await host.end();
    ({ host, url } = await start(['--dawn-features', 'disable_robustness']));
    await registerStub('rms_norm', 'unchecked.norm');
    expect(
      await call('POST', '/lab/v1/bindings', {
        kernel: 'unchecked.norm',
        components: ['layers.0.attn.norm'],
      }),
    ).toMatchObject({
      status: 409,
      body: {
        error: { code: 'not_bindable', message: expect.stringContaining('disable_robustness') as string },
      },
    });
    expect((await complete('Still here')).status).toBe(200);
    await host.end();
    ({ host, url } = await start());
  });
});

describe('kernels that crash the host', () => {
  it('are not bound again after a kill -9 soon after they were bound', async () => {
    await registerStub('rms_norm', 'deadly.norm', (source) => `${source}\n// deadly`);
    await call('POST', '/lab/v1/bindings', { kernel: 'deadly.norm', components: ['layers.0.attn.norm'] });
    await call('POST', '/lab/v1/configs', { name: 'deadly' });
    host.kill('SIGKILL');
    await host.exit;
    ({ host, url } = await start(['--kernels', 'deadly']));
    expect(host.output.stderr).toMatch(/deadly\.norm is in quarantine/);
    expect(await kernelOn('layers.0.attn.norm')).toMatch(/^builtin:/);
    expect((await complete('Still here')).status).toBe(200);
  });

  it.runIf(runsRest)(
    'that hang a step: its request gets an error, built-in kernels are restored, the kernel is quarantined',
    async () => {
      const words = 'Many words in one prompt, so that it takes a step of many rows. '.repeat(5);
      const tokenized = await call('POST', '/tokenize', { content: words });
      const { tokens } = tokenized.body as { tokens: number[] };
      // Correct for all tokens of the gate and of the first binding: their ids are random.
      const trap = (source: string) =>
        source.replace(
          'let position = token[t].y;',
          `var spin = 1u; if (t > 0u && token[t - 1u].x == ${tokens.at(-3)}u && token[t].x == ${tokens.at(-2)}u) { loop { spin = spin * 1664525u + 1013904223u; if (spin == 0u && qkv[0].x == 7.5) { break; } } }
  let position = token[t].y + (spin & 0u);`,
        );
      await registerStub('attention', 'trap.attention', trap);
      const binding = { kernel: 'trap.attention', components: ['layers.0.attn.attend'] };
      await call('POST', '/lab/v1/bindings', binding);
      expect((await complete('Short')).status).toBe(200);
      const hanging = complete(words);
      // Unbinding the kernel does not end the step that hangs, and it is still quarantined.
      await until(async () => {
        const slots = (await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[];
        return slots.some(({ is_processing }) => is_processing);
      });
      await new Promise((resolve) => setTimeout(resolve, 1000));
      const [hung, unbound] = await Promise.all([hanging, call('DELETE', '/lab/v1/bindings')]);
      expect(unbound).toMatchObject({ status: 503, body: { error: { code: 'device_lost' } } });
      expect(hung.status).toBe(503);
      expect(hung.error).toMatch(/GPU was lost/);
      await expect.poll(async () => (await complete('And again')).status).toBe(200);
      expect(await kernelOn('layers.0.attn.attend')).toMatch(/^builtin:/);
      const again: Answer<{ error: { message: string } }> = await call('POST', '/lab/v1/bindings', binding);
      expect(again.status).toBe(409);
      expect(again.body.error.message).toContain('quarantine');
      // A new comment does not make it another kernel.
      await registerStub('attention', 'trap.attention', (source) => `${trap(source)}\n// new`);
      const commented: Answer<{ error: { message: string } }> = await call(
        'POST',
        '/lab/v1/bindings',
        binding,
      );
      expect(commented.status).toBe(409);
      expect(commented.body.error.message).toContain('quarantine');
      // Resources of a hanging device cannot be freed, but the host can exit.
      host.kill('SIGTERM');
      expect(await host.exit).toEqual({ code: 0, signal: null });
    },
  );
});
