import { z } from 'zod';
import { finding, fingerprint, savedConfig } from '../answer-shapes.ts';

const string = z.string();
const number = z.number();
/** null: the value was not finite. */
const nullableNumber = number.nullable();

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

/**
 * Schema of a config from any source. Later checks judge the values. Unknown members are allowed because the signature
 * covers them, except in `signature` itself.
 */
export const envelopeSchema = savedConfig.extend({
  evidence: z.record(string, evidence),
  // What validation does not judge may come from other versions.
  bench: z.unknown().optional(),
  machine: z.unknown().optional(),
  // Configs of hosts before this member have none.
  fingerprint: fingerprint.partial({ toggles: true }),
  created_at: z.iso.datetime(),
  signature: z.strictObject({ alg: string, key_id: string, public_key: string.optional(), value: string }),
});
export type ParsedEnvelope = z.infer<typeof envelopeSchema>;
