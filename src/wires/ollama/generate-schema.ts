import type { z } from 'zod';
import { flag, isOneOf, refusedMember, requestBodySchema, text, tokenIdList } from '../core/members.ts';
import { answerMembers, images } from './options-schema.ts';

const noImages = refusedMember('this model makes text and no images');

export const generateRequest = requestBodySchema('OllamaGenerateRequest', {
  ...answerMembers,
  prompt: text.nullish().describe('Without a prompt the model is only loaded.'),
  suffix: text
    .nullish()
    .describe('Text after the gap: the answer fills the gap between `prompt` and `suffix`.'),
  system: text.nullish().describe('System message before the prompt.'),
  template: refusedMember(
    "templates in Go's language are not rendered: send the finished text with `raw`, or use the model's own template",
    isOneOf(''),
  ),
  raw: flag.nullish().describe('Use the prompt as the complete text, without a template.'),
  context: tokenIdList({ error: 'expected an array of token ids' })
    .nullish()
    .describe('`context` of an earlier answer, to continue from.'),
  images,
  truncate: flag.nullish().describe('No effect: a prompt that exceeds the context is refused.'),
  width: noImages,
  height: noImages,
  steps: noImages,
});
export type GenerateRequest = z.infer<typeof generateRequest>;
