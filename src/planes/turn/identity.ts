import { randomBytes, randomInt } from 'node:crypto';
import type { ModelInfo } from '../../engine/index.ts';
import { Problem } from '../problem.ts';

/** What all bodies and chunks of one answer share. */
export function answerHead(prefix: 'chatcmpl' | 'cmpl', model: ModelInfo) {
  return {
    id: `${prefix}-${randomBytes(14).toString('hex')}`,
    created: Math.floor(Date.now() / 1000),
    model: model.id,
    // Names the weights: the same seed gives the same text only on the same ones.
    system_fingerprint: `fp_${model.digest.replace(/^sha256:/, '').slice(0, 10)}`,
  };
}

export const randomSeed = (): number => randomInt(2 ** 32);

/** What a model is for is part of it: one that generates makes no embeddings, and the other way round. */
export function requireKind(model: ModelInfo, kind: ModelInfo['kind']): void {
  if (model.kind === kind) return;
  const why =
    kind === 'embed'
      ? 'generates text and lacks the capability `embeddings`; load a model for embeddings'
      : 'makes embeddings and generates no text; use POST /v1/embeddings';
  throw new Problem(400, 'unsupported_capability', `The resident model '${model.id}' ${why}.`, {
    param: 'model',
  });
}

export const modelNotFound = (asked: string, resident: string | undefined): Problem =>
  new Problem(
    404,
    'model_not_found',
    `The model '${asked.slice(0, 200)}' does not exist; ${resident === undefined ? 'no model is resident' : `the resident model is '${resident}'`}.`,
    {
      param: 'model',
    },
  );
