import { contracts } from '../../kernels/contracts.ts';
import { describeOp } from '../../src/lab/ops/index.ts';
import { stubTarget } from '../../src/lab/types.ts';
import { RunningBenches } from '../../src/lab/bench/running.ts';
import { summarizeBench } from '../../src/lab/bench-records.ts';
import type {
  BenchProgress,
  BenchRecord,
  BenchRequest,
  BenchResult,
  BindRequest,
  ConfigEnvelope,
  Fingerprint,
  KernelRegistration,
  KernelRegistrationReport,
  Lab,
  ImportConfigRequest,
  ImportedConfig,
  KernelVersionDetail,
  KernelVersions,
  LabKernelDetail,
  LabProfile,
  LabStub,
  ParityMode,
  ProfileRequest,
  StubOptions,
} from '../../src/lab/types.ts';
import { LabError } from '../../src/lab/types.ts';

const builtinKernel = 'builtin:rms-norm';

export const scriptedFingerprint: Fingerprint = {
  adapter: 'a',
  backend: 'vulkan',
  driver: 'd',
  dawn: '1',
  toggles: [],
  features: ['shader-f16'],
  model: `sha256:${'ab'.repeat(32)}`,
  kernels: {},
  seed: 1,
};

/** The report of a kernel that passed its gate. */
export const acceptedReport = (kernel: string, digest: string): KernelRegistrationReport => ({
  kernel,
  digest,
  accepted: true,
  stages: (['parse', 'interface', 'safety', 'pipeline', 'parity'] as const).map((stage) => ({
    stage,
    ok: true,
    findings: [],
  })),
  parity: [
    {
      case: 'random 3x64',
      ok: true,
      nmse: 1e-9,
      nmse_limit: 1e-7,
      max_abs: 1e-6,
      max_rel: 1e-6,
      matched_ratio: 1,
      worst: { output: 'y', index: 3, expected: 1, got: 1.000001 },
      builtin: { nmse: 1e-10, max_abs: 1e-7 },
    },
  ],
  tolerance: { nmse: 1e-7, max_abs: 1e-3, matched_ratio: 1, scale: 1, mode: 'standard' },
  seed: 7,
  elapsed_ms: 12,
});

export const scriptedProfile = (kernel: string): LabProfile => ({
  kernel,
  op: 'rms_norm',
  case: 'live 1x64',
  overrides: { WG: 64 },
  lanes: 32,
  flops: 256,
  bytes: 768,
  profile: {
    name: kernel,
    workgroups: 1,
    workgroup_size: 64,
    workgroup_bytes: 256,
    occupancy: 0.67,
    occupancy_limit: 'workgroups',
    barriers: 1,
    bank_conflict: 1,
    active_lanes: 1,
    reads: { needed_sectors: 16, touched_sectors: 64 },
    writes: { needed_sectors: 8, touched_sectors: 8 },
    fetched: [{ name: 'x', needed_bytes: 256, bytes: 256 }],
    fetched_bytes: 256,
    sites: [
      {
        kind: 'read',
        line: 1,
        column: 50,
        name: 'x',
        space: 'storage',
        bytes: 4,
        requests: 2,
        active_lanes: 1,
        needed_sectors: 16,
        touched_sectors: 64,
      },
      { kind: 'barrier', line: 1, column: 60, requests: 1 },
    ],
  },
  hints: [{ code: 'uncoalesced', line: 1, message: 'line 1 reads x in 32 sectors' }],
});

const scriptedAt = '2026-11-28T00:00:00.000Z';

/** What a bench of two arms was asked. */
export const benchPlan = {
  id: 'bench-0',
  effect: 0.1,
  budget: {
    prompt_tokens: 64,
    contexts: [32],
    new_tokens: { least: 4, most: 32 },
    rounds: { least: 8, most: 24 },
    ms: 4000,
    max_ms: 20_000,
  },
} satisfies Partial<BenchResult>;

