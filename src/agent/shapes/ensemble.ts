import { z } from 'zod';
import { resourceName, text, time } from './common.ts';
import { consent } from './lint-report.ts';

/** A stored workflow. */
export const ensembleRecord = z
  .object({
    name: text,
    source: text.describe('TOML, byte for byte as sent.'),
    digest: text.describe('`sha256:` digest of the source.'),
    enabled: z.boolean().describe('Whether the operator allows running it by name.'),
    origin: text.optional().describe('`builtin:<name>@<version>` of a fork.'),
    version: text.optional(),
    description: text.optional(),
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'Ensemble' });
export type EnsembleRecord = z.infer<typeof ensembleRecord>;

/** A workflow that is shipped with the host; it uses no stored agents. */
export const builtinWorkflow = z
  .object({
    name: text,
    version: text,
    description: text,
    origin: text.describe('`builtin:<name>@<version>`.'),
    source: text,
    digest: text,
    enabled: z.boolean(),
    inputs: z.record(z.string(), z.looseObject({ type: text, required: z.boolean() })),
    steps: z.array(
      z.object({
        id: text,
        needs: z.array(text),
        agent: text.optional(),
        when: text.optional(),
        gate: text.optional().describe('The kind of its gate.'),
      }),
    ),
    schedule: consent.shape.schedule,
    consent,
  })
  .meta({ id: 'BuiltinWorkflow' });
export type BuiltinWorkflow = z.infer<typeof builtinWorkflow>;

export const forkRequest = z
  .object(
    { as: resourceName.optional().describe("Name of the copy; default the built-in's own.") },
    {
      error: 'expected an object',
    },
  )
  .meta({ id: 'ForkRequest' });
