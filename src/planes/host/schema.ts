import { z } from 'zod';

const count = z.int().min(0);

const modelIdentity = z.object({
  id: z.string(),
  architecture: z.string(),
  parameters: count,
  quantization: z.string(),
  context_length: count,
  memory_bytes: count.describe('Device memory: weights, caches and workspace.'),
  digest: z.string(),
});

export const substrateInfo = z
  .object({
    protocol_version: z.string(),
    contract_version: z.string().describe('The capability probe.'),
    host_version: z.string(),
    endpoint_id: z.string().describe('Stable across restarts; stored in the data directory.'),
    capabilities: z.array(z.string()).describe('The planes that are mounted.'),
    enforcement_tier: z.enum(['none', 'path', 'os_sandbox']),
    model: modelIdentity.nullable(),
    embedding_model: modelIdentity
      .optional()
      .describe('The model for embeddings beside it (`--embedding-model`).'),
    models: z
      .array(modelIdentity)
      .optional()
      .describe('All loaded models, the resident one first, where the host keeps several (`--resident`).'),
    planner: z.object({ kind: z.string(), model: z.string().nullable(), disclosure: z.string() }),
    receipt_key: z
      .object({
        alg: z.literal('ed25519'),
        key_id: z.string(),
        public_key: z.string().describe('Base64 of the 32 bytes.'),
      })
      .optional()
      .describe('Key that signs work receipts.'),
    adapter: z
      .object({
        backend: z.string(),
        vendor: z.string(),
        description: z.string(),
        features: z.array(z.string()),
        replaced_kernels: z
          .array(z.object({ kernel: z.string(), reason: z.string() }))
          .optional()
          .describe(
            'Built-in kernels that gave wrong results on this adapter and were replaced; absent: none.',
          ),
      })
      .nullable(),
    gateway_admin_port: z
      .int()
      .optional()
      .describe("Port on loopback of the gateway's operator: its page and admin API; absent: none."),
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

/** Members are only added, never changed or removed. */
export const servedSessions = z
  .object({
    contract: z.literal(1),
    endpoint_id: z.string(),
    sessions: z
      .array(
        z.looseObject({
          id: z.string(),
          kind: z.enum(['task', 'run']),
          subject: z.string().describe('The task or run.'),
          opened_at: z.iso.datetime(),
          revoked: z.boolean(),
        }),
      )
      .describe('The open store sessions, newest first.'),
    turns: z
      .array(
        z.looseObject({
          id: z.string(),
          kind: z.enum(['task', 'run']),
          session_id: z.string().optional(),
          name: z.string().describe('Name of the agent or workflow.'),
          state: z.string(),
          started_at: z.iso.datetime(),
          ended_at: z.iso.datetime().optional(),
        }),
      )
      .describe('Running turns and turns that ended in the last 10 minutes, newest first, at most 200.'),
  })
  .meta({ id: 'ServedSessions' });

export const servedCapabilities = z
  .object({
    contract: z.literal(1),
    endpoint_id: z.string(),
    sessions_plane: z.boolean(),
    verbs: z.array(z.string()).describe('Actions on sessions.'),
    bind: z.enum(['loopback', 'lan']),
    control_port: z.int().describe('Port of the control socket; 0 where there is none.'),
    operator_credential: z.boolean().describe('Whether an operator credential exists.'),
    offering: z.object({ models: z.array(z.object({ id: z.string(), kind: z.string() })) }),
  })
  .meta({ id: 'ServedCapabilities' });

export const servedHarnesses = z
  .object({
    contract: z.literal(1),
    harnesses: z.array(
      z.looseObject({
        name: z.string(),
        builtin: z.boolean(),
        open_sessions: count.optional(),
        sessions: count.optional(),
        last_seen_at: z.iso.datetime().optional(),
      }),
    ),
  })
  .meta({ id: 'ServedHarnesses' });

export const hostTelemetry = z
  .object({
    since: z.iso.datetime(),
    served: z.object({ completions: count, tasks: count, workflow_runs: count }),
    tokens: z.object({ prompt: count, completion: count }),
    measured_completions: count.describe('Number of completions in the token sums.'),
    coverage: z.string().describe('What is measured.'),
    device_losses: count.describe('How often the GPU was lost and the engine rebuilt.'),
  })
  .meta({ id: 'HostTelemetry' });
export type HostTelemetry = z.infer<typeof hostTelemetry>;
