import { z } from 'zod';
import { effort, flag, whole } from '../core/members.ts';
import { unserved } from '../core/sampling-schema.ts';

export const reasoningMembers = {
  reasoning_effort: effort
    .nullish()
    .describe(
      "How much the model should think; the nearest that its template knows. Default: the template's own.",
    ),
  reasoning: z
    .object(
      {
        effort: effort.nullish(),
        enabled: flag.nullish(),
        exclude: unserved('leaving thoughts out of the answer', (value) => value === false),
        max_tokens: whole(0).describe(
          '0 turns thinking off, more turns it on; thoughts are bounded by `max_completion_tokens` alone.',
        ),
      },
      { error: 'expected {effort}, {enabled} or {max_tokens}' },
    )
    .nullish()
    .describe('Another way of writing `reasoning_effort`, which wins.'),
  thinking: z
    .object(
      {
        type: z.enum(['enabled', 'disabled', 'auto'], { error: "expected 'enabled', 'disabled' or 'auto'" }),
      },
      { error: 'expected {type}' },
    )
    .nullish()
    .describe('Whether the model should think, as other hosts write it; `reasoning` and its effort win.'),
  enable_thinking: flag.nullish().describe('The same as `thinking`, which wins.'),
  include_reasoning: unserved('leaving thoughts out of the answer', (value) => value === true),
  reasoning_format: unserved(
    'a reasoning_format other than auto',
    (value) => value === 'auto' || value === 'deepseek',
  ),
};
export type ReasoningBody = z.infer<z.ZodObject<typeof reasoningMembers>>;
