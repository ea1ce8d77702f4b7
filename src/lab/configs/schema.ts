import { z } from 'zod';

const text = z.string();
const texts = z.array(text);
const number = z.number();
const numbers = z.record(text, number);
/** null: the value was not finite. */
const measured = number.nullable();

const finding = z.object({
  code: text,
  severity: z.enum(['error', 'warning', 'info']),
  message: text,
  line: number.optional(),
  column: number.optional(),
  length: number.optional(),
});

/** Gate report: the members that validation uses. */
const evidence = z.object({
  kernel: text,
  digest: text,
  accepted: z.boolean(),
  unverified: z.boolean().optional(),
  stages: z.array(z.object({ stage: text, ok: z.boolean(), findings: z.array(finding) })),
  parity: z.array(z.object({ case: text, ok: z.boolean(), nmse: measured, max_abs: measured })).optional(),
  tolerance: z
    .object({ nmse: number, scale: number, mode: z.enum(['strict', 'standard', 'off']) })
    .optional(),
});

const kernel = z.object({
  name: text,
  op: text,
  source: text,
  entry_point: text.optional(),
  dispatch: z.object({ x: text, y: text.optional(), z: text.optional() }),
  overrides: numbers.optional(),
  tunables: z.record(text, z.array(number)).optional(),
  requires: z.array(z.enum(['shader-f16', 'subgroups'])).optional(),
  dtypes: texts.optional(),
  digest: text,
});

/**
 * Schema of a config from any source. Later checks judge the values. Unknown members are allowed because the signature
 * covers them, except in `signature` itself.
 */
export const envelopeSchema = z.object({
  contract: z.literal(1),
  name: text,
  model: z.object({ digest: text, architecture: text }),
  bindings: z.array(z.object({ kernel: text, components: texts })),
  kernels: z.array(kernel),
  evidence: z.record(text, evidence),
  fingerprint: z.object({
    adapter: text,
    backend: text,
    driver: text,
    dawn: text,
    features: texts,
    model: text,
    kernels: z.record(text, text),
    seed: number,
  }),
  created_at: z.iso.datetime(),
  signature: z.strictObject({ alg: text, key_id: text, public_key: text.optional(), value: text }),
});
export type ReadEnvelope = z.infer<typeof envelopeSchema>;