const benchResult: BenchResult = {
  ...benchPlan,
  baseline: { prefill_tps: 100, decode_tps: 10 },
  bound: { prefill_tps: 101, decode_tps: 12 },
  delta: { prefill: 0.01, decode: 0.2 },
  ratio_ci95: [1.1, 1.3],
  verdict: 'faster',
  rounds: 8,
  method: 'interleaved',
  prefill: {
    prompt_tokens: 64,
    ratio: 1.01,
    ci95: { low: 0.9, high: 1.1 },
    control: { ratio: 1, ci95: { low: 0.9, high: 1.1 } },
    verdict: 'no_difference',
    outputs: { timed_tokens: 8, timed_same: 8, mean_kl: 1e-9, worst_kl: 1e-8 },
  },
  decode: [],
  components: [
    {
      id: 'layers.0.norm',
      kernel: 'fast',
      gpu_ms: 0.1,
      gbps: 9,
      gflops: 1,
      bandwidth_fraction: 0.1,
      compute_fraction: 0.02,
      peak_fraction: 0.4,
      hint: 'bandwidth',
    },
  ],
  peaks: { gbps: 20, cached_gbps: 40, gflops: 100 },
  warnings: [],
  fingerprint: scriptedFingerprint,
};

const scriptedSample = {
  kind: 'decode' as const,
  context: 32,
  tokens: 4,
  baseline_ms: 2.5,
  bound_ms: 2,
  control_ms: 2.4,
};

/** A finished bench of a kernel. */
export const scriptedRecord: BenchRecord = {
  id: benchPlan.id,
  at: scriptedAt,
  model: 'scripted',
  machine: { lathe: '1', node: '26', os: 'Linux', cpu: 'c', cores: 2, memory_bytes: 1, load: 0 },
  mode: 'quick',
  kernels: [{ name: 'fast', digest: 'sha256:00', components: ['layers.0.norm'] }],
  result: benchResult,
  rounds: [[scriptedSample]],
};

/** A lab without a model: fixed answers, and a record of its calls. */
export class ScriptedLab implements Lab {
  readonly calls: (readonly [name: string, argument?: unknown])[] = [];
  /** Thrown by every call. */
  error: Error | undefined;
  /** Work that takes a signal never ends; `heeds`: but with its signal. */
  hang: 'heeds' | 'deaf' | undefined;
  /** Signals that ended while their work ran. */
  cancelled = 0;
  readonly #benches = new RunningBenches();
  #bound: string = builtinKernel;
  #mode: ParityMode = { mode: 'standard' };

