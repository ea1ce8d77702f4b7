import type { z } from 'zod';
import { flag, isOneOf, refused, requestBody, text, idList } from '../core/members.ts';
import { answerMembers, images } from './options-schema.ts';

const noImages = refused('this model makes text and no images');

export const generateRequest = requestBody('OllamaGenerateRequest', {
  ...answerMembers,
  prompt: text.nullish().describe('Without one, the model is only loaded.'),
  suffix: text
    .nullish()
    .describe('What stands behind the gap: the answer is what is missing between `prompt` and it.'),
  system: text.nullish().describe('What the system says before the prompt.'),
  template: refused(
    "templates in Go's language are not rendered: send the finished text with `raw`, or use the model's own template",
    isOneOf(''),
  ),
  raw: flag.nullish().describe('The prompt is the whole text: no template.'),
  context: idList({ error: 'expected an array of token ids' })
    .nullish()
    .describe('Of an earlier answer: go on from there.'),
  images,
  truncate: flag.nullish().describe('Without effect: a prompt that the context cannot hold is refused.'),
  width: noImages,
  height: noImages,
  steps: noImages,
});
export type GenerateRequest = z.infer<typeof generateRequest>;
