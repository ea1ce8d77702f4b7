import type { Engine, Tokenizer } from '../../engine/index.ts';
import { invalidBody } from '../../http/violations.ts';
import type { Violation } from '../../http/error.ts';
import { contextExceeded, type InputParam, refuseOverlong } from '../turn/encode.ts';

/** No token stands for more text than this, on the average: what lies behind that is not encoded. */
const charactersPerToken = 16;
/** Characters that are encoded before others get their turn. */
const atOnce = 8192;
const breath = () => new Promise((resolve) => setImmediate(resolve));
const encoding = { addSpecial: true, parseSpecial: true };

/**
 * Texts to embed as tokens, with the special ones that the model wants.
 * @param truncate what is too long loses its end, but for the tokens that close every text
 */
export async function embeddingInputs(
  { tokenizer, model }: Pick<Engine, 'tokenizer' | 'model'>,
  texts: readonly string[],
  truncate: boolean,
): Promise<readonly (readonly number[])[]> {
  const limit = model.contextLength;
  const inputs: (readonly number[])[] = [];
  const wrong: Violation[] = [];
  let characters = 0;
  for (const [index, text] of texts.entries()) {
    const path: InputParam = texts.length === 1 ? 'input' : `input.${index}`;
    if (!truncate) await refuseOverlong(tokenizer, text, limit, path, { parseSpecial: true });
    const read = text.slice(0, limit * charactersPerToken);
    characters += read.length;
    if (characters > atOnce) {
      characters = 0;
      await breath();
    }
    const ids = tokenizer.encode(read, encoding);
    if (ids.length > limit && !truncate) throw contextExceeded(limit, `${path} has ${ids.length}`, path);
    if (ids.length === 0) wrong.push({ path, message: 'must hold a token at least' });
    inputs.push(ids.length > limit ? cut(tokenizer, ids, limit) : ids);
  }
  if (wrong.length > 0) throw invalidBody(wrong);
  return inputs;
}

function cut(tokenizer: Tokenizer, ids: readonly number[], limit: number): readonly number[] {
  const closing = tokenizer.encode('', { addSpecial: true }).at(-1);
  const closes = closing !== undefined && closing !== tokenizer.bosId && closing === ids.at(-1);
  return closes ? [...ids.slice(0, limit - 1), closing] : ids.slice(0, limit);
}
