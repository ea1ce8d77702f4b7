/** What the answers of the lab plane carry. */
import { z } from 'zod';
import type { Immutable } from '../util/immutable.ts';
import { expressionGrammar } from './expression.ts';

const textArray = z.array(z.string());
const shape = z.array(z.union([z.number(), z.string()]));
const numbers = z.record(z.string(), z.number());
/** A measured number, which may be NaN or infinite in the program; JSON has null for these. */
const measuredNumber = z
  .number()
  .nullable()
  .describe('Null where the value is not finite.') as unknown as z.ZodNumber;

export const stubTarget = z.enum(['plain', 'f16', 'subgroups']);

/** The execution graph of the resident model. */
export const labGraph = z
  .object({
    model: z.string(),
    nodes: z.array(
      z.object({
        id: z.string(),
        op: z.string(),
        component: z.string().describe('Component that runs the node; nodes of one dispatch share it.'),
        slot: z.string(),
        kernel: z.string().describe('`builtin:` and the variant, or the name of a registered kernel.'),
        dtype: z.string(),
        /** Shape of the output: one row for each token. */
        shape,
        /** Operations and bytes for one decoded token. */
        flops: z.number(),
        bytes: z.number(),
        gpu_ms: z.number().exactOptional(),
      }),
    ),
    edges: z.array(
      z.object({ from: z.string(), to: z.string(), tensor: z.string(), dtype: z.string(), shape }),
    ),
    spans: z.array(
      z.object({
        id: z.string(),
        /** A kernel that replaces the whole span must be registered for this op. */
        op: z.string(),
        nodes: textArray,
        /** Kernel that runs the whole span now, if one does. */
        fused_kernel: z.string().exactOptional(),
      }),
    ),
  })
  .meta({ id: 'LabGraph' });
export type LabGraph = Immutable<z.output<typeof labGraph>>;

const kernelState = z
  .enum(['accepted', 'rejected', 'unverified', 'stale', 'quarantined'])
  .describe('`stale`: it was checked on another adapter, driver, model or version.');

const stateReason = z
  .string()
  .describe(
    'Why it cannot be bound as it is, in one line: the first error of the gate with its check, figures and line; why it is in quarantine.',
  );

export const labParts = z
  .object({
    components: z.array(
      z.object({ id: z.string(), op: z.string(), kernel: z.string(), layer: z.int().exactOptional() }),
    ),
    slots: z.array(
      z.object({
        slot: z.string(),
        op: z.string(),
        oracle: z.string(),
        swappable: z.boolean(),
        compatible: textArray.describe('Accepted kernels that may be bound to the slot.'),
        bound: z.string(),
      }),
    ),
    kernels: z.array(
      z.object({
        name: z.string(),
        op: z.string(),
        digest: z.string(),
        state: kernelState,
        at: z.string().exactOptional().describe('When it was registered.'),
        reason: stateReason.exactOptional(),
      }),
    ),
  })
  .meta({ id: 'LabParts' });
export type LabParts = Immutable<z.output<typeof labParts>>;

const access = z.enum(['read', 'read_write', 'uniform']);
const tensor = z.object({
  name: z.string(),
  dtype: z.string().exactOptional(),
  shape: textArray.describe('Expressions over dims and params.'),
  summary: z.string(),
});
const member = z.object({ name: z.string(), type: z.enum(['u32', 'f32']) });
const dispatchRule = z
  .object({ x: z.string(), y: z.string().exactOptional(), z: z.string().exactOptional() })
  .describe(`As in a registration. ${expressionGrammar}`);
