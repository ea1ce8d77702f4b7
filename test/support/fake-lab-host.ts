import { kernelDigest } from '../../src/lab/digest.ts';
import { benchPlan, scriptedProfile } from './scripted-lab.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type {
  BenchResult,
  Comparison,
  ConfigEnvelope,
  KernelRegistration,
  KernelRegistrationReport,
  LabGraph,
  LabParts,
} from '../../src/lab/types.ts';
import { type LocalServer, serve } from './local-server.ts';

interface Answer {
  readonly status?: number;
  readonly body?: unknown;
  /** Instead of JSON. */
  readonly html?: string;
}

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly authorization: string | undefined;
}

/** The lab's routes with the shapes of src/lab/types.ts and made-up figures. */
export interface FakeLab extends LocalServer {
  readonly requests: ReceivedRequest[];
  /** Answers in the place of the routes; undefined leaves it to them. */
  override: (
    request: ReceivedRequest,
    response: ServerResponse,
  ) => Answer | undefined | Promise<Answer | undefined>;
  readonly registered: Map<string, KernelRegistrationReport>;
  /** Component to kernel. */
  readonly bound: Map<string, string>;
}

export const refusal = (
  status: number,
  code: string,
  message: string,
  violations?: readonly { path: string; message: string }[],
): Answer => ({ status, body: { error: { code, message, ...(violations ? { violations } : {}) } } });

export const stubSource = `//! op: rms_norm
//! dispatch: tokens
//! override WG = 64
// y[t] = x[t] / sqrt(mean(x[t]^2) + eps) * norm_weight
override WG: u32;
@compute @workgroup_size(WG)
fn main() {
}
`;

const components = [
  ...[0, 1, 2, 3].flatMap((layer) => [
    { id: `layers.${layer}.attn.norm`, op: 'rms_norm', layer },
    { id: `layers.${layer}.attn.qkv`, op: 'matmul', layer },
  ]),
  { id: 'output.norm', op: 'rms_norm' },
];
const builtin = (op: string) => `builtin:${op}?WG=64`;

/** Refuses kernels whose source has a line with `bad`, and points at the word. */
export function gate(registration: KernelRegistration): KernelRegistrationReport {
  const lines = registration.source.split('\n');
  const line = lines.findIndex((text) => text.includes('bad'));
  const base = { kernel: registration.name, digest: kernelDigest(registration), elapsed_ms: 212 };
  if (line !== -1)
    return {
      ...base,
      accepted: false,
      stages: [
        { stage: 'parse', ok: true, findings: [] },
        { stage: 'interface', ok: true, findings: [] },
        {
          stage: 'safety',
          ok: false,
          findings: [
            {
              code: 'out_of_bounds',
              severity: 'error',
              message: 'x[4096] is read, and x has 4096 elements',
              line: line + 1,
              column: (lines[line] ?? '').indexOf('bad') + 1,
              length: 3,
            },
          ],
        },
      ],
    };
  return {
    ...base,
    accepted: true,
    stages: (['parse', 'interface', 'safety', 'pipeline', 'parity'] as const).map((stage) => ({
      stage,
      ok: true,
      findings: [],
    })),
    parity: ['random 3x256', 'ragged 7x260', 'extreme 3x256', 'one_row 1x256', 'captured 5x256'].map(
      (name, index) => ({
        case: name,
        ok: true,
        nmse: 1.2e-14 * (index + 1),
        nmse_limit: 1e-7,
        max_abs: 3.1e-7,
        max_rel: 1e-6,
        matched_ratio: 1,
        worst: { output: 'y', index: 12, expected: 0.5, got: 0.5 },
        builtin: { nmse: 1.1e-14, max_abs: 2.9e-7 },
      }),
    ),
    tolerance: { nmse: 1e-7, max_abs: 1e-3, matched_ratio: 0.99, scale: 1, mode: 'standard' },
    seed: 12345,
  };
}

