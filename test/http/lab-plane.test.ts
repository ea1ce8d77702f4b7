import { connect } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { hostError } from '../../src/planes/error-schema.ts';
import {
  benchRecord,
  benchResult,
  benchSummaries,
  runningBenches,
  bindOutcome,
  configNames,
  labGraph,
  kernelVersion,
  kernelVersions,
  labKernel,
  labOps,
  labParts,
  labProfile,
  LabError,
  type LabErrorCode,
  labStub,
  parityRunResult,
  registrationReport,
  validationReport,
} from '../../src/lab/types.ts';
import { benchLine } from '../../src/planes/lab/bench-lines.ts';
import { HttpError } from '../../src/http/error.ts';
import { summarizeBench } from '../../src/lab/bench-records.ts';
import { ScriptedLab, scriptedProfile, scriptedRecord } from '../support/scripted-lab.ts';
import { serveScripted } from '../support/serve.ts';

const hosts: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.close()));
});

async function serve(start: Parameters<typeof serveScripted>[1] = 'ready', lab = new ScriptedLab()) {
  const host = await serveScripted({}, start, () => lab);
  hosts.push(host);
  const send = (method: string, path: string, body?: unknown, init: RequestInit = {}) =>
    fetch(`${host.url}/lab/v1${path}`, {
      method,
      ...(body === undefined
        ? {}
        : {
            headers: { 'content-type': 'application/json' },
            body: typeof body === 'string' ? body : JSON.stringify(body),
          }),
      ...init,
    });
  return { ...host, lab, send };
}

const kernel = {
  name: 'fast',
  op: 'rms_norm',
  source: '@compute @workgroup_size(64) fn main() {}',
  dispatch: { x: 'tokens' },
};

/** Table 4.4 of the specification. */
const table = [
  ['GET', '/graph'],
  ['GET', '/parts'],
  ['GET', '/kernels'],
  ['POST', '/kernels'],
  ['GET', '/ops'],
  ['GET', '/ops/{op}/stub'],
  ['POST', '/bindings'],
  ['DELETE', '/bindings'],
  ['GET', '/parity'],
  ['PUT', '/parity'],
  ['POST', '/parity'],
  ['POST', '/parity/run'],
  ['POST', '/validate'],
  ['POST', '/bench'],
  ['GET', '/configs'],
  ['POST', '/configs'],
  ['GET', '/configs/{name}'],
] as const;

/** Routes that the specification does not have. */
const additions = [
  ['GET', '/bench'],
  ['DELETE', '/bench/{id}'],
  ['POST', '/profile'],
  ['GET', '/kernels/{name}'],
  ['GET', '/kernels/{name}/versions'],
  ['GET', '/kernels/{name}/versions/{at}'],
  ['GET', '/benches'],
  ['GET', '/benches/{id}'],
  ['DELETE', '/kernels/{name}'],
  ['DELETE', '/bindings/{component}'],
  ['DELETE', '/configs/{name}'],
  ['POST', '/configs/import'],
] as const;

test('the plane has exactly the routes of the table, and these additions', async () => {
  const { planes } = await serve();
  const routes = planes.find(({ name }) => name === 'lab')?.routes ?? [];
  const mounted = routes.map(({ method, path }) => `${method} ${path}`);
  expect(mounted.sort()).toEqual(
    [...table, ...additions].map(([method, path]) => `${method} /lab/v1${path}`).sort(),
  );
});

test('the host reports that it has a lab', async () => {
  const { get } = await serve();
  expect(await (await get('/health')).json()).toMatchObject({
    planes: expect.arrayContaining(['host', 'lab']),
  });
  expect(await (await get('/host/v1/info')).json()).toMatchObject({
    capabilities: expect.arrayContaining(['host', 'lab']),
  });
});

