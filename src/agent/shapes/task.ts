import { z } from 'zod';
import { agentLimits, agentSampling, someGrants } from './agent-spec.ts';
import { count, filledText, itemName, text } from './common.ts';
import { session } from './session.ts';

const schema = z.record(z.string(), z.unknown(), { error: 'expected a JSON schema' });

export const taskRequest = z
  .object(
    {
      prompt: filledText.max(1_000_000, 'at most 1000000 characters'),
      agent: itemName.default('default'),
      cwd: filledText
        .max(4096, 'at most 4096 characters')
        .optional()
        .describe('Absolute; where relative paths start.'),
      inputs: z
        .record(z.string(), z.unknown(), { error: 'expected an object' })
        .optional()
        .describe('Named texts and values, shown to the model after the prompt.'),
      grants: someGrants
        .optional()
        .describe("Less than the agent's own; what is absent stays as it is there."),
      response_format: z
        .discriminatedUnion(
          'type',
          [
            z.object({ type: z.literal('text') }),
            z.object({ type: z.literal('json_object') }),
            z.object({
              type: z.literal('json_schema'),
              json_schema: z.looseObject({ schema }, { error: 'expected {schema}' }),
            }),
          ],
          {
            error:
              "expected {type: 'text'}, {type: 'json_object'} or {type: 'json_schema', json_schema: {schema}}",
          },
        )
        .optional()
        .describe('What the answer must look like.'),
      limits: agentLimits.optional().describe("Count before the agent's."),
      sampling: agentSampling.optional().describe("Counts before the agent's, member by member."),
    },
    { error: 'expected a JSON object' },
  )
  .meta({ id: 'TaskRequest' });
export type TaskRequest = z.infer<typeof taskRequest>;

export const taskDetail = z
  .object({
    ...session.shape,
    ok: z.boolean().describe('False once the task has failed.'),
    agent: text,
    outcome: text.optional().describe('`answer`, or the reason of `aborted`.'),
    answer: text.optional(),
    message: text.optional().describe('Why there is no answer.'),
    session_id: text.optional().describe('The store session, which can be revoked.'),
    turns: z.array(
      z.object({
        n: count,
        text: text.optional().describe('The beginning of what the model wrote.'),
        tool_calls: z.array(
          z.object({
            tool: text,
            ok: z.boolean().optional().describe('Absent while it runs.'),
            pending_id: text.optional().describe('The change that it staged.'),
          }),
        ),
      }),
    ),
  })
  .meta({ id: 'TaskDetail' });
export type TaskDetail = z.infer<typeof taskDetail>;
