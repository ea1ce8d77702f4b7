import type { ModelStore } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import { defineRoute } from '../../http/route.ts';
import { hubNamePattern } from '../turn/identity.ts';
import { flag, requestBodySchema, text } from '../../wires/core/members.ts';
import { ollamaError } from '../../wires/ollama/error.ts';
import { progressLine } from './model-schema.ts';
import { modelMembers } from '../../wires/ollama/options-schema.ts';
import { requireModelName } from './model.ts';
import { answerProgress, type ProgressLine, pullLines } from './progress.ts';

const pullRequest = requestBodySchema('OllamaPullRequest', {
  ...modelMembers,
  model: text
    .nullish()
    .describe('`hf.co/OWNER/NAME`, with `:QUANTIZATION` or `:FILE` for one of several files.'),
  insecure: flag.nullish().describe('No effect.'),
  stream: flag.nullish().describe('Send progress as lines of JSON. Default true.'),
});

export function pullRoute(store: ModelStore) {
  return defineRoute({
    method: 'POST',
    path: '/api/pull',
    operationId: 'ollamaPull',
    summary: 'Download a model',
    description:
      'Downloads from a Hugging Face hub. An interrupted download resumes where it stopped. It runs while a client waits for it; ' +
      'concurrent requests for the same model share it.',
    body: pullRequest,
    acceptsLooseContentType: true,
    responses: {
      200: {
        description: 'Progress, and `success` at the end; a failure is a last line with the error.',
        content: { 'application/x-ndjson': progressLine, 'application/json': progressLine },
      },
      502: {
        description: 'The hub refused the request or the connection broke.',
        content: { 'application/json': ollamaError },
      },
      507: { description: 'The disk is full.', content: { 'application/json': ollamaError } },
    },
    async handle({ body, signal, asHttpError }) {
      const name = requireModelName(body);
      const lines = hubNamePattern.test(name)
        ? pullLines((listener) => store.pull(name, listener, signal))
        : confirmStored(store, name);
      return await answerProgress(lines, body.stream, asHttpError);
    },
  });
}

/** Models of Ollama's registry cannot be pulled; a stored name counts as up to date. */
async function* confirmStored(
  store: ModelStore,
  name: string,
): AsyncGenerator<ProgressLine, void, undefined> {
  if ((await store.find(name)) === undefined) throw unsupportedRegistryError(name);
  yield { status: 'already stored' };
  yield { status: 'success' };
}

const unsupportedRegistryError = (name: string): HttpError =>
  new HttpError(
    400,
    'unsupported_registry',
    `'${name.slice(0, 200)}' is not stored, and models of Ollama's own registry cannot be pulled: name a repository of a ` +
      'Hugging Face hub as hf.co/OWNER/NAME, with :QUANTIZATION for one of several files',
    { param: 'model' },
  );