describe('503 precedes every other check', () => {
  test.each([
    ['none', 'no_resident_model', null],
    ['loading', 'model_loading', '1'],
    ['starting', 'lab_starting', '1'],
  ] as const)('%s: every route answers %s', async (state, code, retryAfter) => {
    const lab = new ScriptedLab();
    const { send, resident, engine } = await serve(state === 'starting' ? 'loading' : state, lab);
    if (state === 'starting') resident.setReady(engine, { lab: () => undefined });
    for (const [method, path] of table) {
      for (const spelled of [path, path.replace('{op}', 'rms_norm').replace('{name}', '..%2f')]) {
        const answers = [await send(method, spelled)];
        if (method !== 'GET') {
          answers.push(await send(method, spelled, '{ broken'));
          answers.push(await send(method, spelled, { name: 1 }));
          answers.push(await send(method, spelled, 'x', { headers: { 'content-type': 'text/plain' } }));
        }
        for (const answer of answers) {
          expect([answer.status, method, spelled]).toEqual([503, method, spelled]);
          expect(answer.headers.get('retry-after')).toBe(retryAfter);
          expect(hostError.parse(await answer.json()).error.code).toBe(code);
        }
      }
    }
    expect(lab.calls).toEqual([]);
  });

  test('a host without a lab answers 503; when the lab becomes ready, it is served', async () => {
    const { send, resident, engine, lab } = await serve('loading');
    resident.setReady(engine);
    expect(hostError.parse(await (await send('GET', '/ops')).json()).error.code).toBe('lab_unavailable');
    let ready = false;
    resident.setReady(engine, { lab: () => (ready ? lab : undefined) });
    expect((await send('GET', '/ops')).status).toBe(503);
    ready = true;
    expect((await send('GET', '/ops')).status).toBe(200);
  });
});

