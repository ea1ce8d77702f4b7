import { tryParseJson } from '../../util/json.ts';
import type { UpstreamModel } from '../core/types.ts';
import type { Usage } from '../core/types.ts';
import { WireError } from '../core/error.ts';
import { UpstreamFailure } from '../core/upstream-failure.ts';
import { countBytes } from './facts.ts';
import type { EmbeddingsAnswer, EmbeddingsRequest } from './types.ts';

/** Computes the usage to charge. @param tokens the provider's count, unchecked */
export function computeCharge(tokens: unknown, { facts }: EmbeddingsRequest): Omit<EmbeddingsAnswer, 'text'> {
  const counted = typeof tokens === 'number' && Number.isFinite(tokens) && tokens >= 0;
  const fresh = counted ? tokens : facts.inputs.reduce((sum, input) => sum + estimateTokens(input), 0);
  return { usage: { ...noUsage, fresh }, isReported: counted };
}

const noUsage: Usage = { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0 };

const estimateTokens = (input: Parameters<typeof countBytes>[0]): number =>
  typeof input === 'string' ? Math.ceil(countBytes(input) / 4) : input.length;

/** Writes the body in OpenAI's format. @param vectors in the requested encoding */
export const writeBody = (
  vectors: readonly (string | readonly number[])[],
  model: UpstreamModel,
  { fresh }: Usage,
): object => ({
  object: 'list',
  data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
  model: model.id,
  usage: { prompt_tokens: fresh, total_tokens: fresh },
});

export function createFailure(problem: string): UpstreamFailure {
  const message = `The provider answered with ${problem}; try again.`;
  const error = new WireError(502, 'upstream_error', message, { code: 'upstream_failed' });
  return new UpstreamFailure({ error, isRetryable: true, isUnhealthy: true });
}

/** Parses the body of an answer. @throws UpstreamFailure where it is not a JSON object */
export function parseAnswer(text: string): Readonly<Record<string, unknown>> {
  const body = tryParseJson(text);
  if (typeof body !== 'object' || body === null) throw createFailure('a body that is not a JSON object');
  return body as Readonly<Record<string, unknown>>;
}
