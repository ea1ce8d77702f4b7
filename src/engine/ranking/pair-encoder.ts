/** Makes the tokens that a model reads of a query and a document. */
import { ModelFileError } from '../formats/model-file.ts';
import type { PairFormat } from '../graph/graph.ts';
import type { Tokenizer } from '../tokenizer/types.ts';

/** The tokens of a pair before and after those of the document. */
export interface PairFrame {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/**
 * A query and a document as one text, in parts: all pairs of a query share its tokens, which would take as much memory
 * as the context for every document otherwise. What follows `before` is a segment of its own.
 */
export interface TokenPair extends PairFrame {
  readonly document: readonly number[];
  /** Tokens of the whole text. */
  readonly length: number;
}

export interface PairEncoder {
  /** The same for all documents of a query. */
  encodeQuery(query: string): PairFrame;
  /** The document's own tokens, which may be truncated before they are put into the frame. */
  encodeDocument(document: string): number[];
}

export const createPair = ({ before, after }: PairFrame, document: readonly number[]): TokenPair => ({
  before,
  document,
  after,
  length: before.length + document.length + after.length,
});

/** The tokens of the whole text. */
export const joinPair = ({ before, document, after }: TokenPair): readonly number[] =>
  before.concat(document, after);

/**
 * Special tokens that a query or a document writes out are text: they cannot end the query or answer for the model.
 * @throws ModelFileError `invalid_tokenizer` where the vocabulary lacks a token of the format
 */
export function createPairEncoder(name: string, tokenizer: Tokenizer, format: PairFormat): PairEncoder {
  return format === 'qwen3-reranker'
    ? createQwen3Encoder(tokenizer)
    : createSegmentEncoder(name, tokenizer, format);
}

/** The tokens that end the query, by format, where the tokenizer's last token of every text is `end`. */
const separators = {
  bert: (end: number) => [end],
  'xlm-roberta': (end: number) => [end, end],
} as const;

function createSegmentEncoder(
  name: string,
  tokenizer: Tokenizer,
  format: keyof typeof separators,
): PairEncoder {
  const { bosId, eosId } = tokenizer;
  if (bosId === undefined || eosId === undefined)
    throw new ModelFileError(
      'invalid_tokenizer',
      `${name}: the vocabulary names no token that ${bosId === undefined ? 'begins' : 'ends'} a text, which pairs of query and document need`,
    );
  return {
    encodeQuery: (query) => ({
      before: [bosId, ...tokenizer.encode(query), ...separators[format](eosId)],
      after: [eosId],
    }),
    encodeDocument: (document) => tokenizer.encode(document),
  };
}

/** The text that Qwen3-Reranker was trained on. Its authors' instruction for web search is the only one. */
const qwen3 = {
  begin:
    '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. ' +
    'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n',
  instruct: '<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n',
  end: '<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n',
} as const;

function createQwen3Encoder(tokenizer: Tokenizer): PairEncoder {
  const begin = tokenizer.encode(qwen3.begin, { parseSpecial: true });
  const after = tokenizer.encode(qwen3.end, { parseSpecial: true });
  return {
    encodeQuery(query) {
      const question = tokenizer.encode(`${qwen3.instruct}<Query>: ${query}\n<Document>:`);
      return { before: [...begin, ...question], after };
    },
    // Words do not reach across the colon, so the space and the document can be encoded alone.
    encodeDocument: (document) => tokenizer.encode(` ${document}`),
  };
}