describe('responses', () => {
  test('graph, parts under both names, ops and stubs', async () => {
    const { send, lab } = await serve();
    const body = async (path: string) => {
      const answer = await send('GET', path);
      expect([path, answer.status]).toEqual([path, 200]);
      return await answer.json();
    };
    expect(labGraph.strict().parse(await body('/graph'))).toEqual(await lab.graph());
    expect(labParts.strict().parse(await body('/parts'))).toEqual(await lab.parts());
    expect(await body('/kernels')).toEqual(await body('/parts'));
    expect(labOps.strict().parse(await body('/ops'))).toEqual({ ops: lab.ops() });
    expect(labStub.strict().parse(await body('/ops/matvec/stub'))).toMatchObject({ target: 'plain' });
    expect(labStub.parse(await body('/ops/matvec/stub?target=f16'))).toEqual({
      op: 'matvec',
      target: 'f16',
      source: '// WGSL',
    });
    const twice = await send('GET', '/ops/matvec/stub?target=f16&target=plain');
    expect(twice.status).toBe(400);
    const unknown = await send('GET', '/ops/rms%2Fnorm/stub');
    expect(unknown.status).toBe(404);
    expect(lab.calls.at(-1)).toEqual(['stub', ['rms/norm', {}]]);
    await body('/ops/matvec/stub?format=q4_k&component=layers.0.attn.q');
    expect(lab.calls.at(-1)).toEqual(['stub', ['matvec', { format: 'q4_k', component: 'layers.0.attn.q' }]]);
  });

  test('a registration answers 201 with its report, accepted or not; unknown members are ignored', async () => {
    const { send, lab } = await serve();
    const full = {
      ...kernel,
      entry_point: 'größe',
      dispatch: { x: 'ceil(columns / WG)', y: 'tokens', z: '1' },
      overrides: { WG: 64 },
      tunables: { WG: [32, 64], '7': [1.5] },
      requires: ['shader-f16', 'subgroups'],
      dtypes: ['q8_0', 'f32'],
    };
    const answer = await send('POST', '/kernels', { ...full, unheard_of: 1 });
    expect(answer.status).toBe(201);
    const report = registrationReport.strict().parse(await answer.json());
    expect(report).toMatchObject({ kernel: 'fast', accepted: true });
    expect(lab.calls).toEqual([['register', full]]);
    const refused = await send('POST', '/kernels', { ...kernel, source: 'wrong' });
    expect([refused.status, ((await refused.json()) as { accepted: boolean }).accepted]).toEqual([
      201,
      false,
    ]);
  });

  test('bindings are created and cleared', async () => {
    const { send, lab } = await serve();
    const request = { kernel: 'fast', components: ['layers.*.norm'], span: 'layers.0.qkv' };
    const bound = await send('POST', '/bindings', request);
    expect(bound.status).toBe(200);
    expect(bindOutcome.strict().parse(await bound.json()).components).toEqual(['layers.0.norm']);
    const cleared = await send('DELETE', '/bindings');
    expect([cleared.status, await cleared.json()]).toEqual([200, { cleared: true }]);
    expect(lab.calls).toEqual([
      ['bind', request],
      ['unbind', undefined],
    ]);
  });

  test('the parity mode can be read, and set by PUT and POST', async () => {
    const { send } = await serve();
    expect(await (await send('GET', '/parity')).json()).toEqual({ mode: 'standard' });
    for (const [method, mode] of [
      ['PUT', { mode: 'strict', tolerance_scale: 0.01, seed: 4294967295 }],
      ['POST', { mode: 'off', tolerance_scale: 10, seed: 0 }],
    ] as const) {
      const answer = await send(method, '/parity', { ...mode, more: true });
      expect([answer.status, await answer.json()]).toEqual([200, mode]);
      expect(await (await send('GET', '/parity')).json()).toEqual(mode);
    }
  });

  test('a parity run; non-finite numbers are null', async () => {
    const { send } = await serve();
    const answer = await send('POST', '/parity/run');
    expect(answer.status).toBe(200);
    expect(parityRunResult.strict().parse(await answer.json()).components[0]?.max_abs).toBeNull();
  });

  test('a bench with a body, an empty body and no body, with any content type', async () => {
    const { send, lab } = await serve();
    const request = {
      prompt_tokens: 4096,
      new_tokens: 1,
      rounds: 3,
      contexts: [1, 4096],
      mode: 'quick',
      seed: 5,
    };
    for (const answer of [
      await send('POST', '/bench', request),
      await send('POST', '/bench'),
      await send('POST', '/bench', ''),
      await send('POST', '/bench', '', { headers: { 'content-type': 'text/plain' } }),
      await send('POST', '/bench', {}),
    ]) {
      expect(answer.status).toBe(200);
      expect(benchResult.strict().parse(await answer.json()).verdict).toBe('faster');
    }
    expect(lab.calls.map(([, given]) => given)).toEqual([request, {}, {}, {}, {}]);
    const text = await send('POST', '/bench', 'x', { headers: { 'content-type': 'text/plain' } });
    expect(text.status).toBe(415);
  });

  test('a bench with progress is streamed line by line, with the result last', async () => {
    const { send, lab } = await serve();
    const answer = await send('POST', '/bench', { rounds: 3, stream: true });
    expect(answer.headers.get('content-type')).toBe('application/x-ndjson');
    const lines = (await answer.text()).trimEnd().split('\n');
    const progressLines = lines.map((line) => benchLine.parse(JSON.parse(line)));
    expect(progressLines.map((line) => ('stage' in line ? line.stage : 'error'))).toEqual([
      'waiting',
      'round',
      'done',
    ]);
    expect(progressLines[1]).toMatchObject({ round: 1, most: 8, samples: [{ context: 32, bound_ms: 2 }] });
    expect(progressLines[2]).toMatchObject({ result: { verdict: 'faster', rounds: 8 } });
    expect(lab.calls).toEqual([['bench', { rounds: 3 }]]);
  });

  test('finished benches, in a list and with their raw times', async () => {
    const { send } = await serve();
    const list = benchSummaries.strict().parse(await (await send('GET', '/benches')).json());
    expect(list.benches).toEqual([summarizeBench(scriptedRecord)]);
    expect(list.benches[0]).toMatchObject({
      lathe: '1',
      kernels: [{ name: 'fast', digest: 'sha256:00' }],
      decode: { ratio: 1.2, ci95: { low: 1.1, high: 1.3 } },
      components: [{ slot: 'layers.*.norm', kernel: 'fast', gpu_ms: 0.1 }],
      is_complete: true,
    });
    const one = await send('GET', `/benches/${scriptedRecord.id}`);
    expect(benchRecord.strict().parse(await one.json())).toEqual(scriptedRecord);
    const unknown = await send('GET', '/benches/none');
    expect([unknown.status, hostError.parse(await unknown.json()).error.code]).toEqual([
      404,
      'unknown_bench',
    ]);
  });

  test('a kernel by name, and what is deleted by name', async () => {
    const { send, lab } = await serve();
    const found = await send('GET', '/kernels/fast');
    expect(labKernel.strict().parse(await found.json())).toEqual(lab.kernel('fast'));
    const bodyOf = async (method: string, path: string) => (await send(method, path)).json();
    expect(kernelVersions.strict().parse(await bodyOf('GET', '/kernels/fast/versions'))).toEqual(
      await lab.versions('fast'),
    );
    const { at, registration, report } = lab.kernel('fast');
    expect(
      kernelVersion.strict().parse(await bodyOf('GET', `/kernels/fast/versions/${encodeURIComponent(at)}`)),
    ).toEqual({ at, registration, report });
    expect((await send('GET', '/kernels/fast/versions/never')).status).toBe(404);
    expect(await bodyOf('DELETE', '/kernels/fast')).toEqual({ deleted: true });
    expect(await bodyOf('DELETE', '/configs/fast')).toEqual({ deleted: true });
    expect(await bodyOf('DELETE', '/bindings/layers.*.norm')).toEqual({
      cleared: true,
      components: ['layers.0.norm'],
    });
    expect(lab.calls.slice(-3)).toEqual([
      ['deleteKernel', 'fast'],
      ['deleteConfig', 'fast'],
      ['unbindSome', 'layers.*.norm'],
    ]);
    expect((await send('DELETE', '/configs/..%2Ffast')).status).toBe(400);
    const imported = await send('POST', '/configs/import', { envelope: { contract: 1 }, name: 'theirs' });
    expect([imported.status, await imported.json()]).toEqual([
      201,
      { name: 'theirs', saved: true, report: { ok: true, stages: [] } },
    ]);
    expect(
      (await send('POST', '/configs/import', { envelope: { contract: 1 }, name: '../theirs' })).status,
    ).toBe(400);
    expect((await send('POST', '/configs/import', { envelope: 'text' })).status).toBe(400);
    for (const [code, status] of [
      ['unknown_kernel', 404],
      ['kernel_bound', 409],
    ] as const) {
      lab.error = new LabError(code, 'no');
      expect((await send('DELETE', '/kernels/fast')).status).toBe(status);
    }
  });

  test('a registration of a source with directives', async () => {
    const { send, lab } = await serve();
    const source =
      '//! op: rms_norm\n//! name: fast.norm\n//! dispatch: tokens, 1\n//! override WG = 64\n//! tune WG = 32, 64\nfn main() {}\n';
    expect((await send('POST', '/kernels', { source })).status).toBe(201);
    expect(lab.calls.at(-1)).toEqual([
      'register',
      {
        op: 'rms_norm',
        name: 'fast.norm',
        dispatch: { x: 'tokens', y: '1' },
        overrides: { WG: 64 },
        tunables: { WG: [32, 64] },
        source,
      },
    ]);
    // Members of the body win, and with all of them the directives are comments.
    expect((await send('POST', '/kernels', { source, name: 'mine' })).status).toBe(201);
    expect(lab.calls.at(-1)).toMatchObject(['register', { name: 'mine', overrides: { WG: 64 } }]);
    await send('POST', '/kernels', { ...kernel, source });
    expect(lab.calls.at(-1)).toEqual(['register', { ...kernel, source }]);
    const wrong = await send('POST', '/kernels', {
      source: '//! op: rms_nrm\n//! dispatc: tokens\nfn main() {}',
    });
    expect(wrong.status).toBe(400);
    expect(JSON.stringify(await wrong.json())).toMatch(
      /source.*line 2: unknown directive 'dispatc'.*did you mean 'dispatch'/,
    );
  });

  test('a profile', async () => {
    const { send, lab } = await serve();
    const answer = await send('POST', '/profile', { kernel: 'fast', lanes: 16, phase: 'prefill' });
    expect(answer.status).toBe(200);
    expect(labProfile.strict().parse(await answer.json())).toEqual(scriptedProfile('fast'));
    expect(lab.calls).toEqual([['profile', { kernel: 'fast', lanes: 16, phase: 'prefill' }]]);
    const refused = await send('POST', '/profile', { kernel: '', lanes: 12, phase: 'both' });
    expect(refused.status).toBe(400);
    lab.error = new LabError('not_profiled', 'the emulator does not support this');
    expect((await send('POST', '/profile', { kernel: 'fast' })).status).toBe(409);
  });

  test('a bench is listed while it runs, and can be cancelled', async () => {
    const { send, lab } = await serve();
    lab.hang = 'heeds';
    const streamed = await send('POST', '/bench', { stream: true });
    const buffered = send('POST', '/bench', { rounds: 6 });
    const running = async () =>
      runningBenches.strict().parse(await (await send('GET', '/bench')).json()).benches;
    await expect.poll(async () => (await running()).length).toBe(2);
    const [first, second] = await running();
    expect(first).toMatchObject({ stage: 'round', round: 1, most: 8 });
    for (const one of [first, second]) {
      const cancelled = await send('DELETE', `/bench/${one?.id}`);
      expect([cancelled.status, await cancelled.json()]).toEqual([200, { cancelled: true }]);
    }
    const lines = (await streamed.text())
      .trimEnd()
      .split('\n')
      .map((line): unknown => JSON.parse(line));
    expect(lines[0]).toEqual({ stage: 'waiting', id: first?.id });
    const message = `The bench '${first?.id}' was cancelled.`;
    expect(lines.at(-1)).toEqual({ error: { code: 'bench_cancelled', message } });
    const failed = await buffered;
    expect([failed.status, hostError.parse(await failed.json()).error.code]).toEqual([
      409,
      'bench_cancelled',
    ]);
    expect([await running(), lab.cancelled]).toEqual([[], 2]);
    const absent = await send('DELETE', '/bench/bench-9');
    expect([absent.status, hostError.parse(await absent.json()).error]).toMatchObject([
      404,
      { code: 'unknown_bench', message: "No bench 'bench-9' is running; running benches: none." },
    ]);
  });

  test('a bench of too many tokens is refused', async () => {
    const { send, lab } = await serve();
    const refused = await send('POST', '/bench', {
      rounds: 1000,
      new_tokens: 64,
      prompt_tokens: 64,
      contexts: [1, 2],
    });
    expect(refused.status).toBe(400);
    expect(JSON.stringify(await refused.json())).toContain('to be at most 500000 tokens, got 576000');
    expect(
      (await send('POST', '/bench', { rounds: 800, new_tokens: 64, prompt_tokens: 64, contexts: [1, 2] }))
        .status,
    ).toBe(200);
    expect(lab.calls.length).toBe(1);
  });

  test('a streamed bench that is rejected has an error status; one that fails later has an error as its last line', async () => {
    const { send, lab } = await serve();
    lab.error = new LabError('not_bindable', 'no such model');
    const refused = await send('POST', '/bench', { stream: true });
    expect(refused.status).toBe(409);
    expect(hostError.parse(await refused.json()).error.message).toBe('no such model');
    lab.error = undefined;
    lab.bench = async (_request, _signal, onProgress) => {
      onProgress?.({ stage: 'waiting', id: 'bench-1' });
      onProgress?.({ stage: 'peaks' });
      await Promise.resolve();
      throw new LabError('lab_failed', 'the adapter computed nonsense');
    };
    const broken = await send('POST', '/bench', { stream: true });
    expect(broken.status).toBe(200);
    const lines = (await broken.text()).trimEnd().split('\n');
    expect(lines.map((line): unknown => JSON.parse(line))).toEqual([
      { stage: 'waiting', id: 'bench-1' },
      { stage: 'peaks' },
      { error: { code: 'lab_failed', message: 'the adapter computed nonsense' } },
    ]);
  });

  test('configs are validated, saved, listed and read', async () => {
    const { send, lab } = await serve();
    const report = await send('POST', '/validate', { path: 'fast.json' });
    expect(
      validationReport
        .strict()
        .parse(await report.json())
        .stages.map(({ stage }) => stage),
    ).toEqual(['signature', 'safety', 'parity']);
    expect((await send('POST', '/validate', { envelope: { any: ['thing'] } })).status).toBe(200);
    const saved = await send('POST', '/configs', { name: 'fast' });
    expect([saved.status, await saved.json()]).toEqual([201, { name: 'fast', saved: true }]);
    expect(configNames.parse(await (await send('GET', '/configs')).json())).toEqual(['fast']);
    const read = await send('GET', '/configs/fast');
    expect(read.headers.get('content-type')).toContain('application/json');
    expect(await read.text()).toBe('{"contract":1,"name":"fast"}');
    expect((await send('GET', '/configs/slow')).status).toBe(404);
    expect(lab.calls.slice(0, 2)).toEqual([
      ['validate', { path: 'fast.json' }],
      ['validate', { envelope: { any: ['thing'] } }],
    ]);
  });
});

