import type { Engine, FillInTheMiddleTokens, Tokenizer } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import { contextExceededError } from './encode.ts';

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
const defaultAnswerTokens = 512;

/**
 * Builds a fill-in-the-middle prompt in the trained order: prefix, suffix, middle. Text that does not fit the context
 * is dropped: the beginning of the prefix, the end of the suffix, and the first of the other files.
 * @param answer tokens to reserve for the answer; default 512, at most a quarter of the context
 * @throws HttpError 501 where the model lacks the tokens, 400 where not even the frame fits
 */
export function buildFimPrompt(engine: Engine, parts: FimParts, answer?: number): readonly number[] {
  const { tokenizer, model } = engine;
  const fim = requireFim(engine);
  const answerTokens = Math.max(1, answer ?? Math.min(defaultAnswerTokens, model.contextLength >> 2));
  const middleInput = parts.middle ?? '';
  const middle =
    typeof middleInput === 'string'
      ? encodeEnd(tokenizer, middleInput, model.contextLength + 1)
      : middleInput;
  const bos = encodeBos(tokenizer);
  const availableTokens = model.contextLength - answerTokens - bos.length - middle.length - 3;
  if (availableTokens < 0) {
    const description = `the request asks for ${model.contextLength - availableTokens} (${answerTokens} for the answer)`;
    throw contextExceededError(model.contextLength, description, 'prompt');
  }
  const context = fitContext(
    encodeEnd(tokenizer, parts.prefix, availableTokens),
    encodeStart(tokenizer, parts.suffix, availableTokens),
    availableTokens,
  );
  const remaining = availableTokens - context.prefix.length - context.suffix.length;
  return [
    ...bos,
    ...encodeOtherFiles(tokenizer, fim, parts.extra, remaining),
    fim.prefix,
    ...context.prefix,
    fim.suffix,
    ...context.suffix,
    fim.middle,
    ...middle,
  ];
}

/** The model's fill-in-the-middle tokens. @throws HttpError 501 where the model has none */
export function requireFim({ tokenizer, model }: Engine): FillInTheMiddleTokens {
  if (tokenizer.fim) return tokenizer.fim;
  throw new HttpError(
    501,
    'not_supported',
    `The model '${model.id}' cannot fill in the middle of a text: its vocabulary has no tokens for prefix, suffix and middle. Load one that was trained for it, such as Qwen2.5-Coder.`,
  );
}

/** The BOS token, where the model begins every text with it. */
function encodeBos(tokenizer: Tokenizer): readonly number[] {
  const [first] = tokenizer.encode('', { addSpecial: true });
  return first !== undefined && first === tokenizer.bosId ? [first] : [];
}

/**
 * Allots three quarters of the tokens to the prefix and one quarter to the suffix; what one does not use goes to the
 * other.
 */
function fitContext(prefix: readonly number[], suffix: readonly number[], availableTokens: number) {
  const suffixQuota = Math.floor(availableTokens / 4);
  const suffixTakes = Math.min(suffix.length, Math.max(suffixQuota, availableTokens - prefix.length));
  const prefixTakes = Math.min(prefix.length, availableTokens - suffixTakes);
  return {
    prefix: prefix.slice(prefix.length - prefixTakes),
    suffix: suffix.slice(0, suffixTakes),
  };
}

const encodeEnd = (tokenizer: Tokenizer, text: string, maxTokens: number): number[] => {
  const from = Math.max(0, text.length - maxTokens * charactersPerToken);
  const ids = tokenizer.encode(text.slice(isSecondHalf(text, from) ? from + 1 : from));
  return ids.slice(Math.max(0, ids.length - maxTokens));
};

const encodeStart = (tokenizer: Tokenizer, text: string, maxTokens: number): number[] => {
  const to = Math.min(text.length, maxTokens * charactersPerToken);
  return tokenizer.encode(text.slice(0, isSecondHalf(text, to) ? to - 1 : to)).slice(0, maxTokens);
};

/** Whether a cut before this UTF-16 unit splits a surrogate pair. */
const isSecondHalf = (text: string, at: number): boolean =>
  at > 0 && at < text.length && (text.charCodeAt(at) & 0xfc00) === 0xdc00;

/**
 * Encodes the other files: as a repository where the model has tokens for it, else separated by empty lines.
 * Placeholder names are those of llama.cpp.
 */
function encodeOtherFiles(
  tokenizer: Tokenizer,
  { repo, separator }: FillInTheMiddleTokens,
  files: readonly FimFile[] | undefined,
  availableTokens: number,
): number[] {
  if (files === undefined) return [];
  const asRepository = repo !== undefined && separator !== undefined;
  const head = asRepository ? [repo, ...tokenizer.encode('myproject\n')] : [];
  const tail = asRepository ? [separator, ...tokenizer.encode('filename\n')] : [];
  let remaining = availableTokens - head.length - tail.length;
  if (remaining < 0) return [];
  const includedFiles: (readonly number[])[] = [];
  for (const { text, filename = 'tmp' } of files.toReversed()) {
    const name = asRepository
      ? [separator, ...encodeStart(tokenizer, `${filename}\n`, remaining)]
      : tokenizer.encode('\n\n');
    const maxContentTokens = remaining - name.length;
    if (maxContentTokens <= 0) break;
    const content = encodeEnd(tokenizer, text, maxContentTokens);
    includedFiles.push([...name, ...content]);
    remaining = maxContentTokens - content.length;
  }
  return [...head, ...includedFiles.toReversed().flat(), ...tail];
}