const compared = (ratio: number): Comparison => ({
  ratio,
  ci95: { low: ratio - 0.012, high: ratio + 0.013 },
  control: { ratio: 1.001, ci95: { low: 0.995, high: 1.007 } },
  verdict: ratio > 1.02 ? 'faster' : 'no_difference',
});

const outputs = { timed_tokens: 96, timed_same: 96, mean_kl: 1.2e-9, worst_kl: 4.5e-8 };

const untrusted = { code: 'untrusted_key', severity: 'error', message: 'the key is not trusted' };

export const benchResult = (ratio = 1.068): BenchResult => ({
  ...benchPlan,
  baseline: { prefill_tps: 812.4, decode_tps: 41.23 },
  bound: { prefill_tps: 815.1, decode_tps: 41.23 * ratio },
  delta: { prefill: 0.0033, decode: ratio - 1 },
  ratio_ci95: [ratio - 0.012, ratio + 0.013],
  verdict: compared(ratio).verdict,
  rounds: 12,
  method: 'interleaved A/B with an A/A control',
  prefill: { ...compared(1.003), prompt_tokens: 128, outputs },
  decode: [128, 1024].map((context) => ({
    ...compared(ratio),
    context,
    baseline_tps: 41.23,
    bound_tps: 41.23 * ratio,
    outputs,
  })),
  components: [...components].map(({ id, op }, index) => ({
    id,
    kernel: op === 'rms_norm' ? 'my_norm' : builtin(op),
    gpu_ms: 0.05 * (index + 1),
    baseline_ms: 0.06 * (index + 1),
    gbps: 12.34,
    gflops: 3.21,
    bandwidth_fraction: 0.1,
    compute_fraction: 0.02,
    peak_fraction: 0.42,
    hint: 'bound by memory: it reads each element twice',
  })),
  peaks: { gbps: 29.4, cached_gbps: 61, gflops: 210 },
  warnings: ['the built-ins drifted by 3% over the rounds'],
  fingerprint: {
    adapter: 'llvmpipe (LLVM 15.0.6, 256 bits)',
    backend: 'vulkan',
    driver: 'Mesa 22.3.6',
    dawn: '0.6.2',
    toggles: [],
    features: ['subgroups'],
    model: 'sha256:00',
    kernels: { my_norm: 'sha256:ab' },
    seed: 7,
  },
});

export const config = (
  source: string,
  bound: readonly string[] = ['layers.0.attn.norm'],
): ConfigEnvelope => ({
  contract: 1,
  name: 'mine',
  model: { digest: 'sha256:00', architecture: 'llama' },
  bindings: [{ kernel: 'my_norm', components: bound }],
  kernels: [{ name: 'my_norm', op: 'rms_norm', source, dispatch: { x: 'tokens' }, digest: 'sha256:ab' }],
  evidence: {},
  fingerprint: benchResult().fingerprint,
  created_at: '2026-01-01T00:00:00Z',
  signature: { alg: 'ed25519', key_id: 'k1', public_key: 'cHVi', value: 'AA==' },
});

