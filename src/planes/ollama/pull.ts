import type { ModelStore } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import { defineRoute } from '../../http/route.ts';
import { hubName } from '../turn/identity.ts';
import { flag, requestBody, text } from '../../wires/core/members.ts';
import { ollamaError } from '../../wires/ollama/error.ts';
import { progressLine } from './model-schema.ts';
import { modelMembers } from '../../wires/ollama/options-schema.ts';
import { nameOf } from './model.ts';
import { answerProgress, type ProgressLine, pullLines } from './progress.ts';

const pullRequest = requestBody('OllamaPullRequest', {
  ...modelMembers,
  model: text
    .nullish()
    .describe('`hf.co/OWNER/NAME`, with `:QUANTISATION` or `:FILE` for one of several files.'),
  insecure: flag.nullish().describe('Without effect.'),
  stream: flag.nullish().describe('Lines of JSON while it goes on. Default true.'),
});

export function pullRoute(store: ModelStore) {
  return defineRoute({
    method: 'POST',
    path: '/api/pull',
    operationId: 'ollamaPull',
    summary: 'Download a model',
    description:
      'From a Hugging Face hub. A download that was cut goes on where it stopped, as long as somebody waits for it; ' +
      'who asks for the same shares it.',
    body: pullRequest,
    looseBody: true,
    answers: {
      200: {
        description:
          'Progress, and `success` at the end; what fails on the way is a last line with the error.',
        content: { 'application/x-ndjson': progressLine, 'application/json': progressLine },
      },
      502: { description: 'The hub refuses or breaks off.', content: { 'application/json': ollamaError } },
      507: { description: 'The disk is full.', content: { 'application/json': ollamaError } },
    },
    async handle({ body, signal, asHttpError }) {
      const name = nameOf(body);
      const lines = hubName.test(name)
        ? pullLines((listener) => store.pull(name, listener, signal))
        : stored(store, name);
      return await answerProgress(lines, body.stream, asHttpError);
    },
  });
}

/** There is no registry to look for news of other names; what is stored is there. */
async function* stored(store: ModelStore, name: string): AsyncGenerator<ProgressLine, void, undefined> {
  if ((await store.find(name)) === undefined) throw noHub(name);
  yield { status: 'already stored' };
  yield { status: 'success' };
}

const noHub = (name: string): HttpError =>
  new HttpError(
    400,
    'unsupported_registry',
    `'${name.slice(0, 200)}' is not stored, and models of Ollama's own registry cannot be pulled: name a repository of a ` +
      'Hugging Face hub as hf.co/OWNER/NAME, with :QUANTISATION for one of several files',
    { param: 'model' },
  );