const opTolerance = z.object({ nmse: z.number(), max_abs: z.number(), matched_ratio: z.number() });
const opDescriptor = z.looseObject({
  op: z.string(),
  summary: z.string(),
  tokens: z.enum(['any', 'one']).describe('`one`: runs only in steps of one token.'),
  covers: textArray.describe('Ops of the nodes that one dispatch computes.'),
  inputs: z.array(tensor),
  outputs: z.array(tensor),
  params: z.array(member.extend({ multiple_of: z.int().exactOptional() })),
  dims: z.array(z.object({ name: z.string(), summary: z.string(), multiple_of: z.int().exactOptional() })),
  bindings: z
    .array(
      z.object({
        group: z.literal(0),
        binding: z.int(),
        name: z.string(),
        access,
        dtype: z.string().exactOptional(),
        shape: textArray.exactOptional(),
        members: z.array(member).exactOptional(),
      }),
    )
    .describe('What the kernel declares.'),
  dispatch: dispatchRule,
  exactness: z.enum(['f32', 'f16', 'quantised', 'exact']),
  tolerance: opTolerance,
  tolerance_by_dtype: z.record(z.string(), opTolerance).exactOptional(),
  flops: z.string().describe('Of one dispatch, as an expression over the dims.'),
  bytes: z.string(),
  fusable_into: textArray,
  dtypes: textArray.describe('Weight formats; none for ops that read no weights.'),
  features: textArray,
  oracle: z.string(),
  targets: z.array(stubTarget).describe('Of GET /lab/v1/ops/{op}/stub.'),
});
export type OpDescriptor = Immutable<z.output<typeof opDescriptor>>;
export const labOps = z.object({ ops: z.array(opDescriptor) }).meta({ id: 'LabOps' });

export const labStub = z
  .object({
    op: z.string(),
    target: stubTarget,
    format: z.string().exactOptional().describe('Weight format, for ops that read weights.'),
    source: z.string().describe('WGSL that passes the gate.'),
  })
  .meta({ id: 'LabStub' });
export type LabStub = Immutable<z.output<typeof labStub>>;

export const finding = z
  .object({
    /** snake_case, stable. */
    code: z.string(),
    severity: z.enum(['error', 'warning', 'info']),
    message: z.string(),
    line: z.int().exactOptional().describe("Line in the author's source, from 1."),
    column: z.int().exactOptional(),
    length: z.int().exactOptional().describe('UTF-16 code units.'),
  })
  .meta({ id: 'Finding' });
export type Finding = Immutable<z.output<typeof finding>>;

const stage = z.object({
  stage: z.enum(['parse', 'interface', 'safety', 'pipeline', 'parity']),
  /** True when no finding is an error. Stages after a failed one do not run, except that safety runs after interface. */
  ok: z.boolean(),
  findings: z.array(finding),
});
export type Stage = Immutable<z.output<typeof stage>>;
export type StageName = Stage['stage'];

/** Result of one parity case. */
const caseVerdict = z.object({
  /** Name of the case, for example `random 3x64x96 q8_0`. */
  case: z.string(),
  ok: z.boolean(),
  nmse: measuredNumber,
  /** Largest tolerated NMSE, by op, weight format and parity mode. */
  nmse_limit: z.number(),
  max_abs: measuredNumber,
  max_rel: measuredNumber,
  matched_ratio: measuredNumber,
  worst: z.object({
    output: z.string(),
    index: z.int(),
    expected: measuredNumber,
    got: measuredNumber,
  }),
  /** Error of the built-in kernel on the same input. */
  builtin: z.object({ nmse: measuredNumber, max_abs: measuredNumber }).exactOptional(),
});
export type CaseVerdict = Immutable<z.output<typeof caseVerdict>>;

const tolerance = z.object({
  nmse: z.number(),
  /** Relative to the largest expected magnitude. */
  max_abs: z.number(),
  /** Smallest fraction of the elements that must be near their expected value. */
  matched_ratio: z.number(),
});
export type Tolerance = Immutable<z.output<typeof tolerance>>;
const mode = z.enum(['strict', 'standard', 'off']);

const interval = z.object({ low: z.number(), high: z.number() });
const verdict = z
  .enum(['faster', 'slower', 'no_difference', 'inconclusive', 'suspect'])
  .describe(
    '`no_difference`: the interval lies within `effect`; `inconclusive`: it is wider; `suspect`: faster than the hardware allows, or with other outputs.',
  );
export type BenchVerdict = z.output<typeof verdict>;
export type Interval = Immutable<z.output<typeof interval>>;