export async function fakeLab(): Promise<FakeLab> {
  const requests: ReceivedRequest[] = [];
  const registered: FakeLab['registered'] = new Map();
  const bound: FakeLab['bound'] = new Map();
  const configs = new Map<string, unknown>();
  const lab: Pick<FakeLab, 'override'> = { override: () => undefined };

  const kernelOf = ({ id, op }: { id: string; op: string }) => bound.get(id) ?? builtin(op);
  const parts = (): LabParts => ({
    components: components.map((each) => ({ ...each, kernel: kernelOf(each) })),
    slots: ['rms_norm', 'matmul'].map((op) => ({
      slot: op,
      op,
      oracle: `reference:${op}`,
      swappable: true,
      compatible: [...registered.keys()],
      bound: builtin(op),
    })),
    kernels: [...registered.values()].map((report) => ({
      name: report.kernel,
      op: 'rms_norm',
      digest: report.digest,
      state: report.accepted ? 'accepted' : 'rejected',
    })),
  });
  const graph = (): LabGraph => ({
    model: 'lathe-tiny',
    nodes: components.map((each) => ({
      id: each.id,
      op: each.op,
      component: each.id,
      slot: each.op,
      kernel: kernelOf(each),
      dtype: 'f32',
      shape: ['tokens', 256],
      flops: 1024,
      bytes: 3072,
    })),
    edges: [],
    spans: [0, 1, 2, 3].map((layer) => ({
      id: `layers.${layer}.attn.norm+qkv`,
      op: 'norm_matmul',
      nodes: [`layers.${layer}.attn.norm`, `layers.${layer}.attn.qkv`],
    })),
  });

  const routes: Readonly<Record<string, (body: never, name: string) => Answer>> = {
    'GET /ops': () => ({
      body: {
        ops: [
          {
            op: 'rms_norm',
            summary: 'y[t] = x[t] / sqrt(mean(x[t]^2) + eps) * norm_weight',
            targets: ['plain', 'subgroups'],
          },
          { op: 'matmul', summary: 'y = W x + bias', targets: ['plain', 'f16', 'subgroups'] },
        ],
      },
    }),
    'GET /ops/*/stub': (_, op) =>
      op === 'rms_norm'
        ? { body: { op, target: 'plain', source: stubSource } }
        : refusal(404, 'unknown_op', `no op is called '${op}'`),
    'POST /kernels': (registration: KernelRegistration) => {
      const report = gate(registration);
      registered.set(report.kernel, report);
      return { status: 201, body: report };
    },
    'POST /profile': ({ kernel }: { kernel: string }) => ({ body: scriptedProfile(kernel) }),
    'GET /graph': () => ({ body: graph() }),
    'GET /parts': () => ({ body: parts() }),
    'POST /bindings': ({
      kernel,
      components: globs = [],
      span,
    }: {
      kernel: string;
      components?: string[];
      span?: string;
    }) => {
      const tests = [...globs, ...(span === undefined ? [] : [span])].map(
        (glob) =>
          new RegExp(`^${glob.replaceAll('.', '\\.').replaceAll('+', '\\+').replaceAll('*', '[^.]*')}$`),
      );
      const ids = components.map(({ id }) => id).filter((id) => tests.some((test) => test.test(id)));
      if (ids.length === 0)
        return refusal(400, 'unknown_component', `nothing is called '${globs.join(', ')}'`);
      const replaced = [...new Set(ids.flatMap((id) => bound.get(id) ?? []))];
      for (const id of ids) bound.set(id, kernel);
      return { body: { bound: true, components: ids, replaced } };
    },
    'DELETE /bindings': () => {
      bound.clear();
      return { body: { cleared: true } };
    },
    'GET /parity': () => ({ body: { mode: 'standard' } }),
    'PUT /parity': (mode: object) => ({ body: mode }),
    'POST /parity/run': () => ({
      body: {
        seed: 9,
        ok: true,
        components: parts().components.map(({ id, kernel }) => ({
          id,
          kernel,
          nmse: 1e-14,
          max_abs: 1e-7,
          ok: true,
        })),
        logits: { kl: 1.3e-9, top1_agreement: 1, positions: 64 },
      },
    }),
    'POST /bench': () => ({ body: benchResult() }),
    'GET /kernels/*': (_, name) => {
      const report = registered.get(name);
      if (!report) return refusal(404, 'unknown_kernel', `no kernel is called '${name}'`);
      const registration = { name, op: 'rms_norm', source: 'fn main() {}\n', dispatch: { x: 'tokens' } };
      return { body: { registration, report, state: 'accepted', components: [] } };
    },
    'GET /kernels/*/versions': (_, name) => ({
      body: {
        versions: ['fn main() { two }', 'fn main() { one }'].map((source, index) => ({
          at: `2026-11-2${8 - index}T00:00:00.000Z`,
          digest: `sha256:${index}`,
          accepted: index === 0,
          registration: { name, op: 'rms_norm', source, dispatch: { x: 'tokens' } },
          benches:
            index === 0
              ? [
                  {
                    at: '2026-11-28T01:00:00.000Z',
                    kernels: [name, 'other'],
                    verdict: 'faster',
                    rounds: 9,
                    ratio_low: 1.1,
                    ratio_high: 1.2,
                  },
                ]
              : [],
        })),
      },
    }),
    'DELETE /kernels/*': (_, name) =>
      registered.delete(name)
        ? { body: { deleted: true } }
        : refusal(404, 'unknown_kernel', `no kernel '${name}'`),
    'DELETE /configs/*': (_, name) =>
      configs.delete(name)
        ? { body: { deleted: true } }
        : refusal(404, 'unknown_config', `no config '${name}'`),
    'DELETE /bindings/*': (_, id) =>
      bound.delete(id)
        ? { body: { cleared: true, components: [id] } }
        : refusal(400, 'unknown_component', `no bound component matches '${id}'`),
    'POST /validate': ({ envelope }: { envelope: ConfigEnvelope }) => {
      const ok = envelope.signature.value === 'AA==';
      const finding = {
        code: 'bad_signature',
        severity: 'error',
        message: 'the signature does not fit the text',
      };
      return {
        body: {
          ok,
          stages: [
            { stage: 'signature', ok, findings: ok ? [] : [finding] },
            { stage: 'safety', ok, findings: [], ...(ok ? {} : { skipped: true }) },
            { stage: 'parity', ok, findings: [], ...(ok ? {} : { skipped: true }) },
          ],
        },
      };
    },
    'GET /configs': () => ({ body: [...configs.keys()] }),
    'POST /configs/import': ({ envelope, name }: { envelope: ConfigEnvelope; name?: string }) => {
      configs.set(name ?? envelope.name, envelope);
      const report = { ok: false, stages: [{ stage: 'signature', ok: false, findings: [untrusted] }] };
      return { status: 201, body: { name: name ?? envelope.name, saved: true, report } };
    },
    'POST /configs': ({ name }: { name: string }) => {
      configs.set(name, config(stubSource));
      return { status: 201, body: { name, saved: true } };
    },
    'GET /configs/*': (_, name) => {
      const found = configs.get(name);
      return found === undefined
        ? refusal(404, 'unknown_config', `no config is called '${name}'`)
        : { body: found };
    },
  };

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString('utf8');
    const { method = '', url = '', headers } = request;
    const one: ReceivedRequest = {
      method,
      path: url.replace(/^\/lab\/v1/, ''),
      body: text === '' ? undefined : JSON.parse(text),
      authorization: headers.authorization,
    };
    requests.push(one);
    const path = one.path.split('?')[0] ?? '';
    const key = Object.keys(routes).find((route) =>
      new RegExp(`^${route.replaceAll('*', '([^/]+)')}$`).test(`${method} ${path}`),
    );
    const name = decodeURIComponent(/^\/(?:ops|configs|kernels|bindings)\/([^/]+)/.exec(path)?.[1] ?? '');
    const given =
      (await lab.override(one, response)) ??
      (key === undefined
        ? refusal(404, 'not_found', `no route ${path}`)
        : routes[key]?.(one.body as never, name));
    if (response.writableEnded || response.destroyed) return;
    const { status = 200, body, html } = given ?? {};
    response.writeHead(status, {
      'content-type': html === undefined ? 'application/json' : 'text/html; charset=utf-8',
    });
    response.end(html ?? JSON.stringify(body));
  };
  const server = await serve((request, response) => void answer(request, response));
  return Object.assign(lab, server, { requests, registered, bound });
}
