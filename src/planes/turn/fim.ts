import type { Engine, FillInTheMiddle, Tokenizer } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import { contextExceeded } from './encode.ts';

/** The text around the gap. Control tokens in it are encoded as plain text. */
export interface FimParts {
  readonly prefix: string;
  readonly suffix: string;
  /** The beginning of the missing part. */
  readonly middle?: string | readonly number[];
  /**
   * Other files, the most relevant last. Where the list is present, even if empty, models with repository tokens get a
   * repository prompt.
   */
  readonly extra?: readonly FimFile[];
}

export interface FimFile {
  readonly text: string;
  readonly filename?: string | undefined;
}

/** Upper bound of the average characters per token in code: text farther away is not encoded. */
const charactersPerToken = 8;
/** Answer tokens where the request sets no limit. */
const usualAnswer = 512;

/**
 * Builds a fill-in-the-middle prompt in the trained order: prefix, suffix, middle. Text that does not fit the context
 * is dropped: the beginning of the prefix, the end of the suffix, and the first of the other files.
 * @param answer tokens to reserve for the answer; default 512, at most a quarter of the context
 * @throws HttpError 501 where the model lacks the tokens, 400 where not even the frame fits
 */
export function fimPrompt(engine: Engine, parts: FimParts, answer?: number): readonly number[] {
  const { tokenizer, model } = engine;
  const fim = requireFim(engine);
  const leave = Math.max(1, answer ?? Math.min(usualAnswer, model.contextLength >> 2));
  const given = parts.middle ?? '';
  const middle = typeof given === 'string' ? endOf(tokenizer, given, model.contextLength + 1) : given;
  const start = leadingIds(tokenizer);
  const room = model.contextLength - leave - start.length - middle.length - 3;
  if (room < 0) {
    const sum = `the request asks for ${model.contextLength - room} (${leave} for the answer)`;
    throw contextExceeded(model.contextLength, sum, 'prompt');
  }
  const around = fitAround(
    endOf(tokenizer, parts.prefix, room),
    beginOf(tokenizer, parts.suffix, room),
    room,
  );
  const left = room - around.prefix.length - around.suffix.length;
  return [
    ...start,
    ...otherFiles(tokenizer, fim, parts.extra, left),
    fim.prefix,
    ...around.prefix,
    fim.suffix,
    ...around.suffix,
    fim.middle,
    ...middle,
  ];
}

/** The model's fill-in-the-middle tokens. @throws HttpError 501 where the model has none */
export function requireFim({ tokenizer, model }: Engine): FillInTheMiddle {
  if (tokenizer.fim) return tokenizer.fim;
  throw new HttpError(
    501,
    'not_supported',
    `The model '${model.id}' cannot fill in the middle of a text: its vocabulary has no tokens for prefix, suffix and middle. Load one that was trained for it, such as Qwen2.5-Coder.`,
  );
}

/** The BOS token, where the model begins every text with it. */
function leadingIds(tokenizer: Tokenizer): readonly number[] {
  const [first] = tokenizer.encode('', { addSpecial: true });
  return first !== undefined && first === tokenizer.bosId ? [first] : [];
}

/**
 * Allots three quarters of the tokens to the prefix and one quarter to the suffix; what one does not use goes to the
 * other.
 */
function fitAround(prefix: readonly number[], suffix: readonly number[], room: number) {
  const share = Math.floor(room / 4);
  const suffixTakes = Math.min(suffix.length, Math.max(share, room - prefix.length));
  const prefixTakes = Math.min(prefix.length, room - suffixTakes);
  return {
    prefix: prefix.slice(prefix.length - prefixTakes),
    suffix: suffix.slice(0, suffixTakes),
  };
}

const endOf = (tokenizer: Tokenizer, text: string, most: number): number[] => {
  const from = Math.max(0, text.length - most * charactersPerToken);
  const ids = tokenizer.encode(text.slice(isSecondHalf(text, from) ? from + 1 : from));
  return ids.slice(Math.max(0, ids.length - most));
};

const beginOf = (tokenizer: Tokenizer, text: string, most: number): number[] => {
  const to = Math.min(text.length, most * charactersPerToken);
  return tokenizer.encode(text.slice(0, isSecondHalf(text, to) ? to - 1 : to)).slice(0, most);
};

/** Whether a cut before this UTF-16 unit splits a surrogate pair. */
const isSecondHalf = (text: string, at: number): boolean =>
  at > 0 && at < text.length && (text.charCodeAt(at) & 0xfc00) === 0xdc00;

/**
 * Encodes the other files: as a repository where the model has tokens for it, else separated by empty lines.
 * Placeholder names are those of llama.cpp.
 */
function otherFiles(
  tokenizer: Tokenizer,
  { repo, separator }: FillInTheMiddle,
  files: readonly FimFile[] | undefined,
  room: number,
): number[] {
  if (files === undefined) return [];
  const asRepository = repo !== undefined && separator !== undefined;
  const head = asRepository ? [repo, ...tokenizer.encode('myproject\n')] : [];
  const tail = asRepository ? [separator, ...tokenizer.encode('filename\n')] : [];
  let left = room - head.length - tail.length;
  if (left < 0) return [];
  const taken: (readonly number[])[] = [];
  for (const { text, filename = 'tmp' } of files.toReversed()) {
    const name = asRepository
      ? [separator, ...beginOf(tokenizer, `${filename}\n`, left)]
      : tokenizer.encode('\n\n');
    const most = left - name.length;
    if (most <= 0) break;
    const content = endOf(tokenizer, text, most);
    taken.push([...name, ...content]);
    left = most - content.length;
  }
  return [...head, ...taken.toReversed().flat(), ...tail];
}
