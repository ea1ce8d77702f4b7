import { z } from 'zod';
import { invalidBodyError } from '../../http/violations.ts';
import { dictionary } from '../../http/schema/list.ts';
import type { ModelStore } from '../model-store.ts';
import type { Violation } from '../../http/error.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import {
  isEmptyList,
  flag,
  isOneOf,
  refusedMember,
  requestBodySchema,
  text,
} from '../../wires/core/members.ts';
import { storeErrorResponses } from './error-responses.ts';
import { progressLine } from './model-schema.ts';
import { modelMembers, optionNames, options } from '../../wires/ollama/options-schema.ts';
import { requireModelName, requireStoredOrResident } from './model.ts';
import { answerProgress, type ProgressLine } from './progress.ts';

const isEmptyObject = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0;
const digest = text.regex(/^sha256:[0-9a-f]{64}$/i, 'expected sha256: and 64 hex digits');

const createRequest = requestBodySchema('OllamaCreateRequest', {
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
  template: refusedMember(
    "templates in Go's language are not rendered; the model's own is used",
    isOneOf(''),
  ),
  license: z.unknown().optional().describe('Ignored.'),
  messages: refusedMember('stored conversations are not supported; send them with each request', isEmptyList),
  adapters: refusedMember('adapters are not supported; merge them into the model', isEmptyObject),
  quantize: refusedMember(
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
    acceptsLooseContentType: true,
    responses: {
      200: {
        description: 'Progress, and `success` at the end.',
        content: { 'application/x-ndjson': progressLine, 'application/json': progressLine },
      },
      ...storeErrorResponses,
    },
    async handle({ body, asHttpError }) {
      const name = requireModelName(body);
      refuseConflicts(body);
      return await answerProgress(createModel(resident, store, name, body), body.stream, asHttpError);
    },
  });
}

function refuseConflicts({ from, files, parameters }: CreateRequest): void {
  const violations: Violation[] = [];
  const count = Object.keys(files ?? {}).length;
  if (!from === (count === 0))
    violations.push({ path: 'from', message: 'name a stored model here, or uploads in `files`' });
  for (const name of Object.keys(parameters ?? {}))
    if (!optionNames.has(name))
      violations.push({ path: `parameters.${name}`, message: 'there is no such option' });
  if (violations.length > 0) throw invalidBodyError(violations);
}

async function* createModel(
  resident: Resident,
  store: ModelStore,
  name: string,
  { from, files, system, parameters }: CreateRequest,
): AsyncGenerator<ProgressLine, void, undefined> {
  const source = from
    ? await requireStoredOrResident(store, resident, from)
    : new Map(Object.entries(files ?? {}).map(([file, fileDigest]) => [file, fileDigest.toLowerCase()]));
  const presentParameters = Object.entries(parameters ?? {}).filter(
    ([, value]) => value !== null && value !== undefined,
  );
  await store.create(name, {
    source,
    ...(system ? { system } : {}),
    ...(presentParameters.length > 0 ? { parameters: Object.fromEntries(presentParameters) } : {}),
  });
  yield { status: from ? 'using existing layers' : 'parsing GGUF' };
  yield { status: 'writing manifest' };
  yield { status: 'success' };
}
