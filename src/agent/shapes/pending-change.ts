import { z } from 'zod';
import { text, time } from './common.ts';

export const pendingChange = z
  .object({
    id: text,
    kind: z.enum(['file_write', 'file_delete', 'exec', 'tool_call']),
    tool: text,
    task_id: text.optional(),
    run_id: text.optional(),
    step: text.optional(),
    agent: text,
    intent: text.describe('Why, in the words of the agent.'),
    summary: text.describe('What, in ours.'),
    path: text.optional(),
    diff: text.optional().describe('Unified; what approving it applies.'),
    base_hash: text
      .optional()
      .describe('`sha256:` of what the path held when it was staged; `absent` where nothing.'),
    risk: z.enum(['low', 'medium', 'high']),
    created_at: time,
    expires_at: time,
  })
  .meta({ id: 'PendingChange' });
export type PendingChange = z.infer<typeof pendingChange>;
