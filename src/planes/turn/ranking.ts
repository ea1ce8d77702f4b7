import { estimateTokensOverLimit } from '../../chat/estimate-tokens.ts';
import { type Engine, createPair, type PairEncoder, type TokenPair } from '../../engine/index.ts';
import { HttpError, type Violation } from '../../http/error.ts';
import { raceAbort } from '../../util/race-abort.ts';
import type { RankedDocuments } from '../../wires/rerank/answer.ts';
import { toHttpError } from '../resident.ts';
import { createPace, encodeBeginning, maxCharacters, tooManyCharacters } from './bounded-encoding.ts';
import { requireQueueSpace } from './queue-space.ts';
import type { CompletionContext } from './respond.ts';

/** Most documents that a refusal lists. */
const maxListed = 8;

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
  if (query.length > maxCharacters(contextLength))
    throw queryTooLongError(contextLength, `has ${tooManyCharacters(query, contextLength)}`);
  const queryTokens = await estimateTokensOverLimit(engine.tokenizer, query, contextLength);
  if (queryTokens !== undefined) throw queryTooLongError(contextLength, withFrame(`about ${queryTokens}`));
  const frame = encoder.encodeQuery(query);
  const frameTokens = frame.before.length + frame.after.length;
  // At least one token of a document.
  const room = contextLength - frameTokens;
  if (room < 1) throw queryTooLongError(contextLength, withFrame(String(frameTokens)));
  const limit = Math.min(maxTokensPerDocument, truncate ? room : Number.POSITIVE_INFINITY);
  const truncates = limit <= room;
  const pace = createPace();
  const encode = (text: string) => encoder.encodeDocument(text);
  /** The tokens of a document, or its size where it is too long. */
  const encodeDocument = async (text: string): Promise<readonly number[] | string> => {
    if (truncates) {
      const options = { encode, contextLength, pace };
      return (await encodeBeginning(text, limit, options)) ?? tooManyCharacters(text, contextLength);
    }
    if (text.length > maxCharacters(contextLength)) return tooManyCharacters(text, contextLength);
    await pace(text.length);
    const estimate = await estimateTokensOverLimit(engine.tokenizer, text, room);
    if (estimate !== undefined) return `about ${estimate} tokens`;
    const tokens = encode(text);
    return tokens.length > room ? `${tokens.length} tokens` : tokens;
  };
  const pairs: TokenPair[] = [];
  const truncated: number[] = [];
  const tooLong: DocumentSize[] = [];
  for (const [index, document] of documents.entries()) {
    const tokens = await encodeDocument(document);
    signal.throwIfAborted();
    if (typeof tokens === 'string') {
      tooLong.push({ index, size: tokens });
      continue;
    }
    if (tokens.length > limit) truncated.push(index);
    pairs.push(createPair(frame, tokens.slice(0, limit)));
  }
  if (tooLong.length > 0)
    throw documentsTooLongError(tooLong, { room, contextLength, frameTokens, truncates });
  return { pairs, truncated };
}

/** A document that is too long. `size` is a number of tokens or characters, in words. */
interface DocumentSize {
  readonly index: number;
  readonly size: string;
}

const withFrame = (tokens: string): string => `with the tokens around it has ${tokens}`;

/** @param size what the query has, as part of the sentence */
function queryTooLongError(contextLength: number, size: string): HttpError {
  const message =
    `This model's context holds ${contextLength} tokens, but the query ${size} and leaves no room for a document. ` +
    'Shorten `query`.';
  return new HttpError(400, 'context_length_exceeded', message, { param: 'query' });
}

function documentsTooLongError(
  tooLong: readonly DocumentSize[],
  limits: { room: number; contextLength: number; frameTokens: number; truncates: boolean },
): HttpError {
  const { room, contextLength, frameTokens, truncates } = limits;
  const violations: Violation[] = tooLong.map(({ index, size }) => ({
    path: `documents.${index}`,
    message: `has ${size}`,
  }));
  const listed = violations.slice(0, maxListed).map(({ path, message }) => `${path} ${message}`);
  const more = tooLong.length > maxListed ? [`${tooLong.length - maxListed} more are too long`] : [];
  const message =
    `A document may have up to ${room} tokens beside this query (context ${contextLength}, query ${frameTokens}), but ` +
    `${[...listed, ...more].join(', ')}. Shorten them${truncates ? '' : ', or send `truncate` or `max_tokens_per_doc`'}.`;
  return new HttpError(400, 'context_length_exceeded', message, {
    param: violations[0]?.path ?? 'documents',
    violations: violations.slice(0, maxListed),
  });
}
