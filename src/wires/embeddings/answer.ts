import { parsedJson } from '../../util/json.ts';
import type { UpstreamModel } from '../core/types.ts';
import type { Usage } from '../core/types.ts';
import { WireError } from '../core/error.ts';
import { UpstreamFailure } from '../core/upstream-failure.ts';
import { bytesOf } from './facts.ts';
import type { EmbeddingsAnswer, EmbeddingsRequest } from './types.ts';

/** Computes the usage to charge. @param tokens the provider's count, unchecked */
export function charged(tokens: unknown, { facts }: EmbeddingsRequest): Omit<EmbeddingsAnswer, 'text'> {
  const counted = typeof tokens === 'number' && Number.isFinite(tokens) && tokens >= 0;
  const fresh = counted ? tokens : facts.inputs.reduce((sum, input) => sum + estimate(input), 0);
  return { usage: { ...none, fresh }, counted };
}

const none: Usage = { fresh: 0, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 0 };

const estimate = (input: Parameters<typeof bytesOf>[0]): number =>
  typeof input === 'string' ? Math.ceil(bytesOf(input) / 4) : input.length;

/** Writes the body in OpenAI's format. @param vectors in the requested encoding */
export const bodyOf = (
  vectors: readonly (string | readonly number[])[],
  model: UpstreamModel,
  { fresh }: Usage,
): object => ({
  object: 'list',
  data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
  model: model.id,
  usage: { prompt_tokens: fresh, total_tokens: fresh },
});

export function noEmbeddings(what: string): UpstreamFailure {
  const message = `The provider answered with ${what}; try again.`;
  const error = new WireError(502, 'upstream_error', message, { code: 'upstream_failed' });
  return new UpstreamFailure({ error, again: true, unwell: true });
}

/** Parses the body of an answer. @throws UpstreamFailure where it is not a JSON object */
export function parsed(text: string): Readonly<Record<string, unknown>> {
  const body = parsedJson(text);
  if (typeof body !== 'object' || body === null) throw noEmbeddings('a body that is not a JSON object');
  return body as Readonly<Record<string, unknown>>;
}
