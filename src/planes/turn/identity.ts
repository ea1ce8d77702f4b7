import { randomInt } from 'node:crypto';
import type { ModelInfo } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';

/** Identifies the weights: the same seed gives the same text only on the same weights. */
export const fingerprintOf = ({ digest }: ModelInfo): string =>
  `fp_${digest.replace(/^sha256:/, '').slice(0, 10)}`;

export const randomSeed = (): number => randomInt(2 ** 32);

/**
 * Refuses a model of the wrong kind: a generating model computes no embeddings, and an embedding model generates no
 * text.
 */
export function requireKind(
  model: Pick<ModelInfo, 'id' | 'kind'>,
  kind: ModelInfo['kind'],
  which: 'resident' | 'stored' = 'resident',
): void {
  if (model.kind === kind) return;
  const why =
    kind === 'embed'
      ? 'generates text and lacks the capability `embeddings`; load a model for embeddings'
      : 'makes embeddings and generates no text; use POST /v1/embeddings';
  throw new HttpError(
    400,
    'unsupported_capability',
    `The ${which} model '${model.id.slice(0, 200)}' ${why}.`,
    {
      param: 'model',
    },
  );
}

/** Prefix of a repository name on a model hub. */
export const hubName = /^(?:hf:|(?:https?:\/\/)?(?:hf\.co|huggingface\.co)\/)/i;

/** @param listRoute the route that lists the names that a request may use */
export function modelNotFound(asked: string, resident: string | undefined, list?: string): HttpError {
  const there = resident === undefined ? 'no model is resident' : `the resident model is '${resident}'`;
  const next = hubName.test(asked)
    ? ' Requests download nothing: pull it first, with POST /api/pull.'
    : list === undefined
      ? ''
      : ` ${list} lists the models that requests may name.`;
  const message = `The model '${asked.slice(0, 200)}' does not exist; ${there}.${next}`;
  return new HttpError(404, 'model_not_found', message, { param: 'model' });
}
