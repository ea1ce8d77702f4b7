import { readFileSync } from 'node:fs';
import { publishedSchemas } from '../published-schemas.ts';
import { sharedPath } from '../shared.ts';

type Json = Record<string, unknown>;

/** OpenAI's published document, for `describeShared`. */
export const openApiDocument = 'data/openapi/openai.json';

const names = {
  chat: { body: 'CreateChatCompletionResponse', chunk: 'CreateChatCompletionStreamResponse' },
  completions: { body: 'CreateCompletionResponse', chunk: 'CreateCompletionResponse' },
  responses: { body: 'Response', chunk: 'ResponseStreamEvent' },
  embeddings: { body: 'CreateEmbeddingResponse', chunk: 'CreateEmbeddingResponse' },
  error: { body: 'ErrorResponse', chunk: 'ErrorResponse' },
} as const;

/**
 * What is wrong with a body or a chunk by OpenAI's schema, as sentences; empty where all is well. Errors within a
 * stream are checked as errors, whatever the wire. Let pass is what OpenAI itself sends against its document.
 */
export function schemaFaults(kind: keyof typeof names, form: 'body' | 'chunk', value: unknown): string[] {
  const { validate, events } = published();
  const whole = value as Json;
  const inBand = form === 'chunk' && typeof whole['error'] === 'object' && whole['error'] !== null;
  const name = inBand
    ? names.error.body
    : // The schema of the one event says more than that no event at all fits.
      kind === 'responses' && form === 'chunk'
      ? (events.get(String(whole['type'])) ?? names.responses.chunk)
      : names[kind][form];
  const checked = inBand ? { error: whole['error'] } : lenient(kind, form, whole);
  return validate(name, checked).map(
    ({ instancePath, message = '', params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  );
}

/** Removes nulls that OpenAI sends although its document does not allow them. */
function lenient(kind: keyof typeof names, form: 'body' | 'chunk', value: Json): Json {
  if (kind === 'embeddings') {
    // In base64, as OpenAI's clients request them.
    const data = (value['data'] as Json[]).map((each) =>
      typeof each['embedding'] === 'string' ? { ...each, embedding: [] } : each,
    );
    return { ...value, data };
  }
  if (form === 'body') return value;
  if (kind === 'completions') {
    const choices = (value['choices'] as Json[] | undefined)?.map((choice) =>
      choice['finish_reason'] === null ? { ...choice, finish_reason: 'stop' } : choice,
    );
    const { usage, ...rest } = value;
    return { ...rest, choices, ...(usage === null || usage === undefined ? {} : { usage }) };
  }
  const response = value['response'] as Json | undefined;
  if (kind !== 'responses' || response?.['usage'] !== null) return value;
  const { usage: _, ...rest } = response;
  return { ...value, response: rest };
}

let loaded: { validate: ReturnType<typeof publishedSchemas>; events: Map<string, string> } | undefined;

function published() {
  if (loaded) return loaded;
  const file = sharedPath(openApiDocument) ?? openApiDocument;
  const { components } = JSON.parse(readFileSync(file, 'utf8')) as {
    components: { schemas: Record<string, { properties?: { type?: { enum?: string[] } }; anyOf?: Json[] }> };
  };
  const { schemas } = components;
  const events = new Map<string, string>();
  for (const { $ref } of schemas['ResponseStreamEvent']?.anyOf ?? []) {
    const name = String($ref).split('/').at(-1) ?? '';
    for (const type of schemas[name]?.properties?.type?.enum ?? []) events.set(type, name);
  }
  loaded = { validate: publishedSchemas(file), events };
  return loaded;
}
