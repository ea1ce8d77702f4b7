import { z } from 'zod';

const count = z.int().min(0);

export const substrateInfo = z
  .object({
    protocol_version: z.string(),
    contract_version: z.string().describe('The capability probe.'),
    host_version: z.string(),
    endpoint_id: z.string().describe('Stays the same over restarts: it lives in the data directory.'),
    capabilities: z.array(z.string()).describe('The planes that are mounted.'),
    enforcement_tier: z.enum(['none', 'path', 'os_sandbox']),
    model: z
      .object({
        id: z.string(),
        architecture: z.string(),
        parameters: count,
        quantization: z.string(),
        context_length: count,
        digest: z.string(),
      })
      .nullable(),
    planner: z.object({ kind: z.string(), model: z.string().nullable(), disclosure: z.string() }),
    adapter: z
      .object({
        backend: z.string(),
        vendor: z.string(),
        description: z.string(),
        features: z.array(z.string()),
      })
      .nullable(),
    completions_served: count,
  })
  .meta({ id: 'SubstrateInfo' });
export type SubstrateInfo = z.infer<typeof substrateInfo>;

export const hostHealth = z
  .object({
    model: z.string().describe('The id of the served model; empty where none is resident.'),
    status: z.enum(['ok', 'no_model']),
  })
  .meta({ id: 'HostHealth' });
export type HostHealth = z.infer<typeof hostHealth>;

export const hostTelemetry = z
  .object({
    since: z.iso.datetime(),
    served: z.object({ completions: count, tasks: count, workflow_runs: count }),
    tokens: z.object({ prompt: count, completion: count }),
    measured_completions: count.describe('How many completions the token sums are over.'),
    coverage: z.string().describe('What is measured.'),
    device_losses: count.describe('How often the GPU was lost and the engine rebuilt.'),
  })
  .meta({ id: 'HostTelemetry' });
export type HostTelemetry = z.infer<typeof hostTelemetry>;
