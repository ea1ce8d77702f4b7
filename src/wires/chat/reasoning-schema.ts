import { z } from 'zod';
import { effort, flag, optionalInteger } from '../core/members.ts';
import { unsupportedMember } from '../core/sampling-schema.ts';

export const reasoningMembers = {
  reasoning_effort: effort
    .nullish()
    .describe(
      "Reasoning effort; mapped to the nearest level of the model's chat template. Default: the template's own.",
    ),
  reasoning: z
    .object(
      {
        effort: effort.nullish(),
        enabled: flag.nullish(),
        exclude: unsupportedMember('excluding reasoning from the answer', (value) => value === false),
        max_tokens: optionalInteger(0).describe(
          '0 disables reasoning, more enables it; its length is limited by `max_completion_tokens` only.',
        ),
      },
      { error: 'expected {effort}, {enabled} or {max_tokens}' },
    )
    .nullish()
    .describe('Alternative to `reasoning_effort`, which takes precedence.'),
  thinking: z
    .object(
      {
        type: z.enum(['enabled', 'disabled', 'auto'], { error: "expected 'enabled', 'disabled' or 'auto'" }),
      },
      { error: 'expected {type}' },
    )
    .nullish()
    .describe(
      'Whether the model should reason, in the format of other hosts; `reasoning` and its effort take precedence.',
    ),
  enable_thinking: flag.nullish().describe('Alias of `thinking`, which takes precedence.'),
  include_reasoning: unsupportedMember('excluding reasoning from the answer', (value) => value === true),
  reasoning_format: unsupportedMember(
    'a reasoning_format other than auto',
    (value) => value === 'auto' || value === 'deepseek',
  ),
};
export type ReasoningBody = z.infer<z.ZodObject<typeof reasoningMembers>>;
