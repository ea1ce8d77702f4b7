import { z } from 'zod';
import { isRecord } from '../../util/json.ts';
import { maxViolations } from '../../http/violations.ts';
import { isTokenId } from '../core/members.ts';

/** A text, or token ids and texts in any order. */
export type Prompt = string | readonly (string | number)[];

/** Most prompts of one request. */
const maxPrompts = 128;
const promptError = 'expected a text, an array of token ids and texts, {prompt_string}, or an array of those';
const promptElementError = 'expected a text, an array of token ids and texts, or {prompt_string}';
const mediaError = 'images and audio cannot be read by this model; leave multimodal_data out';

const isPiece = (value: unknown): value is string | number => typeof value === 'string' || isTokenId(value);

/**
 * llama.cpp's prompt formats. An array of texts is several prompts; an array that also contains token ids is one
 * prompt. `isArray` states whether the answer is an array.
 */
export const prompts = z
  .custom((value) => value !== undefined, { error: '"prompt" is required', abort: true })
  .meta({
    description:
      'A text, an array of token ids and texts, or `{prompt_string}`; or an array of those, which are answered one by one.',
    anyOf: [{ type: 'string' }, { type: 'array' }, { type: 'object' }],
  })
  .transform((value, context): { prompts: readonly Prompt[]; isArray: boolean } => {
    const addIssue = (path: readonly (string | number)[], message: string) => {
      if (context.issues.length > maxViolations) return;
      context.issues.push({ code: 'custom', message, path: [...path], input: value });
    };
    const parsePrompt = (rawPrompt: unknown, path: readonly number[]): Prompt => {
      if (typeof rawPrompt === 'string') return rawPrompt;
      if (isRecord(rawPrompt) && typeof rawPrompt['prompt_string'] === 'string') {
        const media = rawPrompt['multimodal_data'] ?? [];
        if (!Array.isArray(media) || media.length > 0) addIssue([...path, 'multimodal_data'], mediaError);
        return rawPrompt['prompt_string'];
      }
      if (Array.isArray(rawPrompt) && rawPrompt.length > 0) {
        const invalidIndex = rawPrompt.findIndex((piece) => !isPiece(piece));
        if (invalidIndex === -1) return rawPrompt as (string | number)[];
        addIssue([...path, invalidIndex], 'expected a token id or a text');
      } else {
        const message = path.length === 0 ? promptError : promptElementError;
        addIssue(path, Array.isArray(rawPrompt) ? 'must not be empty' : message);
      }
      return '';
    };
    const isArray =
      Array.isArray(value) &&
      value.length > 0 &&
      (value.some((piece) => typeof piece === 'object' && piece !== null) ||
        value.every((piece) => typeof piece === 'string'));
    if (!isArray) return { prompts: [parsePrompt(value, [])], isArray };
    if (value.length > maxPrompts) {
      addIssue([], `at most ${maxPrompts} prompts`);
      return { prompts: [], isArray };
    }
    return { prompts: value.map((rawElement, index) => parsePrompt(rawElement, [index])), isArray };
  });