const comparison = z.object({
  ratio: z.number().describe('Baseline time divided by bound time; above 1 is faster.'),
  ci95: interval,
  control: z
    .object({ ratio: z.number(), ci95: interval })
    .describe('Built-in kernels compared with themselves.'),
  verdict,
});
export type Comparison = Immutable<z.output<typeof comparison>>;

const tunedShape = z.object({
  /** Dims and weight format, for example `tokens=1 rows=96 columns=64 q8_0`. */
  shape: z.string(),
  best: numbers.describe(
    'What the shape runs with: the fastest if it is faster than the default beyond the noise.',
  ),
  /** GPU time of one dispatch. */
  best_ms: z.number(),
  default: numbers.exactOptional().describe('Values without tuning. Absent in older reports.'),
  fastest: comparison
    .extend({ overrides: numbers })
    .exactOptional()
    .describe(
      'Another combination that had the shortest time, compared with the default in rounds of their own.',
    ),
  builtin_ms: z.number().exactOptional(),
  tried: z.array(z.object({ overrides: numbers, ms: z.number() })),
});
export type TunedShape = Immutable<z.output<typeof tunedShape>>;

export const registrationReport = z
  .object({
    kernel: z.string(),
    digest: z.string().describe('`sha256:` over what the kernel computes.'),
    accepted: z.boolean(),
    unverified: z.boolean().exactOptional().describe('Compiled but not compared.'),
    stages: z
      .array(stage)
      .describe('Stages up to the first failure; interface and safety are both included if either failed.'),
    parity: z.array(caseVerdict).exactOptional(),
    tolerance: tolerance.extend({ scale: z.number(), mode }).exactOptional(),
    /** Seed of the inputs. */
    seed: z.int().exactOptional(),
    /** Overrides for each shape, when the registration has tunables. */
    tuning: z.array(tunedShape).exactOptional(),
    elapsed_ms: z.number(),
  })
  .meta({ id: 'KernelRegistrationReport' });
export type KernelRegistrationReport = Immutable<z.output<typeof registrationReport>>;

const drift = z.object({
  components: z.int().describe('Number of components that were replaced.'),
  positions: z.int(),
  mean_kl: measuredNumber.describe(
    'KL divergence of the logits from those of the built-in kernels, in nats.',
  ),
  worst_kl: measuredNumber,
  top1_agreement: z.number().describe('Fraction of positions with the same greedy token.'),
});

const registered = z.object({
  name: z.string(),
  op: z.string(),
  source: z.string(),
  entry_point: z.string().optional(),
  dispatch: z.object({ x: z.string(), y: z.string().optional(), z: z.string().optional() }),
  overrides: numbers.optional(),
  tunables: z.record(z.string(), z.array(z.number())).optional(),
  requires: textArray.optional(),
  dtypes: textArray.optional(),
});

export const labKernel = z
  .object({
    registration: registered,
    at: z.string().describe('When it was registered.'),
    report: registrationReport,
    state: kernelState,
    reason: stateReason.exactOptional(),
    components: textArray.describe('Components that it runs now.'),
  })
  .meta({ id: 'LabKernel' });
const kernelBench = z.object({
  at: z.string(),
  kernels: textArray.describe('All kernels that it measured together, against the built-in ones.'),
  verdict: z.string(),
  rounds: z.int(),
  ratio_low: z.number().nullable(),
  ratio_high: z.number().nullable(),
});
export const kernelVersions = z
  .object({
    name: z.string().exactOptional().describe('Of the kernel, also where it was found by a digest.'),
    versions: z
      .array(
        z.object({
          at: z.string(),
          digest: z.string(),
          accepted: z.boolean(),
          reason: z.string().exactOptional().describe('Why the gate did not accept it, in one line.'),
          registration: registered,
          benches: z
            .array(kernelBench)
            .describe('Those between this registration and the next, newest first.'),
        }),
      )
      .describe('Newest first.'),
  })
  .meta({ id: 'KernelVersions' });
