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
    intent: text.describe('Reason, in the words of the agent.'),
    summary: text.describe('What the change does, in the words of the host.'),
    path: text.optional(),
    diff: text.optional().describe('Unified diff of the change.'),
    base_hash: text
      .optional()
      .describe('`sha256:` digest of the file when the change was staged; `absent` when there was no file.'),
    risk: z.enum(['low', 'medium', 'high']),
    created_at: time,
    expires_at: time,
  })
  .meta({ id: 'PendingChange' });
export type PendingChange = z.infer<typeof pendingChange>;

/** A pending change in any state, with the complete diff. */
export const pendingChangeDetail = pendingChange
  .extend({
    state: z.enum(['staged', 'applying', 'applied', 'discarded', 'expired', 'failed']),
    digest: text.describe('Digest of what approving applies; it changes when a person edits the change.'),
    content: text
      .optional()
      .describe('The text that the file will have, of changes that write a text; a person may edit it.'),
    decided_at: time.optional(),
    decided_by: text.optional(),
    output: z
      .object({ ok: z.boolean(), output: text, truncated: z.boolean() })
      .optional()
      .describe('Output of applying the change, or why it failed.'),
  })
  .meta({ id: 'PendingChangeDetail' });
export type PendingChangeDetail = z.infer<typeof pendingChangeDetail>;

/** Unicode code points, not UTF-16 code units. */
const maxNote = 2000;
function isShortNote(note: string): boolean {
  if (note.length > 2 * maxNote) return false;
  let characters = 0;
  for (const _ of note) characters++;
  return characters <= maxNote;
}
export const discardRequest = z
  .object(
    {
      note: z
        .string({ error: 'expected a text' })
        .refine(isShortNote, { error: 'at most 2000 characters' })
        .optional()
        .describe(
          'Stored in the action journal; told to a task that waits for the decision. At most 2000 characters.',
        ),
    },
    { error: 'expected an object' },
  )
  .meta({ id: 'DiscardRequest' });

export const editRequest = z
  .object(
    {
      content: z
        .string({ error: 'expected the text of the file' })
        .describe('The whole text that the file will have.'),
    },
    { error: 'expected an object' },
  )
  .meta({ id: 'EditRequest' });

export const approveRequest = z
  .object({
    ids: z
      .array(text, { error: 'expected a list of ids' })
      .min(1, 'expected at least one id')
      .max(100, 'at most 100 ids')
      .refine((ids) => new Set(ids).size === ids.length, { error: 'an id is in the list twice' }),
  })
  .meta({ id: 'ApproveRequest' });