  #called(name: string, argument?: unknown): void {
    this.calls.push([name, argument]);
    if (this.error) throw this.error;
  }

  async #work<Value>(signal: AbortSignal, value: Value): Promise<Value> {
    if (this.hang === undefined) return value;
    return await new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        this.cancelled++;
        if (this.hang === 'heeds') reject(signal.reason as Error);
      });
    });
  }

  async graph() {
    this.#called('graph');
    return {
      model: 'scripted',
      nodes: [
        {
          id: 'layers.0.norm',
          op: 'rms_norm',
          component: 'layers.0.norm',
          slot: 'rms_norm',
          kernel: 'builtin:rms-norm',
          dtype: 'f32',
          shape: ['tokens', 64],
          flops: 256,
          bytes: 512,
        },
      ],
      edges: [],
      spans: [{ id: 'layers.0.qkv', op: 'norm_matvec', nodes: ['layers.0.norm'] }],
    };
  }

  async parts() {
    this.#called('parts');
    const slot = { slot: 'rms_norm', op: 'rms_norm', oracle: 'rms_norm', swappable: true };
    return {
      components: [{ id: 'layers.0.norm', op: 'rms_norm', kernel: this.#bound, layer: 0 }],
      slots: [{ ...slot, compatible: ['fast'], bound: this.#bound }],
      kernels: [{ name: 'fast', op: 'rms_norm', digest: 'sha256:00', state: 'accepted' as const }],
    };
  }

  ops() {
    return ['rms_norm', 'matvec', 'matmul'].map((op) => {
      const contract = contracts.get(op);
      if (!contract) throw new Error(op);
      return { ...describeOp(contract, []), summary: `${op} of rows` };
    });
  }

  async stub(op: string, options: StubOptions = {}): Promise<LabStub> {
    this.#called('stub', [op, options]);
    if (!this.ops().some((known) => known.op === op)) throw new LabError('unknown_op', `no op '${op}'`);
    return { op, target: stubTarget.parse(options.target ?? 'plain'), source: '// WGSL' };
  }

  kernel(name: string): LabKernelDetail {
    this.#called('kernel', name);
    const registration = { name, op: 'rms_norm', source: '// WGSL', dispatch: { x: 'tokens' } };
    const report = acceptedReport(name, 'sha256:00');
    return { registration, at: scriptedAt, report, state: 'accepted', components: [] };
  }

  async versions(name: string): Promise<KernelVersions> {
    this.#called('versions', name);
    const { registration } = this.kernel(name);
    const bench = {
      at: scriptedAt,
      kernels: [name],
      verdict: 'faster',
      rounds: 12,
      ratio_low: 1.02,
      ratio_high: 1.1,
    };
    return {
      versions: [{ at: scriptedAt, digest: 'sha256:00', accepted: true, registration, benches: [bench] }],
    };
  }

  async version(name: string, at: string): Promise<KernelVersionDetail> {
    this.#called('version', [name, at]);
    if (at !== scriptedAt) throw new LabError('unknown_kernel', `no registration of '${at}'`);
    const { registration, report } = this.kernel(name);
    return { at, registration, report };
  }

  async finishedBenches() {
    this.#called('finishedBenches');
    return [summarizeBench(scriptedRecord)];
  }

  async finishedBench(id: string) {
    this.#called('finishedBench', id);
    if (id !== scriptedRecord.id) throw new LabError('unknown_bench', `no bench '${id}'`);
    return scriptedRecord;
  }

  async deleteKernel(name: string) {
    this.#called('deleteKernel', name);
  }

  async unbindSome(glob: string) {
    this.#called('unbindSome', glob);
    return ['layers.0.norm'];
  }

  async importConfig(request: ImportConfigRequest): Promise<ImportedConfig> {
    this.#called('importConfig', request);
    return { name: request.name ?? 'fast', saved: true, report: { ok: true, stages: [] } };
  }

  async deleteConfig(name: string) {
    this.#called('deleteConfig', name);
  }

  async register(registration: KernelRegistration, signal: AbortSignal) {
    this.#called('register', registration);
    const report = acceptedReport(registration.name, 'sha256:00');
    const accepted = !registration.source.includes('wrong');
    return await this.#work(signal, { ...report, accepted });
  }

  async profile(request: ProfileRequest, signal: AbortSignal): Promise<LabProfile> {
    this.#called('profile', request);
    return await this.#work(signal, scriptedProfile(request.kernel));
  }

  async bind(request: BindRequest) {
    this.#called('bind', request);
    this.#bound = request.kernel;
    return {
      bound: true as const,
      components: ['layers.0.norm'],
      replaced: [],
      dispatches: { before: 3, after: 3 },
    };
  }

  async unbind() {
    this.#called('unbind');
    this.#bound = builtinKernel;
  }

  get parityMode() {
    return this.#mode;
  }

  setParityMode(mode: ParityMode) {
    this.#called('setParityMode', mode);
    return (this.#mode = mode);
  }

  async runParity(signal: AbortSignal) {
    this.#called('runParity');
    const component = {
      id: 'layers.0.norm',
      kernel: 'fast',
      nmse: 0,
      nmse_limit: 1e-7,
      max_abs: Number.NaN,
      ok: false,
    };
    const logits = { kl: 0, top1_agreement: 1, positions: 64 };
    return await this.#work(signal, {
      seed: 1,
      ok: false,
      mode: 'standard' as const,
      tolerance_scale: 1,
      components: [component],
      logits,
    });
  }

  async bench(request: BenchRequest, signal: AbortSignal, onProgress?: (progress: BenchProgress) => void) {
    this.#called('bench', request);
    return await this.#benches.run(
      { signal, onProgress: onProgress ?? (() => {}) },
      async (_id, ended, report) => {
        report({ stage: 'round', round: 1, least: 1, most: 8, samples: [scriptedSample] });
        return await this.#work(ended, benchResult);
      },
    );
  }

  benches() {
    this.#called('benches');
    return this.#benches.list();
  }

  cancelBench(id: string) {
    this.#called('cancelBench', id);
    this.#benches.cancel(id);
  }

  async validate(request: { path?: string | undefined; envelope?: unknown }) {
    this.#called('validate', request);
    const findings = [{ code: 'tampered', severity: 'error' as const, message: 'changed' }];
    return {
      ok: false,
      stages: [
        { stage: 'signature' as const, ok: false, findings },
        { stage: 'safety' as const, ok: false, skipped: true as const, findings: [] },
        { stage: 'parity' as const, ok: false, skipped: true as const, findings: [] },
      ],
    };
  }

  async configNames() {
    this.#called('configNames');
    return ['fast'];
  }

  async saveConfig(name: string) {
    this.#called('saveConfig', name);
    return { name } as ConfigEnvelope;
  }

  async config(name: string) {
    this.#called('config', name);
    if (name !== 'fast') throw new LabError('unknown_config', `no config '${name}'`);
    return '{"contract":1,"name":"fast"}';
  }
}