export type KernelVersions = Immutable<z.output<typeof kernelVersions>>;
export const kernelVersion = z
  .object({ at: z.string(), registration: registered, report: registrationReport })
  .meta({ id: 'KernelVersion' });
export type KernelVersionDetail = Immutable<z.output<typeof kernelVersion>>;
export type LabKernelDetail = Immutable<z.output<typeof labKernel>>;

export const bindOutcome = z
  .object({
    bound: z.literal(true),
    components: textArray.describe('Components that the kernel now runs.'),
    replaced: textArray.describe('Kernels that were replaced.'),
    drift: drift
      .exactOptional()
      .describe(
        'How far the model drifts from itself when the kernel runs wherever it fits. Measured at the first binding after each registration; absent for an unverified kernel.',
      ),
    drift_together: drift
      .exactOptional()
      .describe('The same of all kernels that are bound now. Absent where only this kernel is bound.'),
    dispatches: z
      .object({ before: z.int(), after: z.int() })
      .describe(
        'Dispatches of a decoded token: more of them where the binding takes a fused built-in kernel apart.',
      ),
  })
  .meta({ id: 'BindOutcome' });
export type BindOutcome = Immutable<z.output<typeof bindOutcome>>;

export const cleared = z.object({ cleared: z.literal(true) }).meta({ id: 'BindingsCleared' });
export const someCleared = cleared.extend({ components: textArray }).meta({ id: 'SomeBindingsCleared' });
export const deleted = z.object({ deleted: z.literal(true) }).meta({ id: 'Deleted' });

const traffic = z.object({ needed_sectors: z.number(), touched_sectors: z.number() });
const profileSite = z.discriminatedUnion('kind', [
  z.object({
    kind: z.enum(['read', 'write']),
    line: z.int().describe("Line in the author's source, from 1."),
    column: z.int(),
    name: z.string().describe('The variable.'),
    space: z.enum(['storage', 'workgroup']),
    bytes: z.int().describe('Bytes that a lane accesses at once.'),
    requests: z.number().describe('Instructions of subgroups.'),
    active_lanes: z.number().describe('Fraction of the lanes that take part, on average.'),
    needed_sectors: z.number().exactOptional(),
    touched_sectors: z.number().exactOptional(),
    bank_conflict: z.int().exactOptional().describe('Turns that a bank needs where one would do.'),
  }),
  z.object({ kind: z.literal('barrier'), line: z.int(), column: z.int(), requests: z.number() }),
]);
const profiledKernel = z
  .object({
    name: z.string(),
    workgroups: z.int(),
    workgroup_size: z.int(),
    workgroup_bytes: z.number().describe('Workgroup memory.'),
    occupancy: z
      .number()
      .describe('Fraction of the threads that a GPU can keep ready, as far as workgroups limit it.'),
    occupancy_limit: z.enum(['workgroup_size', 'workgroup_memory', 'workgroups']),
    barriers: z.number(),
    bank_conflict: z.int().describe('The largest.'),
    active_lanes: z.number().describe('Fraction of the lanes that take part in accesses, on average.'),
    reads: traffic.describe('Storage, by the instructions of subgroups.'),
    writes: traffic,
    fetched: z
      .array(z.object({ name: z.string(), needed_bytes: z.number(), bytes: z.number() }))
      .describe('What a workgroup reads of each binding, each sector of 32 bytes once.'),
    fetched_bytes: z.number().describe('Of all workgroups.'),
    sites: z.array(profileSite),
  })
  .describe('Counts are those of one workgroup.');
export type ProfiledKernel = Immutable<z.output<typeof profiledKernel>>;
const profileHint = z.object({
  code: z.enum([
    'uncoalesced',
    'bank_conflict',
    'scalar_dequantization',
    'repeated_reads',
    'read_by_every_workgroup',
    'narrow_loads',
    'barriers',
    'inactive_lanes',
    'large_workgroup',
    'workgroup_memory',
    'f32_tile',
    'few_workgroups',
  ]),
  line: z.int(),
  message: z.string(),
});
export type ProfileHint = Immutable<z.output<typeof profileHint>>;

