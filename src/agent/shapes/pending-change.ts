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

/** Whatever became of it; the diff is whole. */
export const pendingChangeDetail = pendingChange
  .extend({
    state: z.enum(['staged', 'applying', 'applied', 'discarded', 'expired', 'failed']),
    decided_at: time.optional(),
    decided_by: text.optional(),
    output: z
      .object({ ok: z.boolean(), output: text, truncated: z.boolean() })
      .optional()
      .describe('What applying it gave, or why it failed.'),
  })
  .meta({ id: 'PendingChangeDetail' });
export type PendingChangeDetail = z.infer<typeof pendingChangeDetail>;

/** Characters as people count them, not UTF-16 units. */
const mostNote = 2000;
function isShortNote(note: string): boolean {
  if (note.length > 2 * mostNote) return false;
  let characters = 0;
  for (const _ of note) characters++;
  return characters <= mostNote;
}
export const discardRequest = z
  .object(
    {
      note: z
        .string({ error: 'expected a text' })
        .refine(isShortNote, { error: 'at most 2000 characters' })
        .optional()
        .describe('Goes into the action journal, and nowhere else. At most 2000 characters.'),
    },
    { error: 'expected an object' },
  )
  .meta({ id: 'DiscardRequest' });
