import { z } from 'zod';
import { agentLimits, agentSampling, partialGrants } from './agent-spec.ts';
import { count, nonEmptyText, resourceName, text } from './common.ts';
import { session } from './session.ts';

const schema = z.record(z.string(), z.unknown(), { error: 'expected a JSON schema' });

export const taskRequest = z
  .object(
    {
      prompt: nonEmptyText.max(1_000_000, 'at most 1000000 characters'),
      agent: resourceName.default('default'),
      cwd: nonEmptyText
        .max(4096, 'at most 4096 characters')
        .optional()
        .describe('Absolute path of the working folder; base of relative paths.'),
      inputs: z
        .record(z.string(), z.unknown(), { error: 'expected an object' })
        .optional()
        .describe('Named texts and values; sent to the model after the prompt.'),
      grants: partialGrants
        .optional()
        .describe("Narrows the agent's own grants; an absent member keeps the agent's value."),
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
        .describe('Format of the answer.'),
      limits: agentLimits.optional().describe("Override the agent's limits, member by member."),
      sampling: agentSampling.optional().describe("Overrides the agent's sampling, member by member."),
      approvals: z
        .enum(['later', 'wait'], { error: "expected 'later' or 'wait'" })
        .optional()
        .describe(
          'What happens when a change is staged: `later` (default), the agent goes on and knows that a person will decide; `wait`, the task waits for the decision, and the agent is told the outcome.',
        ),
    },
    { error: 'expected a JSON object' },
  )
  .meta({ id: 'TaskRequest' });
export type TaskRequest = z.infer<typeof taskRequest>;

/** A message that goes on with a task. Absent members are those of the task's request. */
export const messageRequest = taskRequest
  .pick({ prompt: true, inputs: true, response_format: true, limits: true, sampling: true, approvals: true })
  .meta({ id: 'TaskMessage' });
export type MessageRequest = z.infer<typeof messageRequest>;

export const taskRow = z.object({ ...session.shape, agent: text, parts: count }).meta({ id: 'TaskRow' });
export const taskList = z.object({ tasks: z.array(taskRow) }).meta({ id: 'TaskList' });
export type TaskList = z.infer<typeof taskList>;

export const taskDetail = z
  .object({
    ...session.shape,
    ok: z.boolean().describe('False when the task has failed.'),
    agent: text,
    outcome: text.optional().describe('`answer`, or the reason of `aborted`.'),
    answer: text.optional(),
    message: text.optional().describe('Why there is no answer.'),
    session_id: text.optional().describe('The store session, which can be revoked.'),
    parent: text.optional().describe('The task or run that handed the work on.'),
    parts: count.describe('Parts of the conversation: the request, and the messages after it.'),
    part_seq: count.describe('The `seq` of the first event of the last part.'),
    last_seq: count.describe('The `seq` of the last event until now.'),
    turns: z.array(
      z.object({
        n: count,
        text: text.optional().describe('The beginning of the text that the model wrote.'),
        tool_calls: z.array(
          z.object({
            tool: text,
            ok: z.boolean().optional().describe('Absent while the call runs.'),
            pending_id: text.optional().describe('The change that it staged.'),
          }),
        ),
      }),
    ),
  })
  .meta({ id: 'TaskDetail' });
export type TaskDetail = z.infer<typeof taskDetail>;