export const labProfile = z
  .object({
    kernel: z.string(),
    op: z.string(),
    case: z.string().describe('The shape and kind of the input.'),
    overrides: numbers.describe(
      'Values of the overrides: those that a binding to this shape has, also from tuning.',
    ),
    lanes: z.int().describe('Lanes of the emulated subgroups.'),
    flops: z.number().describe('What the op needs on this input.'),
    bytes: z.number(),
    profile: profiledKernel,
    builtin: z
      .array(profiledKernel)
      .exactOptional()
      .describe('The dispatches of the built-in kernels for GPUs on the same input.'),
    hints: z
      .array(profileHint)
      .describe('The most valuable first; on a software adapter, those that hold on GPUs alone are last.'),
  })
  .meta({ id: 'LabProfile' });
export type LabProfile = Immutable<z.output<typeof labProfile>>;

export const parityRunResult = z
  .object({
    seed: z.int(),
    ok: z.boolean(),
    mode,
    tolerance_scale: z.number(),
    components: z.array(
      z.object({
        id: z.string(),
        kernel: z.string(),
        nmse: measuredNumber,
        nmse_limit: z.number(),
        max_abs: measuredNumber,
        ok: z.boolean(),
      }),
    ),
    logits: z.object({ kl: measuredNumber, top1_agreement: z.number(), positions: z.int() }),
  })
  .meta({ id: 'ParityRunResult' });
export type ParityRunResult = Immutable<z.output<typeof parityRunResult>>;

export const fingerprint = z
  .object({
    adapter: z.string(),
    backend: z.string(),
    /** Driver description that the adapter reports. */
    driver: z.string(),
    /** Dawn toggles that the host sets. */
    toggles: textArray,
    dawn: z.string(),
    features: textArray,
    model: z.string(),
    kernels: z.record(z.string(), z.string()).describe('Maps kernel names to digests.'),
    seed: z.int(),
  })
  .meta({ id: 'LabFingerprint' });
export type Fingerprint = Immutable<z.output<typeof fingerprint>>;

const speeds = z.object({ prefill_tps: z.number(), decode_tps: z.number() });
const outputs = z
  .object({
    timed_tokens: z.int(),
    timed_same: z.int().describe('Those after which both arms have the same greedy token.'),
    mean_kl: measuredNumber,
    worst_kl: measuredNumber,
  })
  .describe(
    'All tokens that were timed, in both arms; then, on inputs of the same sizes, KL divergences of the logits in nats.',
  );

const bounds = z.object({ least: z.int(), most: z.int() });

/** What a bench is allowed to take. */
export const benchBudget = z
  .object({
    prompt_tokens: z.int(),
    contexts: z.array(z.int()),
    new_tokens: bounds.describe('Decoded tokens of one sample; how many depends on the speed.'),
    rounds: bounds.describe('How many depends on the width of the intervals and on the time.'),
    ms: z.number().describe('Time of all samples, if the effect can be found by then.'),
    max_ms: z.number().describe('Time after which no round begins, except to reach the minimum.'),
  })
  .meta({ id: 'BenchBudget' });
export type BenchBudget = Immutable<z.output<typeof benchBudget>>;

