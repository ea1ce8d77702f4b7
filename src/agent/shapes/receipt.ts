import { z } from 'zod';
import { text, time, tokenCounts } from './common.ts';

/** An absent member is undisclosed, not zero. New versions only add members. */
export const workReceipt = z
  .object({
    contract: z.literal(1),
    id: text,
    kind: z.enum(['task', 'run', 'external']),
    outcome: z.enum(['completed', 'failed', 'cancelled']),
    started_at: time,
    ended_at: time,
    harness: text.optional(),
    client: text.optional(),
    cwd: text.optional(),
    exit_code: z.int().optional(),
    summary: text.optional(),
    tokens: tokenCounts.optional().describe('Measured by the host.'),
    tokens_claimed: tokenCounts.optional().describe('Claimed by the client.'),
    close_reason: text.optional(),
    title: text.optional(),
    agent: text.optional(),
    workflow: text.optional(),
    parent: text.optional().describe('The task or run that handed the work on.'),
    delegated: text
      .optional()
      .describe(
        'Tasks that work was handed on to, separated by commas: programs that verify receipts need not know lists.',
      ),
    endpoint_id: text.optional(),
    seq: z.int().optional().describe('Position in the chain of its host, from 1.'),
    prev_digest: text.describe('Digest of the previous receipt; `sha256:` and 64 zeros for the first.'),
    digest: text.describe('`sha256:` over the RFC 8785 form of all members but `digest` and `signature`.'),
    signature: z.object({ alg: z.literal('ed25519'), key_id: text, value: text }),
  })
  .meta({ id: 'WorkReceipt' });
export type WorkReceipt = z.infer<typeof workReceipt>;
/** A receipt without the members that the chain adds. */
export type ReceiptBody = Omit<
  WorkReceipt,
  'contract' | 'endpoint_id' | 'seq' | 'prev_digest' | 'digest' | 'signature'
>;
