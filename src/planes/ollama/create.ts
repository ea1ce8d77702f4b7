import { z } from 'zod';
import { invalidBody } from '../../http/violations.ts';
import { dictionary } from '../../http/schema/list.ts';
import type { ModelStore } from '../model-store.ts';
import type { Violation } from '../../http/error.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { emptyList, flag, isOneOf, refused, requestBody, text } from '../../wires/core/members.ts';
import { storeRefusals } from './answers.ts';
import { progressLine } from './model-schema.ts';
import { modelMembers, optionNames, options } from '../../wires/ollama/options-schema.ts';
import { nameOf, requireKnown } from './model.ts';
import { answerProgress, type ProgressLine } from './progress.ts';

const emptyObject = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0;
const digest = text.regex(/^sha256:[0-9a-f]{64}$/i, 'expected sha256: and 64 hex digits');

const createRequest = requestBody('OllamaCreateRequest', {
  ...modelMembers,
  model: text.nullish().describe('Name of the new model.'),
  from: text.nullish().describe('Stored model to create the new one from.'),
  files: dictionary(
    {
      error: 'expected an object of file names to digests',
      key: /^[^/\\]{1,255}$/,
      keyError: 'expected the name of a file',
    },
    digest,
  )
    .nullish()
    .describe(
      'Uploaded files to create the new model from: a GGUF file, the parts of a split one, or a folder.',
    ),
  system: text.nullish().describe('Default system message.'),
  parameters: options.nullish().describe('Default options.'),
  template: refused("templates in Go's language are not rendered; the model's own is used", isOneOf('')),
  license: z.unknown().optional().describe('Ignored.'),
  messages: refused('stored conversations are not supported; send them with each request', emptyList),
  adapters: refused('adapters are not supported; merge them into the model', emptyObject),
  quantize: refused(
    'send a quantized file, or start the host with --quantize to quantize on load',
    isOneOf(''),
  ),
  stream: flag.nullish().describe('Send progress as lines of JSON. Default true.'),
});
type CreateRequest = z.infer<typeof createRequest>;

export function createRoute(resident: Resident, store: ModelStore) {
  return defineRoute({
    method: 'POST',
    path: '/api/create',
    operationId: 'ollamaCreate',
    summary: 'Create a model from uploads, or from another model with new defaults',
    description:
      'Upload the files first with POST /api/blobs/{digest}. A model of the same name is replaced.',
    body: createRequest,
    looseBody: true,
    answers: {
      200: {
        description: 'Progress, and `success` at the end.',
        content: { 'application/x-ndjson': progressLine, 'application/json': progressLine },
      },
      ...storeRefusals,
    },
    async handle({ body, asHttpError }) {
      const name = nameOf(body);
      refuseMixtures(body);
      return await answerProgress(creating(resident, store, name, body), body.stream, asHttpError);
    },
  });
}

function refuseMixtures({ from, files, parameters }: CreateRequest): void {
  const wrong: Violation[] = [];
  const count = Object.keys(files ?? {}).length;
  if (!from === (count === 0))
    wrong.push({ path: 'from', message: 'name a stored model here, or uploads in `files`' });
  for (const name of Object.keys(parameters ?? {}))
    if (!optionNames.has(name))
      wrong.push({ path: `parameters.${name}`, message: 'there is no such option' });
  if (wrong.length > 0) throw invalidBody(wrong);
}

async function* creating(
  resident: Resident,
  store: ModelStore,
  name: string,
  { from, files, system, parameters }: CreateRequest,
): AsyncGenerator<ProgressLine, void, undefined> {
  const source = from
    ? await requireKnown(store, resident, from)
    : new Map(Object.entries(files ?? {}).map(([file, one]) => [file, one.toLowerCase()]));
  const set = Object.entries(parameters ?? {}).filter(([, value]) => value !== null && value !== undefined);
  await store.create(name, {
    source,
    ...(system ? { system } : {}),
    ...(set.length > 0 ? { parameters: Object.fromEntries(set) } : {}),
  });
  yield { status: from ? 'using existing layers' : 'parsing GGUF' };
  yield { status: 'writing manifest' };
  yield { status: 'success' };
}
