import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import { flag, refused, text } from '../../wires/core/members.ts';
import { modelMembers } from './model.ts';
import { format, images, keepAlive, logprobMembers, optionsMember, stream, think } from './options-schema.ts';

const id = z.int({ error: 'expected a token id' }).min(0, 'expected a token id');
const isId = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;

export const generateRequest = z
  .object(
    {
      ...modelMembers,
      prompt: text.nullish().describe('Without one, the model is only loaded.'),
      suffix: text
        .nullish()
        .describe('What stands behind the gap: the answer is what is missing between `prompt` and it.'),
      system: text.nullish().describe('What the system says before the prompt.'),
      template: refused(
        "templates in Go's language are not rendered: send the finished text with `raw`, or use the model's own template",
        (value) => value === '',
      ),
      raw: flag.nullish().describe('The prompt is the whole text: no template.'),
      context: list(id, { error: 'expected an array of token ids' }, isId)
        .nullish()
        .describe('Of an earlier answer: go on from there.'),
      images,
      format,
      options: optionsMember,
      think,
      stream,
      keep_alive: keepAlive,
      ...logprobMembers,
      truncate: flag.nullish().describe('Without effect: a prompt that the context cannot hold is refused.'),
      shift: flag.nullish().describe('Without effect: an answer ends where the context does.'),
      width: refused('this model makes text and no images'),
      height: refused('this model makes text and no images'),
      steps: refused('this model makes text and no images'),
    },
    { error: 'expected a JSON object' },
  )
  .meta({ id: 'OllamaGenerateRequest' });
export type GenerateRequest = z.infer<typeof generateRequest>;
