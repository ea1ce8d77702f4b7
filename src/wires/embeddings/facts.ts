import { z } from 'zod';
import { routedMembers } from '../chat/request-schema.ts';
import { kindOf } from '../core/json.ts';
import { Violations } from '../core/violations.ts';
import type { EmbeddingInput, EmbeddingsFacts } from './types.ts';

const longestPrefix = 4096;
/** As OpenAI has it. */
const mostInputs = 2048;

const tokens = z.array(z.int().min(0)).min(1);
const several = <Input extends z.ZodType>(input: Input) => z.array(input).min(1).max(mostInputs);

/** What `embeddingsFacts` takes, for the document: zod would make an issue of each of a million tokens. */
export const embeddingsBody = z
  .looseObject({
    model: routedMembers.model,
    input: z
      .union([z.string(), several(z.string()), tokens, several(tokens)])
      .describe('A text, the tokens of one, or several of a kind.'),
    encoding_format: z.enum(['float', 'base64']).nullish(),
    dimensions: z.int().min(1).nullish(),
    user: z.string().nullish(),
  })
  .meta({ id: 'EmbeddingRequest' });

/** Checks the members that OpenAI names. @throws WireError 400 with all violations at once */
export function embeddingsFacts(body: Readonly<Record<string, unknown>>): EmbeddingsFacts {
  const faults = new Violations();
  const model = faults.name(body['model'], 'model');
  const inputs = inputsOf(body['input'], faults);
  const { encoding_format: format = 'float', user } = body;
  if (format !== 'float' && format !== 'base64' && format !== null)
    faults.add(
      'encoding_format',
      `expected float or base64, got ${typeof format === 'string' ? JSON.stringify(format.slice(0, 40)) : kindOf(format)}`,
    );
  const dimensions = faults.number(body['dimensions'], 'dimensions', { least: 1, whole: true });
  if (user !== undefined && user !== null) faults.text(user, 'user');
  faults.throwAny();
  return {
    model,
    stream: false,
    includeUsage: false,
    maxTokens: 0,
    answers: inputs.length,
    needs: [{ cap: 'embeddings', param: 'model' }],
    textBytes: inputs.reduce((sum, input) => sum + bytesOf(input), 0),
    parts: inputs.length,
    images: 0,
    fileBytes: 0,
    prefix: typeof inputs[0] === 'string' ? inputs[0].slice(0, longestPrefix) : '',
    inputs,
    encoding: format === 'base64' ? format : 'float',
    dimensions,
  };
}

/** Of a text; one for a token. */
export const bytesOf = (input: EmbeddingInput): number =>
  typeof input === 'string' ? Buffer.byteLength(input) : input.length;

function inputsOf(input: unknown, faults: Violations): EmbeddingInput[] {
  if (typeof input === 'string') return [input];
  const wanted = 'a text, an array of texts, an array of tokens or an array of arrays of tokens';
  if (!Array.isArray(input)) {
    faults.add('input', `expected ${wanted}, got ${kindOf(input)}`);
    return [];
  }
  const list = input as unknown[];
  if (list.length === 0) faults.add('input', 'expected at least one input, got an empty array');
  if (typeof list[0] === 'number') return [tokensOf(list, 'input', faults)];
  if (list.length > mostInputs)
    faults.add(
      'input',
      `expected at most ${mostInputs} inputs, got ${list.length}; send them in several requests`,
    );
  // All of one kind: the first one says which.
  const ofTokens = Array.isArray(list[0]);
  return list.slice(0, mostInputs).map((each, index) => {
    const path = `input.${index}`;
    if (!ofTokens) return faults.text(each, path);
    if (Array.isArray(each) && each.length > 0) return tokensOf(each as unknown[], path, faults);
    faults.add(
      path,
      `expected an array of tokens, got ${Array.isArray(each) ? 'an empty one' : kindOf(each)}`,
    );
    return [];
  });
}

function tokensOf(list: readonly unknown[], path: string, faults: Violations): number[] {
  const wrong = list.findIndex((each) => !Number.isSafeInteger(each) || (each as number) < 0);
  if (wrong >= 0) {
    const each = list[wrong];
    const came = typeof each === 'number' ? String(each) : kindOf(each);
    faults.add(`${path}.${wrong}`, `expected a token, a whole number from 0, got ${came}`);
  }
  return list as number[];
}
