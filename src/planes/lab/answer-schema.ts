import { z } from 'zod';
import type {
  BenchProgress,
  BenchResult,
  BindOutcome,
  Fingerprint,
  LabGraph,
  LabParts,
  ValidationReport,
} from '../../lab/types.ts';
import { hostError } from '../error-schema.ts';

const textArray = z.array(z.string());
const shape = z.array(z.union([z.number(), z.string()]));
const numbers = z.record(z.string(), z.number());
/** A measured number. JSON has no NaN and no infinities. */
const measuredNumber = z.number().nullable().describe('Null where the value is not finite.');

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
        shape,
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
        op: z.string(),
        nodes: textArray,
        fused_kernel: z.string().exactOptional(),
      }),
    ),
  })
  .meta({ id: 'LabGraph' }) satisfies z.ZodType<LabGraph>;

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
        state: z.enum(['accepted', 'rejected', 'unverified', 'quarantined']),
      }),
    ),
  })
  .meta({ id: 'LabParts' }) satisfies z.ZodType<LabParts>;

export const labOps = z.object({ ops: z.array(z.looseObject({ op: z.string() })) }).meta({ id: 'LabOps' });

export const labStub = z
  .object({ op: z.string(), target: z.string(), source: z.string().describe('WGSL that passes the gate.') })
  .meta({ id: 'LabStub' });

const finding = z
  .object({
    code: z.string(),
    severity: z.enum(['error', 'warning', 'info']),
    message: z.string(),
    line: z.int().exactOptional().describe("Line in the author's source, from 1."),
    column: z.int().exactOptional(),
    length: z.int().exactOptional().describe('UTF-16 code units.'),
  })
  .meta({ id: 'Finding' });

export const registrationReport = z
  .object({
    kernel: z.string(),
    digest: z.string().describe('`sha256:` over what the kernel computes.'),
    accepted: z.boolean(),
    unverified: z.boolean().exactOptional().describe('Compiled but not compared.'),
    stages: z
      .array(
        z.object({
          stage: z.enum(['parse', 'interface', 'safety', 'pipeline', 'parity']),
          ok: z.boolean(),
          findings: z.array(finding),
        }),
      )
      .describe('Stages up to the first failure; interface and safety are both included if either failed.'),
    parity: z
      .array(
        z.object({
          case: z.string(),
          ok: z.boolean(),
          nmse: measuredNumber,
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
          builtin: z.object({ nmse: measuredNumber, max_abs: measuredNumber }).exactOptional(),
        }),
      )
      .exactOptional(),
    tolerance: z
      .object({
        nmse: z.number(),
        max_abs: z.number(),
        matched_ratio: z.number(),
        scale: z.number(),
        mode: z.enum(['strict', 'standard', 'off']),
      })
      .exactOptional(),
    seed: z.int().exactOptional(),
    tuning: z
      .array(
        z.object({
          shape: z.string(),
          best: numbers,
          best_ms: z.number(),
          builtin_ms: z.number().exactOptional(),
          tried: z.array(z.object({ overrides: numbers, ms: z.number() })),
        }),
      )
      .exactOptional(),
    elapsed_ms: z.number(),
  })
  .meta({ id: 'KernelRegistrationReport' });

export const bindOutcome = z
  .object({
    bound: z.literal(true),
    components: textArray.describe('Components that the kernel now runs.'),
    replaced: textArray.describe('Kernels that were replaced.'),
  })
  .meta({ id: 'BindOutcome' }) satisfies z.ZodType<BindOutcome>;

export const cleared = z.object({ cleared: z.literal(true) }).meta({ id: 'BindingsCleared' });

export const parityRunResult = z
  .object({
    seed: z.int(),
    ok: z.boolean(),
    mode: z.enum(['strict', 'standard', 'off']),
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

const fingerprint = z
  .object({
    adapter: z.string(),
    backend: z.string(),
    driver: z.string(),
    toggles: z.array(z.string()),
    dawn: z.string(),
    features: textArray,
    model: z.string(),
    kernels: z.record(z.string(), z.string()).describe('Maps kernel names to digests.'),
    seed: z.int(),
  })
  .meta({ id: 'LabFingerprint' }) satisfies z.ZodType<Fingerprint>;

const speeds = z.object({ prefill_tps: z.number(), decode_tps: z.number() });
const interval = z.object({ low: z.number(), high: z.number() });
const verdict = z
  .enum(['faster', 'slower', 'no_difference', 'suspect'])
  .describe('`suspect`: faster than the hardware allows.');
const comparisonMembers = {
  ratio: z.number().describe('Baseline time divided by bound time; above 1 is faster.'),
  ci95: interval,
  control: z
    .object({ ratio: z.number(), ci95: interval })
    .describe('Built-in kernels compared with themselves.'),
  verdict,
};

export const benchResult = z
  .object({
    baseline: speeds,
    bound: speeds,
    delta: z.object({ prefill: z.number(), decode: z.number() }).describe('Ratios minus 1.'),
    ratio_ci95: z.tuple([z.number(), z.number()]).describe('Confidence interval of decode.'),
    verdict,
    rounds: z.int(),
    method: z.string(),
    prefill: z.object({ ...comparisonMembers, prompt_tokens: z.int() }),
    decode: z.array(
      z.object({ ...comparisonMembers, context: z.int(), baseline_tps: z.number(), bound_tps: z.number() }),
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
    warnings: textArray,
    fingerprint,
  })
  .meta({ id: 'BenchResult' }) satisfies z.ZodType<BenchResult>;

const benchProgress = z.discriminatedUnion('stage', [
  z.object({ stage: z.enum(['waiting', 'peaks', 'warm_up', 'outputs', 'components']) }),
  z.object({
    stage: z.literal('round'),
    round: z.int().describe('From 1.'),
    least: z.int().describe('Minimum number of rounds.'),
    most: z.int().describe('Maximum number of rounds; the number depends on the width of the intervals.'),
    samples: z.array(
      z.object({
        kind: z.enum(['prefill', 'decode']),
        context: z.int().describe('Position of the decoded token, or length of the prompt.'),
        tokens: z.int(),
        baseline_ms: z.number(),
        bound_ms: z.number(),
        control_ms: z.number().describe('Built-in kernels, measured again.'),
      }),
    ),
  }),
]) satisfies z.ZodType<BenchProgress>;

/** A line of a streamed benchmark. */
export const benchLine = z
  .union([
    benchProgress,
    z.object({ stage: z.literal('done'), result: benchResult }).describe('The last line.'),
    hostError.describe('The last line after a failure.'),
  ])
  .meta({ id: 'BenchLine' });

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
  .meta({ id: 'ValidationReport' }) satisfies z.ZodType<ValidationReport>;

export const configNames = textArray.meta({ id: 'ConfigNames' });

export const configSaved = z.object({ name: z.string(), saved: z.literal(true) }).meta({ id: 'ConfigSaved' });

export const savedConfig = z
  .looseObject({
    contract: z.int(),
    name: z.string(),
    model: z.object({ digest: z.string(), architecture: z.string() }),
    bindings: z.array(z.object({ kernel: z.string(), components: textArray })),
    kernels: z.array(z.looseObject({ name: z.string(), op: z.string(), digest: z.string() })),
    evidence: z.record(z.string(), registrationReport).describe('Gate report of each kernel.'),
    fingerprint,
    created_at: z.string(),
    signature: z.object({ alg: z.string(), key_id: z.string(), public_key: z.string(), value: z.string() }),
  })
  .meta({ id: 'LabConfig' });
