import { estimateTokensOverLimit } from '../../chat/estimate-tokens.ts';
import { type Engine, createPair, type PairEncoder, type TokenPair } from '../../engine/index.ts';
import { HttpError, type Violation } from '../../http/error.ts';
import { raceAbort } from '../../util/race-abort.ts';
import type { RankedDocuments } from '../../wires/rerank/answer.ts';
import { toHttpError } from '../resident.ts';
import { requireQueueSpace } from './queue-space.ts';
import type { CompletionContext } from './respond.ts';

/** Characters that are encoded before yielding to the event loop. */
const charactersPerYield = 8192;
const yieldToEventLoop = () => new Promise((resolve) => setImmediate(resolve));
/** Most documents that a refusal lists. */
const maxListed = 8;
/** Upper bound of the average characters per token: text beyond it is not encoded where documents are truncated. */
const charactersPerToken = 16;

export interface RankOptions extends Pick<CompletionContext, 'signal' | 'span'> {
  /** Documents are truncated to this many tokens. */
  readonly maxTokensPerDocument: number | undefined;
  /** Truncate documents that do not fit the context, in place of refusing them. */
  readonly truncate: boolean;
}

/** Scores each document for the query; refusals are `HttpError`s that list every document that is too long. */
export async function rankDocuments(
  engine: Engine,
  query: string,
  documents: readonly string[],
  { signal, span, ...limits }: RankOptions,
): Promise<RankedDocuments> {
  requireQueueSpace(engine);
  const { pairs, truncated } = await encodePairs(engine, query, documents, limits, signal);
  if (span.transcript) {
    for (const text of [query, ...documents]) span.addTranscriptEntry('user', () => text);
  }
  try {
    const { scores, promptTokens } = await raceAbort(engine.rank({ pairs, signal }), signal);
    span.attributes.answers = documents.length;
    span.attributes.promptTokens = promptTokens;
    return { scores, promptTokens, truncated };
  } catch (error) {
    throw toHttpError(error);
  }
}

async function encodePairs(
  engine: Engine,
  query: string,
  documents: readonly string[],
  {
    maxTokensPerDocument = Number.POSITIVE_INFINITY,
    truncate,
  }: Pick<RankOptions, 'maxTokensPerDocument' | 'truncate'>,
  signal: AbortSignal,
): Promise<{ readonly pairs: readonly TokenPair[]; readonly truncated: readonly number[] }> {
  const { contextLength } = engine.model;
  const encoder = engine.pairEncoder as PairEncoder;
  const queryTokens = await estimateTokensOverLimit(engine.tokenizer, query, contextLength);
  if (queryTokens !== undefined) throw queryTooLongError(contextLength, `about ${queryTokens}`);
  const frame = encoder.encodeQuery(query);
  const frameTokens = frame.before.length + frame.after.length;
  // At least one token of a document.
  const room = contextLength - frameTokens;
  if (room < 1) throw queryTooLongError(contextLength, String(frameTokens));
  const limit = Math.min(maxTokensPerDocument, truncate ? room : Number.POSITIVE_INFINITY);
  const pairs: TokenPair[] = [];
  const truncated: number[] = [];
  const tooLong: { readonly index: number; readonly tokens: string }[] = [];
  let characters = 0;
  for (const [index, document] of documents.entries()) {
    const text =
      limit === Number.POSITIVE_INFINITY ? document : document.slice(0, (limit + 1) * charactersPerToken);
    characters += text.length;
    if (characters > charactersPerYield) {
      characters = 0;
      await yieldToEventLoop();
      signal.throwIfAborted();
    }
    const estimate = await estimateTokensOverLimit(
      engine.tokenizer,
      text,
      Math.min(limit, room) + charactersPerToken,
    );
    if (estimate !== undefined && limit > room) {
      tooLong.push({ index, tokens: `about ${estimate}` });
      continue;
    }
    const tokens = encoder.encodeDocument(text);
    if (tokens.length > limit || text.length < document.length) truncated.push(index);
    const kept = tokens.slice(0, limit);
    if (kept.length > room) tooLong.push({ index, tokens: String(kept.length) });
    pairs.push(createPair(frame, kept));
  }
  if (tooLong.length > 0) throw documentsTooLongError(tooLong, { room, contextLength, frameTokens });
  return { pairs, truncated };
}

function queryTooLongError(contextLength: number, tokens: string): HttpError {
  const message =
    `This model's context holds ${contextLength} tokens, but the query with the tokens around it has ${tokens} and leaves ` +
    'no room for a document. Shorten `query`.';
  return new HttpError(400, 'context_length_exceeded', message, { param: 'query' });
}

function documentsTooLongError(
  tooLong: readonly { readonly index: number; readonly tokens: string }[],
  { room, contextLength, frameTokens }: { room: number; contextLength: number; frameTokens: number },
): HttpError {
  const violations: Violation[] = tooLong.map(({ index, tokens }) => ({
    path: `documents.${index}`,
    message: `has ${tokens} tokens`,
  }));
  const listed = violations.slice(0, maxListed).map(({ path, message }) => `${path} ${message}`);
  const more = tooLong.length > maxListed ? [`${tooLong.length - maxListed} more are too long`] : [];
  const message =
    `A document may have up to ${room} tokens beside this query (context ${contextLength}, query ${frameTokens}), but ` +
    `${[...listed, ...more].join(', ')}. Shorten them, or send \`truncate\` or \`max_tokens_per_doc\`.`;
  return new HttpError(400, 'context_length_exceeded', message, {
    param: violations[0]?.path ?? 'documents',
    violations: violations.slice(0, maxListed),
  });
}
