import type { AnswerEvent, TokenLogprob } from '../core/answer.ts';
import type { Json } from '../../util/json.ts';
import type { AnswerMetadata } from '../core/wire.ts';

/** Id of an answer, shared by all of its chunks. */
export const answerId = (prefix: string, requestId: string): string =>
  `${prefix}-${requestId.replace(/^req_/, '')}`;

/** Members that all bodies and chunks of an answer share. */
export const commonMembers = (
  { requestId, created, model, resident }: AnswerMetadata,
  object: string,
  prefix = 'chatcmpl',
): Json => ({
  id: answerId(prefix, requestId),
  object,
  created,
  model,
  ...(resident ? { system_fingerprint: resident.fingerprint } : {}),
});

/** Optional members of the resident model's answers, requested by llama.cpp's request members. */
export interface ResidentAnswerOptions {
  readonly includeTimings: boolean;
  readonly includeProgress: boolean;
  /** Set even where an answer has no tokens. */
  readonly includeLogprobs: boolean;
  /** `post_sampling_probs`: probabilities instead of log probabilities. */
  readonly asProbabilities: boolean;
}

export function readResidentOptions({
  resident,
  request: { body },
}: AnswerMetadata): ResidentAnswerOptions | undefined {
  if (!resident) return undefined;
  return {
    includeTimings: body['timings_per_token'] === true,
    includeProgress: body['return_progress'] === true,
    includeLogprobs: body['logprobs'] === true,
    asProbabilities: body['post_sampling_probs'] === true,
  };
}

/** llama.cpp's `prompt_progress`. */
export const writeProgress = ({
  promptTokens,
  processed,
  cached,
  ms,
}: Extract<AnswerEvent, { type: 'progress' }>) => ({
  total: promptTokens,
  cache: cached,
  processed,
  time_ms: ms,
});

/** The `logprobs` of a choice. */
export const writeChoiceLogprobs = (
  entries: readonly TokenLogprob[],
  residentOptions: ResidentAnswerOptions | undefined,
): Json => ({
  content: residentOptions?.asProbabilities ? entries.map(toProbabilities) : entries,
  refusal: null,
});

type Token = Omit<TokenLogprob, 'top_logprobs'>;

/** Converts a natural logarithm to a probability. */
const toProbability = (logprob: number): number => Math.min(1, Math.exp(logprob));

const withProbability = ({ logprob, ...token }: Token) => ({ ...token, prob: toProbability(logprob) });

export const toProbabilities = ({ top_logprobs: top, ...entry }: TokenLogprob) => ({
  ...withProbability(entry),
  top_probs: top.map(withProbability),
});