describe('errors', () => {
  test.each<[LabErrorCode, number]>([
    ['unknown_op', 404],
    ['unknown_kernel', 404],
    ['unknown_config', 404],
    ['invalid_target', 400],
    ['unknown_component', 400],
    ['invalid_name', 400],
    ['incompatible_component', 409],
    ['not_bindable', 409],
    ['nothing_bound', 409],
    ['lab_failed', 500],
  ])('%s of the lab is %i', async (code, status) => {
    const { send, lab } = await serve();
    lab.error = new LabError(code, 'the reason');
    for (const answer of [
      await send('GET', '/graph'),
      await send('GET', '/ops/rms_norm/stub'),
      await send('POST', '/bindings', { kernel: 'k', span: 's' }),
      await send('PUT', '/parity', { mode: 'off' }),
      await send('POST', '/bench'),
      await send('POST', '/configs', { name: 'n' }),
    ]) {
      expect(answer.status).toBe(status);
      expect(await answer.json()).toEqual({ error: { code, message: 'the reason' } });
    }
  });

  test('engine errors keep their status; an internal error is a 500 with details in the log', async () => {
    const { send, lab, faults } = await serve();
    lab.error = new EngineError('device_lost', 'gone');
    expect((await send('POST', '/parity/run')).status).toBe(503);
    lab.error = new TypeError('ours');
    const answer = await send('GET', '/parts');
    expect(answer.status).toBe(500);
    expect(await answer.text()).not.toContain('ours');
    expect(faults).toEqual([lab.error]);
  });

  const violations = async (method: string, path: string, body: unknown) => {
    const { send, lab } = await serve();
    const answer = await send(method, path, body);
    const { error } = hostError.parse(await answer.json());
    expect([answer.status, lab.calls]).toEqual([400, []]);
    return (error.violations ?? []).map((one) => `${one.path}: ${one.message}`);
  };

  test('a registration reports all violations at once, with the expected and the actual value', async () => {
    const wrong = {
      name: 'Fast',
      op: 'rms_nrom',
      source: '',
      entry_point: '1st',
      dispatch: { x: '', y: 3 },
      overrides: { 'a b': 1, N: 'x' },
      tunables: { N: [], M: Array(17).fill(1), K: 4 },
      requires: ['timestamp-query'],
      dtypes: ['q8_1'],
    };
    expect(await violations('POST', '/kernels', wrong)).toEqual([
      'name: expected a name that matches ^[a-z][a-z0-9_.-]{0,63}$, got "Fast"',
      'op: expected one of rms_norm, matvec, matmul, got "rms_nrom" (did you mean "rms_norm"?)',
      'source: expected WGSL, not empty, got ""',
      'entry_point: expected a WGSL identifier, got "1st"',
      'dispatch.x: expected an expression of 1 to 500 characters, got ""',
      'dispatch.y: expected an expression of 1 to 500 characters, got 3',
      'overrides.a b: expected the name of an override',
      'overrides.N: expected a finite number, got "x"',
      'tunables.N: expected at least one number',
      'tunables.M: expected at most 16 numbers',
      'tunables.K: expected a list of numbers',
      'requires.0: expected one of shader-f16, subgroups, got "timestamp-query"',
      'dtypes.0: expected one of f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, mlc_q4f32, mlc_q3f16, got "q8_1"',
    ]);
    expect(await violations('POST', '/kernels', {})).toEqual([
      'source: expected WGSL, not empty, got nothing',
      'name: expected a name, got nothing',
      'op: expected the name of an op, got nothing',
      'dispatch: expected an object, got nothing',
    ]);
  });

  test.each([
    ['source of 256 KiB', { source: 'é'.repeat(128 * 1024) }, undefined],
    ['source of more', { source: `${'é'.repeat(128 * 1024)}x` }, 'source: expected at most 262144 bytes'],
    ['half a surrogate pair', { source: 'a\ud800' }, 'source: expected Unicode text'],
    ['a number that is not finite', '1e999', 'overrides.N: expected a finite number, got Infinity'],
    ['__proto__', { overrides: JSON.parse('{"__proto__": 1}') }, 'overrides.__proto__: expected the name'],
    [
      'too many combinations',
      { tunables: { A: Array(16).fill(1), B: Array(16).fill(1), C: Array(5).fill(1) } },
      'tunables: expected at most 1024 combinations',
    ],
    ['an entry point of one underscore', { entry_point: '_' }, 'entry_point: expected a WGSL identifier'],
    ['a name too long', { name: 'a'.repeat(65) }, 'name: expected a name that matches'],
  ])('limits of a registration: %s', async (_, change, message) => {
    const body =
      typeof change === 'string'
        ? JSON.stringify({ ...kernel, overrides: { N: 0 } }).replace('"N":0', `"N":${change}`)
        : { ...kernel, ...change };
    if (message === undefined) {
      const { send } = await serve();
      expect((await send('POST', '/kernels', body)).status).toBe(201);
    } else {
      expect(await violations('POST', '/kernels', body)).toEqual([expect.stringContaining(message)]);
    }
  });

  test('binding, parity mode, bench, validate and save validate every member', async () => {
    expect(await violations('POST', '/bindings', { kernel: '', components: [''], span: 1 })).toEqual([
      'kernel: expected the name of a registered kernel, got ""',
      'components.0: expected a text of 1 to 200 characters, got ""',
      'span: expected a text of 1 to 200 characters, got 1',
    ]);
    expect(await violations('POST', '/bindings', { kernel: 'k' })).toEqual([
      ': expected components, span or both, got neither',
    ]);
    for (const method of ['PUT', 'POST']) {
      expect(
        await violations(method, '/parity', { mode: 'lax', tolerance_scale: 10.5, seed: 2 ** 32 }),
      ).toEqual([
        'mode: expected one of strict, standard, off, got "lax"',
        'tolerance_scale: expected a number from 0.01 to 10, got 10.5',
        'seed: expected a whole number from 0 to 4294967295, got 4294967296',
      ]);
    }
    expect(
      await violations('POST', '/bench', {
        prompt_tokens: 4097,
        new_tokens: 0,
        rounds: 1.5,
        contexts: [1, 5000],
        mode: 'slow',
        seed: -1,
        stream: 'yes',
      }),
    ).toEqual([
      'prompt_tokens: expected at most the context of 4096 tokens, got 4097',
      'new_tokens: expected a whole number from 1 to 16777216, got 0',
      'rounds: expected a whole number from 1 to 1000, got 1.5',
      'contexts.1: expected at most the context of 4096 tokens, got 5000',
      'mode: expected one of quick, full, got "slow"',
      'seed: expected a whole number from 0 to 4294967295, got -1',
      'stream: expected true or false, got "yes"',
    ]);
    expect(await violations('POST', '/profile', { lanes: 12, phase: 'both' })).toEqual([
      'kernel: expected the name of a registered kernel, got nothing',
      'lanes: expected 4, 8, 16, 32 or 64, got 12',
      'phase: expected one of decode, prefill, got "both"',
    ]);
    expect(await violations('POST', '/validate', {})).toEqual([': expected either path or envelope']);
    expect(await violations('POST', '/validate', { path: 'a', envelope: {} })).toEqual([
      ': expected either path or envelope',
    ]);
    expect(await violations('POST', '/validate', { path: 7 })).toEqual(['path: expected a path, got 7']);
    expect(await violations('POST', '/configs', {})).toEqual(['name: expected a name, got nothing']);
    expect(await violations('POST', '/kernels', [])).toEqual([': expected an object, got []']);
  });

  test('requests from another origin are rejected', async () => {
    const { send, lab, url } = await serve();
    for (const path of ['/bench', '/parity/run']) {
      const answer = await send('POST', path, undefined, { headers: { origin: 'http://evil.com' } });
      expect(answer.status).toBe(403);
      expect(hostError.parse(await answer.json()).error.code).toBe('foreign_origin');
    }
    expect(lab.calls).toEqual([]);
    const own = await send('POST', '/parity/run', undefined, { headers: { origin: url } });
    expect(own.status).toBe(200);
  });

  test('other methods are 405', async () => {
    const { send } = await serve();
    for (const [method, path, allow] of [
      ['PUT', '/bindings', 'POST, DELETE'],
      ['DELETE', '/parity', 'GET, HEAD, PUT, POST'],
      ['PUT', '/configs/fast', 'GET, HEAD, DELETE'],
      ['PUT', '/kernels/fast', 'GET, HEAD, DELETE'],
      ['DELETE', '/configs', 'GET, HEAD, POST'],
    ] as const) {
      const answer = await send(method, path);
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, allow]);
    }
  });
});

