import { z } from 'zod';
import { isRecord } from '../../util/json.ts';
import { maxViolations } from '../../http/violations.ts';
import { isTokenId } from '../core/members.ts';

/** A text, or token ids and texts in any order. */
export type Prompt = string | readonly (string | number)[];

/** Most prompts of one request. */
const mostPrompts = 128;
const promptForm = 'expected a text, an array of token ids and texts, {prompt_string}, or an array of those';
const severalForm = 'expected a text, an array of token ids and texts, or {prompt_string}';
const noMedia = 'images and audio cannot be read by this model; leave multimodal_data out';

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
  .transform((value, context): { prompts: readonly Prompt[]; several: boolean } => {
    const fail = (path: readonly (string | number)[], message: string) => {
      if (context.issues.length > maxViolations) return;
      context.issues.push({ code: 'custom', message, path: [...path], input: value });
    };
    const one = (given: unknown, path: readonly number[]): Prompt => {
      if (typeof given === 'string') return given;
      if (isRecord(given) && typeof given['prompt_string'] === 'string') {
        const media = given['multimodal_data'] ?? [];
        if (!Array.isArray(media) || media.length > 0) fail([...path, 'multimodal_data'], noMedia);
        return given['prompt_string'];
      }
      if (Array.isArray(given) && given.length > 0) {
        const wrong = given.findIndex((piece) => !isPiece(piece));
        if (wrong === -1) return given as (string | number)[];
        fail([...path, wrong], 'expected a token id or a text');
      } else {
        const form = path.length === 0 ? promptForm : severalForm;
        fail(path, Array.isArray(given) ? 'must not be empty' : form);
      }
      return '';
    };
    const several =
      Array.isArray(value) &&
      value.length > 0 &&
      (value.some((piece) => typeof piece === 'object' && piece !== null) ||
        value.every((piece) => typeof piece === 'string'));
    if (!several) return { prompts: [one(value, [])], several };
    if (value.length > mostPrompts) {
      fail([], `at most ${mostPrompts} prompts`);
      return { prompts: [], several };
    }
    return { prompts: value.map((each, index) => one(each, [index])), several };
  });
