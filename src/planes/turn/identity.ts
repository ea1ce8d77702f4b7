import { randomInt } from 'node:crypto';
import type { ModelInfo } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';

/** Identifies the weights: the same seed gives the same text only on the same weights. */
export const fingerprintOf = ({ digest }: ModelInfo): string =>
  `fp_${digest.replace(/^sha256:/, '').slice(0, 10)}`;

export const randomSeed = (): number => randomInt(2 ** 32);

/** What a model of each kind does, and the route for it. */
const purposes = {
  generate: 'generates text and ranks no documents; load a reranker, such as bge-reranker or Qwen3-Reranker',
  embed: 'makes embeddings and generates no text; use POST /v1/embeddings',
  rerank: 'ranks documents and generates no text; use POST /v1/rerank',
} as const satisfies Record<ModelInfo['kind'], string>;

const purposeOf = (model: ModelInfo['kind'], needed: ModelInfo['kind']): string => {
  if (needed === 'embed') return 'ranks documents and makes no embeddings; use POST /v1/rerank';
  if (needed === 'rerank' && model === 'embed')
    return 'makes embeddings and ranks no documents; load a reranker, such as bge-reranker or Qwen3-Reranker';
  return purposes[model];
};

/** Refuses a model of the wrong kind. A generating model also embeds; the others do one thing. */
export function requireKind(
  model: Pick<ModelInfo, 'id' | 'kind'>,
  kind: ModelInfo['kind'],
  which: 'resident' | 'stored' = 'resident',
): void {
  if (model.kind === kind || (kind === 'embed' && model.kind === 'generate')) return;
  const reason = purposeOf(model.kind, kind);
  throw new HttpError(
    400,
    'unsupported_capability',
    `The ${which} model '${model.id.slice(0, 200)}' ${reason}.`,
    { param: 'model' },
  );
}

/** Prefix of a repository name on a model hub. */
export const hubNamePattern = /^(?:hf:|(?:https?:\/\/)?(?:hf\.co|huggingface\.co)\/)/i;

/** @param listRoute the route that lists the names that a request may use */
export function modelNotFoundError(
  requestedModel: string,
  resident: string | undefined,
  listRoute?: string,
): HttpError {
  const residentText =
    resident === undefined ? 'no model is resident' : `the resident model is '${resident}'`;
  const hint = hubNamePattern.test(requestedModel)
    ? ' Requests download nothing: pull it first, with POST /api/pull.'
    : listRoute === undefined
      ? ''
      : ` ${listRoute} lists the models that requests may name.`;
  const message = `The model '${requestedModel.slice(0, 200)}' does not exist; ${residentText}.${hint}`;
  return new HttpError(404, 'model_not_found', message, { param: 'model' });
}