describe('names of configs', () => {
  const hostile = [
    '',
    '.',
    '..',
    '../x',
    'a/b',
    'a\\b',
    '/etc/passwd',
    'a\0',
    'a..b',
    '-a',
    'a b',
    '․․',
    'ａ',
    'é',
    'a'.repeat(65),
    'a\n',
  ];

  test.each(hostile)('saving under %j is rejected', async (name) => {
    const { send, lab } = await serve();
    const answer = await send('POST', '/configs', { name });
    expect(answer.status).toBe(400);
    expect(hostError.parse(await answer.json()).error).toMatchObject({
      code: 'invalid_name',
      violations: [{ path: 'name' }],
    });
    expect(lab.calls).toEqual([]);
  });

  /** Sends the raw path: `fetch` would normalize it. */
  const raw = (port: number, path: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () =>
        socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`),
      );
      let answer = '';
      socket.on('data', (data) => (answer += data.toString()));
      socket.on('close', () => resolve(answer));
      socket.on('error', reject);
    });

  const targets = [
    ...hostile.map((name) => encodeURIComponent(name)),
    'a/b',
    'a%2Fb',
    '%2e%2e',
    '%2E%2e',
    '..',
    '.%2e',
    '../configs',
    '%2e%2e/configs/fast',
    '..%2f..%2fetc%2fpasswd',
    'fast%00.json',
    'fast/',
    '%',
    '%ff',
    '%252e%252e',
    'fast;x',
    'x'.repeat(300),
  ];

  test.each(targets)('GET configs/%s is 400', async (target) => {
    const { port, lab } = await serve();
    const answer = await raw(port, `/lab/v1/configs/${target}`);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toMatch(/"code":"(invalid_name|unsafe_path)"/);
    expect(answer.toLowerCase()).toContain('x-request-id: req_');
    expect(lab.calls).toEqual([]);
  });

  test('dots within a name and in the query are allowed', async () => {
    const { port } = await serve();
    expect(await raw(port, '/lab/v1/configs/fast?x=/../')).toMatch(/^HTTP\/1\.1 200 /);
    expect(await raw(port, '/lab/v1/configs/v1.2')).toMatch(/^HTTP\/1\.1 404 /);
  });
});

describe('a client that disconnects', () => {
  const requests = [
    ['/kernels', kernel],
    ['/parity/run', undefined],
    ['/bench', undefined],
  ] as const;

  test('cancels a streamed bench', async () => {
    const { send, lab, faults } = await serve();
    lab.hang = 'heeds';
    const left = new AbortController();
    const answer = await send('POST', '/bench', { stream: true }, { signal: left.signal });
    const reader = answer.body?.getReader();
    const first = await reader?.read();
    expect(new TextDecoder().decode(first?.value)).toMatch(/^{"stage":"waiting","id":"bench-\w{12}"}\n/);
    left.abort();
    await expect.poll(() => lab.cancelled).toBe(1);
    expect(faults).toEqual([]);
  });

  test.each(requests)('cancels its %s', async (path, body) => {
    const { send, lab, faults } = await serve();
    lab.hang = 'heeds';
    const left = new AbortController();
    const answer = send('POST', path, body, { signal: left.signal });
    await expect.poll(() => lab.calls).toHaveLength(1);
    left.abort();
    await expect(answer).rejects.toThrow('abort');
    await expect.poll(() => lab.cancelled).toBe(1);
    expect(faults).toEqual([]);
  });

  test.each(requests)('a host that stops ends %s even if the lab ignores the signal', async (path, body) => {
    const { send, lab, stopping } = await serve();
    lab.hang = 'deaf';
    const answer = send('POST', path, body);
    await expect.poll(() => lab.calls).toHaveLength(1);
    stopping.abort(new HttpError(503, 'shutting_down', 'The host is shutting down.'));
    expect((await answer).status).toBe(503);
  });
});