export const benchResult = z
  .object({
    id: z.string(),
    effect: z.number().describe('Smallest difference that was asked about, relative.'),
    budget: benchBudget,
    beside: textArray
      .exactOptional()
      .describe(
        'Bound kernels that ran in both arms, beside those that were measured, which the fingerprint names.',
      ),
    baseline: speeds,
    bound: speeds,
    delta: z.object({ prefill: z.number(), decode: z.number() }).describe('Ratios minus 1.'),
    ratio_ci95: z.tuple([z.number(), z.number()]).describe('Confidence interval of decode.'),
    control: z
      .object({ ratio: z.number(), ci95: interval })
      .exactOptional()
      .describe('Built-in kernels compared with themselves, decoding over all contexts.'),
    verdict,
    rounds: z.int(),
    method: z.string(),
    prefill: comparison.extend({ prompt_tokens: z.int(), outputs }),
    decode: z.array(
      comparison.extend({ context: z.int(), baseline_tps: z.number(), bound_tps: z.number(), outputs }),
    ),
    components: z.array(
      z.object({
        id: z.string(),
        kernel: z.string(),
        gpu_ms: z.number(),
        baseline_ms: z.number().exactOptional(),
        gbps: z.number(),
        gflops: z.number(),
        bandwidth_fraction: z.number(),
        compute_fraction: z.number(),
        /** Fraction of the binding roof: copy bandwidth or arithmetic, both measured on this adapter. */
        peak_fraction: z.number(),
        hint: z.string(),
      }),
    ),
    peaks: z
      .object({
        gbps: z.number(),
        cached_gbps: z.number().describe('Bandwidth of reads that caches can serve.'),
        gflops: z.number(),
      })
      .describe('Measured on this adapter.'),
    /** For example: times drifted over the rounds, outputs differ from the baseline, the adapter has no timestamps. */
    warnings: textArray,
    fingerprint,
  })
  .meta({ id: 'BenchResult' });
export type BenchResult = Immutable<z.output<typeof benchResult>>;

const benchSample = z.object({
  kind: z.enum(['prefill', 'decode']),
  context: z.int().describe('Position of the decoded token, or length of the prompt.'),
  tokens: z.int(),
  baseline_ms: z.number(),
  bound_ms: z.number(),
  control_ms: z.number().describe('Built-in kernels, measured again.'),
});

const benchRound = z.object({
  stage: z.literal('round'),
  round: z.int().describe('From 1.'),
  least: z.int().describe('Minimum number of rounds.'),
  most: z.int().describe('Maximum number of rounds; the number depends on the width of the intervals.'),
  samples: z.array(benchSample),
});
/** A finished round. */
export type BenchRound = Immutable<z.output<typeof benchRound>>;
/** A bench waits for the device, then runs the stages in this order. */
export const benchProgress = z.discriminatedUnion('stage', [
  z.object({ stage: z.literal('waiting'), id: z.string().describe('For `DELETE /lab/v1/bench/{id}`.') }),
  z.object({ stage: z.literal('warm_up'), budget: benchBudget }),
  z.object({ stage: z.enum(['peaks', 'outputs', 'components']) }),
  benchRound,
]);
export type BenchProgress = Immutable<z.output<typeof benchProgress>>;

const runningBench = z.object({
  id: z.string(),
  started_at: z.string(),
  stage: z.enum(['waiting', 'peaks', 'warm_up', 'round', 'outputs', 'components']),
  round: z.int().exactOptional().describe('The last finished one.'),
  most: z.int().exactOptional().describe('Maximum number of rounds.'),
});
export type RunningBench = Immutable<z.output<typeof runningBench>>;
export const runningBenches = z.object({ benches: z.array(runningBench) }).meta({ id: 'RunningBenches' });
export const benchCancelled = z.object({ cancelled: z.literal(true) }).meta({ id: 'BenchCancelled' });

export const validationReport = z
  .object({
    ok: z.boolean(),
    stages: z.array(
      z.object({
        stage: z.enum(['signature', 'safety', 'parity']),
        ok: z.boolean(),
        skipped: z.literal(true).exactOptional().describe('An earlier stage failed.'),
        findings: z.array(finding),
      }),
    ),
  })
  .meta({ id: 'ValidationReport' });
export type ValidationReport = Immutable<z.output<typeof validationReport>>;

export const configNames = textArray.meta({ id: 'ConfigNames' });

export const configImported = z
  .object({ name: z.string(), saved: z.literal(true), report: validationReport })
  .meta({ id: 'ConfigImported' });
export type ImportedConfig = Immutable<z.output<typeof configImported>>;

export const configSaved = z.object({ name: z.string(), saved: z.literal(true) }).meta({ id: 'ConfigSaved' });

/** What produced the evidence of a config. */
const machine = z.object({
  lathe: z.string(),
  node: z.string(),
  os: z.string(),
  cpu: z.string(),
  cores: z.int(),
  memory_bytes: z.number(),
  load: z.number().describe('Load average of a minute; 0 where the system has none.'),
});
export type Machine = Immutable<z.output<typeof machine>>;

