import { z } from 'zod';

const string = z.string();
const strings = z.array(string);
const number = z.number();
const numbers = z.record(string, number);
/** null: the value was not finite. */
const nullableNumber = number.nullable();

const finding = z.object({
  code: string,
  severity: z.enum(['error', 'warning', 'info']),
  message: string,
  line: number.optional(),
  column: number.optional(),
  length: number.optional(),
});

/** Gate report: the members that validation uses. */
const evidence = z.object({
  kernel: string,
  digest: string,
  accepted: z.boolean(),
  unverified: z.boolean().optional(),
  stages: z.array(z.object({ stage: string, ok: z.boolean(), findings: z.array(finding) })),
  parity: z
    .array(z.object({ case: string, ok: z.boolean(), nmse: nullableNumber, max_abs: nullableNumber }))
    .optional(),
  tolerance: z
    .object({ nmse: number, scale: number, mode: z.enum(['strict', 'standard', 'off']) })
    .optional(),
});

const kernel = z.object({
  name: string,
  op: string,
  source: string,
  entry_point: string.optional(),
  dispatch: z.object({ x: string, y: string.optional(), z: string.optional() }),
  overrides: numbers.optional(),
  tunables: z.record(string, z.array(number)).optional(),
  requires: z.array(z.enum(['shader-f16', 'subgroups'])).optional(),
  dtypes: strings.optional(),
  digest: string,
});

/**
 * Schema of a config from any source. Later checks judge the values. Unknown members are allowed because the signature
 * covers them, except in `signature` itself.
 */
export const envelopeSchema = z.object({
  contract: z.literal(1),
  name: string,
  model: z.object({ digest: string, architecture: string }),
  bindings: z.array(z.object({ kernel: string, components: strings })),
  kernels: z.array(kernel),
  evidence: z.record(string, evidence),
  fingerprint: z.object({
    adapter: string,
    backend: string,
    driver: string,
    dawn: string,
    features: strings,
    model: string,
    kernels: z.record(string, string),
    seed: number,
  }),
  created_at: z.iso.datetime(),
  signature: z.strictObject({ alg: string, key_id: string, public_key: string.optional(), value: string }),
});
export type ParsedEnvelope = z.infer<typeof envelopeSchema>;
