import { z } from 'zod';
import type { ModelStore } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import { defineRoute } from '../../http/route.ts';
import { flag, text } from '../../wires/core/members.ts';
import { ollamaError } from './envelope.ts';
import { lineStream } from './lines.ts';
import { progressLine } from './model-schema.ts';
import { nameOf } from './model.ts';
import { lastLine, type ProgressLine, pullLines } from './progress.ts';

const pullRequest = z
  .object(
    {
      model: text
        .nullish()
        .describe('`hf.co/OWNER/NAME`, with `:QUANTISATION` or `:FILE` for one of several files.'),
      name: text.nullish().describe('The older name of `model`, which wins.'),
      insecure: flag.nullish().describe('Without effect.'),
      stream: flag.nullish().describe('Lines of JSON while it goes on. Default true.'),
    },
    { error: 'expected a JSON object' },
  )
  .meta({ id: 'OllamaPullRequest' });

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
      const lines = isHubName(name)
        ? pullLines((listener) => store.pull(name, listener, signal))
        : stored(store, name);
      if (body.stream === false) return Response.json(await lastLine(lines));
      return await lineStream(lines, asHttpError);
    },
  });
}

/** There is no registry to look for news of other names; what is stored is there. */
async function* stored(store: ModelStore, name: string): AsyncGenerator<ProgressLine, void, undefined> {
  if ((await store.find(name)) === undefined) throw noHub(name);
  yield { status: 'already stored' };
  yield { status: 'success' };
}

/** Names of a hub's repositories. */
const isHubName = (name: string): boolean =>
  /^(?:hf:|(?:https?:\/\/)?(?:hf\.co|huggingface\.co)\/)/i.test(name);

const noHub = (name: string): HttpError =>
  new HttpError(
    400,
    'unsupported_registry',
    `'${name.slice(0, 200)}' is not stored, and models of Ollama's own registry cannot be pulled: name a repository of a ` +
      'Hugging Face hub as hf.co/OWNER/NAME, with :QUANTISATION for one of several files',
    { param: 'model' },
  );