const benchEvidence = z.object({
  result: benchResult,
  rounds: z.array(z.array(benchSample)).describe('The raw times, by round.'),
  at: z.string(),
});
export type BenchEvidence = Immutable<z.output<typeof benchEvidence>>;

/** A finished bench. */
export const benchRecord = z
  .object({
    id: z.string(),
    at: z.string().describe('When it ended.'),
    model: z.string().describe('Id of the model, as in `GET /v1/models`.'),
    machine,
    mode: z.enum(['quick', 'full']),
    kernels: z
      .array(z.object({ name: z.string(), digest: z.string(), components: textArray }))
      .describe('Those that it measured.'),
    result: benchResult,
    rounds: z.array(z.array(benchSample)).describe('The raw times, by round.'),
  })
  .meta({ id: 'BenchRecord' });
export type BenchRecord = Immutable<z.output<typeof benchRecord>>;

const speedRatio = z.object({ ratio: z.number(), ci95: interval });
const benchSummary = z.object({
  id: z.string(),
  at: z.string(),
  model: z.string(),
  lathe: z.string().exactOptional().describe('Version of the host.'),
  adapter: z.string(),
  kernels: z.array(z.object({ name: z.string(), digest: z.string() })),
  verdict: z.string(),
  rounds: z.int(),
  decode: speedRatio
    .extend({ control: speedRatio.exactOptional() })
    .nullable()
    .describe('Null where the values are not finite.'),
  baseline_decode_tps: z.number().nullable(),
  bound_decode_tps: z.number().nullable(),
  baseline_prefill_tps: z.number().nullable(),
  bound_prefill_tps: z.number().nullable(),
  effect: z.number().exactOptional(),
  prefill: speedRatio.extend({ control: speedRatio, verdict }).exactOptional(),
  components: z
    .array(
      z.object({
        slot: z.string(),
        kernel: z.string(),
        gpu_ms: z.number(),
        baseline_ms: z.number().exactOptional(),
      }),
    )
    .exactOptional()
    .describe('GPU time of a decoded token, all layers together.'),
  is_complete: z
    .boolean()
    .describe(
      'Whether GET /lab/v1/benches/{id} has it with its raw times. Benches of earlier versions have no more than this.',
    ),
});
export type BenchSummary = Immutable<z.output<typeof benchSummary>>;
export const benchSummaries = z
  .object({ benches: z.array(benchSummary).describe('Newest first.') })
  .meta({ id: 'BenchSummaries' });

/** A saved, signed config. */
export const savedConfig = z
  .object({
    contract: z.literal(1),
    name: z.string(),
    model: z.object({ digest: z.string(), architecture: z.string() }),
    bindings: z.array(z.object({ kernel: z.string(), components: textArray })),
    kernels: z.array(
      z.object({
        name: z.string(),
        op: z.string(),
        source: z.string(),
        entry_point: z.string().optional(),
        dispatch: z.object({ x: z.string(), y: z.string().optional(), z: z.string().optional() }),
        overrides: numbers.optional(),
        tunables: z.record(z.string(), z.array(z.number())).optional(),
        requires: z.array(z.enum(['shader-f16', 'subgroups'])).optional(),
        dtypes: textArray.optional(),
        digest: z.string(),
      }),
    ),
    evidence: z.record(z.string(), registrationReport).describe('Gate report of each kernel.'),
    bench: benchEvidence.exactOptional().describe('The last bench of exactly these bindings.'),
    machine: machine.exactOptional(),
    fingerprint,
    created_at: z.string(),
    signature: z.object({
      alg: z.literal('ed25519'),
      key_id: z.string(),
      public_key: z
        .string()
        .describe(
          'Base64, like `value`. Another host uses it to check the signature; it trusts the key by its id.',
        ),
      value: z.string(),
    }),
  })
  .meta({ id: 'LabConfig' });
export type ConfigEnvelope = Immutable<z.output<typeof savedConfig>>;
